"""Whole runs of candidates that are no better than the baseline: how many of them claim anywhere that one is.

The books are the product's own: `RunState` judges every round, moves the best, and says how much of alpha a round may use up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from benchmarks.judgement_cells import rate
from benchmarks.judgement_designs import passing
from benchmarks.judgement_worlds import Array, changed, pass_probabilities
from ratchet.optimizer import CandidateProposal
from workflows.model.run.contract import Prepared
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split, TrialResult, TrialSummary
from workflows.rules.statistics import TrialAnswers, evidence_of
from workflows.rules.statistics.trial_comparison import evidence_seed
from workflows.run.references import references_of
from workflows.run.state import RunState

SEED = 507
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Rule:
    """How an optimizer goes on from round to round, and what its spec asks."""

    name: str
    judgement: dict[str, Any]
    rounds: int
    candidates: int
    samples: int = 40
    replicates: int = 1
    effect: float = 0.0
    ladder: bool = False
    """One candidate of each round is truly better by much, so that the run goes on."""
    until_none_is_kept: bool = False


RULES = (
    Rule("evolve", {"accept": "better", "test": "mann_whitney"}, 6, 5, until_none_is_kept=True),
    Rule("evolve, with one true step in each generation", {"accept": "better"}, 5, 5, ladder=True, until_none_is_kept=True),
    Rule("refine, reflect, gepa and few_shot, accept: better", {"accept": "better"}, 12, 1),
    Rule("search and meta_prompt, accept: better", {"accept": "better"}, 6, 4),
    Rule("accept: not_worse, each worse by the margin", {"accept": "not_worse", "rule": "non_inferiority"}, 6, 2, effect=-0.05),
)


def whole_runs(quick: bool) -> list[Figure]:
    """Runs that end with a false claim, and rounds of runs that state their rate for a round."""
    runs = 10 if quick else 500
    return [*(_false_runs(rule, runs) for rule in RULES), *_by_round(runs)]


def _false_runs(rule: Rule, runs: int) -> Figure:
    random = np.random.default_rng([SEED, *rule.name.encode()])
    false = sum(any(better for better, _ in _run(random, rule)) for _ in range(runs))
    return rate(f"whole runs, {rule.name}: one falsely accepted", false, runs)


def _by_round(runs: int) -> Iterator[Figure]:
    """A better score makes the best of a run, and a best of many was lucky."""
    rule = Rule("accept: score", {}, 5, 3)
    random = np.random.default_rng([SEED, 1])
    rounds = [claimed for _ in range(runs) for claimed in _run(random, rule)]
    yield rate("rounds, accept: score: called better than the best", sum(better for better, _ in rounds), len(rounds))
    yield rate("rounds, accept: score: called worse than the best", sum(worse for _, worse in rounds), len(rounds))


def _run(random: np.random.Generator, rule: Rule) -> list[tuple[bool, bool]]:
    """For every round: whether one that is not better was accepted, and whether one that is as good was called worse."""
    state, spec = _state(rule), rule.judgement
    rates = pass_probabilities(random, rule.samples) if not rule.ladder else np.full(rule.samples, 0.1)
    answers: dict[str, tuple[Array, TrialAnswers]] = {}
    baseline = state.baseline_candidate("0" * 64)
    answers[baseline.candidate_id] = (rates, _answers(random, rates, rule))
    state.record_baseline(baseline, _result(baseline.candidate_id, answers[baseline.candidate_id][1]))
    rounds: list[tuple[bool, bool]] = []
    for number in range(rule.rounds):
        assert state.best is not None
        before = answers[state.best.candidate_id][0]
        proposals = [
            CandidateProposal(configuration={"x": (number * rule.candidates + place + 1) / 1000})
            for place in range(rule.candidates)
        ]
        candidates, _ = state.admit(proposals)
        results = []
        for place, candidate in enumerate(candidates):
            true = changed(before, 0.45) if rule.ladder and place == 0 else before
            true = changed(rates, rule.effect) if rule.effect else true
            measured = _answers(random, true, rule)
            found = tuple(
                evidence_of(
                    answers[reference.candidate_id][1],
                    measured,
                    spec=state.request.judgement,
                    reference_id=reference.candidate_id,
                    seed=evidence_seed(number, "all", reference.candidate_id, candidate.candidate_id),
                )
                for reference in references_of(state)
            )
            answers[candidate.candidate_id] = (true, measured)
            results.append(_result(candidate.candidate_id, measured).model_copy(update={"evidence": found}))
        reference = state.best.candidate_id
        state.record_round(candidates, results)
        of_equals = state.decisions[1:] if rule.ladder else state.decisions
        wanted = {"better"} if spec.get("rule") is None else {"better", "not_worse"}
        rounds.append((any(one.verdict in wanted for one in of_equals), any(one.verdict == "worse" for one in of_equals)))
        if rule.until_none_is_kept and state.best.candidate_id == reference:
            break
    return rounds


def _state(rule: Rule) -> RunState:
    request = OptimizationRequest.model_validate(
        {
            "name": "simulated",
            "configuration": {"x": {"value": 0.0, "change": "structured", "type": "number", "min": 0, "max": 1}},
            "target": {"kind": "python", "ref": "simulated.targets:none"},
            "dataset": [{"input": 1, "expected": 1}],
            "objective": "exact",
            "optimizer": {"proposer": {"kind": "step"}, "candidates_per_round": rule.candidates},
            "judgement": {"margin": 0.05, **rule.judgement},
        }
    )
    state = RunState("simulated", request, NOW)
    state.prepared = Prepared(
        dataset_id="d" * 64, evaluation_suite_id="e" * 64, search_split=Split.ALL, search_samples=rule.samples
    )
    return state


def _answers(random: np.random.Generator, rates: Array, rule: Rule) -> TrialAnswers:
    found = passing(random, rates, rule.replicates)
    return TrialAnswers(found.mean(axis=1).tolist(), singles=found.tolist())


def _result(candidate_id: str, measured: TrialAnswers) -> TrialResult:
    means = [mean for mean in measured.means if mean is not None]
    return TrialResult(
        optimization_id="simulated",
        candidate_id=candidate_id,
        mask_id="0" * 64,
        experiment_id=candidate_id,
        status="completed",
        objective_score=sum(means) / len(means),
        summary=TrialSummary(total=len(means)),
        coverage=1.0,
    )
