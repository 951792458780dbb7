"""`evolve`: learn from the training samples, propose what their failures call for, go on from what is better for sure."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet._formats.canonical import content_hash
from ratchet.optimizer import CandidateProposal, OptimizerState, Part, StopReason, TrialFacts, TrialHistory
from tests.support.fake_frame import FakeFrame
from tests.support.mutation_examples import PARAMETERS, POLICY
from tests.support.spec_building import request
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split
from workflows.optimizers import build_optimizer
from workflows.optimizers.evolve import Evolve
from workflows.optimizers.frame import ProposalFailed
from workflows.rules.spec.check import check_request

EVOLVING: dict[str, Any] = {
    "configuration": POLICY,
    "target": {"kind": "python", "ref": "a:t"},
    "optimizer": {"name": "evolve", "classifier": "a:failures"},
    "dataset": {
        "items": [{"input": seed} for seed in range(60)],
        "splits": {"train": 0.25, "validation": 0.5, "test": 0.25},
    },
}
HISTORY = TrialHistory(
    trials=(TrialFacts(candidate_id="r0", config_hash=content_hash(PARAMETERS), round=0, status="completed"),)
)


def _evolving(**changes: Any) -> OptimizationRequest:
    return request(**{**EVOLVING, **changes})


def _started(**changes: Any) -> tuple[Evolve, FakeFrame, OptimizerState]:
    frame = FakeFrame(**{**EVOLVING, **changes})
    frame.configurations = {"r0": PARAMETERS}
    optimizer = build_optimizer(frame.made.optimizer, frame)
    assert isinstance(optimizer, Evolve)
    return optimizer, frame, optimizer.initialize(frame.context)


def _explored(candidate: str, status: Any = "completed") -> TrialFacts:
    return TrialFacts(candidate_id=candidate, config_hash="h", round=1, score=1.0, status=status, split="train")


def _tried(candidate: str, *, kept: bool = False) -> TrialFacts:
    return TrialFacts(
        candidate_id=candidate, config_hash=f"hash of {candidate}", round=1, score=2.0, status="completed", kept=kept
    )


async def _proposals(optimizer: Evolve, state: OptimizerState, history: TrialHistory = HISTORY) -> list[CandidateProposal]:
    return list(await optimizer.propose(state, history, 5))


async def test_the_current_version_is_measured_on_the_training_samples_first() -> None:
    optimizer, frame, state = _started()
    [asked] = await _proposals(optimizer, state)
    assert asked.part == Part(split="train")
    assert (asked.configuration, asked.parent_candidate_ids) == (PARAMETERS, ("r0",))
    assert frame.asked == []


async def test_then_its_failures_are_counted_and_answered_by_mutations() -> None:
    optimizer, frame, state = _started()
    state = optimizer.observe(state, [_explored("r0")])
    frame.computed = [{"injury": 4}]
    proposals = await _proposals(optimizer, state)
    [asked] = frame.asked
    assert asked["plugin"] == "a:failures"
    assert (asked["reads"].records.candidate_id, asked["reads"].records.split) == ("r0", Split.TRAIN)
    assert [proposal.rationale for proposal in proposals] == [
        "Adjusted health_threshold: 0.300 → 0.400 (increase, Δ=0.100)",
        "Changed risk tolerance: balanced (0.500) → conservative (0.250)",
        "Changed risk tolerance: balanced (0.500) → aggressive (0.750)",
        "Rotated skill priority: ['explore', 'fight', 'eat', 'use_item', 'flee'] → "
        "['flee', 'explore', 'fight', 'eat', 'use_item']",
    ]
    assert all(proposal.parent_candidate_ids == ("r0",) and proposal.part is None for proposal in proposals)
    assert proposals[0].extra == {
        "origin": "mutation",
        "operators": ["threshold"],
        "components": ["health_threshold"],
        "because": "injury 4 > 2",
        "failures": {"injury": 4},
    }


async def test_it_goes_on_from_the_version_that_was_kept_and_learns_anew() -> None:
    optimizer, frame, state = _started()
    state = optimizer.observe(state, [_explored("r0")])
    state = optimizer.observe(state, [_tried("r1-a"), _tried("r1-b", kept=True)])
    assert not optimizer.should_stop(state, HISTORY).should_stop
    frame.configurations["r1-b"] = {**PARAMETERS, "health_threshold": 0.4}
    [asked] = await _proposals(optimizer, state)
    assert asked.part == Part(split="train")
    assert asked.parent_candidate_ids == ("r1-b",)
    assert state.generation == 1


@pytest.mark.parametrize("trials", [[_tried("r1-a"), _tried("r1-b")], []], ids=["none was kept", "none was let in"])
def test_a_round_that_led_to_nothing_better_is_the_last(trials: list[TrialFacts]) -> None:
    optimizer, _, state = _started()
    state = optimizer.observe(state, [_explored("r0")])
    assert not optimizer.should_stop(state, HISTORY).should_stop
    decision = optimizer.should_stop(optimizer.observe(state, trials), HISTORY)
    assert decision.should_stop
    assert decision.reason is StopReason.CONVERGENCE
    assert decision.message == "No mutation was significantly better than r0"


def test_a_persons_candidate_beside_the_exploration_ends_nothing() -> None:
    optimizer, _, state = _started()
    state = optimizer.observe(state, [_tried("r1-own"), _explored("r0")])
    assert not optimizer.should_stop(state, HISTORY).should_stop
    assert (state.best_candidate_id, state.generation) == ("r0", 0)


async def test_without_training_samples_nothing_is_proposed() -> None:
    optimizer, _, state = _started()
    state = optimizer.observe(state, [_explored("r0", "failed")])
    with pytest.raises(ProposalFailed, match="the training samples of r0 could not be measured"):
        await _proposals(optimizer, state)


async def test_its_state_survives_being_stored() -> None:
    optimizer, frame, state = _started()
    state = optimizer.observe(state, [_explored("r0")])
    frame.computed = [{"injury": 4}] * 2
    again = OptimizerState.model_validate_json(state.model_dump_json())
    assert await _proposals(optimizer, again) == await _proposals(optimizer, state)


def test_evolving_asks_for_significance_unless_the_spec_says_how() -> None:
    assert (_evolving().judgement.accept, _evolving().judgement.test) == ("better", "mann_whitney")
    assert _evolving(judgement={"test": "paired", "alpha": 0.1}).judgement.accept == "better"
    assert _evolving(judgement={"test": "paired"}).judgement.test == "paired"
    again = OptimizationRequest.model_validate_json(_evolving(judgement={"test": "paired"}).model_dump_json(by_alias=True))
    assert again.judgement.test == "paired"


def test_reports_tell_what_proposes() -> None:
    assert _evolving().optimizer.describe(None) == (
        "Structured mutations for failures (injury, starvation, combat_loss, entrapment), classified by a:failures"
    )


def test_the_mutations_of_a_prompt_that_was_not_read_yet_are_checked_when_it_is() -> None:
    unread = _evolving(configuration={}, prompt="games/dungeon")
    assert [finding for finding in check_request(unread) if finding.startswith("optimizer")] == []


def test_its_plug_in_is_inspected_with_the_others() -> None:
    assert _evolving().plugin_arguments == {"a:t": (3,), "a:failures": (1,)}


def test_a_good_spec_has_no_findings() -> None:
    assert check_request(_evolving()) == []


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (
            {"dataset": {"items": [{"input": 1}], "splits": "none"}},
            "dataset.splits: evolve learns from train samples and judges on validation samples; ",
        ),
        ({"judgement": {"accept": "score"}}, "judgement.accept: is score, but evolve goes on only from what is significantly"),
        ({"judgement": {"rule": "strict"}}, "judgement.rule: is strict, but evolve asks for improvement; drop it"),
        (
            {"configuration": {"health_threshold": POLICY["health_threshold"]}},
            "optimizer.table[1].mutation: 'hunger_threshold' is no factor (known are health_threshold); it must be change: "
            "structured, type: number or integer (the default table is meant; declare table to fit your factors)",
        ),
        (
            {
                "optimizer": {
                    "name": "evolve",
                    "classifier": "a:f",
                    "table": [],
                    "padding": [{"kind": "priority", "operation": "prioritize", "skill": "sing"}],
                }
            },
            "optimizer.padding[0]: 'sing' is not in 'skill_priority', which orders",
        ),
        (
            {"optimizer": {"name": "evolve", "classifier": "a:f", "table": [], "padding": []}},
            "optimizer.table: is empty, and so is padding; nothing could ever be proposed",
        ),
    ],
)
def test_what_cannot_work_is_found_before_anything_is_spent(changes: dict[str, Any], finding: str) -> None:
    findings = check_request(_evolving(**changes))
    assert any(found.startswith(finding) for found in findings), findings


@pytest.mark.parametrize(
    ("samples", "judgement", "numbers"),
    [
        (
            4,
            {},
            "the smallest p-value of the mann_whitney test, corrected for 5 candidates, is 0.0714, and judgement.alpha is 0.05",
        ),
        (4, {}, "at least 5 samples are needed, or fewer candidates_per_round"),
        (6, {"test": "paired"}, "the smallest p-value of the paired test, corrected for 5 candidates, is 0.0781"),
        (6, {"test": "paired"}, "at least 8 samples are needed"),
        (3, {"alpha": 0.4}, "dataset.splits.validation: has 3 samples, with which no candidate can ever pass"),
    ],
)
def test_samples_so_few_that_no_candidate_can_pass_are_refused_with_the_numbers(
    samples: int, judgement: dict[str, Any], numbers: str
) -> None:
    [problem] = _too_few_samples(_evolving(judgement=judgement), {Split.TRAIN: 10, Split.VALIDATION: samples})
    assert numbers in problem


def _too_few_samples(spec: OptimizationRequest, sizes: dict[Split, int]) -> list[str]:
    return list(spec.optimizer.sample_problems(spec, sizes))


def test_what_a_trial_uses_of_the_split_counts() -> None:
    sizes = {Split.TRAIN: 10, Split.VALIDATION: 100}
    assert _too_few_samples(_evolving(), sizes) == []
    assert len(_too_few_samples(_evolving(samples_per_trial=4), sizes)) == 1
    assert _too_few_samples(request(optimizer="none"), {Split.ALL: 1}) == []


def test_a_split_without_training_samples_is_refused() -> None:
    [problem] = _too_few_samples(_evolving(), {Split.VALIDATION: 100})
    assert problem.startswith("dataset.splits.train: leaves no sample to classify failures of")
