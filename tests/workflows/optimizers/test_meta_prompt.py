"""`meta_prompt`: written from the best so far and the newest failures, several candidates a round."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet._text.placeholders import placeholders
from ratchet.optimizer import OptimizerState, TrialFacts, TrialHistory
from tests.support.fake_frame import BASELINE, FakeFrame
from tests.support.spec_building import request
from workflows.model.run.contract import Proposed
from workflows.optimizers import build_optimizer
from workflows.optimizers.frame import Brief, BudgetRefused, ProposalFailed, Shown
from workflows.optimizers.meta_prompt import TEMPLATE, MetaPrompt
from workflows.rules.spec.check import PROPOSAL_PLACEHOLDERS, check_request

MODEL = {"kind": "model", "model": "big"}
HISTORY = TrialHistory(trials=(TrialFacts(candidate_id="r0", config_hash="h", round=0, status="completed", score=0.5),))


def _started(direction: str = "maximize", **options: Any) -> tuple[MetaPrompt, FakeFrame, OptimizerState]:
    frame = FakeFrame(direction, optimizer={"name": "meta_prompt", "proposer": MODEL, **options})
    optimizer = build_optimizer(frame.made.optimizer, frame)
    assert isinstance(optimizer, MetaPrompt)
    return optimizer, frame, optimizer.initialize(frame.context)


def _trial(name: str, score: float | None, *, kept: bool = False, stopped_early: str | None = None) -> TrialFacts:
    status: Any = "failed" if score is None else "completed"
    return TrialFacts(
        candidate_id=name,
        config_hash=f"hash of {name}",
        round=1,
        status=status,
        score=score,
        kept=kept,
        stopped_early=stopped_early,
    )


def _hall(state: OptimizerState) -> Any:
    return state.algorithm_data["hall_of_fame"]


async def test_a_round_writes_several_candidates_from_the_best_so_far() -> None:
    optimizer, frame, state = _started(hall_of_fame=2)
    state = optimizer.observe(state, [_trial("a", 0.4), _trial("b", 0.7, kept=True)])
    frame.configurations |= {"a": {**BASELINE, "prompt": "A {{input.q}}"}, "b": {**BASELINE, "prompt": "B {{input.q}}"}}
    frame.answers = [Proposed(values={"prompt": f"New {number} {{{{input.q}}}}"}, rationale="why") for number in range(4)]
    proposals = await optimizer.propose(state, HISTORY, 4)
    assert [proposal.configuration["prompt"] for proposal in proposals] == [f"New {n} {{{{input.q}}}}" for n in range(4)]
    assert [proposals[place].parent_candidate_ids for place in (0, 2)] == [("b",), ("b",)]
    assert {proposals[place].parent_candidate_ids[0] for place in (1, 3)} <= {"b", "r0"}
    assert proposals[0].extra == {
        "origin": "rewrite",
        "operators": ["meta_prompt", "model"],
        "components": ["prompt"],
        "hall_of_fame_ref": ["b", "r0"],
    }
    assert [asked["brief"] for asked in frame.asked] == [Brief(template=TEMPLATE, hall_of_fame=(("r0", 0.5), ("b", 0.7)))] * 4
    assert frame.asked[0]["factors"] == ("prompt",)
    assert frame.asked[0]["shown"] == (Shown("b", limit=3), Shown("a", limit=2))


async def test_the_first_round_reads_about_the_baseline_alone() -> None:
    optimizer, frame, state = _started(candidates_per_round=1)
    frame.answers = [Proposed(values={"prompt": "New {{input.q}}"})]
    await optimizer.propose(state, HISTORY, 4)
    [asked] = frame.asked
    assert asked["shown"] == (Shown("r0", limit=5),)


@pytest.mark.parametrize(("direction", "best"), [("maximize", ["b", "c"]), ("minimize", ["a", "r0"])])
def test_the_hall_of_fame_keeps_the_best_and_of_equals_the_earlier(direction: str, best: list[str]) -> None:
    optimizer, _, state = _started(direction, hall_of_fame=2)
    state = optimizer.observe(state, [_trial("a", 0.1), _trial("b", 0.9), _trial("c", 0.9), _trial("d", 0.9)])
    assert [name for name, _ in _hall(state)] == best
    survivors = [member[0] for member in _hall(state)]
    meta = {"method": "hall_of_fame", "survivors": survivors, "hall_of_fame": _hall(state)}
    assert state.notes == {"selection_meta": meta}


def test_what_was_not_measured_in_full_is_no_fame() -> None:
    optimizer, _, state = _started()
    state = optimizer.observe(state, [_trial("a", 0.9, stopped_early="futile"), _trial("b", None)])
    assert _hall(state) == [["r0", 0.5]]


def test_the_state_stays_small_and_survives_being_stored() -> None:
    optimizer, _, state = _started(hall_of_fame=3)
    for number in range(200):
        state = optimizer.observe(state, [_trial(f"c{number}", number / 200)])
    assert len(_hall(state)) == 3
    assert len(state.model_dump_json()) < 600
    assert OptimizerState.model_validate_json(state.model_dump_json()) == state


async def test_the_same_state_asks_the_same() -> None:
    optimizer, frame, state = _started()
    state = optimizer.observe(state, [_trial("b", 0.7, kept=True)])
    frame.configurations["b"] = BASELINE
    frame.answers = [Proposed(values={"prompt": f"{number} {{{{input.q}}}}"}) for number in range(4)]
    once = await optimizer.propose(state, HISTORY, 4)
    assert list(await optimizer.propose(state, HISTORY, 4)) == list(once)


async def test_what_fails_beside_others_is_left_out_and_only_if_all_fail_the_round_is_lost() -> None:
    optimizer, frame, state = _started(candidates_per_round=2)
    frame.answers = [ProposalFailed("the model is away"), Proposed(values={"prompt": "New {{input.q}}"})]
    assert len(await optimizer.propose(state, HISTORY, 2)) == 1
    frame.answers = [ProposalFailed("the model is away"), BudgetRefused("cost")]
    with pytest.raises(ProposalFailed, match="the model is away"):
        await optimizer.propose(state, HISTORY, 2)


async def test_only_the_named_texts_are_rewritten() -> None:
    optimizer, frame, state = _started(candidates_per_round=1, factors=["prompt"])
    frame.answers = [Proposed(values={"prompt": "New {{input.q}}", "temperature": 0.9})]
    [proposal] = await optimizer.propose(state, HISTORY, 1)
    assert proposal.configuration == {**BASELINE, "prompt": "New {{input.q}}"}
    assert proposal.extra["ignored"] == ["temperature"]


def test_its_request_has_placeholders_that_every_template_may_have() -> None:
    assert set(placeholders(TEMPLATE)) <= set(PROPOSAL_PLACEHOLDERS)
    assert {"hall_of_fame", "texts", "feedback", "form"} <= set(placeholders(TEMPLATE))


def test_it_is_described_and_checked_like_every_optimizer_that_rewrites() -> None:
    made = request(optimizer={"name": "meta_prompt", "proposer": MODEL, "hall_of_fame": 7})
    assert made.optimizer.describe(200) == "LLM-based rewriting from the best 7 (max length: 200)"
    assert check_request(made) == []
    number = {"temperature": {"value": 0.5, "change": "structured", "type": "number", "min": 0, "max": 1}, "prompt": "x"}
    problems = check_request(request(configuration=number, optimizer={"name": "meta_prompt", "proposer": MODEL}))
    assert any(
        told.startswith("optimizer.proposer: kind model rewrites text, but no treated factor is text") for told in problems
    )
