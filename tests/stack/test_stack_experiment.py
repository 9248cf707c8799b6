from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra_agent.errors import ConfigError
from infra_agent.goal.parse import read_goal
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.engines.experiment import ExperimentEngine, measuring_files, of_run
from infra_agent.stack.files import dump_stack, load_stack, parse_stack
from infra_agent.stack.init import init_text
from infra_agent.stack.model import Stack

ROOT = Path(__file__).resolve().parents[2]
LABS = ROOT / "tests" / "labs"
TEXT = """
[stack]
engine = "experiment"
[launch]
command = ["{python}", "measure.py", "{result}"]
[metrics.error]
unit = "1"
direction = "minimise"
meaning = "how wrong it is"
"""


def test_a_file_comes_back_from_its_own_text() -> None:
    for name in ("naive_sum", "repeated_work"):
        stack = load_stack(LABS / name / "infra-agent.toml")
        assert parse_stack(dump_stack(stack)) == stack


def test_the_file_that_init_writes_loads() -> None:
    assert parse_stack(init_text("experiment")).metrics["error"].kind == "deterministic"
    with pytest.raises(ConfigError):
        init_text("experiment", url="http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('unit = "1"', 'unti = "1"', "metrics.error"),
        ('direction = "minimise"', 'direction = "down"', "metrics.error"),
        ("[metrics.error]", "[metrics.Error-1]", "metrics"),
        ('engine = "experiment"', 'engine = "experiment"\nurl = "http://127.0.0.1:1"', "run, not attached"),
        ('engine = "experiment"', 'engine = "command"', "belongs to experiments"),
        ('[launch]\ncommand = ["{python}", "measure.py", "{result}"]', "", "command is missing"),
        ("[metrics.error]", "[probes.x]\nrung = 'load'\n[metrics.error]", "probes.x"),
        (TEXT[TEXT.index("[metrics") :], "", "declares what it measures"),
    ],
)
def test_what_an_experiment_cannot_have_or_cannot_do_without_is_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_stack(TEXT.replace(old, new))
    assert said in f"{caught.value.message} {caught.value.where}"


def test_a_run_gets_its_seed_and_its_result_in_words_and_variables() -> None:
    stack = parse_stack(TEXT)
    plan = of_run(ExperimentEngine(stack).plan(stack, {}, 1), 7, Path("/scratch/result.json"))
    assert plan.argv[1:] == ("measure.py", "/scratch/result.json")
    assert plan.env == {"INFRA_AGENT_SEED": "7", "INFRA_AGENT_RESULT": "/scratch/result.json"}


def test_what_takes_the_figures_is_known_and_the_sources_are_no_part_of_it() -> None:
    names = {path.name for path in measuring_files(load_stack(LABS / "naive_sum" / "infra-agent.toml"))}
    assert names == {"measure.py", "look.py"}


def test_tables_that_a_stack_does_not_use_leave_its_digest_as_it_was(tmp_path: Path) -> None:
    plain = Stack(name="s", engine="openai", url="http://127.0.0.1:1")
    probed = plain.model_copy(update={"playbooks": "/pages"})
    assert stack_digest(plain, {}, tmp_path) != stack_digest(probed, {}, tmp_path)


def test_the_goals_of_the_document_are_read_as_it_says() -> None:
    metrics = {}
    for name in ("naive_sum", "repeated_work"):
        metrics |= load_stack(LABS / name / "infra-agent.toml").metrics
    table = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8").split("| goal | read as |\n|---|---|\n")[1]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    for text, told in rows:
        first, *limits = re.sub("`", "", told).split(", ")
        reading = read_goal(text, metrics)
        assert reading.notes[0].endswith(f"read as {first}")
        assert [limit.split()[0] for limit in limits] == [
            limit.metric.value for limit in reading.goal.constraints.limits
        ]
