"""Every kind of goal and stack, carried out by the real command line on the simulated engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulated.stacks import attached_stack_file, events_of, is_up, report_of, running_server, stack_file, tune

BATCHING = {"continuous_batching": [True]}
STOCK_ONLY = '[[action]]\nkind = "measure"\nprobe = "load"\ntarget = "stock"\n'
TRY_BATCHING = (
    '[[action]]\nkind = "propose"\nhypothesis = ""\nchanges = [{ parameter = "continuous_batching", value = true }]\n'
)


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event["data"] for event in events_of(folder) if event["kind"] == kind]


def windows(folder: Path) -> list[dict[str, Any]]:
    """The load observations of the newest run."""
    made = [row["observation"] for row in events(folder, "observation")]
    return [observation for observation in made if observation["probe"] == "load"]


def kept(report: dict[str, Any]) -> list[str]:
    return [row["title"] for row in report["accepted"]]


def scripted(folder: Path, then: str = "") -> list[str]:
    """Arguments for a run that measures the stock stack, plays the actions of `then` and concludes."""
    script = folder / "script.toml"
    script.write_text(STOCK_ONLY + then)
    return ["--brain", "script", "--script", str(script)]


def test_a_server_attached_to_by_url_is_measured_never_changed_and_left_running(tmp_path: Path) -> None:
    with running_server(tmp_path) as url:
        attached_stack_file(tmp_path, url)
        done = tune(tmp_path)
        assert is_up(url)
    report = report_of(tmp_path)
    sentence = report["outcome"]["sentence"]
    assert done.returncode == 1, done.stderr
    assert "nothing may be changed" in sentence or "no change" in sentence
    assert all(window["verdict"] == "pass" for window in windows(tmp_path))
    assert {"output_tok_per_s", "ttft_s"} <= {metric["name"] for metric in report["baseline"]["metrics"]}
    assert not report["candidates"]


def test_of_an_attached_server_no_launch_and_no_start_up_time_is_claimed(tmp_path: Path) -> None:
    with running_server(tmp_path) as url:
        attached_stack_file(tmp_path, url)
        tune(tmp_path)
    report = report_of(tmp_path)
    measured = {quantity["name"] for window in windows(tmp_path) for quantity in window["quantities"]}
    assert windows(tmp_path)
    assert "startup_s" not in measured
    assert not {"startup_s", "memory_bytes"} & {metric["name"] for metric in report["baseline"]["metrics"]}
    assert {gap["what"] for gap in report["not_measured"]} >= {"startup", "memory_bytes"}
    assert all(row["argv"][0] == "attached" for row in events(tmp_path, "launch"))


def test_a_url_makes_any_engine_an_attached_one(tmp_path: Path) -> None:
    with running_server(tmp_path) as url:
        attached_stack_file(tmp_path, url, engine="transformers")
        done = tune(tmp_path, *scripted(tmp_path))
        assert is_up(url)
    assert done.returncode == 1, done.stderr
    assert windows(tmp_path)
    assert all(row["argv"][0] == "attached" for row in events(tmp_path, "launch"))


def test_a_start_up_goal_for_an_attached_server_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with running_server(tmp_path) as url:
        attached_stack_file(tmp_path, url)
        done = tune(tmp_path, goal="halve the start-up time within 2 minutes")
    assert done.returncode in (2, 6), done.stderr
    assert "startup_s" in done.stderr or "start-up" in done.stderr
    assert not list(tmp_path.glob("runs/*"))


def test_poisson_arrivals_at_the_asked_rate_are_sent_to_stock_and_candidate(tmp_path: Path) -> None:
    goal = "at 20 requests per second, cut the mean E2E latency by 30 % within 3 minutes"
    stack_file(tmp_path, BATCHING, {"FAKE_GAP_S": "0.012"}, requests=8, warmup_requests=0)
    done = tune(tmp_path, *scripted(tmp_path, then=TRY_BATCHING), goal=goal)
    screened = events(tmp_path, "screened")[0]
    assert done.returncode == 1, done.stdout + done.stderr
    assert screened["outcome"] == "promote"
    assert screened["estimate"]["ratio"] > 1.2
    assert {window["verdict"] for window in windows(tmp_path)} == {"pass"}
    assert {window["signals"].get("rate_per_s") for window in windows(tmp_path)} == {20.0}
    assert all("concurrency" not in window["signals"] for window in windows(tmp_path))
    assert {row["candidate"] for row in events(tmp_path, "observation")} >= {"stock", "C1"}


def test_a_first_token_goal_is_met_by_batching(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING, {"FAKE_GAP_S": "0.005"})
    done = tune(tmp_path, goal="halve the p50 TTFT at 4 concurrent requests within 3 minutes")
    report = report_of(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert kept(report) == ["continuous batching"]
    assert report["final"]["candidate_value"] < 0.5 * report["final"]["stock_value"]
    assert "ttft_p50_s x0." in report["outcome"]["sentence"]


def test_a_memory_goal_is_judged_by_the_memory_of_the_engine(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING, {"FAKE_BALLAST_MIB": "200"})
    done = tune(tmp_path, goal="cut memory by 30 % at 2 concurrent requests within 3 minutes")
    report = report_of(tmp_path)
    final = report["final"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert kept(report) == ["continuous batching"]
    assert final["stock_value"] - final["candidate_value"] > 150 * 2**20


def test_a_start_up_goal_is_judged_by_the_seconds_to_the_first_answer(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING, {"FAKE_SLOW_START_S": "0.5"}, requests=4, max_tokens=4)
    done = tune(tmp_path, goal="cut the start-up time by 25 % within 3 minutes")
    report = report_of(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert kept(report) == ["continuous batching"]
    assert report["final"]["stock_value"] > 0.5


def test_without_streaming_the_rate_is_still_tuned(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING, {"FAKE_GAP_S": "0.006"}, stream=False)
    done = tune(tmp_path, goal="at 4 concurrent requests, raise output tokens per second by 30 % within 3 minutes")
    report = report_of(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert kept(report) == ["continuous batching"]
    measured = {quantity["name"] for window in windows(tmp_path) for quantity in window["quantities"]}
    assert "output_tok_per_s" in measured
    assert not {"ttft_s", "tpot_s"} & measured


def test_without_streaming_a_first_token_goal_is_an_error_that_names_streaming(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING, stream=False)
    done = tune(tmp_path, goal="halve the p50 TTFT at 4 concurrent requests within 3 minutes")
    assert done.returncode in (2, 6), done.stderr
    assert "stream" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("runs/*"))


def test_a_concurrency_above_the_workloads_requests_is_reached(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING, requests=6, max_tokens=4)
    goal = "at 16 concurrent requests, double the output tokens per second within 3 minutes"
    done = tune(tmp_path, *scripted(tmp_path), goal=goal)
    assert done.returncode == 1, done.stderr
    assert windows(tmp_path)
    for window in windows(tmp_path):
        assert window["signals"]["in_flight_max"] == 16
        assert window["signals"]["in_flight_mean"] > 8


def test_a_stack_without_a_search_space_says_that_nothing_may_be_changed(tmp_path: Path) -> None:
    stack_file(tmp_path, None)
    done = tune(tmp_path)
    assert done.returncode == 1, done.stderr
    assert "nothing may be changed" in report_of(tmp_path)["outcome"]["sentence"]
    assert "nothing may be changed" in done.stdout
    assert len(windows(tmp_path)) >= 1
