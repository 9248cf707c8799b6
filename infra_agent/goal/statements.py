"""Atoms to statements: which verb, metric and target belong together, and which statement is a constraint.

Covered: objective and constraints in any order; a constraint word governs the bounds that follow it.
Not covered: checking that a statement makes sense (`build`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from infra_agent.goal.phrases import Atom
from infra_agent.goal.rules import SET_VERBS

TIME_METRICS = frozenset({"ttft_s", "tpot_s", "itl_s", "e2e_s", "startup_s"})
TOKEN_RATES = frozenset({"output_tok_per_s", "total_tok_per_s", "plain"})
REQUEST_RATES = frozenset({"requests_per_s", "goodput_per_s"})
_IGNORED = frozenset("tfsk@Tg=")


@dataclass(slots=True)
class Statement:
    """One clause. `marker`: '' (objective or bare bound), 'K' (constraint) or 'Z' (SLO)."""

    marker: str = ""
    marker_text: str = ""
    inherited: bool = False
    verbs: list[Atom] = field(default_factory=list)
    neutral: bool = False
    metric: Atom | None = None
    stats: list[str] = field(default_factory=list)
    target: Atom | None = None
    maybe_within: Atom | None = None
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The words of the statement."""
        return " ".join(self.texts)

    @property
    def sets(self) -> bool:
        """Whether a verb such as "double" is its own target."""
        return any(verb.name in SET_VERBS for verb in self.verbs)

    @property
    def complete(self) -> bool:
        """Whether a metric and a target are there."""
        has_target = self.target is not None or self.sets
        return has_target and (self.metric is not None or implied_metric(self.target) != "")

    @property
    def empty(self) -> bool:
        """Whether nothing but a constraint word or a neutral verb was said."""
        return not (self.verbs or self.metric or self.stats or self.target)

    @property
    def relative(self) -> bool:
        """Whether it asks for a change rather than naming a bound only."""
        return bool(self.verbs) or (self.target is not None and self.target.kind == "6")


@dataclass(slots=True)
class Sentence:
    """All that was read: statements, facts, and atoms that no rule could place."""

    statements: list[Statement] = field(default_factory=list)
    loads: list[Atom] = field(default_factory=list)
    budgets: list[Atom] = field(default_factory=list)
    ceilings: list[Atom] = field(default_factory=list)
    answers: list[Atom] = field(default_factory=list)
    scopes: list[Atom] = field(default_factory=list)
    left: list[Atom] = field(default_factory=list)


def implied_metric(target: Atom | None) -> str:
    """The metric that a bound's unit names by itself."""
    if target is None or target.kind != "7":
        return ""
    if target.name == "G":
        return "memory_bytes"
    return target.name if target.name in TOKEN_RATES | REQUEST_RATES else ""


def fits(metric: Atom, target: Atom) -> bool:
    """Whether the target's unit can belong to the metric."""
    if target.kind == "6":
        return True
    if target.name in ("N", "rel"):
        return True
    if target.name == "per_s":
        return False
    if target.name == "Q":
        return metric.name in TIME_METRICS or metric.kind == "L"
    if target.name == "G":
        return metric.name == "memory_bytes"
    if target.name in REQUEST_RATES:
        return metric.name in REQUEST_RATES or (metric.name == "plain" and not metric.spelled)
    if target.name == "plain":
        return metric.name in TOKEN_RATES
    return metric.name in (target.name, "plain")


class _Reader:
    def __init__(self) -> None:
        self.sentence = Sentence()
        self.current = Statement()
        self.previous = Atom(kind="^")
        self.following = ""
        self.outer: Statement | None = None

    def close(self, marker: str = "", text: str = "", *, inherited: bool = False) -> None:
        if not self.current.empty or self.current.marker:
            self.sentence.statements.append(self.current)
        self.current = Statement(marker=marker, marker_text=text, inherited=inherited)

    def next_clause(self) -> None:
        """A new clause after a separator or a full slot; a constraint word reaches on until a verb comes."""
        self.close(self.current.marker, self.current.marker_text, inherited=bool(self.current.marker))

    def read(self, atom: Atom) -> None:
        handler = {
            "K": self.marker,
            "Z": self.marker,
            "V": self.verb,
            "D": self.particle,
            "E": self.neutral,
            "M": self.metric,
            "L": self.metric,
            "S": self.stat,
            "6": self.target,
            "7": self.target,
            "5": self.within,
            ",": self.separator,
        }.get(atom.kind)
        if handler is not None:
            handler(atom)
        elif not self.fact(atom) and atom.kind not in _IGNORED and (atom.kind, atom.name) != ("I", "in"):
            self.sentence.left.append(atom)
        self.previous = atom

    def fact(self, atom: Atom) -> bool:
        place = {
            "1": self.sentence.loads,
            "2": self.sentence.budgets,
            "3": self.sentence.answers,
            "4": self.sentence.scopes,
            "9": self.sentence.ceilings,
        }.get(atom.kind)
        if place is None:
            return False
        place.append(atom)
        if self.current.empty and self.current.marker_text:
            self.current.marker_text = ""
        return True

    def marker(self, atom: Atom) -> None:
        nested = self.current.empty and self.current.marker == "Z" and not self.current.inherited
        self.close("Z" if nested else atom.kind, atom.text)

    def verb(self, atom: Atom) -> None:
        has_both = bool(self.current.verbs) and self.current.metric is not None
        new_subject = self.current.metric is not None and self.following[:1] == "M" and not self.current.target
        constrained = bool(self.current.marker) and self.current.metric is not None and self.previous.kind == ","
        if self.current.complete or has_both or new_subject or constrained:
            self.close()
        elif self.current.inherited:
            self.current.marker, self.current.marker_text, self.current.inherited = "", "", False
        self.current.verbs.append(atom)
        self.current.texts.append(atom.text)

    def particle(self, atom: Atom) -> None:
        self.current.verbs.append(replace(atom, kind="V"))
        self.current.texts.append(atom.text)

    def neutral(self, atom: Atom) -> None:
        if self.current.complete:
            self.close()
        elif self.current.inherited and self.current.metric is None:
            self.current.marker, self.current.marker_text, self.current.inherited = "", "", False
        self.current.neutral = True
        self.current.texts.append(atom.text)

    def metric(self, atom: Atom) -> None:
        held = self.current.metric
        together = self.previous.kind != "," or self.previous.text == "("
        if held is not None and self.current.target is None and together and _same_metric(held, atom):
            self.current.metric = replace(atom if held.name == "plain" else held, spelled=held.spelled or atom.spelled)
            self.add_stat(atom.stat)
            return
        misfit = self.current.target is not None and not fits(atom, self.current.target)
        apart = self.previous.kind == "," and implied_metric(self.current.target) != ""
        if held is not None or misfit or apart:
            self.next_clause()
        self.current.metric = atom
        self.current.texts.append(atom.text)
        self.add_stat(atom.stat)

    def add_stat(self, stat: str) -> None:
        if stat and stat not in self.current.stats:
            self.current.stats.append(stat)

    def stat(self, atom: Atom) -> None:
        self.current.texts.append(atom.text)
        self.add_stat(atom.name)

    def target(self, atom: Atom) -> None:
        held = self.current.metric
        misfit = held is not None and not fits(held, atom) and self.previous.kind != "M"
        if self.current.target is not None or self.current.complete or misfit:
            self.next_clause()
        if atom.kind == "6" and self.current.inherited:
            self.current.marker, self.current.marker_text, self.current.inherited = "", "", False
        self.current.target = atom
        self.current.texts.append(atom.text)
        self.add_stat(atom.stat)

    def within(self, atom: Atom) -> None:
        current = self.current
        time_like = current.metric is not None and current.metric.name in TIME_METRICS
        adjacent = self.previous.kind in "MSD" and time_like and current.target is None and not current.sets
        wanted = atom.prep == "within" or not current.verbs
        if adjacent and wanted and current.maybe_within is None:
            current.maybe_within = atom
        else:
            self.sentence.budgets.append(atom)

    def separator(self, atom: Atom) -> None:
        """Parentheses with a bound inside are a clause of their own; others separate like a comma."""
        clause = "M" in self.following and "7" in self.following
        if atom.text == "(" and self.outer is None and clause and not self.current.complete:
            self.outer, self.current = self.current, Statement()
        elif atom.text == ")" and self.outer is not None:
            self.close()
            self.current, self.outer = self.outer, None
        elif self.current.complete:
            self.next_clause()
        elif self.current.empty and self.current.marker and not self.current.marker_text:
            self.current.inherited = True


def _same_metric(held: Atom, other: Atom) -> bool:
    """Equal, or plain "throughput" made precise: "throughput (requests per second)"."""
    vague = held.name == "plain" and not held.spelled and other.name in TOKEN_RATES | {"requests_per_s"}
    again = other.name == "plain" and held.name in TOKEN_RATES
    return held.name == other.name or vague or again


def read_statements(atoms: list[Atom]) -> Sentence:
    """Group the atoms into statements and facts."""
    reader = _Reader()
    letters = "".join(")" if atom.text == ")" else atom.kind for atom in atoms)
    for index, atom in enumerate(atoms):
        reader.following = letters[index + 1 :].partition(")")[0] if atom.text == "(" else letters[index + 1 :]
        reader.read(atom)
    if reader.outer is not None:
        reader.close()
        reader.current = reader.outer
    reader.close()
    for statement in reader.sentence.statements:
        _settle_within(statement, reader.sentence)
    reader.sentence.statements = [s for s in reader.sentence.statements if not _idle(s)]
    return reader.sentence


def _settle_within(statement: Statement, sentence: Sentence) -> None:
    atom = statement.maybe_within
    if atom is None:
        return
    if statement.target is None and atom.name in ("s", "ms", "μs"):
        statement.target = replace(atom, kind="7", cmp="at_most", name="Q")
        statement.texts.append(atom.text)
    else:
        sentence.budgets.append(atom)


def _idle(statement: Statement) -> bool:
    """A connecting "with", or a "keep" that governed a fact such as "the answers the same"."""
    return statement.empty and (not statement.marker_text or statement.marker_text in CONNECTORS or statement.inherited)


CONNECTORS = frozenset({"with", "while", "whilst", "but", "where", "using", "so that", "such that", "at", "given"})
