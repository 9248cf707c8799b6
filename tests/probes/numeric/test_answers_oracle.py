"""The float32 oracle with the real model, and the whole check on two real servers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from infra_agent.stack.model import Stack
from probes.base import Verdict
from probes.numeric.collect import collect
from probes.numeric.compare import compare
from probes.numeric.divergence import Status, classify
from probes.numeric.mutants import kill_rate, mutants
from probes.numeric.oracle import OracleProcess
from probes.numeric.prompts import load_prompts
from probes.numeric.types import Answer, AnswerPrompt, GapRequest, OracleError

pytestmark = pytest.mark.engine
PROMPTS = load_prompts("builtin:answers")
TOKENS = 12

INDEPENDENT = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
model, prompt, prefix, first, second = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:6])
tok = AutoTokenizer.from_pretrained(model)
net = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
text = tok.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False)
ids = tok(text, add_special_tokens=False, return_tensors="pt").input_ids
out = net.generate(torch.cat([ids, torch.tensor([prefix], dtype=torch.long)], dim=1), max_new_tokens=1,
                   do_sample=False, output_logits=True, return_dict_in_generate=True)
row = out.logits[0][0].double()
print(json.dumps([float(row[first] - row.logsumexp(0)), float(row[second] - row.logsumexp(0))]))
"""

HOLDER = """
import sys, time
from probes.numeric.oracle import OracleProcess
with OracleProcess(sys.argv[1], sys.argv[2]) as oracle:
    print(oracle._process.pid, flush=True)
    time.sleep(600)
"""


def stack_python(stack: Stack) -> str:
    assert stack.launch.python is not None
    return stack.launch.python


@pytest.fixture(scope="session")
def oracle(demo_stack: Stack) -> Iterator[OracleProcess]:
    with OracleProcess(stack_python(demo_stack), demo_stack.model) as running:
        yield running


@pytest.fixture(scope="session")
def bfloat16_and_float32(oracle: OracleProcess) -> tuple[tuple[Answer, ...], tuple[Answer, ...]]:
    """The same model in two precisions: differences between them are rounding by construction."""
    prompts = [prompt for prompt in PROMPTS if prompt.id in ("p1", "p4")]

    def answers(dtype: str) -> tuple[Answer, ...]:
        return tuple(
            Answer(
                prompt_id=prompt.id,
                prompt=prompt.text,
                endpoint="chat",
                max_tokens=TOKENS,
                model="m",
                **oracle.greedy(prompt.text, TOKENS, dtype="bfloat16" if dtype == "bfloat16" else "float32"),
            )
            for prompt in prompts
        )

    return answers("bfloat16"), answers("float32")


def wait_until(true: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_the_gap_of_two_tokens_equals_an_independent_computation(oracle: OracleProcess, demo_stack: Stack):
    prompt, text = PROMPTS[7].text, "The sky appears"
    prefix = oracle.tokenise([text])[0].ids
    first, second = (oracle.tokenise([word])[0].ids[0] for word in (" blue", " red"))
    gap = oracle.gaps(
        [GapRequest(prompt=prompt, endpoint="chat", path=(*prefix, first), position=len(prefix), other=second)]
    )[0]
    argv = [stack_python(demo_stack), "-c", INDEPENDENT, demo_stack.model, prompt, json.dumps(prefix), str(first)]
    done = subprocess.run(
        [*argv, str(second)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    expected = json.loads(done.stdout.splitlines()[-1])
    assert (gap.path_logp, gap.other_logp) == pytest.approx(expected, abs=1e-3)
    assert gap.gap_nat > 1
    assert gap.best_token == " blue"


def test_the_best_path_has_no_deficit_and_damage_behind_a_fork_has_a_large_one(oracle: OracleProcess):
    answer = oracle.greedy(PROMPTS[3].text, 8)
    ids = oracle.tokenise([answer["text"]])[0].ids
    damaged = (*ids[:5], oracle.tokenise([" banana"])[0].ids[0], *ids[6:])

    def deficit(path: tuple[int, ...]) -> float:
        request = GapRequest(prompt=PROMPTS[3].text, endpoint="chat", path=path, position=0, other=path[0])
        found = oracle.gaps([request])[0].rest_deficit_nat
        assert found is not None
        return found

    assert deficit(ids) < 0.01
    assert deficit(damaged) > 5


def test_end_of_text_is_weighed_like_any_token(oracle: OracleProcess):
    ids = oracle.tokenise(["A compiler is"])[0].ids
    early = GapRequest(prompt=PROMPTS[3].text, endpoint="chat", path=(*ids, None), position=len(ids), other=ids[0])
    assert oracle.gaps([early])[0].path_logp < -3


def test_texts_come_back_from_their_tokens_and_lost_bytes_are_noticed(oracle: OracleProcess):
    plain, empty, lost = oracle.tokenise(["Ein Fluß  fließt\n\n", "", "half a character \ufffd"])
    assert plain.faithful
    assert "".join(plain.pieces) != ""
    assert (empty.faithful, empty.ids) == (True, ())
    assert not lost.faithful


def test_rounding_alone_is_told_from_a_change(
    oracle: OracleProcess, bfloat16_and_float32: tuple[tuple[Answer, ...], tuple[Answer, ...]]
):
    half, full = bfloat16_and_float32
    found = compare(half, full, oracle=oracle)
    assert found.verdict is Verdict.PASS, found.summary
    rows = {row["prompt_id"]: row for row in found.detail["prompts"]}
    assert rows["p1"]["status"] == "near_tie"
    assert 0 < rows["p1"]["gap_nat"] < 0.1
    assert rows["p1"]["oracle_prefers"] == "candidate"
    assert rows["p4"]["status"] == "same"
    assert found.against.digest == oracle.digest()
    strict = classify(half, full, oracle, 0.0)
    assert Status.CHANGED in {result.status for result in strict}


@pytest.mark.parametrize("limit_nat", [0.1, 0.25], ids=["stated", "as wide as bfloat16 moves it"])
def test_every_mutant_is_refused(
    oracle: OracleProcess,
    bfloat16_and_float32: tuple[tuple[Answer, ...], tuple[Answer, ...]],
    capsys: pytest.CaptureFixture[str],
    limit_nat: float,
):
    reference = bfloat16_and_float32[0]
    names = [mutant.name for mutant in mutants(reference)]
    rate = kill_rate(reference, oracle, limit_nat)
    with capsys.disabled():
        sys.stdout.write(f"\nkill rate of the answer check: {rate.killed} of {rate.total}\n")
    assert rate.survivors == ()
    assert rate.total == len(names) >= 20
    assert rate.sufficient


def test_the_rounding_of_a_type_is_measured_along_the_answers(
    oracle: OracleProcess, bfloat16_and_float32: tuple[tuple[Answer, ...], tuple[Answer, ...]]
):
    reference = bfloat16_and_float32[0]
    half, full = oracle.rounding(reference, "bfloat16"), oracle.rounding(reference, "float32")
    assert half.positions == full.positions > 10
    assert 0 < half.median_nat < half.p99_nat <= half.max_nat < 2
    assert full.max_nat < 1e-3


def test_a_refused_request_leaves_the_oracle_usable(oracle: OracleProcess):
    with pytest.raises(OracleError, match="a fork lies inside the path"):
        oracle.gaps([GapRequest(prompt="x", endpoint="chat", path=(1,), position=3, other=2)])
    assert oracle.tokenise(["x"])[0].faithful


def test_a_model_that_cannot_be_loaded_is_a_clear_error(demo_stack: Stack, tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "no-such-model"}')
    with (
        pytest.raises(OracleError, match="cannot load .*no-such-model"),
        OracleProcess(stack_python(demo_stack), str(tmp_path)),
    ):
        pass


def test_a_killed_parent_leaves_no_worker(demo_stack: Stack):
    argv = [sys.executable, "-c", HOLDER, stack_python(demo_stack), demo_stack.model]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        try:
            worker = psutil.Process(int(holder.stdout.readline()))
            assert worker.is_running()
        finally:
            holder.kill()
    wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "the worker lives on")


@contextmanager
def served(stack: Stack, *flags: str) -> Iterator[str]:
    """The real engine on a free port, ready when it has answered once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    engine = str(Path(stack_python(stack)).with_name("transformers"))
    argv = [engine, "serve", stack.model, "--host", "127.0.0.1", "--port", str(port), "--cb-num-blocks", "64", *flags]
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            wait_until(lambda: process.poll() is not None or healthy(url), "the engine does not get healthy", 90)
            first = collect(
                url, "chat", stack.model, [AnswerPrompt(id="w", text="Hi")], max_tokens=1, concurrency=1, timeout_s=120
            )
            assert first[0].error is None, first[0].error
            yield url
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def test_batching_on_the_real_engine_changes_no_answer(oracle: OracleProcess, demo_stack: Stack):
    """Few prompts and tokens, for time; longer answers meet gaps above the tolerance (docs/answers.md)."""

    def answers(*flags: str) -> tuple[Answer, ...]:
        with served(demo_stack, *flags) as url:
            return collect(url, "chat", demo_stack.model, PROMPTS[:4], max_tokens=TOKENS, concurrency=4, timeout_s=120)

    found = compare(answers(), answers("--continuous-batching"), oracle=oracle)
    assert found.verdict is Verdict.PASS, found.summary
    changed = found.quantity("answers_changed")
    assert changed is not None
    assert changed.value == 0
