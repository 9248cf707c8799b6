"""What upstream projects ask of a performance pull request, and of one that an agent had a part in: as data.

Each set cites where the rule stands, in which revision it was read, and when. A repository's own files are read as well
(`policy`), because rules change; a known set is what holds when they say nothing of it.

Covered: vLLM, SGLang, llama.cpp, and the floor that holds everywhere.
Not covered: rules of continuous integration (formatters, sign-offs): the project's own checks say those.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Demand(StrEnum):
    """Something that a body must show. `lint` checks each."""

    PURPOSE = "says what the change is for"
    NOT_A_DUPLICATE = "says why it duplicates no other pull request"
    RISK = "names the class of risk and why"
    ACCURACY = "shows accuracy results"
    MODEL_EVALUATION = (
        "shows a model evaluation or an answer check that passed, as the change affects output or serving"
    )
    BEFORE_AFTER = "shows figures before and after"
    INTERVALS = "shows intervals, not points"
    LIMITS = "says where it does not help"
    COMMANDS = "shows the commands that were run"
    TESTS = "shows test commands with their results"
    ENVIRONMENT = "names the environment"
    LEDGER = "names the head of the evidence"
    DISCLOSURE = "says that AI assistance was used"
    HUMAN = "holds words of the person who submits it"
    TEMPLATE = "keeps every heading of the project's template"


FLOOR = (
    Demand.PURPOSE, Demand.RISK, Demand.ACCURACY, Demand.BEFORE_AFTER, Demand.INTERVALS, Demand.LIMITS, Demand.COMMANDS,
    Demand.ENVIRONMENT, Demand.LEDGER, Demand.DISCLOSURE, Demand.TEMPLATE,
)  # fmt: skip
"""What every body shows, wherever it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """Where a rule stands: file and revision of the project's repository, and the day on which it was read."""

    repository: str
    path: str
    revision: str
    read: str
    says: str

    def __str__(self) -> str:
        return f"{self.repository}/{self.path} at {self.revision[:12]}, read {self.read}: {self.says}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """The rules of one project. `forbids`: no pull request that an agent made may be opened there."""

    name: str
    repository: str
    demands: tuple[Demand, ...]
    citations: tuple[Citation, ...]
    forbids: Citation | None = None
    headings: tuple[str, ...] = ()
    """Headings of its template, for when the repository's own is not at hand."""

    @property
    def all_demands(self) -> tuple[Demand, ...]:
        """The floor and its own."""
        return tuple(dict.fromkeys((*FLOOR, *self.demands)))


_READ = "2026-12-01"
_VLLM = "vllm-project/vllm"
_SGLANG = "sgl-project/sglang"
_LLAMA = "ggml-org/llama.cpp"

GENERAL = RuleSet(name="general", repository="", demands=(), citations=())
VLLM = RuleSet(
    name="vllm",
    repository=_VLLM,
    demands=(Demand.NOT_A_DUPLICATE, Demand.TESTS, Demand.MODEL_EVALUATION, Demand.HUMAN),
    citations=(
        Citation(
            repository=_VLLM, path="AGENTS.md", revision="07d8be77b5d7034cf091ea87c604dd56c518ee04", read=_READ,
            says="no pull request by a code agent alone; a person reviews each line and can defend it; the text says"
            " why it is no duplicate, test commands with results, model evaluation, and that AI assistance was used",
        ),
    ),
    headings=("Purpose", "Test Plan", "Test Result"),
)  # fmt: skip
SGLANG = RuleSet(
    name="sglang",
    repository=_SGLANG,
    demands=(Demand.TESTS,),
    citations=(
        Citation(
            repository=_SGLANG, path=".github/pull_request_template.md",
            revision="0a218a4c84f857037af64d74845a973e852f9866", read=_READ,
            says="accuracy results for changes of model code, throughput and latency results for changes of speed,"
            " unit tests, a check list",
        ),
    ),
    headings=("Motivation", "Modifications", "Accuracy Tests", "Benchmarking and Profiling", "Checklist"),
)  # fmt: skip
_LLAMA_AI = Citation(
    repository=_LLAMA, path="CONTRIBUTING.md", revision="012aae3e359db6145b49c800edabad17bc962501", read=_READ,
    says="pull requests that are fully or predominantly AI-generated are not accepted, and descriptions of pull"
    " requests are not to be written by AI",
)  # fmt: skip
LLAMA_CPP = RuleSet(
    name="llama.cpp",
    repository=_LLAMA,
    demands=(Demand.TESTS, Demand.NOT_A_DUPLICATE, Demand.HUMAN),
    citations=(
        _LLAMA_AI,
        Citation(
            repository=_LLAMA, path="CONTRIBUTING.md", revision="012aae3e359db6145b49c800edabad17bc962501", read=_READ,
            says="perplexity and speed must not be affected negatively: llama-perplexity and llama-bench; one feature"
            " or fix for each pull request",
        ),
    ),
    forbids=_LLAMA_AI,
    headings=("Overview", "Requirements"),
)  # fmt: skip
KNOWN = (VLLM, SGLANG, LLAMA_CPP)
_FORMER_NAMES = {"ggerganov/llama.cpp": LLAMA_CPP}
_REPOSITORY = re.compile(r"[:/]([A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]+?)(?:\.git)?/?$")


def rules_by_name(name: str) -> RuleSet | None:
    """The set of this name; None for one that is not known."""
    return next((rules for rules in (GENERAL, *KNOWN) if rules.name == name.lower()), None)


def rules_for(address: str) -> RuleSet:
    """The set of a repository, by `owner/name` or the address of a remote; the general one where none is known."""
    match = _REPOSITORY.search(f"/{address.strip()}")
    name = match[1].lower() if match else ""
    former = _FORMER_NAMES.get(name)
    return former or next((rules for rules in KNOWN if rules.repository.lower() == name), GENERAL)
