"""Reads a target repository's own words: its template, and what it says about pull requests made with AI.

The files are read from the commit that the branch stands on, as text; nothing in them is ever followed as an
instruction. A sentence that speaks of AI and of refusal closes the door for the program (fail closed): the sentence is
cited, and a person who has read it may say otherwise.

Covered: GitHub and GitLab template places; contribution guides, agent files and AI policies.
Not covered: rules that stand on a web site only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

TEMPLATES = tuple(
    f"{folder}{name}"
    for name in ("pull_request_template.md", "PULL_REQUEST_TEMPLATE.md", ".gitlab/merge_request_templates/Default.md")
    for folder in ((".github/", "docs/", "") if "gitlab" not in name else ("",))
)
POLICIES = (
    "AI_POLICY.md", "AGENTS.md", "CONTRIBUTING.md", ".github/CONTRIBUTING.md", "docs/CONTRIBUTING.md", "CLAUDE.md",
    ".github/copilot-instructions.md",
)  # fmt: skip
_LONGEST_BYTES = 1 << 18
_LONGEST_QUOTE = 300
_AI = re.compile(
    r"\b(AI|A\.I\.|LLMs?|artificial intelligence|machine[- ]generated|generative|(?:code|coding)[- ]agents?|agentic"
    r"|ChatGPT|Copilot|Claude)\b|\bAI-",
)
_NO = re.compile(
    r"\b(not|never|no longer|no|don't|won't)\b.{0,60}\b(accept\w*|allow\w*|permit\w*|merge\w*|welcome|submit|open)\b"
    r"|\b(forbid\w*|forbidden|prohibit\w*|ban(?:s|ned)?|reject\w*|disallow\w*|closed without)\b",
    re.IGNORECASE,
)
_WORK = re.compile(
    r"\b(pull requests?|PRs?|merge requests?|MRs?|contributions?|patch(?:es)?|code|submissions?)\b", re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """A sentence that seems to turn away what an agent has made, with its place."""

    path: str
    line: int
    quote: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.quote}"


def template_in(read: Callable[[str], bytes | None]) -> tuple[str, str] | None:
    """Path and text of the repository's template; None without one. `read` gives a file of the base commit."""
    for path in TEMPLATES:
        content = read(path)
        if content is not None:
            return path, content[:_LONGEST_BYTES].decode("utf-8", "replace")
    return None


def forbidden_in(read: Callable[[str], bytes | None], template: str = "") -> Forbidden | None:
    """The first sentence that refuses pull requests made with AI; None where nothing speaks against them."""
    texts = [(path, content) for path in POLICIES if (content := read(path)) is not None]
    texts += [("the template", template.encode())] if template else []
    for path, content in texts:
        for line, sentence in _sentences(content[:_LONGEST_BYTES].decode("utf-8", "replace")):
            if _AI.search(sentence) and _NO.search(sentence) and _WORK.search(sentence):
                return Forbidden(path=path, line=line, quote=" ".join(sentence.split())[:_LONGEST_QUOTE])
    return None


def _sentences(text: str) -> Iterable[tuple[int, str]]:
    """Sentences with the line that each begins on; a list item or a blank line ends one as well."""
    plain = text.replace("*", " ").replace("_", " ").replace("`", " ")
    start = 0
    for match in re.finditer(r"[.!?](?=\s)|\n\s*(?=[-+#>|\d])|\n\s*\n|\Z", plain):
        sentence = plain[start : match.end()]
        if sentence.strip():
            lead = len(sentence) - len(sentence.lstrip())
            yield plain.count("\n", 0, start + lead) + 1, sentence.strip()
        start = match.end()
