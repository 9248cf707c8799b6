"""`python -m probes.load`: measure a running server from the command line.

Exit codes: 0 every window is valid, 1 one is not, 2 usage, 130 interrupted (what had been answered is still written).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from probes.clean import clean, one_line
from probes.load.ask import windows
from probes.load.card import card, document
from probes.load.hosts import hosts_of
from probes.load.options import DEFAULTS, ask_of
from probes.load.outputs import write_outputs
from probes.load.progress import Progress
from probes.load.session import Session
from probes.load.types import LoadRequest
from probes.load.validity import Limits

STACK_FILE = Path("infra-agent.toml")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the windows; returns the exit code."""
    options = vars(_parser().parse_args(argv))
    try:
        requests = windows(ask_of(options, _hosts(options["stack"])))
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        return 2
    session = Session(Limits(allowed_failures=options["allow_failures"]))
    progress = Progress(sys.stderr)
    code = _measure(session, progress, requests)
    for told in session.told:
        sys.stdout.write(clean(card(told.observation, told.result)) + "\n")
    try:
        write_outputs(session.told, options["output"], options["html"], options["export"])
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        code = code or 2
    if options["json"]:
        sys.stdout.write(_json_line(session) + "\n")
    return code


def _measure(session: Session, progress: Progress, requests: Sequence[LoadRequest]) -> int:
    try:
        session.run(requests, progress.begin)
    except KeyboardInterrupt:
        progress.end()
        sys.stderr.write("interrupted; the windows that had not ended are invalid\n")
        return 130
    except (ValueError, OSError) as error:
        progress.end()
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        return 2
    progress.end()
    return 0 if session.all_valid else 1


def _json_line(session: Session) -> str:
    """The observation of one window; of several, a list."""
    lines = [document(told.observation) for told in session.told]
    return lines[0] if len(lines) == 1 else json.dumps([json.loads(line) for line in lines], ensure_ascii=False)


def _hosts(stack: Path | None) -> tuple[str, ...]:
    path = stack or STACK_FILE
    return hosts_of(path) if stack is not None or path.exists() else ()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m probes.load", description="Exact load on an OpenAI-like server", allow_abbrev=False
    )
    _add_load(parser)
    _add_work(parser)
    _add_outputs(parser)
    parser.set_defaults(**{**DEFAULTS, "requests": 16, "warmup": 4, "max_tokens": 64})
    return parser


def _add_load(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--url", required=True, help="root of the server, such as http://127.0.0.1:8000")
    add("--model", help="model name to ask for; default: the one that the server says it serves")
    add("--expected-model", help="name that answers must carry, if it differs")
    load = parser.add_mutually_exclusive_group(required=True)
    load.add_argument("--concurrency", help="closed loop with this many users; a list such as 1,2,4 is a sweep")
    load.add_argument("--rate", help="arrivals per second; a list is a sweep")
    load.add_argument("--ramp", help="START:END:SECONDS, perhaps with :exponential")
    load.add_argument("--trace", help="Mooncake JSONL or BurstGPT CSV, replayed at its moments")
    add("--arrivals", choices=("poisson", "constant", "gamma"), help="spacing of a --rate")
    add("--burstiness", type=float, help="shape of gamma gaps: below 1 in bursts, above 1 more even")
    add("--trace-speed", type=float)
    add("--trace-block", type=int, help="tokens of one hashed block (512 in Mooncake's, 16 in Bailian's)")
    add("--requests", type=int, help="measured requests")
    add("--duration", type=float, help="seconds after which nothing new is sent")
    add("--warmup", type=int, help="requests that are sent first and left out")
    add("--warmup-s", type=float, help="warm-up goes on for at least this many seconds")
    add("--processes", type=int, help="client processes that share the load")
    add("--timeout", type=float, help="seconds for one request")
    add("--time-limit", type=float, help="seconds after which everything is cut off")
    add("--allow-failures", type=int, help="failed requests that do not make a window invalid")
    add("--seed", type=int)
    add("--stack", type=Path, help="stack file that names the host (default: ./infra-agent.toml if there)")


def _add_work(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--prompts", help="builtin:short-chat, builtin:answers, JSONL or ShareGPT file")
    add("--input-tokens", help="synthetic prompts of exactly N or LOW:HIGH tokens, by the server's own count")
    add("--output-tokens", help="tokens asked for with each synthetic prompt, N or LOW:HIGH")
    add("--prefix-tokens", type=int, help="tokens that synthetic prompts of a group share")
    add("--prefix-groups", type=int)
    add("--max-tokens", type=int)
    add("--ignore-eos", action="store_true", help="ask for answers of full length (vLLM, SGLang)")
    add("--endpoint", choices=("chat", "completions"))
    add("--no-stream", action="store_true", help="whole answers: no TTFT, TPOT or overlap")
    add("--per-chunk-usage", action="store_true", help="ask for token counts in every chunk")
    add("--no-nonce", action="store_true", help="send prompts unmarked: prefix caches may help")
    add("--temperature", type=float)
    add("--slo-ttft", type=float, help="seconds")
    add("--slo-tpot", type=float, help="seconds")
    add("--slo-e2e", type=float, help="seconds")
    add("--extra-body", help="JSON object merged into every request")
    add("--api-key-env", help="environment variable that holds the API key")
    add("--ca-file", help="certificates to trust for https")


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--json", action="store_true", help="end with one line of JSON")
    add("--output", type=Path, help="write everything, each request included, as JSON")
    add("--html", type=Path, help="write a page with distributions, time lines and, for a sweep, the curve")
    add("--export", action="append", default=[], metavar="FORMAT=PATH",
        help="vllm, sglang, guidellm, aiperf or benchmark-report; may be repeated")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
