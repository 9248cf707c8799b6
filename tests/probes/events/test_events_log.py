"""Logs as engines and people write them: known lines, unknown ones, other languages, huge and broken files."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.events import log as logs
from probes.events.log_rules import RULES
from probes.events.settings import from_command, from_log, from_user

VLLM = (
    "INFO 12-01 00:00:01 [core.py:99] engine with config: tensor_parallel_size=1, enforce_eager=False\n"
    "INFO 12-01 00:00:02 [utils.py:1] non-default args: {'max_num_seqs': 4, 'max_num_batched_tokens': 64}\n"
    "WARNING 12-01 00:00:03 [cpu.py:4] \x1b[33mtcmalloc is not found in LD_PRELOAD. Install it\x1b[0m\n"
    "INFO 12-01 00:00:10 [loggers.py:2] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: "
    "50.5 tokens/s, Running: 4 reqs, Waiting: 9 reqs, GPU KV cache usage: 31.5%, Prefix cache hit rate: 0.0%\n"
    "WARNING 12-01 00:00:11 [x.py:5] something that nobody has seen before\n"
)


def write(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "engine.log"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_vllm_log_gives_limits_statistics_and_hypotheses_with_line_and_text(tmp_path: Path) -> None:
    found = logs.read(write(tmp_path, VLLM))
    limits = {signal.name: signal.value for signal in from_log(found.numbered)}
    assert limits == {"world_size": 1, "max_running": 4, "token_budget": 64}
    facts = {signal.name: signal for signal in found.signals}
    assert (facts["running_max"].value, facts["waiting_share"].value) == (4, 1)
    assert facts["kv_used_max"].value == pytest.approx(0.315)
    assert facts["kv_used_max"].quality == "approximate"
    advice = next(each for each in found.hypotheses if each.name == "allocator advice")
    assert advice.line == 3
    assert "\x1b" not in advice.text
    assert not any(each.name == "graphs off" for each in found.hypotheses)
    assert found.unread == ((5, VLLM.splitlines()[4]),)


def test_lines_before_and_in_the_window_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path, "Retract requests. #retracted_reqs: 1\n")
    began = logs.size_of(path)
    with path.open("a") as file:
        file.write("torch._dynamo hit config.recompile_limit (8)\n" * 3)
    found = {each.name: each for each in logs.read(path, began).hypotheses}
    assert found["retracted"].in_window is False
    assert (found["recompilation"].in_window, found["recompilation"].times) == (True, 3)


def test_a_rotated_log_is_read_from_its_new_beginning(tmp_path: Path) -> None:
    path = write(tmp_path, "Retract requests\n")
    assert logs.read(path, window_from=10_000).hypotheses[0].in_window


@pytest.mark.parametrize(
    "line",
    [
        "警告: 显存不足，请求被推迟",
        "WARNING キャッシュがいっぱいです",
        "AVERTISSEMENT : file d'attente pleine",
        "경고: 느림",
    ],
)
def test_warnings_in_another_language_are_kept_as_not_understood(tmp_path: Path, line: str) -> None:
    found = logs.read(write(tmp_path, f"启动\n{line}\n"))
    assert found.hypotheses == ()
    assert found.unread == ((2, line),)


def test_a_log_of_any_size_is_read_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGEST", 1000)
    found = logs.read(write(tmp_path, "x" * 5000 + "\nRetract requests\n"))
    assert found.skipped_bytes > 3000
    assert found.hypotheses[0].name == "retracted"


def test_files_that_are_no_log_are_problems_not_errors(tmp_path: Path) -> None:
    assert "cannot read" in logs.read(tmp_path / "none.log").problem
    assert "cannot read" in logs.read(tmp_path).problem
    assert "no text" in logs.read(write(tmp_path, b"\x7fELF\0\0\0")).problem
    empty = logs.read(write(tmp_path, b""))
    assert (empty.lines, empty.problem, empty.hypotheses) == (0, "", ())
    assert logs.read(write(tmp_path, b"\xff\xfe WARNING \x9b31m odd\n")).lines == 1


def test_every_rule_names_an_experiment_and_none_claims_a_fact() -> None:
    assert all(rule.experiment and rule.means for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("engine", "command", "limits"),
    [
        ("vllm", "python -m vllm.x --max-num-seqs 1 --max-num-batched-tokens=64 -tp 2 -pp 2", (1, 64, 4)),
        (
            "sglang",
            "python -m sglang.launch_server --max-running-requests 8 --chunked-prefill-size 512 --tp 1",
            (8, 512, 1),
        ),
        ("llama.cpp", "llama-server -np 2 -b 256", (2, 256, None)),
        ("transformers", "transformers serve m --port 1", (1, None, None)),
        ("transformers", "transformers serve m --continuous-batching --cb-max-batch-tokens 16", (None, 16, None)),
        ("vllm", "vllm serve --max-num-seqs", (None, None, None)),
        ("vllm", "vllm serve --max-num-seqs many --api-key SECRET", (None, None, None)),
    ],
)
def test_limits_are_read_from_command_lines(engine: str, command: str, limits: tuple[float | None, ...]) -> None:
    found = {signal.name: signal.value for signal in from_command(engine, command.split())}
    assert (found.get("max_running"), found.get("token_budget"), found.get("world_size")) == limits
    assert "SECRET" not in str(found)


def test_limits_told_by_the_user_are_numbers_of_known_names() -> None:
    assert from_user(["max_running=3"])[0].value == 3
    for wrong in ("max_running", "max_running=0", "colour=3", "token_budget=-1"):
        with pytest.raises(ValueError, match="NAME=NUMBER"):
            from_user([wrong])
