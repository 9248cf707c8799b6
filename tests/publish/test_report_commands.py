"""Commands that a shell takes as meant, and the end card."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from sample_run import EXTRA, GOAL, RUN_ID, RUNS, complete_run, start_event
from test_report_html import HOSTILE, hostile_run

from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.text import summary_lines


def bash(script: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_are_a_valid_script_in_every_state() -> None:
    for run in RUNS.values():
        lines = build_report(run(), EXTRA).reproduce
        subprocess.run(["bash", "-n", "-c", "\n".join(lines)], check=True, timeout=30)
        assert lines[1].startswith("infra-agent run --goal ")


def test_hostile_words_reach_the_program_as_one_argument() -> None:
    state = hostile_run().state
    goal = f"{HOSTILE}'; touch /tmp/owned; echo $(id) `id`\nnext"
    started = start_event(goal=GOAL.model_copy(update={"text": goal}), command=("infra-agent", "run", "--goal", goal))
    report = build_report(replace(state, started=started), EXTRA)
    echoed = bash('infra-agent() { printf "%s" "$3"; }\n' + report.reproduce[1])
    assert echoed == goal
    comments = [line for line in report.reproduce if line.startswith("#")]
    assert all(line.isprintable() for line in comments)


def test_stock_and_best_are_launched_as_they_were_and_measured_with_the_same_load() -> None:
    lines = build_report(complete_run(), EXTRA).reproduce
    launches = [line for line in lines if line.endswith("& server=$!")]
    assert len(launches) == 2
    assert "'/models/smol lm'" in launches[0]
    assert "--continuous-batching" not in launches[0]
    assert "--continuous-batching" in launches[1]
    assert launches[0].startswith("env HF_HUB_OFFLINE=1 ")
    loads = [line for line in lines if line.startswith("python -m probes.load")]
    assert (
        loads[0]
        == loads[1]
        == (
            "python -m probes.load --url http://127.0.0.1:9111 --model '/models/smol lm' --concurrency 4 --requests 12 "
            "--warmup 2 --max-tokens 32 --prompts builtin:short-chat --endpoint chat --timeout 120 --seed 901"
        )
    )


def test_the_load_command_is_one_that_the_probe_takes() -> None:
    load = next(
        line for line in build_report(complete_run(), EXTRA).reproduce if line.startswith("python -m probes.load")
    )
    done = subprocess.run(
        [sys.executable, *load.split()[1:3], "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    for flag in [word for word in load.split() if word.startswith("--")]:
        assert flag in done.stdout


def test_piped_into_bash_each_server_is_waited_for_measured_and_stopped(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        "import http.server, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if self.path == '/health' else 404)\n"
        "        self.end_headers()\n"
        "    def log_message(self, *a):\n"
        "        pass\n"
        "http.server.HTTPServer.allow_reuse_address = True\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[2])), H).serve_forever()\n",
        encoding="utf-8",
    )
    port = _free_port()
    state = complete_run()
    argv = (sys.executable, str(server), "--port", str(port))
    launches = {key: launch.model_copy(update={"argv": argv}) for key, launch in state.launches.items()}
    report = build_report(replace(state, launches=launches), EXTRA)
    stubs = 'infra-agent() { echo "agent $1"; }\npython() { curl -fsS http://127.0.0.1:%d/health && echo measured; }\n'
    script = stubs % port + "\n".join(report.reproduce)
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split("\n") == ["agent run", "measured", "measured", "agent runs", ""], done.stderr


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_end_card_tells_the_outcome_in_a_few_lines() -> None:
    lines = summary_lines(build_report(complete_run(), EXTRA))
    assert lines[0].startswith("Accepted   C1 continuous batching   x2.94 [2.83, 3.05] over 8 blocks · fresh seeds x2.")
    assert lines[1].startswith("Rejected   2    Inconclusive 1    Not engaged 1    Crashed 1    Honesty row: plain")
    assert lines[2].startswith("Goal       Goal met: ")
    assert lines[3] == f"Report     runs/{RUN_ID}/report.html"
    assert lines[4] == f"Reproduce  infra-agent runs show {RUN_ID} --commands"


def test_the_end_card_of_a_waiting_run_names_the_decision() -> None:
    lines = summary_lines(build_report(RUNS["waiting"](), EXTRA))
    assert lines[0] == "Accepted   none"
    assert lines[1] == "Waiting    for approval: C3 (numerics): float32 weights"
    assert lines[2] == "  Claim      bfloat16 is emulated on this CPU"
    assert lines[3].startswith("  Cause      ")
    assert lines[4].startswith("  Evidence   x1.")
    assert lines[5].startswith("  Not tested device time")
    assert lines[6] == f"  Decide     infra-agent review show {RUN_ID}/C3"


def test_every_state_has_an_end_card_of_plain_lines() -> None:
    for run in RUNS.values():
        assert all(line.isprintable() for line in summary_lines(build_report(run(), EXTRA)))


def test_hostile_text_stays_on_its_line_of_the_end_card() -> None:
    state = hostile_run().state
    assert state.finished is not None
    worse = state.finished.model_copy(update={"sentence": f"{HOSTILE}\nAccepted   everything"})
    lines = summary_lines(build_report(replace(state, finished=worse), EXTRA))
    assert all(line.isprintable() for line in lines)
    assert sum(line.startswith("Accepted") for line in lines) == 1
