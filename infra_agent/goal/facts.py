"""What a goal says beside its objective and constraints: answers, scope, load, budget, ceilings.

Covered: ranges and whole numbers, two values for one thing.
Not covered: words that no rule placed (`build`).
"""

from __future__ import annotations

from infra_agent.goal.draft import Draft
from infra_agent.goal.model import Load, SpendingCaps
from infra_agent.goal.phrases import Atom
from infra_agent.goal.statements import Sentence

MAX_CONCURRENCY = 4096


def read_facts(draft: Draft, sentence: Sentence) -> None:
    """Answers, scope, load, budget and ceilings; what cannot be becomes a problem of the draft."""
    draft.answers = bool(sentence.answers)
    scopes = {atom.name for atom in sentence.scopes}
    if len(scopes) > 1:
        draft.problems.append("contradiction: code changes are both allowed and excluded")
    draft.code = scopes == {"code"}
    _load(draft, sentence.loads)
    _budget(draft, sentence.budgets)
    _ceilings(draft, sentence.ceilings)


def _load(draft: Draft, loads: list[Atom]) -> None:
    if not loads:
        draft.notes.append("no load named: the stack's default load is used")
        return
    load = loads[0]
    if len(loads) > 1:
        draft.problems.append(f"contradiction: two loads ('{load.text}' and '{loads[1].text}')")
    elif load.name == "poisson":
        if load.number <= 0:
            draft.problems.append(f"load out of range: '{load.text}' must be above zero")
            return
        draft.load = Load(arrivals="poisson", rate_per_s=float(load.number))
    elif load.number.denominator != 1 or not 1 <= load.number <= MAX_CONCURRENCY:
        draft.problems.append(
            f"load out of range: '{load.text}'; concurrency is a whole number, 1 to {MAX_CONCURRENCY}"
        )
    else:
        draft.load = Load(concurrency=int(load.number))


def _budget(draft: Draft, budgets: list[Atom]) -> None:
    if not budgets:
        draft.notes.append("no budget named: the stack's default budget is used")
        return
    budget = budgets[0]
    if len(budgets) > 1:
        draft.problems.append(f"contradiction: two budgets ('{budget.text}' and '{budgets[1].text}')")
    elif budget.number <= 0:
        draft.problems.append(f"budget out of range: '{budget.text}' must be above zero")
    elif budget.name in ("ms", "μs"):
        draft.problems.append(
            f"budget unclear: '{budget.text}' is too short for a budget; name its metric if it is a target"
        )
    else:
        draft.budget_s = float(budget.number)


def _ceilings(draft: Draft, ceilings: list[Atom]) -> None:
    caps: dict[str, float] = {}
    for atom in ceilings:
        if atom.name in caps:
            draft.problems.append(f"contradiction: two ceilings for {atom.name} (the second is '{atom.text}')")
        elif atom.number <= 0:
            draft.problems.append(f"budget out of range: '{atom.text}' must be above zero")
        elif atom.name in ("tokens", "launches") and atom.number.denominator != 1:
            draft.problems.append(f"budget out of range: '{atom.text}'; {atom.name} are whole numbers")
        else:
            caps[atom.name] = float(atom.number)
    draft.budget = SpendingCaps.model_validate(caps)
