"""A machine that fails in the middle of a whole run: said plainly, with the table's exit code, and gone on with."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from simulated.boundaries import KILLED, SANDBOX, Lab, compared, left_behind, state_of, undisturbed
from simulated.sameness import disorder

from infra_agent.agent.start import spent_s
from infra_agent.errors import ExitCode
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.state import RunState
from infra_agent.ledger.verify import verify

pytestmark = pytest.mark.requirement("L6")
MET = int(ExitCode.OK)
DISK_KIB = 512


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture(scope="module")
def whole(lab: Lab) -> RunState:
    return undisturbed(lab, SANDBOX)


@contextmanager
def small_disk(lab: Lab, name: str) -> Iterator[Path]:
    """The runs of a folder on a disk of their own; yields a file that fills it up to where a test wants it."""
    mount = lab.folder / name / "runs"
    mount.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_KIB}k", "tmpfs", str(mount)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield mount / "ballast"
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def run_dir(lab: Lab, name: str) -> Path:
    return max(path for path in (lab.folder / name / "runs").iterdir() if path.is_dir())


def check_refusal(lab: Lab, name: str, code: int, words: str, then: str = "infra-agent runs resume") -> None:
    said = " ".join(lab.output(name).split())
    assert code == ExitCode.USAGE, said
    assert words in said
    assert then in said
    assert "Traceback" not in said
    assert left_behind(lab.folder / name) == []


@pytest.mark.parametrize("left_kib", [24, 60, 100, 150])
def test_a_disk_that_fills_up_during_a_run_ends_it_plainly_and_with_space_it_goes_on(
    lab: Lab, whole: RunState, left_kib: int
) -> None:
    name = f"disk-{left_kib}"
    with small_disk(lab, name) as ballast:
        ballast.write_bytes(b"z" * ((DISK_KIB - left_kib) * 1024))
        check_refusal(lab, name, lab.begin(name), "disk full: the run cannot be recorded any further")
        assert verify(run_dir(lab, name)).ok
        ballast.unlink()
        assert lab.resume(name) == MET, lab.output(name)
        assert compared(lab, name, whole) == []


def test_a_disk_that_is_full_only_for_the_report_loses_nothing(lab: Lab, whole: RunState) -> None:
    name = "report"
    with small_disk(lab, name) as ballast:
        assert lab.begin(name, crash_at=f"{len(whole.events)}:after") == KILLED
        free_kib = DISK_KIB - 8
        while not ballast.exists():
            try:
                ballast.write_bytes(b"z" * (free_kib * 1024))
            except OSError:
                ballast.unlink()
                free_kib -= 4
        code = lab.run(name, "report")
        check_refusal(lab, name, code, "disk full: the run has ended and is recorded", then="infra-agent report")
        ballast.unlink()
        assert lab.run(name, "report") == 0
        assert compared(lab, name, whole) == []


def test_a_file_size_limit_ends_a_run_like_a_full_disk(lab: Lab, whole: RunState) -> None:
    code = lab.begin("limit", world="limit:60000")
    check_refusal(lab, "limit", code, "file size limit reached: the run cannot be recorded any further")
    assert lab.resume("limit") == MET
    assert compared(lab, "limit", whole) == []


@pytest.mark.parametrize("number", [2, 3, 9, 20])
def test_a_flush_that_fails_ends_the_run_before_what_it_should_have_covered(
    lab: Lab, whole: RunState, number: int
) -> None:
    name = f"eio-{number}"
    code = lab.begin(name, world=f"eio:{number}")
    check_refusal(lab, name, code, "cannot write: Input/output error")
    synced = [at for at in state_of(lab.run_dir(name)).events if at.data.synced]
    assert len(synced) == number - 1
    assert lab.resume(name) == MET, lab.output(name)
    assert compared(lab, name, whole) == []


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_wall_clock_that_is_set_again_and_again_makes_no_time_negative(lab: Lab, step_s: int) -> None:
    name, began_s = f"jump{step_s}", time.monotonic()
    assert lab.begin(name, world=f"jump:{step_s}") == MET, lab.output(name)
    took_s = time.monotonic() - began_s
    found = state_of(lab.run_dir(name))
    assert disorder(found) == []
    assert found.finished is not None
    assert 0 < found.elapsed_s <= took_s
    if step_s < 0:
        assert spent_s(found) <= took_s + 1


def test_a_run_resumed_under_a_clock_of_yesterday_keeps_its_spent_budget(lab: Lab) -> None:
    assert lab.begin("yesterday", world="jump:0", crash_at="30:torn") == KILLED
    before_s = spent_s(state_of(lab.run_dir("yesterday")))
    began_s = time.monotonic()
    assert lab.resume("yesterday", world="jump:-86400") == MET, lab.output("yesterday")
    took_s = time.monotonic() - began_s
    found = state_of(lab.run_dir("yesterday"))
    assert disorder(found) == []
    assert before_s <= found.elapsed_s <= before_s + took_s + 1


def test_two_resumes_at_once_are_one_and_a_refusal_that_names_the_process(lab: Lab, whole: RunState) -> None:
    name, codes = "twice", []
    assert lab.begin(name, crash_at="20:after") == KILLED
    ledger = lab.run_dir(name) / LEDGER_FILE
    first = threading.Thread(target=lambda: codes.append(lab.resume(name)))
    first.start()
    until = time.monotonic() + 60
    while b'"kind":"run_resumed"' not in ledger.read_bytes() and time.monotonic() < until:
        time.sleep(0.005)
    resumed = next(at.data for at in state_of(ledger.parent).events if at.data.kind == "run_resumed")
    assert lab.resume(name) == ExitCode.USAGE
    assert f"is in use by process {resumed.pid}" in " ".join(lab.output(name).split())
    first.join(200)
    assert codes == [MET]
    assert compared(lab, name, whole) == []
    assert state_of(ledger.parent).sessions == 2
