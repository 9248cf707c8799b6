from __future__ import annotations

from dataclasses import replace

from agent.dossiers import MEASURED, candidate, hypothesis

from infra_agent.agent.actions import ConcludeAction, HypothesiseAction, MeasureAction, ProposeAction
from infra_agent.agent.brains.playbook import EVERYTHING_LOCAL, PlaybookBrain
from infra_agent.agent.dossier import CodeView, Dossier, ProbeView, ProposalView
from infra_agent.goal.declared import DeclaredMetric
from infra_agent.goal.model import Direction, Goal, Statistic, Target
from infra_agent.library.playbooks import Playbook

ERROR = DeclaredMetric(name="error", unit="1", direction="minimise", meaning="m")
PAGE = Playbook.model_validate(
    {
        "name": "page",
        "symptom": "s",
        "rank": 1,
        "declared": ["error"],
        "probes": ["look", "absent"],
        "when": [{"signal": "grows", "equals": True}],
        "transforms": [
            {"name": "fix", "cause": "c", "place": "p", "refuted_by": "r", "low": 2.0, "high": 4.0, "family": "sums"}
        ],
    }
)
BARE: Dossier = replace(
    MEASURED,
    goal=Goal(
        metric=ERROR,
        statistic=Statistic.VALUE,
        direction=Direction.MINIMISE,
        target=Target(kind="ratio", value=0.5),
    ),
    parameters=(),
    space={},
    signals={},
    figure_probe="experiment",
    probes=(ProbeView("look", "numeric", ()),),
    transforms=("fix",),
    code=CodeView(closed=""),
)
LOOKED = replace(BARE, probes=(ProbeView("look", "numeric", ("stock",)),), signals={"grows": True})
PROPOSAL = ProposalView(
    transform="fix", digest="abcdef012345", diff="--- a\n", claim="why", place="", refuted_by="", low=None, high=3.0
)
ASKED = replace(LOOKED, transformed=("fix",), proposals=(PROPOSAL,))
BRAIN = PlaybookBrain([PAGE])


def test_stock_is_measured_by_the_probe_of_its_stack() -> None:
    assert BRAIN.next(replace(BARE, measured=False)) == MeasureAction(probe="experiment", target="stock")


def test_it_looks_before_it_believes_a_symptom_and_leaves_out_a_probe_that_the_stack_lacks() -> None:
    assert BRAIN.next(BARE) == MeasureAction(probe="look", target="stock")


def test_a_symptom_that_was_not_seen_ends_the_page() -> None:
    action = BRAIN.next(replace(LOOKED, signals={"grows": False}))
    assert action == ConcludeAction(reason=EVERYTHING_LOCAL)


def test_a_symptom_that_was_seen_asks_the_transform_then_states_its_claim_then_proposes_its_diff() -> None:
    assert BRAIN.next(LOOKED) == MeasureAction(probe="transform:fix", target="stock")
    stated = BRAIN.next(ASKED)
    assert isinstance(stated, HypothesiseAction)
    assert (stated.cause, stated.place, stated.refuted_by, stated.family) == ("why", "p", "r", "sums")
    assert (stated.predictions[0].rung, stated.predictions[0].metric) == ("micro", "error")
    assert (stated.predictions[0].low, stated.predictions[0].high) == (2.0, 3.0)
    told = replace(ASKED, hypotheses=(hypothesis("H1", "sums", stated.source),))
    assert BRAIN.next(told) == ProposeAction(hypothesis="H1", diff=PROPOSAL.diff, base="best")


def test_a_proposal_that_was_tried_or_refused_is_not_made_again() -> None:
    stated = BRAIN.next(ASKED)
    assert isinstance(stated, HypothesiseAction)
    told = replace(ASKED, hypotheses=(hypothesis("H1", "sums", stated.source),))
    tried = replace(told, candidates=(candidate(changes={}, status="rejected", screen="reject"),))
    assert isinstance(BRAIN.next(tried), ConcludeAction)
    assert isinstance(BRAIN.next(replace(told, refused_hypotheses=("H1",))), ConcludeAction)


def test_where_code_cannot_be_changed_no_transform_is_asked() -> None:
    assert isinstance(BRAIN.next(replace(LOOKED, code=CodeView())), ConcludeAction)


def test_a_new_best_is_looked_at_again() -> None:
    accepted = replace(ASKED, best="C1", transformed=(), proposals=(), candidates=())
    assert BRAIN.next(accepted) == MeasureAction(probe="look", target="C1")


def test_a_page_of_a_declared_metric_stays_closed_for_a_server_and_the_other_way_round() -> None:
    assert isinstance(PlaybookBrain([PAGE]).next(replace(MEASURED, space={}, parameters=())), ConcludeAction)
    served = Playbook.model_validate(
        {
            **PAGE.model_dump(exclude={"declared", "transforms", "when", "probes"}),
            "metrics": ["output_tok_per_s"],
            "levers": [{"family": "*", "cause": "c", "place": "p", "refuted_by": "r", "low": 1.0, "high": 2.0}],
        }
    )
    assert not served.serves(ERROR)
