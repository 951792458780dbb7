"""The `refine` optimizer, with a frame of its own: what it proposes, from what, and how it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet._formats.canonical import content_hash
from ratchet.optimizer import OptimizerState, Part, TrialFacts, TrialHistory
from tests.support.fake_frame import BASELINE, FakeFrame
from tests.support.spec_building import request
from workflows.model.run.contract import Proposed
from workflows.model.spec.factors import Configuration
from workflows.optimizers import build_optimizer
from workflows.optimizers.frame import ProposalFailed, Shown
from workflows.optimizers.refine import Refine
from workflows.optimizers.text_rewrites import recent_iterations


def _refine(frame: FakeFrame) -> tuple[Refine, OptimizerState]:
    optimizer = build_optimizer(frame.made.optimizer, frame)
    assert isinstance(optimizer, Refine)
    return optimizer, optimizer.initialize(frame.context)


def _trial(candidate: str, score: float | None = 0.5, configuration: Configuration | None = None) -> TrialFacts:
    return TrialFacts(
        candidate_id=candidate,
        config_hash=content_hash(configuration or {"it": candidate}),
        round=1,
        score=score,
        status="failed" if score is None else "completed",
        success_rate=score,
    )


MODEL = {"kind": "model", "model": "big"}
PYTHON = {"kind": "python", "ref": "a:p"}


async def test_a_model_is_asked_for_the_text_factors_of_the_best_candidate() -> None:
    frame = FakeFrame(optimizer={"name": "refine", "proposer": MODEL})
    frame.answers = [Proposed(values={"prompt": "Reply {{input.q}}"}, rationale="clearer")]
    optimizer, state = _refine(frame)
    [made] = await optimizer.propose(state, TrialHistory(trials=(_trial("r0"),)), 4)
    assert made.configuration == {**BASELINE, "prompt": "Reply {{input.q}}"}
    assert (made.parent_candidate_ids, made.rationale, made.resample) == (("r0",), "clearer", False)
    assert made.extra == {"origin": "mutation", "operators": ["model"], "components": ["prompt"]}
    assert frame.asked == [
        {
            "kind": "model",
            "parent": "r0",
            "factors": ("prompt",),
            "index": 0,
            "feedback": "Iteration 0: score=0.500, successRate=50.00%\n",
            "shown": (),
        }
    ]


async def test_several_factors_can_be_treated_at_once() -> None:
    frame = FakeFrame(optimizer={"name": "refine", "proposer": PYTHON})
    frame.answers = [Proposed(values={"prompt": "{{input.q}}!", "temperature": 0.1})]
    optimizer, state = _refine(frame)
    [made] = await optimizer.propose(state, TrialHistory(), 4)
    assert frame.asked[0]["factors"] == ("prompt", "temperature")
    assert made.configuration == {**BASELINE, "prompt": "{{input.q}}!", "temperature": 0.1}


async def test_whatever_is_not_treated_stays_constant() -> None:
    frame = FakeFrame(optimizer={"name": "refine", "proposer": PYTHON, "factors": ["prompt"]})
    frame.answers = [Proposed(values={"prompt": "{{input.q}}?", "temperature": 0.9, "model": "large"})]
    optimizer, state = _refine(frame)
    [made] = await optimizer.propose(state, TrialHistory(), 4)
    assert made.configuration == {**BASELINE, "prompt": "{{input.q}}?"}
    assert made.extra["components"] == ["prompt"]
    assert made.extra["ignored"] == ["model", "temperature"]


async def test_a_name_that_is_no_factor_reaches_the_validator() -> None:
    frame = FakeFrame(optimizer={"name": "refine", "proposer": PYTHON})
    frame.answers = [Proposed(values={"promt": "x"})]
    optimizer, state = _refine(frame)
    [made] = await optimizer.propose(state, TrialHistory(), 4)
    assert made.configuration["promt"] == "x"


async def test_the_no_op_proposes_the_value_unchanged_with_fresh_answers() -> None:
    frame = FakeFrame(optimizer={"proposer": {"kind": "noop"}, "candidates_per_round": 2})
    optimizer, state = _refine(frame)
    made = await optimizer.propose(state, TrialHistory(), 4)
    assert [proposal.configuration for proposal in made] == [BASELINE, BASELINE]
    assert all(proposal.resample and proposal.parent_candidate_ids == ("r0",) for proposal in made)


@pytest.mark.parametrize(("room", "expected"), [(1, 1), (2, 2), (9, 3)])
async def test_a_round_has_at_most_as_many_candidates_as_spec_and_frame_allow(room: int, expected: int) -> None:
    frame = FakeFrame(optimizer={"proposer": {"kind": "step"}, "candidates_per_round": 3})
    optimizer, state = _refine(frame)
    assert len(await optimizer.propose(state, TrialHistory(), room)) == expected


async def test_steps_change_one_factor_and_repeat_nothing_tried_before() -> None:
    frame = FakeFrame(optimizer={"proposer": {"kind": "step"}, "candidates_per_round": 5})
    optimizer, state = _refine(frame)
    history = TrialHistory(trials=(_trial("r0", 0.5, BASELINE),))
    made = await optimizer.propose(state, history, 5)
    hashes = {content_hash(proposal.configuration) for proposal in made}
    assert len(hashes) == 5
    assert content_hash(BASELINE) not in hashes
    for proposal in made:
        assert {name for name in BASELINE if proposal.configuration[name] != BASELINE[name]} == {"temperature"}
        assert proposal.extra["components"] == ["temperature"]


async def test_the_same_seed_and_state_give_the_same_proposals_and_others_do_not() -> None:
    async def proposed(seed: int, generation: int) -> list[Configuration]:
        frame = FakeFrame(seed=seed, optimizer={"proposer": {"kind": "step"}, "candidates_per_round": 4})
        optimizer, state = _refine(frame)
        made = await optimizer.propose(state.model_copy(update={"generation": generation}), TrialHistory(), 4)
        return [proposal.configuration for proposal in made]

    assert await proposed(7, 0) == await proposed(7, 0)
    assert await proposed(7, 0) != await proposed(8, 0)
    assert await proposed(7, 0) != await proposed(7, 1)


async def test_a_failed_proposer_raises_only_when_the_paid_ones_have_answered() -> None:
    frame = FakeFrame(optimizer={"name": "refine", "proposer": MODEL, "candidates_per_round": 3})
    frame.answers = [ProposalFailed("no"), Proposed(values={}), Proposed(values={})]
    optimizer, state = _refine(frame)
    with pytest.raises(ProposalFailed, match="no"):
        await optimizer.propose(state, TrialHistory(), 3)
    assert [asked["index"] for asked in frame.asked] == [0, 1, 2]


@pytest.mark.parametrize(
    ("scores", "kept", "best", "last"),
    [
        ([0.6, 0.9, 0.7], "c1", "c1", "c2"),
        ([0.9, 0.6, 0.7], "c1", "c1", "c2"),
        ([0.9, 0.9, 0.9], None, "r0", "c2"),
        ([0.8, 0.8, None], "c0", "c0", "c1"),
        ([None, None, None], None, "r0", "r0"),
    ],
)
def test_the_best_is_what_the_round_kept_whatever_scored_higher(
    scores: list[float | None], kept: str | None, best: str, last: str
) -> None:
    """A trial that was stopped early, broke a must-pass sample or lacks the verdict asked for is not kept."""
    optimizer, state = _refine(FakeFrame(optimizer={"name": "refine", "proposer": MODEL}))
    trials = [_trial(f"c{index}", score) for index, score in enumerate(scores)]
    marked = [trial.model_copy(update={"kept": trial.candidate_id == kept}) for trial in trials]
    state = optimizer.observe(state, marked)
    assert (state.best_candidate_id, state.algorithm_data["last_candidate_id"], state.generation) == (best, last, 1)


@pytest.mark.parametrize(("parent", "expected"), [("best", "c0"), ("last", "c1")])
async def test_it_goes_on_from_the_best_or_from_the_last(parent: str, expected: str) -> None:
    frame = FakeFrame(optimizer={"proposer": {"kind": "noop"}, "parent": parent})
    frame.configurations |= {"c0": BASELINE, "c1": BASELINE}
    optimizer, state = _refine(frame)
    state = optimizer.observe(state, [_trial("c0", 0.9).model_copy(update={"kept": True}), _trial("c1", 0.6)])
    [made] = await optimizer.propose(OptimizerState.model_validate_json(state.model_dump_json()), TrialHistory(), 1)
    assert made.parent_candidate_ids == (expected,)


def test_it_leaves_stopping_to_the_frame() -> None:
    optimizer, state = _refine(FakeFrame(optimizer={"name": "refine", "proposer": MODEL}))
    assert not optimizer.should_stop(state, TrialHistory()).should_stop


def test_feedback_is_the_last_three_iterations_in_the_documents_words() -> None:
    trials = tuple(_trial(f"c{index}", score) for index, score in enumerate([0.1, 0.25, None, 0.8]))
    assert recent_iterations(TrialHistory(trials=trials)) == (
        "Iteration 1: score=0.250, successRate=25.00%\nIteration 2: failed\nIteration 3: score=0.800, successRate=80.00%\n"
    )
    assert recent_iterations(TrialHistory()) == ""


@pytest.mark.parametrize(
    ("proposer", "words"),
    [
        (MODEL, "LLM-based string mutator (max length: 2000)"),
        ({"kind": "noop"}, "No-op (value unchanged)"),
        ({"kind": "step"}, "Seeded step over structured factors"),
        (PYTHON, "Python: a:p"),
    ],
)
def test_proposers_are_described_in_the_documents_words(proposer: dict[str, Any], words: str) -> None:
    assert request(optimizer={"name": "refine", "proposer": proposer}).optimizer.describe(2000) == words


async def test_examples_from_training_samples_are_measured_once_a_parent_and_shown_then() -> None:
    frame = FakeFrame(optimizer={"name": "refine", "proposer": PYTHON, "examples_from": "train"})
    frame.answers = [Proposed(values={"prompt": "{{input.q}}!"})]
    optimizer, state = _refine(frame)
    [learning] = await optimizer.propose(state, TrialHistory(), 4)
    assert (learning.configuration, learning.part, learning.parent_candidate_ids) == (BASELINE, Part(split="train"), ("r0",))
    assert frame.asked == []
    state = optimizer.observe(state, [_trial("r0").model_copy(update={"part": learning.part, "split": "train"})])
    assert (state.generation, state.best_candidate_id) == (0, "r0")
    [made] = await optimizer.propose(state, TrialHistory(), 4)
    assert made.part is None
    assert frame.asked[0]["shown"] == (Shown("r0", split="train", limit=None),)
    frame.configurations["r1"] = made.configuration
    state = optimizer.observe(state, [_trial("r1", 0.9).model_copy(update={"kept": True})])
    [learning] = await optimizer.propose(state, TrialHistory(), 4)
    assert (learning.part, learning.parent_candidate_ids) == (Part(split="train"), ("r1",))
    same = optimizer.observe(state, [_trial("r2", 0.1)])
    assert (same.algorithm_data["learned_from"], same.best_candidate_id) == ("r0", "r1")
