"""What single answers add to the scores of trials, so that every comparison of a run follows from its exported file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clients.reports.facts import Answers, Iteration, RunFacts, SplitSamples
from store.read.replay_records import RecordedOutcomes
from workflows.model.run.decisions import Reference
from workflows.model.spec.judgement import JudgementSpec
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import Split
from workflows.rules.scoring.tally import Tally, Values, asked_for

MOST_AT_THE_END: Final = 200_000
"""Answers that are read again when a run ends, to write its history; `ratchet export` reads any number."""


def depends_on_answers(facts: RunFacts) -> bool:
    """Whether verdicts depend on more than the scores of samples: on single scores, where trials may have answered a sample
    unequally often."""
    judgement = facts.request.judgement
    repeated = any(one.replicates > 1 for one in (*facts.iterations, *facts.further))
    return repeated or bool(judgement.constraints or judgement.objectives) or counts_passes(judgement)


def counts_passes(judgement: JudgementSpec) -> bool:
    """Whether verdicts depend on how often each sample passed."""
    return judgement.must_pass is not None or judgement.rule == "strict"


async def with_answers(facts: RunFacts, outcomes: RecordedOutcomes, most: int | None = None) -> RunFacts:
    """The run with as much of its single answers as its verdicts depend on; with `most`, only when it has no more of them."""
    if not depends_on_answers(facts) or (most is not None and facts.answers > most):
        return facts
    suites = {drawn.split: await outcomes.suites.load(facts.run_id, drawn.split) for drawn in facts.splits}

    async def of(trials: Sequence[Iteration]) -> tuple[Iteration, ...]:
        return tuple([await _with_answers(one, suites[Split(one.split or Split.ALL)], outcomes) for one in trials])

    return facts.model_copy(
        update={
            "iterations": await of(facts.iterations),
            "further": await of(facts.further),
            "splits": tuple([await _with_must_pass(drawn, facts, outcomes) for drawn in facts.splits]),
        }
    )


async def _with_must_pass(drawn: SplitSamples, facts: RunFacts, outcomes: RecordedOutcomes) -> SplitSamples:
    named = facts.request.judgement.must_pass
    if named is None:
        return drawn
    return drawn.model_copy(update={"must_pass": await outcomes.suites.must_pass(facts.run_id, drawn.split, named)})


async def _with_answers(trial: Iteration, suite: EvaluationSuite, outcomes: RecordedOutcomes) -> Iteration:
    if trial.sample_means is None:
        return trial
    places = range(trial.first, trial.first + trial.samples)
    tally = Tally(suite, places=places, measures=asked_for(suite.judgement))
    reference = Reference(
        candidate_id=trial.candidate_id,
        config_hash=trial.config_hash,
        first_replicate=trial.first_replicate,
        replicates=trial.replicates,
    )
    await outcomes.tally(tally, reference, trial.ended_at)
    samples = len(tally.means)
    answers = Answers(
        passes=tuple(tally.passes) if counts_passes(suite.judgement) else None,
        measures={name: _by_sample(values, samples) for name, values in tally.measures.items()},
        scores=tuple(tuple(given) for given in tally.singles) if trial.replicates > 1 else None,
    )
    return trial.model_copy(update={"answers": answers})


def _by_sample(values: Values, samples: int) -> tuple[tuple[float, ...], ...]:
    found: list[list[float]] = [[] for _ in range(samples)]
    for place, value in values:
        found[place].append(value)
    return tuple(map(tuple, found))
