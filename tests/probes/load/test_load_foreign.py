"""Results of other tools: real files of each (`results/`), read under our names; ours written in their forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from load_samples import PATIENT, ask

from probes.load.foreign.guidellm import write_guidellm
from probes.load.foreign.read import read_runs
from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script
from probes.load.outputs import FORMATS, parse_export, write_outputs
from probes.load.session import Session, Told
from probes.load.types import Closed, Poisson, RequestRecord

RESULTS = Path(__file__).parent / "results"


def test_a_vllm_result_is_read_with_its_counts_load_and_time() -> None:
    (run,) = read_runs(RESULTS / "vllm-0.32.json")
    assert (run.tool, run.model, run.requests, run.completed, run.failed) == ("vllm bench serve", "mock", 24, 24, 0)
    assert (run.input_tokens, run.output_tokens) == (384, 480)
    assert run.load == "as fast as possible, at most 4 at once"
    assert run.figures["output_tok_per_s"] == pytest.approx(164.98, abs=0.01)
    assert run.figures["ttft_s"] == pytest.approx(0.00377, abs=1e-5)
    assert run.figures["tpot_p99_s"] == pytest.approx(0.02534, abs=1e-5)
    assert run.figures["e2e_p50_s"] == pytest.approx(0.48407, abs=1e-5)
    assert "chunk_gap_s" in run.figures
    assert "itl_s" not in run.figures
    assert run.started_unix_s is not None
    assert run.prompts_by == "the list of prompt lengths"


def test_a_guidellm_report_is_read_and_its_own_figure_keeps_its_own_name() -> None:
    (run,) = read_runs(RESULTS / "guidellm-0.8.1.json")
    assert (run.tool, run.requests, run.completed, run.failed) == ("guidellm", 24, 24, 0)
    assert run.load == "concurrent 4"
    assert run.figures["tpot_s"] == pytest.approx(0.0199, abs=2e-4)
    assert run.figures["guidellm_time_per_output_token_s"] == pytest.approx(0.0244, abs=2e-4)
    assert run.figures["ttft_p95_s"] == pytest.approx(0.1218, abs=1e-3)
    assert run.prompts_by == "the bodies that were sent"


def test_an_aiperf_summary_is_read() -> None:
    (run,) = read_runs(RESULTS / "aiperf-0.13.json")
    assert (run.tool, run.model, run.requests, run.failed) == ("aiperf", "mock", 24, 0)
    assert run.load == "as fast as possible, at most 4 at once"
    assert run.figures["output_tok_per_s"] == pytest.approx(153.66, abs=0.01)
    assert run.figures["tpot_s"] == pytest.approx(0.02035, abs=1e-5)
    assert run.refused is None


def test_sglang_lines_are_runs_that_do_not_tell_their_failures_or_their_time() -> None:
    runs = read_runs(RESULTS / "sglang-0.5.23.jsonl")
    assert [run.tool for run in runs] == ["sglang benchmark.serving"] * 2
    assert runs[0].failed is None
    assert runs[0].started_unix_s is None
    assert runs[0].figures["e2e_s"] == pytest.approx(0.48425, abs=1e-5)
    assert runs[0].model == "mock"


def test_a_folder_is_read_in_order_of_name() -> None:
    assert [run.tool for run in read_runs(RESULTS)] == [
        "aiperf", "guidellm", "sglang benchmark.serving", "sglang benchmark.serving", "vllm bench serve",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not JSON"),
        ("not json", "is not JSON"),
        ("[]", "holds no run"),
        ("3", "a result is a JSON object"),
        ('{"hello": 1}', "no result of a known tool"),
        ('{"a": 1}\n{broken\n', ":2 is not JSON"),
        ('{"benchmarks": [], "metadata": {"guidellm_version": "0.2", "version": 1}}', "form 1; form 2"),
        ('{"schema": "infra-agent/load-result/99", "windows": []}', "is not understood"),
    ],
)
def test_files_that_are_no_result_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_runs(tmp_path / "x.json")


def test_a_missing_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        read_runs(tmp_path / "none.json")
    with pytest.raises(ValueError, match="holds no .json"):
        read_runs(tmp_path)


@pytest.mark.parametrize("name", ["vllm-0.32.json", "guidellm-0.8.1.json", "aiperf-0.13.json"])
def test_hostile_values_give_missing_figures_and_no_crash(tmp_path: Path, name: str) -> None:
    document = json.loads((RESULTS / name).read_text())

    def spoil(value: object) -> object:
        if isinstance(value, dict):
            return {key: spoil(each) if key != "metadata" else each for key, each in value.items()}
        if isinstance(value, list):
            return [spoil(each) for each in value]
        return "seven" if isinstance(value, int | float) and not isinstance(value, bool) else value

    (tmp_path / "x.json").write_text(json.dumps(spoil(document)))
    for run in read_runs(tmp_path / "x.json"):
        assert run.figures == {}
        assert run.completed is None


@pytest.fixture(scope="module")
def told(mock: MockProcess) -> list[Told]:
    mock.play(Script(first_token_s=0.03, gap_s=0.005, chunks=(1,) * 6))
    session = Session(PATIENT)

    def begin(_: object) -> object:
        def hear(record: RequestRecord) -> None:
            return None

        return hear

    session.run([ask(mock.url), ask(mock.url, arrivals=Poisson(40.0), requests=60, seed=1)], begin)
    assert session.all_valid, [each.observation.summary for each in session.told]
    return session.told


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_written_in_a_tools_form_reads_back_the_same(form: str, told: list[Told], tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_outputs(told[:1], exports=[f"{form}={path}"])
    (run,) = read_runs(path)
    metrics = told[0].result.metrics
    assert run.completed == 8
    assert (run.output_tokens, run.input_tokens) == (
        sum(record.output_tokens or 0 for record in told[0].result.records),
        sum(record.prompt_tokens or 0 for record in told[0].result.records),
    )
    for name in ("output_tok_per_s", "requests_per_s", "total_tok_per_s"):
        assert run.figures[name] == pytest.approx(metrics.rates[name])
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        assert run.figures[name] == pytest.approx(metrics.summaries[name].mean.value)
    assert run.model == "mock"
    if form != "sglang":  # its form has no place for either
        assert run.failed == 0
        assert run.started_unix_s == pytest.approx(told[0].started_unix_s, abs=2.0)


def test_our_own_document_reads_back_with_its_verdict(told: list[Told], tmp_path: Path) -> None:
    path = tmp_path / "ours.json"
    write_outputs(told, path)
    first, second = read_runs(path)
    assert first.tool == "infra-agent"
    assert first.refused is None
    assert second.load == "Poisson 40/s"
    assert first.figures["ttft_s"] == told[0].result.metrics.summaries["ttft_s"].mean.value
    assert "Tell me about" not in path.read_text(), "prompts and answers are not written"
    assert len(json.loads(path.read_text())["windows"][1]["records"]) == 60


def test_several_windows_fit_only_forms_that_hold_several(told: list[Told], tmp_path: Path) -> None:
    write_outputs(told, exports=[f"guidellm={tmp_path / 'g.json'}", f"sglang={tmp_path / 's.jsonl'}"])
    assert len(read_runs(tmp_path / "g.json")) == len(read_runs(tmp_path / "s.jsonl")) == 2
    with pytest.raises(ValueError, match="holds one run"):
        write_outputs(told, exports=[f"vllm={tmp_path / 'v.json'}"])


def test_an_invalid_window_is_exported_to_nobody(mock: MockProcess, tmp_path: Path) -> None:
    mock.play(Script(model="other"))
    session = Session(PATIENT)
    session.run([ask(mock.url, arrivals=Closed(2), requests=4)], lambda _: lambda _: None)
    write_outputs(session.told, tmp_path / "ours.json", tmp_path / "page.html")
    (run,) = read_runs(tmp_path / "ours.json")
    assert run.refused is not None
    assert "model: other" in run.refused
    assert "invalid" in (tmp_path / "page.html").read_text()
    with pytest.raises(ValueError, match="1 of 1 windows are invalid"):
        write_outputs(session.told, exports=[f"vllm={tmp_path / 'v.json'}"])


@pytest.mark.parametrize("text", ["vllm", "vllm=", "csv=x", "=x"])
def test_exports_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="FORMAT=PATH"):
        parse_export(text)


def test_a_guidellm_report_has_a_benchmark_for_each_window(told: list[Told]) -> None:
    document = write_guidellm(told)
    kinds = [benchmark["config"]["strategy"]["type_"] for benchmark in document["benchmarks"]]
    assert kinds == ["concurrent", "poisson"]
