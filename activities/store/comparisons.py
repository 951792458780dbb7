"""Baseline against candidate, sample by sample: what was fixed, what was broken, and by how much they differ."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from activities.store.connection import Connection
from activities.store.pairs import TURNS, MeasuredTrial, Pair, Turn, answers_of, inputs_of, pairs_of
from workflows.model.frozen import Payload
from workflows.model.judgement import Judged, JudgementSpec
from workflows.rules.verdicts import judge


class ComparedTrial(Payload):
    """One side of a comparison."""

    optimization_id: str
    candidate_id: str
    purpose: str
    status: str
    split: str
    objective_score: float | None


class ComparedAnswer(Payload):
    """One answer to a sample."""

    replicate: int
    status: str
    passed: bool
    scores: dict[str, float]
    score_details: dict[str, Any] = Field(default_factory=dict)
    output: Any
    error: str | None
    feedback: str
    tokens: int
    cost: float
    latency_ms: float | None


class ComparedSample(Payload):
    """One sample with what both trials made of it."""

    position: int
    item_id: str
    item_hash: str
    turn: Turn
    weight: float
    baseline_score: float | None
    candidate_score: float | None
    input: Any
    expected: Any
    tags: tuple[str, ...]
    baseline_answers: tuple[ComparedAnswer, ...]
    candidate_answers: tuple[ComparedAnswer, ...]


class Comparison(Payload):
    """Two trials over the samples that both drew."""

    baseline: ComparedTrial
    candidate: ComparedTrial
    counts: dict[Turn, int]
    """How many samples were fixed, broken, passed in both, in neither, or lack an answer."""
    judged: Judged | None
    """The verdict on this pair alone, by the run's own rules; what a round decided is with the trial. None where nothing was
    answered."""
    turns: tuple[Turn, ...]
    """Of every common sample, in order."""
    total: int
    """Samples that `only` lets through."""
    items: tuple[ComparedSample, ...]


def counted(pairs: list[Pair]) -> dict[Turn, int]:
    """How many samples took which turn; every turn is named."""
    turns = [pair.turn for pair in pairs]
    return {turn: turns.count(turn) for turn in TURNS}


def judged_pair(pairs: list[Pair], baseline: MeasuredTrial, candidate: MeasuredTrial) -> Judged | None:
    """The verdict on two trials by the rules of the candidate's run; None when no sample has a score in both."""
    from workflows.rules.judgement import compare  # scipy, which clients that only list runs need not wait for

    if not any(pair.one.mean is not None and pair.other.mean is not None for pair in pairs):
        return None
    spec = JudgementSpec.model_validate(candidate.judgement)
    evidence = compare(
        [pair.one.mean for pair in pairs],
        [pair.other.mean for pair in pairs],
        [pair.one.weight for pair in pairs],
        spec=spec,
        direction=candidate.direction,
        reference_id=baseline.candidate_id,
        seed=candidate.seed,
        singles=([pair.one.singles for pair in pairs], [pair.other.singles for pair in pairs]),
        clusters=[pair.other.cluster for pair in pairs],
    )
    return judge([evidence], spec)[0]


async def comparison(
    connection: Connection,
    baseline: MeasuredTrial,
    candidate: MeasuredTrial,
    *,
    only: Turn | None = None,
    offset: int = 0,
    limit: int = 20,
) -> Comparison:
    """Two trials, with some of their samples in full."""
    pairs = await pairs_of(connection, baseline, candidate)
    wanted = [pair for pair in pairs if only is None or pair.turn == only]
    shown = wanted[offset : offset + limit]
    hashes = [pair.one.item_hash for pair in shown]
    inputs = await inputs_of(connection, baseline.run_id, baseline.split, hashes)
    before = await answers_of(connection, baseline, hashes)
    after = await answers_of(connection, candidate, hashes)
    return Comparison(
        baseline=_side(baseline),
        candidate=_side(candidate),
        counts=counted(pairs),
        judged=judged_pair(pairs, baseline, candidate),
        turns=tuple(pair.turn for pair in pairs),
        total=len(wanted),
        items=tuple(
            ComparedSample(
                position=pair.one.position,
                item_hash=pair.one.item_hash,
                turn=pair.turn,
                weight=pair.one.weight,
                baseline_score=pair.one.mean,
                candidate_score=pair.other.mean,
                baseline_answers=_answers(before, pair),
                candidate_answers=_answers(after, pair),
                **inputs[pair.one.item_hash],
            )
            for pair in shown
        ),
    )


def _answers(given: dict[str, list[dict[str, Any]]], pair: Pair) -> tuple[ComparedAnswer, ...]:
    return tuple(ComparedAnswer(**answer) for answer in given.get(pair.one.item_hash, []))


def _side(trial: MeasuredTrial) -> ComparedTrial:
    return ComparedTrial(
        optimization_id=trial.run_id,
        candidate_id=trial.candidate_id,
        purpose=trial.purpose,
        status=trial.status,
        split=trial.split,
        objective_score=trial.score,
    )
