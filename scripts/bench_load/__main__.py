"""`make bench-load`: this client beside `vllm bench serve`, GuideLLM and AIPerf, on a server with known token times.

One table of accuracy (per case what is true and what each tool says), one of cost. Exit 1 when ours is off by more
than 1 % and 1 ms in any case. Peers run in environments of their own, made on first use; one that cannot be made is
named. `--json FILE` keeps everything.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra_agent.stack.demo import demo_paths, prepare_demo
from probes.load.mock.process import MockProcess
from probes.load.mock.truth import Served
from scripts.bench_load.cases import CASES, Case
from scripts.bench_load.cost import Streams, cpu_per_1000, most_streams
from scripts.bench_load.peers import ready
from scripts.bench_load.tools import Ours, Reading, Setting, Tool, VllmServe, peer_tools, run, write_prompts

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json")
OFF_SHARE, OFF_S = 0.01, 0.001
NOISE_SHARE = 0.2
COUNTS = ("completed", "peak_in_flight")
PROMPTS = 512


def main() -> int:
    """Run the bench."""
    options = _options()
    tools: list[Tool] = [Ours()]
    versions = {"infra-agent": "this tree"}
    for peer in peer_tools():
        if options.tools and peer.peer.name not in options.tools:
            continue
        say(f"{peer.label}: environment ...")
        try:
            versions[peer.label] = ready(peer.peer)
            tools.append(peer)
        except RuntimeError as error:
            versions[peer.label] = f"not installed: {error}"
    for name, version in versions.items():
        say(f"{name:<18}{version}")
    with tempfile.TemporaryDirectory() as folder, MockProcess() as mock:
        setting = _setting(Path(folder), mock.url)
        wanted = [case for case in CASES if options.cases in case.name]
        rows = [_case(case, tools, mock, setting, options.tries) for case in wanted]
        print_accuracy(rows, tools)
        costs = {} if options.no_cost else _costs(tools, mock, setting)
    print_costs(costs, tools)
    if options.json:
        document = {
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
            "versions": versions, "accuracy": rows, "costs": costs,
        }  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    wrong = [row["case"] for row in rows if not row["tools"]["infra-agent"]["right"]]
    for name in wrong:
        print(f"ours is off: {name}")
    return 1 if wrong else 0


def say(text: str) -> None:
    """Narration."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-load", description=__doc__)
    parser.add_argument("--cases", default="", help="only cases whose name contains this")
    parser.add_argument("--tools", nargs="*", default=[], help="only these peers: vllm guidellm aiperf")
    parser.add_argument("--tries", type=int, default=3, help="runs of a case that a tool has until one is right")
    parser.add_argument("--no-cost", action="store_true", help="accuracy only")
    parser.add_argument("--json", type=Path, help="write everything as JSON")
    return parser.parse_args()


def _setting(folder: Path, url: str) -> Setting:
    model = Path(demo_paths().model)
    if not (model / TOKENIZER_FILES[0]).is_file():
        prepare_demo(say)
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    for name in TOKENIZER_FILES:
        if (model / name).is_file():
            shutil.copy(model / name, tokenizer / name)
    prompts, texts = write_prompts(folder, PROMPTS)
    return Setting(url=url, folder=folder, prompts=prompts, texts=texts, tokenizer=tokenizer)


def _case(case: Case, tools: list[Tool], mock: MockProcess, setting: Setting, tries: int) -> dict[str, Any]:
    """The try nearest to the truth is shown. A tool that is off by what could be this machine's doing is asked again,
    each as often as the other; one that is off by more than that is not.
    """
    say(case.name)
    found: dict[str, Any] = {}
    for tool in tools:
        judged: list[dict[str, Any]] = []
        while len(judged) < tries:
            judged.append(_try(case, tool, mock, setting))
            if judged[-1]["right"] or judged[-1]["off_share"] > NOISE_SHARE:
                break
        found[tool.label] = min(judged, key=lambda each: each["off_share"])
        say(f"  {tool.label:<18}{found[tool.label]['text']}")
    return {"case": case.name, "metric": case.metric, "tools": found}


def _try(case: Case, tool: Tool, mock: MockProcess, setting: Setting) -> dict[str, Any]:
    mock.play(case.script)
    reading = run(tool, case, setting)
    served = _own_rows(mock.truth(), case, tool)
    true = case.true(served) if served else None
    if case.twice:  # The same command again meets what the first left behind; ours asks for another seed then.
        reading = run(tool, case, setting, seed=int(isinstance(tool, Ours)))
    return _judged(case, reading, true)


def _own_rows(rows: list[Served], case: Case, tool: Tool) -> list[Served]:
    """The measured requests: some tools send one more before, some start more than they count."""
    extra = len(rows) - case.requests
    if extra <= 0:
        return rows
    return rows[extra:] if isinstance(tool, VllmServe) else rows[: case.requests]


def _judged(case: Case, reading: Reading, true: float | None) -> dict[str, Any]:
    value = reading.figures.get(case.metric)
    if value is None and case.metric == "completed" and true == 0 and reading.trouble:
        value = 0.0
    if value is None or true is None:
        text = reading.trouble or "not reported"
        return {"true": true, "value": None, "right": False, "off_share": 9.9, "text": text}
    off = abs(value - true)
    is_time = case.metric.endswith("_s") and not case.metric.endswith("_per_s")
    right = off <= max(OFF_SHARE * abs(true), OFF_S if is_time else 0.0)
    scale, unit = (1e3, " ms") if is_time else (1.0, "")
    share = f"{100 * (value / true - 1):+.1f} %" if true else f"{value - true:+g}"
    text = f"{value * scale:.4g}{unit} (true {true * scale:.4g}{unit}, {share})"
    return {
        "true": true,
        "value": value,
        "right": right,
        "off_share": off / abs(true) if true else 9.9 * (off > 0),
        "text": text,
    }


def _costs(tools: list[Tool], mock: MockProcess, setting: Setting) -> dict[str, Any]:
    found: dict[str, Any] = {tool.label: {"cpu_s_per_1000_tokens": cpu_per_1000(tool, mock, setting)} for tool in tools}
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return found
    os.sched_setaffinity(mock.pid, {cores[0]})
    pinned = Setting(**{**{name: getattr(setting, name) for name in Setting.__slots__}, "core": cores[1]})
    for tool in tools:
        streams = most_streams(tool, mock, pinned, say)
        found[tool.label]["streams"] = asdict(streams) if isinstance(streams, Streams) else streams
    os.sched_setaffinity(mock.pid, set(cores))
    return found


def print_accuracy(rows: list[dict[str, Any]], tools: list[Tool]) -> None:
    """One line per case and tool: what is true, what was said, whether that is right."""
    print(f"\n{'case':<48}{'tool':<18}{'says (true, error)':<48}")
    for row in rows:
        for index, tool in enumerate(tools):
            cell = row["tools"][tool.label]
            name = f"{row['case']}" if index == 0 else ""
            print(f"{name:<48}{tool.label:<18}{'ok  ' if cell['right'] else 'OFF '}{cell['text']}")
    for tool in tools:
        right = sum(row["tools"][tool.label]["right"] for row in rows)
        print(f"{tool.label}: {right} of {len(rows)} cases within 1 % or 1 ms")


def print_costs(costs: dict[str, Any], tools: list[Tool]) -> None:
    """Cost per 1,000 tokens and streams on one core, and both as ratios to ours."""
    if not costs:
        return
    ours = costs["infra-agent"]
    print(f"\n{'tool':<18}{'CPU s / 1000 tokens':>20}{'x ours':>8}{'streams on a core':>20}{'ours x':>8}")
    for tool in tools:
        cost = costs[tool.label]
        cpu, streams = cost["cpu_s_per_1000_tokens"], cost.get("streams", "not measured: one core")
        cpu_text = f"{cpu:.4f}" if isinstance(cpu, float) else str(cpu)[:40]
        ratio = f"{cpu / ours['cpu_s_per_1000_tokens']:.1f}" if isinstance(cpu, float) else ""
        held = streams["held"] if isinstance(streams, dict) else None
        text = str(held) if held is not None else str(streams)[:40]
        times = f"{ours['streams']['held'] / held:.1f}" if held and isinstance(ours.get("streams"), dict) else ""
        print(f"{tool.label:<18}{cpu_text:>20}{ratio:>8}{text:>20}{times:>8}")


if __name__ == "__main__":
    sys.exit(main())
