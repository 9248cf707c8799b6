"""The rules of projects: bodies that meet them, bodies that lack one thing, templates, and doors that are closed."""

from __future__ import annotations

from pathlib import Path

import pytest
from publish.pull_request.code_runs import FASTER, SERVER, code_run, diff, package, repository

from infra_agent.publish.pull_request.lint import lint
from infra_agent.publish.pull_request.policy import forbidden_in, template_in
from infra_agent.publish.pull_request.rules import (
    GENERAL,
    KNOWN,
    LLAMA_CPP,
    SGLANG,
    VLLM,
    Demand,
    RuleSet,
    rules_by_name,
    rules_for,
)
from infra_agent.publish.pull_request.sections import Section
from infra_agent.publish.pull_request.template import arrange, parts_of

SGLANG_TEMPLATE = """\
<!-- Thank you! # not a heading -->

## Motivation

<!-- Describe the purpose and goals. -->

## Modifications

<!-- Detail the changes. -->

## Accuracy Tests

<!-- If this affects model outputs, provide accuracy test results. -->

## Benchmarking and Profiling

## Checklist

- [ ] Format your code.
- [ ] Add unit tests.
"""
LLAMA_TEMPLATE = """\
# Overview

<!-- Describe what this PR does and why. -->

# Requirements

- I have read and agree with the [contributing guidelines](https://example.org/CONTRIBUTING.md)
- AI usage disclosure: <!-- YES / NO -->
"""


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A complete body for each set of rules, its person having written something."""
    folder = tmp_path_factory.mktemp("bodies")
    upstream = repository(folder / "project", {"app/server.py": SERVER})
    run_dir = code_run(folder, diff(SERVER, FASTER), source=upstream / "app")
    (run_dir / "pull_request").mkdir()
    (run_dir / "pull_request/HUMAN.md").write_text("I read every line of it and ran it on my own machine.\n")
    words = "no open request touches this pause; I searched for the function's name"
    return {rules.name: package(run_dir, rules=rules, not_duplicate=words).body for rules in (GENERAL, *KNOWN)}


@pytest.mark.parametrize("rules", [GENERAL, *KNOWN], ids=lambda rules: rules.name)
def test_a_body_made_for_a_project_meets_all_its_rules(bodies: dict[str, str], rules: RuleSet) -> None:
    assert lint(bodies[rules.name], rules) == []


LACKS = {
    Demand.NOT_A_DUPLICATE: ("no open request touches this pause; I searched for the function's name", "n/a"),
    Demand.RISK: ("risk class", "kind"),
    Demand.INTERVALS: ("[", "("),
    Demand.DISCLOSURE: ("AI assistance was used: the change was found, measured and described by", "Thanks to"),
    Demand.HUMAN: ("I read every line of it and ran it on my own machine.", "<!-- nothing -->"),
    Demand.LEDGER: (":", ";"),
    Demand.TEMPLATE: ("## Test Plan", "## How"),
    Demand.MODEL_EVALUATION: ("**pass**", "**fail**"),
    Demand.COMMANDS: ("```", "~~~"),
    Demand.TESTS: ("gain_test.py", "it"),
    Demand.PURPOSE: ("## Purpose", "## Greetings"),
    Demand.BEFORE_AFTER: ("|", "/"),
    Demand.ACCURACY: ("ccuracy", "ttention"),
    Demand.LIMITS: ("does not help", "shines"),
}


@pytest.mark.parametrize("demand", LACKS, ids=str)
def test_what_a_vllm_body_lacks_is_found_and_cited(bodies: dict[str, str], demand: Demand) -> None:
    old, new = LACKS[demand]
    assert old in bodies["vllm"]
    body = bodies["vllm"].replace(old, new)
    body = body.replace("Answer check", "Look") if demand is Demand.ACCURACY else body
    found = {finding.demand: finding for finding in lint(body, VLLM)}
    assert demand in found
    if demand in VLLM.demands:
        assert "vllm-project/vllm/AGENTS.md at 07d8be77b5d7, read 2026-12-01" in found[demand].citation


def test_a_comment_meets_no_demand(bodies: dict[str, str]) -> None:
    missing = {finding.demand for finding in lint(f"<!--\n{bodies['vllm']}\n-->", VLLM)}
    assert missing == set(VLLM.all_demands)


def test_a_change_that_cannot_alter_answers_needs_no_model_evaluation(bodies: dict[str, str]) -> None:
    body = bodies["vllm"].replace("**pass**", "**fail**")
    assert lint(body, VLLM, output_affected=False) == []


def test_a_body_that_a_forge_would_cut_is_found(bodies: dict[str, str]) -> None:
    assert [str(each.demand) for each in lint(bodies["general"] + "x" * 60_000, GENERAL)] == ["length"]


@pytest.mark.parametrize(
    ("address", "rules"),
    [
        ("vllm-project/vllm", VLLM),
        ("git@github.com:vllm-project/vllm.git", VLLM),
        ("https://github.com/SGL-project/SGLang", SGLANG),
        ("ssh://git@github.com/ggml-org/llama.cpp.git/", LLAMA_CPP),
        ("ggerganov/llama.cpp", LLAMA_CPP),
        ("me/vllm", GENERAL),
        ("/srv/git/vllm-project/vllm2.git", GENERAL),
        ("", GENERAL),
    ],
)
def test_a_target_has_the_rules_of_its_project(address: str, rules: RuleSet) -> None:
    assert rules_for(address) is rules


def test_every_set_is_found_by_name_and_cites_what_it_says() -> None:
    for rules in KNOWN:
        assert rules_by_name(rules.name.upper()) is rules
        assert rules.citations
        assert all(len(each.revision) == 40 and each.read and each.says for each in rules.citations)
    assert rules_by_name("nobody") is None


def test_llama_cpp_takes_no_pull_request_of_an_agent(tmp_path: Path) -> None:
    upstream = repository(tmp_path / "llama.cpp", {"app/server.py": SERVER})
    made = package(code_run(tmp_path, diff(SERVER, FASTER), source=upstream / "app"), rules=LLAMA_CPP)
    assert "ggml-org/llama.cpp/CONTRIBUTING.md at 012aae3e359d" in made.refused
    assert (made.folder / "body.md").is_file()


def test_the_targets_own_template_is_filled_in_and_its_check_list_left_to_people(tmp_path: Path) -> None:
    files = {"app/server.py": SERVER, ".github/pull_request_template.md": SGLANG_TEMPLATE}
    upstream = repository(tmp_path / "sglang", files)
    body = package(code_run(tmp_path, diff(SERVER, FASTER), source=upstream / "app"), rules=SGLANG).body
    headings = [line for line in body.splitlines() if line.startswith("## ")]
    assert headings[:5] == [
        "## Motivation", "## Modifications", "## Accuracy Tests", "## Benchmarking and Profiling", "## Checklist",
    ]  # fmt: skip
    motivation = body.partition("## Motivation")[2].partition("## Modifications")[0]
    assert "each answer waits for nothing" in motivation
    assert "### End to end" in body.partition("## Benchmarking")[2].partition("## Checklist")[0]
    assert "- [ ] Format your code.\n- [ ] Add unit tests." in body
    assert lint(body, SGLANG, SGLANG_TEMPLATE) == []


def test_a_template_of_level_one_headings_keeps_its_requirements() -> None:
    sections = [Section(key="purpose", title="Purpose", lines=("p",)), Section(key="ai", title="AI", lines=("a",))]
    body = arrange(sections, LLAMA_TEMPLATE)
    assert body.startswith("# Overview\n\np\n")
    assert "I have read and agree with" in body
    assert body.index("a\n") > body.index("# Requirements")


def test_a_template_without_headings_is_an_instruction_and_gives_none() -> None:
    assert parts_of("FILL IN THE PR DESCRIPTION HERE\n") == []
    assert arrange([], "FILL IN\n", VLLM.headings).splitlines()[0] == "## Purpose"


def reader(files: dict[str, str]) -> object:
    return lambda path: files[path].encode() if path in files else None


@pytest.mark.parametrize(
    "text",
    [
        "This project does **not** accept pull requests that are fully or predominantly AI-generated.",
        "Pure code-agent PRs are **not allowed**. A human submitter must understand the change.",
        "We ban contributors who submit PRs written by LLMs.",
        "- AI-generated contributions will be\n  rejected without review.",
        "Please do not open pull requests made with Copilot.",
        "Using generative AI for code is forbidden here.",
    ],
)
def test_a_sentence_that_turns_agents_away_is_found_with_its_place(text: str) -> None:
    found = forbidden_in(reader({"CONTRIBUTING.md": f"# Guide\n\nBe kind.\n\n{text}\n"}))  # type: ignore[arg-type]
    assert found is not None
    assert str(found).startswith("CONTRIBUTING.md:5: ")


@pytest.mark.parametrize(
    "text",
    [
        "AI assistance is welcome. Say in the pull request that you used it.",
        "Do not open a pull request without tests.",
        "This library serves LLMs. Patches that break batching are not merged without a benchmark for us to read.",
        "Commits must not contain secrets.\n\nWe like code written with the help of AI.",
    ],
)
def test_a_sentence_about_something_else_closes_nothing(text: str) -> None:
    assert forbidden_in(reader({"CONTRIBUTING.md": text})) is None  # type: ignore[arg-type]


def test_an_unknown_project_that_forbids_it_gets_a_package_and_a_refusal_that_a_person_may_lift(tmp_path: Path) -> None:
    files = {"app/server.py": SERVER, "AI_POLICY.md": "# Policy\n\nWe do not accept AI-written pull requests.\n"}
    upstream = repository(tmp_path / "strict", files)
    run_dir = code_run(tmp_path, diff(SERVER, FASTER), source=upstream / "app")
    made = package(run_dir)
    assert made.refused.endswith("AI_POLICY.md:3: We do not accept AI-written pull requests.")
    lifted = package(run_dir, policy_allows="the maintainer asked me for it")
    assert lifted.refused == ""
    assert "the maintainer asked me for it" in (run_dir / "pull_request/package.json").read_text()


def test_templates_are_looked_for_where_the_forges_look() -> None:
    for path in (".github/PULL_REQUEST_TEMPLATE.md", "docs/pull_request_template.md", "PULL_REQUEST_TEMPLATE.md"):
        assert template_in(reader({path: "# A\n"})) == (path, "# A\n")  # type: ignore[arg-type]
    gitlab = ".gitlab/merge_request_templates/Default.md"
    assert template_in(reader({gitlab: "# A\n"})) == (gitlab, "# A\n")  # type: ignore[arg-type]
    assert template_in(reader({})) is None  # type: ignore[arg-type]
