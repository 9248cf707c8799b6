"""A real HTTP server with a metrics page that changes from reading to reading, and pages as engines write them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = str | int | bytes


class Served:
    """Pages handed out in order, the last one for ever. A number is an answer of that status."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = served.next(f"GET {self.path}")
                body = answer.encode() if isinstance(answer, str) else answer if isinstance(answer, bytes) else b""
                self.send_response(answer if isinstance(answer, int) else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                served.asked.append(f"POST {self.path}")
                self.send_response(405)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def next(self, asked: str) -> Answer:
        self.asked.append(asked)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@contextmanager
def serving(answers: Sequence[Answer]) -> Iterator[Served]:
    served = Served(answers)
    thread = threading.Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        served.server.shutdown()
        thread.join()
        served.server.server_close()


BOUNDS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


def vllm_page(
    *, running: int, waiting: int, tick: int, kv: float = 0.05, step_tokens: int = 8, prefill_s: float = 0.2,
    decode_s: float = 3.0, queue_s: float = 0.0, preemptions: int = 0, cpu_s: float = 0.0001, bare: bool = False,
    hits: float = 0.0, started_s: float = 1000.0,
) -> str:  # fmt: skip
    """vLLM's page after `tick` seconds of the same load. `bare`: without HELP and TYPE lines."""
    tag = '{engine="0",model_name="m"}'
    steps = 30 * tick
    finished = 2 * tick
    lines = [
        ("gauge", "vllm:num_requests_running", running),
        ("gauge", "vllm:num_requests_waiting", waiting),
        ("gauge", "vllm:kv_cache_usage_perc", kv),
        ("counter", "vllm:num_preemptions_total", preemptions * tick),
        ("counter", "vllm:prompt_tokens_total", 200 * tick),
        ("counter", "vllm:generation_tokens_total", step_tokens * steps),
        ("counter", "vllm:prefix_cache_queries_total", 200 * tick),
        ("counter", "vllm:prefix_cache_hits_total", 200 * tick * hits),
        ("counter", "vllm:request_success_total", finished),
    ]
    text = ""
    for kind, name, value in lines:
        text += "" if bare else f"# HELP {name} words\n# TYPE {name} {kind}\n"
        text += f"{name}{tag} {float(value)}\n"
    histograms = {
        "vllm:iteration_tokens_total": (steps, step_tokens * steps),
        "vllm:request_queue_time_seconds": (finished, queue_s * finished),
        "vllm:request_prefill_time_seconds": (finished, prefill_s * finished),
        "vllm:request_decode_time_seconds": (finished, decode_s * finished),
        "vllm:time_to_first_token_seconds": (finished, (queue_s + prefill_s) * finished),
    }
    for name, (count, total) in histograms.items():
        text += "" if bare else f"# HELP {name} words\n# TYPE {name} histogram\n"
        mean = total / count if count else 0.0
        for bound in BOUNDS:
            text += f'{name}_bucket{{engine="0",le="{float(bound)}",model_name="m"}} {float(count * (mean <= bound))}\n'
        text += f'{name}_bucket{{engine="0",le="+Inf",model_name="m"}} {float(count)}\n'
        text += f"{name}_sum{tag} {float(total)}\n{name}_count{tag} {float(count)}\n"
    return text + f"process_cpu_seconds_total {cpu_s * tick}\nprocess_start_time_seconds {started_s}\n"
