"""A small chat server with a defect: it rests before every word. Standard library only; speaks the OpenAI API."""

import argparse
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import replies

PAUSE_S = 0.01
REST_S = 0.03


def rest_before_word():
    """Waits for nothing."""
    time.sleep(REST_S)


def unused(text):
    """Nobody calls this."""
    return text.upper()


class Handler(BaseHTTPRequestHandler):
    """Answers health checks and chats."""

    protocol_version = "HTTP/1.1"
    model = "own"
    workers = 1

    def log_message(self, *_):
        """Keeps quiet."""

    def do_GET(self):
        """Health, and what is in effect."""
        self.whole({"workers": self.workers} if self.path == "/state" else {"status": "ok"})

    def do_POST(self):
        """One chat, as a stream or as a whole."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        words = replies.words(body["messages"][-1]["content"], body["max_tokens"])
        usage = {"prompt_tokens": 5, "completion_tokens": len(words), "total_tokens": 5 + len(words)}
        if not body.get("stream"):
            for _ in words:
                self.work()
            message = {"role": "assistant", "content": "".join(words)}
            choice = {"index": 0, "message": message, "finish_reason": "length"}
            self.whole({"id": "x", "model": self.model, "choices": [choice], "usage": usage})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for word in words:
            self.work()
            self.chunk({"index": 0, "delta": {"content": word}})
        self.chunk({"index": 0, "delta": {}, "finish_reason": "length"}, usage)
        self.wfile.write(b"data: [DONE]\n\n")

    def work(self):
        """The time that a word takes."""
        rest_before_word()
        time.sleep(PAUSE_S)

    def chunk(self, choice, usage=None):
        """One piece of a stream."""
        document = {"id": "x", "object": "chat.completion.chunk", "model": self.model, "choices": [choice]}
        document |= {"usage": usage} if usage else {}
        self.wfile.write(f"data: {json.dumps(document)}\n\n".encode())
        self.wfile.flush()

    def whole(self, document):
        """A document as a whole."""
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """As patient as real servers."""

    daemon_threads = True
    request_queue_size = 256


def main():
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    Handler.workers = options.workers
    Server(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
