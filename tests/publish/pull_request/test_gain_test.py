"""The failing-before test of a package, run for real: two servers, one of them slow."""

from __future__ import annotations

import math
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from publish.pull_request.code_runs import code_run

from infra_agent.publish.publish import load_state, report_of
from infra_agent.publish.pull_request.gain_test import gain_test, lower_end, wanted_ratio
from infra_agent.publish.report.model import Report

SLOW_S, FAST_S = 0.06, 0.003


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(load_state(code_run(tmp_path_factory.mktemp("run"), settings=True)))


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory, report: Report) -> Path:
    path = tmp_path_factory.mktemp("script") / "gain_test.py"
    path.write_text(gain_test(report, "output_tok_per_s"))
    return path


def server(folder: Path) -> Path:
    """A small server of the completions interface that waits before each word."""
    path = folder / "server.py"
    path.write_text(
        "import json, sys, time\nfrom http.server import BaseHTTPRequestHandler, ThreadingHTTPServer\n"
        "pause = float(sys.argv[2])\n\n\nclass H(BaseHTTPRequestHandler):\n    protocol_version = 'HTTP/1.1'\n"
        "    def log_message(self, *a):\n        pass\n"
        '    def do_GET(self):\n        self.reply(b\'{"data": [{"id": "/models/smol"}]}\', \'application/json\')\n'
        "    def reply(self, content, kind):\n        self.send_response(200)\n"
        "        self.send_header('content-type', kind)\n        self.send_header('content-length', str(len(content)))\n"
        "        self.end_headers()\n        self.wfile.write(content)\n"
        "    def do_POST(self):\n        asked = json.loads(self.rfile.read(int(self.headers['content-length'])))\n"
        "        self.send_response(200)\n        self.send_header('content-type', 'text/event-stream')\n"
        "        self.send_header('connection', 'close')\n        self.end_headers()\n"
        "        self.close_connection = True\n"
        "        count = asked.get('max_tokens', 8)\n        for i in range(count):\n            time.sleep(pause)\n"
        "            end = 'length' if i == count - 1 else None\n"
        "            word = {'id': 'x', 'model': asked['model'], 'object': 'chat.completion.chunk',\n"
        "                    'choices': [{'index': 0, 'delta': {'content': f' w{i}'}, 'finish_reason': end}]}\n"
        "            self.wfile.write(f'data: {json.dumps(word)}\\n\\n'.encode())\n            self.wfile.flush()\n"
        "        usage = {'id': 'x', 'model': asked['model'], 'object': 'chat.completion.chunk', 'choices': [],\n"
        "                 'usage': {'prompt_tokens': 5, 'completion_tokens': count, 'total_tokens': count + 5}}\n"
        "        self.wfile.write(f'data: {json.dumps(usage)}\\n\\ndata: [DONE]\\n\\n'.encode())\n\n\n"
        "ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
    )
    return path


def ask(script: Path, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    program = server(folder)
    slow, fast = (f"{shlex.join([sys.executable, str(program)])} {{port}} {pause}" for pause in (SLOW_S, FAST_S))
    command = [sys.executable, str(script), "--base", slow, "--changed", fast, *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_it_passes_with_the_change_and_fails_without(script: Path, tmp_path: Path) -> None:
    after = ask(script, tmp_path)
    assert after.returncode == 0, after.stdout + after.stderr
    before = ask(script, tmp_path, "--before")
    assert before.returncode == 1, before.stdout + before.stderr
    assert "wanted at least x1.48" in before.stdout


def test_a_server_that_does_not_start_is_no_verdict(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "--base", "false", "--changed", "false"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "cannot tell" in done.stdout


def test_the_ratio_that_is_wanted_lies_between_nothing_and_what_was_proved(report: Report) -> None:
    low = lower_end(report)
    assert low is not None
    assert wanted_ratio(report) == pytest.approx(math.sqrt(low))


def test_both_arms_are_the_launches_of_the_report(script: Path) -> None:
    text = script.read_text()
    assert "--continuous-batching" not in text.partition("CHANGED =")[0]
    assert text.count("--port {port}") == 2
