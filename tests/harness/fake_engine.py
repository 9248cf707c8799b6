"""A tiny OpenAI-like server with a menu of faults, run as a script. Standard library only."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)"]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def spawn(kind: str, token: str) -> None:
    """Start a child that tries to outlive us."""
    if os.fork():
        return
    if kind == "nohup":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if kind in ("setsid", "double-fork"):
        os.setsid()
    if kind == "double-fork" and os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.execv(SLEEP[0], [*SLEEP, token])


def keep_port(server: socket.socket, token: str) -> None:
    """A daemonised child that inherits the listening socket."""
    if os.fork():
        return
    os.setsid()
    os.set_inheritable(server.fileno(), True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.execv(SLEEP[0], [*SLEEP, token])


class Handler(BaseHTTPRequestHandler):
    model = ""
    fault = ""

    def log_message(self, *_: object) -> None:
        say(f"request {self.path}")

    def reply(self, status: int, document: object) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.fault == "health-503":
            self.reply(503, {"status": "loading"})
        else:
            self.reply(200, {"status": "ok"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.fault == "answer-500":
            self.reply(500, {"error": "CUDA out of memory"})
        elif self.fault == "refuse-model":
            self.reply(404, {"error": f"The model {body['model']} does not exist"})
        elif self.fault == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif self.fault == "hang-answer":
            time.sleep(300)
        elif self.fault == "die-at-answer":
            say("fatal: illegal instruction")
            os._exit(7)
        else:
            name = "another-model" if self.fault == "wrong-model" else self.model or body["model"]
            chat = "messages" in body
            choice = {"message": {"content": "hi"}} if chat else {"text": "hi"}
            self.reply(200, {"model": name, "choices": [choice]})


def grow(fault: str) -> None:
    """Take more and more memory, at once or a while after the start."""
    if fault == "grow-at-start":
        take()
    if fault == "grow-later":
        threading.Thread(target=lambda: (time.sleep(2), take()), daemon=True).start()


def take() -> None:
    block = b"x" * (300 << 20)
    time.sleep(300)
    del block


def make_noise(fault: str) -> None:
    if fault == "noisy":
        for _ in range(400):
            sys.stdout.write("x" * 99_999 + "\n")
        sys.stdout.flush()
    if fault == "garbage":
        sys.stdout.buffer.write(b"\xff\xfe\x00 loaded \x1b[31mred\x1b[0m \x1b]0;title\x07done \xe2\x80\xaelatot\n")
        sys.stdout.buffer.write(b"loading 1%\rloading 50%\rloading 100%\n")
        sys.stdout.buffer.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="")
    parser.add_argument("--fault", default="")
    parser.add_argument("--children", default="")
    parser.add_argument("--token", default="")
    options = parser.parse_args()
    Handler.model, Handler.fault = options.model, options.fault
    if options.fault == "die-at-start":
        sys.exit("ValueError: quantisation needs a GPU")
    if options.fault == "killed-at-start":
        os.kill(os.getpid(), signal.SIGKILL)
    if options.fault == "hang-at-start":
        time.sleep(300)
    if options.fault == "ignore-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.fault == "environment":
        say("ENV " + json.dumps(dict(os.environ)))
        with contextlib.suppress(OSError):
            say("INIT " + Path("/proc/1/environ").read_text().replace("\0", " "))
    grow(options.fault)
    make_noise(options.fault)
    for kind in filter(None, options.children.split(",")):
        spawn(kind, options.token)
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    if options.fault == "keep-port":
        keep_port(server.socket, options.token)
    server.serve_forever()


if __name__ == "__main__":
    main()
