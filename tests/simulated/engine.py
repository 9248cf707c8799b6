"""A stand-in for `transformers serve`, run as the stack's interpreter: real process, real HTTP, known speeds.

It understands the launch line of the transformers engine and mimics just enough of its objects for the reporter. What
it does is set by FAKE_* environment variables of the stack and by the flags under test:

    --continuous-batching     serves requests side by side instead of one after another
    --dtype float32           tokens come FAKE_FLOAT32 times as fast
    --attn-implementation X   `eager`: another answer to one prompt; `sdpa`: accepted and ignored
    --compile                 accepted and ignored
    OMP_NUM_THREADS=1         half speed; 4: dies while loading, with FAKE_LAST_WORDS at the end of its last line
    --cb-max-batch-tokens 64  stops after two tokens; 512: a first token that comes FAKE_SLOW_FIRST_S later

Without batching it also starts FAKE_SLOW_START_S later and holds FAKE_BALLAST_MIB of memory more. `GET /speed` says
what it would do instead of doing it, for tests that need exact figures.

HTTP is spoken by hand: the standard library's server takes twice as long to import as all the rest.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import types

GAP_S = float(os.environ.get("FAKE_GAP_S", "0.004"))
WORDS = ("stone", "river", "glass", "tree", "moon", "wind", "salt", "iron")


class ModelManager:
    def __init__(self, model: object) -> None:
        self.loaded_models = {"m": types.SimpleNamespace(model=model)}


class ContinuousBatchingManager:
    batch_processor = None

    def is_running(self) -> bool:
        return True


def install(flags: dict[str, str], threads: int) -> list[object]:
    """The objects that the reporter looks for, in modules of the names that it knows."""
    wanted = flags.get("--attn-implementation", "sdpa")
    config = types.SimpleNamespace(_attn_implementation=wanted if wanted == "eager" else "sdpa")
    model = types.SimpleNamespace(
        device="cpu", dtype=f"torch.{flags.get('--dtype', 'bfloat16')}", config=config, hf_quantizer=None
    )
    live: list[object] = [ModelManager(model)]
    register("transformers.cli.serving.model_manager", ModelManager=ModelManager)
    if "--continuous-batching" in flags:
        live.append(ContinuousBatchingManager())
    module = "transformers.generation.continuous_batching.continuous_api"
    register(module, ContinuousBatchingManager=ContinuousBatchingManager)
    register("torch", get_num_threads=lambda: threads, __version__="0")
    return live


def register(name: str, **content: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module


class Handler:
    """One connection, served by a thread of its own."""

    model = ""
    flags: dict[str, str] = {}
    gap_s = GAP_S
    one_at_a_time: threading.Lock | None = threading.Lock()

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.close_connection = False

    def serve(self) -> None:
        with self.connection, self.connection.makefile("rb") as rfile:
            try:
                while not self.close_connection and (line := rfile.readline()):
                    method, path, _ = line.decode().split()
                    length = 0
                    while (header := rfile.readline().strip()) != b"":
                        name, _, value = header.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                    if method == "GET":
                        self.get(path)
                    else:
                        self.post(json.loads(rfile.read(length)))
            except OSError:
                return

    def get(self, path: str) -> None:
        if path == "/speed":
            self.whole(200, {"gap_s": self.gap_s, "side_by_side": self.one_at_a_time is None})
        else:
            self.whole(200, {"status": "ok"})

    def post(self, body: dict) -> None:
        if body["model"] != self.model:
            self.whole(400, {"error": "pinned"})
            return
        words = self.words(body)
        if not body.get("stream"):
            with self.turn():
                time.sleep(self.gap_s * len(words))
            message = {"role": "assistant", "content": "".join(words)}
            choice = {"index": 0, "message": message, "finish_reason": self.finish(body, words)}
            self.whole(200, {**self.head(), "choices": [choice], "usage": self.usage(words)})
            return
        self.close_connection = True
        self.send(200, "text/event-stream", "connection: close")
        with self.turn():
            self.stream(body, words)

    def stream(self, body: dict, words: list[str]) -> None:
        self.event({"index": 0, "delta": {"role": "assistant"}})
        if self.flags.get("--cb-max-batch-tokens") == "512":
            time.sleep(float(os.environ.get("FAKE_SLOW_FIRST_S", "0")))
        for word in words:
            time.sleep(self.gap_s)
            self.event({"index": 0, "delta": {"content": word}})
        self.event({"index": 0, "delta": {}, "finish_reason": self.finish(body, words)}, self.usage(words))
        self.connection.sendall(b"data: [DONE]\n\n")

    def turn(self):
        import contextlib

        return self.one_at_a_time or contextlib.nullcontext()

    def words(self, body: dict) -> list[str]:
        prompt = body["messages"][-1]["content"]
        seed = sum(prompt.encode())
        count = body["max_tokens"]
        if self.flags.get("--cb-max-batch-tokens") == "64":
            count = 2
        words = [f"{WORDS[(seed + i * i) % len(WORDS)]} " for i in range(count)]
        if self.flags.get("--attn-implementation") == "eager" and seed % 2:
            words[1] = "otherwise "
        return words

    def finish(self, body: dict, words: list[str]) -> str:
        return "length" if len(words) == body["max_tokens"] else "stop"

    def usage(self, words: list[str]) -> dict[str, int]:
        return {"prompt_tokens": 10, "completion_tokens": len(words), "total_tokens": 10 + len(words)}

    def head(self) -> dict[str, object]:
        return {"id": "x", "object": "chat.completion", "created": 0, "model": f"{self.model}@main"}

    def event(self, choice: dict, usage: dict | None = None) -> None:
        document = {**self.head(), "choices": [choice], **({"usage": usage} if usage else {})}
        self.connection.sendall(f"data: {json.dumps(document)}\n\n".encode())

    def whole(self, status: int, document: dict) -> None:
        data = json.dumps(document).encode()
        self.send(status, "application/json", f"content-length: {len(data)}", data)

    def send(self, status: int, kind: str, header: str, data: bytes = b"") -> None:
        head = f"HTTP/1.1 {status} simulated\r\ncontent-type: {kind}\r\n{header}\r\n\r\n"
        self.connection.sendall(head.encode() + data)


def parse(argv: list[str]) -> tuple[str, dict[str, str]]:
    """Model and flags of `-m transformers.cli.transformers serve MODEL --flag [value] ...`."""
    rest = argv[argv.index("serve") + 1 :]
    flags: dict[str, str] = {}
    for index, word in enumerate(rest[1:], start=1):
        if word.startswith("--"):
            following = rest[index + 1] if index + 1 < len(rest) else "--"
            flags[word] = "" if following.startswith("--") else following
    return rest[0], flags


def main() -> None:
    if "-c" in sys.argv:
        sys.stdout.write("transformers 0.0-simulated\n")
        return
    if os.environ.get("FAKE_FAULT") == "die-at-start":
        sys.exit("ValueError: this model cannot be loaded")
    model, flags = parse(sys.argv)
    threads = int(os.environ.get("OMP_NUM_THREADS", "2"))
    if threads == 4:
        sys.exit(f"RuntimeError: too many threads for this machine {os.environ.get('FAKE_LAST_WORDS', '')}")
    live = install(flags, threads)
    Handler.model, Handler.flags = model, flags
    Handler.gap_s = GAP_S * (2 if threads == 1 else 1)
    if flags.get("--dtype") == "float32":
        Handler.gap_s /= float(os.environ.get("FAKE_FLOAT32", "0.5"))
    ballast = b""
    if "--continuous-batching" in flags:
        Handler.one_at_a_time = None
    else:
        ballast = b"x" * (int(os.environ.get("FAKE_BALLAST_MIB", "0")) * 2**20)
        time.sleep(float(os.environ.get("FAKE_SLOW_START_S", "0")))
    serve(int(flags["--port"]), live, ballast)


def serve(port: int, *_held: object) -> None:
    """Answer for ever; what is held lives as long as the server does."""
    # As many as real servers let wait: with a handful, simultaneous connections are reset.
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=Handler(connection).serve, daemon=True).start()


if __name__ == "__main__":
    main()
