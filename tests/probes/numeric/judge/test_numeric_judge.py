from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from judging import SPEC, Bench

from probes.numeric.judge.__main__ import main
from probes.numeric.judge.faults import JudgeFailure
from probes.numeric.judge.verdict import judge


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("body", "fault", "said"),
    [
        ("raise KeyError('lost')", "crash", "KeyError: 'lost'"),
        ("import ctypes; ctypes.string_at(0)", "crash", "SIGSEGV"),
        ("import sys; sys.exit(0)", "early exit", "SystemExit: 0"),
        ("import os; os._exit(0)", "early exit", "exit code 0"),
        ("return np.zeros(30 << 30, np.uint8)", "memory", "Unable to allocate 30.0 GiB"),
        ("return (x + x)[:, :-1].copy()", "wrong shape", "y has the shape (3, 19), expected (3, 20)"),
        ("return (x + x).astype(np.float64)", "wrong dtype", "y is float64, expected float32"),
        ("return [[1.0]]", "wrong type", "y is a builtins.list"),
        ("return x + x, x", "wrong number of outputs", "2 outputs, expected 1"),
        ("y = x + x; y[1, 7] = np.nan; return y", "NaN", "y[1, 7] is nan, expected"),
        ("y = x + x; y[2, 5] += 1; return y", "wrong value", "y[2, 5] is"),
        ("y = x + x; x[0, 0] = 0; return y", "input changed", "input x"),
        ("import numpy; numpy.allclose = print; return x + x", "global state changed", "numpy.allclose"),
        ("import os; os.environ['NVIDIA_TF32_OVERRIDE'] = '1'; return x + x", "global state changed", "NVIDIA_TF32"),
    ],
)
def test_every_fault_has_its_own_name_and_says_what_was_seen(bench: Bench, body: str, fault: str, said: str) -> None:
    found = bench.judge(body)
    assert found["verdict"] == "fail"
    assert found["signals"]["fault"] == fault
    assert said in found["summary"]
    assert found["signals"]["kill_rate"] >= 0.95


def test_a_wrong_device_is_its_own_fault(bench: Bench) -> None:
    found = bench.judge("return x + x", call={"device": "cuda"})
    assert found["signals"]["fault"] == "wrong device"
    assert "y lies on cpu, expected cuda" in found["summary"]


def test_a_candidate_that_hangs_is_ended_by_the_judges_clock(bench: Bench) -> None:
    found = bench.judge("import time; time.time = lambda: 0; time.sleep(3600)", limits={"call_s": 2.0})
    assert found["signals"]["fault"] == "hang"
    assert "no answer in 2 s" in found["summary"]


def test_memory_is_watched_from_outside_too(bench: Bench) -> None:
    # Each child stays below the limit that it inherits; only together do they pass it.
    program = "import time; a = bytearray(150 << 20); time.sleep(60)"
    body = (
        "import subprocess, sys; "
        f"all = [subprocess.Popen([sys.executable, '-c', {program!r}]) for _ in range(3)]; "
        "[each.wait() for each in all]"
    )
    found = bench.judge(body, limits={"call_s": 60.0, "memory_bytes": 200 << 20})
    assert found["signals"]["fault"] == "memory"


def test_a_file_that_does_not_load_says_where(bench: Bench) -> None:
    ask = bench.ask()
    Path(str(ask.candidate).rpartition(":")[0]).write_text("import numpy\n\nraise OSError('no device')\n")
    found = judge(ask)
    assert found["signals"]["fault"] == "cannot be loaded"
    assert "fast.py:3" in found["summary"]
    assert found["signals"]["kill_rate"] >= 0.95


def test_a_right_function_passes_and_everything_behind_the_verdict_is_told(bench: Bench) -> None:
    found = bench.judge()
    assert found["verdict"] == "pass"
    assert found["signals"] == {"fault": "", "kill_rate": 1.0}
    assert found["detail"]["walls"] == "no sandbox"
    assert found["detail"]["tolerance"][0]["allowed"] < 1e-4
    assert {each["name"] for each in found["quantities"]} >= {"worst_relative_error", "call_s"}


def test_a_known_verdict_is_answered_from_the_cache_until_something_changes(bench: Bench) -> None:
    ask = bench.ask()
    first, second = judge(ask), judge(ask)
    assert (first["cached"], second["cached"]) == (False, True)
    assert second["detail"]["seed"] == first["detail"]["seed"]
    assert second["answered_s"] < 0.1 * 8
    assert judge(bench.ask("return 2 * x"))["cached"] is False
    assert judge(bench.ask("return 2 * x", claim="float32"))["cached"] is False
    bench.folder.joinpath("plain.py").write_text(bench.folder.joinpath("plain.py").read_text() + "# changed\n")
    assert judge(bench.ask("return 2 * x", claim="float32"))["cached"] is False


def test_a_kept_verdict_under_another_name_is_not_believed(bench: Bench) -> None:
    judge(bench.ask())
    wrong = bench.ask("return x")
    judge(wrong)
    files = sorted((bench.folder / "cache").glob("*.json"), key=lambda path: "pass" in path.read_text())
    files[0].write_text(files[1].read_text())
    assert judge(wrong)["verdict"] == "fail"


def test_a_hang_is_not_kept(bench: Bench) -> None:
    ask = bench.ask("import time; time.sleep(3600)", limits={"call_s": 1.0})
    assert judge(ask)["signals"]["fault"] == "hang"
    assert list((bench.folder / "cache").glob("*.json")) == []


def test_a_weak_tolerance_makes_the_verdict_invalid_with_its_survivors(bench: Bench) -> None:
    found = bench.judge("return x * 0", tolerance={"rtol": 0.0, "atol": 1e9})
    assert found["verdict"] == "invalid"
    assert "weak oracle" in found["summary"]
    assert found["signals"]["kill_rate"] < 0.95
    assert found["quantities"] == ()
    assert "zero (y)" in found["detail"]["strength"][1]["survivors"]


def test_without_other_sizes_nothing_passes_unless_there_are_none(bench: Bench) -> None:
    assert bench.judge(held_out={})["verdict"] == "inconclusive"
    assert bench.judge(held_out={}, fixed_sizes=True)["verdict"] == "pass"


def test_a_function_that_knows_its_sizes_fails_on_held_out_ones(bench: Bench) -> None:
    found = bench.judge("return x + x if x.shape == (3, 20) else x * 0")
    assert found["verdict"] == "fail"
    assert "held-out size" in found["where"]["input"]


def test_results_can_be_written_into_given_arrays(bench: Bench) -> None:
    assert bench.judge("y[...] = x + x", call={"style": "out"})["verdict"] == "pass"
    found = bench.judge("y[:2] = x[:2] * 2", call={"style": "out"}, sizes=[{"rows": 3, "columns": 20}])
    assert found["signals"]["fault"] == "not written"
    assert "y[2, 0]" in found["summary"]


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("np.save('out/y.npy', x + x)", ""),
        ("np.save('out/y.npy', x)", "wrong value"),
        ("np.save('out/y.npy', (x + x).astype(np.float16))", "wrong dtype"),
        ("np.save('out/y.npy', (x + x).T.copy())", "wrong shape"),
        ("pass", "no output"),
        ("import os; os.symlink('../in/x.npy', 'out/y.npy')", "no output"),
        ("import os; os.mkfifo('out/y.npy')", "wrong type"),
        ("open('out/y.npy', 'wb').write(b'PASS')", "wrong type"),
        ("np.save('out/y.npy', x + x); raise SystemExit(3)", "crash"),
    ],
)
def test_a_shell_command_reads_and_writes_files(bench: Bench, script: str, fault: str) -> None:
    (bench.folder / "run.py").write_text(f"import numpy as np\nx = np.load('in/x.npy')\n{script}\n")
    command = f"{sys.executable} ../../source/run.py"
    sizes = {"rows": 3, "columns": 20}
    few = [name for name in ("tiny", "small", "large", "huge", "ties", "sorted up", "sorted down", "constant",
                             "sparse", "spikes", "cancelling", "powers of two", "denormal")]  # fmt: skip
    ask = replace(
        bench.ask(command=command, call={"files": ["run.py"]}, sizes=[sizes], fixed_sizes=True, held_out={},
                  skip_regimes=few),
    )  # fmt: skip
    here = Path.cwd()
    found = judge(replace(ask, root=bench.folder))
    assert found["signals"]["fault"] == fault, found["summary"]
    assert Path.cwd() == here


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reference": "broken"}, "the reference raised ValueError"),
        ({"claim": "float33"}, "claim 'float33' is none of"),
        ({"sizes": [{"rows": 3}]}, "lack columns"),
        ({"inputs": [{"name": "x", "shape": ["rows", "columns/2"]}]}, "is no size"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_is_wrong_with_the_task_is_no_verdict_on_the_candidate(bench: Bench, change: dict, said: str) -> None:
    with pytest.raises(JudgeFailure, match=said.replace("(", r"\(")):
        bench.judge(**change)


def test_the_command_prints_a_card_and_answers_with_its_exit_code(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = bench.ask("return x")
    words = ["--candidate", str(ask.candidate), "--reference", ask.reference, "--spec", str(ask.spec)]
    words += ["--cache", str(ask.cache)]
    assert main(words) == 1
    said = capsys.readouterr().out
    assert "Kill rate" in said
    assert "Smallest" in said
    assert "rows=1, columns=1" in said
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["cached"] is True
    assert main([*words[:2], "--reference", "nowhere.py:f", "--spec", str(ask.spec), "--json"]) == 2
    assert "nowhere.py" in capsys.readouterr().err
    assert SPEC["name"] == "double"
