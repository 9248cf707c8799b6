"""The events probe against a real HTTP server whose metrics page tells of a made situation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from served import Answer, serving, vllm_page

from probes.base import Observation, Verdict
from probes.events.limits import EXPERIMENTS
from probes.events.watch import Watch, Watching, watch


def look(answers: Sequence[Answer], *, log: Path | None = None, readings: int = 8, **more: object) -> Observation:
    with serving(answers) as served:
        what = Watch(url=served.url, seconds=200.0, interval_s=0.05, log=log, **more)  # type: ignore[arg-type]
        with Watching(what) as watching:
            while len(served.asked) < readings:
                time.sleep(0.01)
            observation = watching.finish()
        assert set(served.asked) == {"GET /metrics"}
    return observation


def finding(observation: Observation, limit: str) -> dict[str, object]:
    return next(each for each in observation.detail["findings"] if each["limit"] == limit)


def pages(**state: object) -> list[str]:
    return [vllm_page(tick=tick, **state) for tick in range(1, 30)]  # type: ignore[arg-type]


def test_one_slot_with_a_queue_is_the_admission_cap_and_hangs_on_its_parameter() -> None:
    seen = look(pages(running=1, waiting=7, queue_s=20.0, step_tokens=1))
    assert seen.verdict is Verdict.PASS
    assert seen.signals["binding_limit"] == "admission cap"
    assert seen.where.parameter == "max_num_seqs"
    assert finding(seen, "client-bound")["state"] == finding(seen, "under-loaded")["state"] == "excluded"


def test_steps_full_of_tokens_below_the_cap_are_the_token_budget() -> None:
    state = {"running": 4, "waiting": 8, "step_tokens": 30, "prefill_s": 6.0, "decode_s": 2.0}
    seen = look(pages(**state), limits=("token_budget=32", "max_running=32"))
    assert seen.signals["binding_limit"] == "token budget"
    assert seen.where.parameter == "max_num_batched_tokens"


def test_requests_that_do_not_arrive_are_the_clients_fault() -> None:
    seen = look(pages(running=2, waiting=0, step_tokens=2), offered=32)
    assert seen.signals["binding_limit"] == "client-bound"


def test_the_same_page_without_a_word_of_the_client_is_called_too_little_load() -> None:
    seen = look(pages(running=2, waiting=0, step_tokens=2))
    assert seen.signals["binding_limit"] == "under-loaded"
    assert finding(seen, "client-bound")["state"] == "cannot tell"


def test_many_served_at_once_and_none_waiting_is_decode_with_what_was_not_excluded() -> None:
    seen = look(pages(running=32, waiting=0, step_tokens=32, kv=0.4), offered=32)
    assert seen.signals["binding_limit"] == "decode bandwidth"
    assert finding(seen, "client-bound")["state"] == "excluded"
    assert finding(seen, "launch overhead")["state"] == "cannot tell"


def test_preemptions_with_a_full_cache_are_the_kv_capacity() -> None:
    seen = look(pages(running=20, waiting=9, kv=0.98, preemptions=3))
    assert seen.signals["binding_limit"] == "KV capacity"
    assert seen.quantity("preemptions") is not None


def test_a_busy_front_end_before_an_empty_queue_is_neither_the_client_nor_the_load() -> None:
    seen = look(pages(running=2, waiting=0, cpu_s=20.0), offered=32)
    assert seen.signals["binding_limit"] == "front-end CPU"


def test_long_prompts_are_prefill() -> None:
    seen = look(pages(running=16, waiting=0, prefill_s=5.0, decode_s=1.0, step_tokens=600))
    assert seen.signals["binding_limit"] == "prefill compute"


def test_every_limit_has_its_experiment_and_every_fact_its_trust() -> None:
    seen = look(pages(running=1, waiting=7))
    assert [each["limit"] for each in seen.detail["findings"]] == list(EXPERIMENTS)
    assert all(each["refuted_by"] for each in seen.detail["findings"])
    assert {fact["quality"] for fact in seen.detail["facts"]} <= {"exact", "derived", "approximate", "absent"}


def test_a_page_without_help_lines_says_the_same_and_is_told_of() -> None:
    seen = look(pages(running=1, waiting=7, bare=True))
    assert seen.signals["binding_limit"] == "admission cap"
    assert any("TYPE lines" in problem for problem in seen.detail["problems"])


def test_a_restart_withholds_every_figure_and_keeps_the_facts() -> None:
    before = [vllm_page(running=9, waiting=9, tick=tick) for tick in (500, 501)]
    after = [vllm_page(running=1, waiting=0, tick=tick, started_s=2000.0) for tick in (1, 2)]
    seen = look([*before, *after])
    assert seen.verdict is Verdict.INVALID
    assert "restarted 1 times" in seen.summary
    assert seen.quantities == ()
    assert seen.detail["facts"]


def test_a_server_that_goes_away_leaves_what_it_said_before() -> None:
    seen = look([*pages(running=1, waiting=7)[:3], 500])
    assert seen.signals["binding_limit"] == "admission cap"
    assert any("answers 500" in problem for problem in seen.detail["problems"])


def test_a_server_without_a_page_or_with_nonsense_is_an_error_or_cannot_tell() -> None:
    for answer in (404, 503, b"\xff\xfe\x00binary", "<html><body>hello</body></html>", ""):
        seen = look([answer], readings=1)
        assert seen.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE), answer
        assert seen.signals["binding_limit"] == "cannot tell"
        assert seen.quantities == ()


def test_nobody_listening_is_said_plainly() -> None:
    seen = watch(Watch(url="http://127.0.0.1:9", seconds=0.2, interval_s=0.2))
    assert seen.verdict is Verdict.ERROR
    assert "refused" in seen.summary


def test_an_engine_that_nobody_knows_is_named_as_one() -> None:
    seen = look(["tgi_queue_size 4\ntgi_batch_current_size 1\n"])
    assert seen.verdict is Verdict.INCONCLUSIVE
    assert any("no known engine: 2 metrics such as tgi_batch_current_size" in each for each in seen.detail["problems"])


def test_sglang_and_llama_cpp_tell_of_one_slot_too() -> None:
    sglang = [
        f"sglang:num_running_reqs 1\nsglang:num_queue_reqs 6\nsglang:token_usage 0.1\nsglang:prompt_tokens_total {n}\n"
        for n in range(1, 30)
    ]
    llama = [
        f"llamacpp:requests_processing 1\nllamacpp:requests_deferred 6\nllamacpp:n_decode_total {n}\n"
        f"llamacpp:prompt_tokens_total {n}\nllamacpp:tokens_predicted_total {9 * n}\n"
        for n in range(1, 30)
    ]
    for answers, parameter in ((sglang, "max_running_requests"), (llama, "parallel")):
        seen = look(answers)
        assert seen.signals["binding_limit"] == "admission cap"
        assert seen.where.parameter == parameter


@pytest.mark.parametrize("url", ["http://192.0.2.1:8000", "ftp://127.0.0.1", "http://user:pw@127.0.0.1:8000"])
def test_only_this_machine_and_named_hosts_are_asked(url: str) -> None:
    with pytest.raises(ValueError, match=r"neither this machine|base_url"):
        Watch(url=url)


def test_windows_and_limits_that_cannot_be_are_refused() -> None:
    for wrong in ({"seconds": 0.0}, {"interval_s": 0.0}, {"offered": 0}, {"limits": ("max_running=many",)}):
        with pytest.raises(ValueError):
            Watch(url="http://127.0.0.1:9", **wrong)  # type: ignore[arg-type]


def test_what_the_log_advises_stays_a_hypothesis_with_its_line(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("INFO start\nWARNING tcmalloc is not found in LD_PRELOAD, for best performance install it\n")
    seen = look(pages(running=32, waiting=0, step_tokens=32), log=log)
    advice = next(each for each in seen.detail["hypotheses"] if each["name"] == "allocator advice")
    assert advice["line"] == 2
    assert "tcmalloc" in advice["text"]
    assert advice["limit"] is None
    assert seen.signals["binding_limit"] == "decode bandwidth"
