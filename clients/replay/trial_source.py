"""What going through a run again needs to know of its trials, wherever that comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from clients.reports.facts import Iteration, IterationStatus, failure_reason, iteration_status, statistics_of
from workflows.model.run.candidates import Candidate
from workflows.model.run.decisions import Reference
from workflows.model.run.rounds import Spend
from workflows.model.spec.judgement import Judged
from workflows.model.trial import Conclusion, Planning, Race, Split, TrialInput, TrialResult


@dataclass(frozen=True, slots=True)
class Asked:
    """What the run wanted to know of a trial."""

    references: tuple[Reference, ...] = ()
    race: Race | None = None
    planning: Planning | None = None
    in_full: bool = False
    """It won its race, and was measured in full then."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A trial, worked out again."""

    iteration: Iteration
    result: TrialResult


@dataclass(slots=True)
class Gone:
    """What was worked out again, and what could not be."""

    trials: int = 0
    answers: int = 0
    comparisons: int = 0
    looks: int = 0
    not_recomputed: dict[str, None] = field(default_factory=dict)

    def cannot(self, what: str) -> None:
        """Note once what stays as it is recorded."""
        self.not_recomputed[what] = None


class Recomputing(Protocol):
    """Where trials come from."""

    tally: Gone

    async def trial(self, past: Iteration, asked: Asked) -> Recomputed:
        """A trial as it comes out again."""
        ...

    async def judged(self, reference: Iteration, candidate: Iteration, asked: Asked) -> Judged:
        """The verdict on one trial against one other."""
        ...

    async def alike(self, before: Iteration, afresh: Iteration) -> bool:
        """Whether a trial's fresh answers scored as those before did."""
        ...


def candidate_of(past: Iteration) -> Candidate:
    """The candidate of a trial."""
    return Candidate(
        candidate_id=past.candidate_id,
        config_hash=past.config_hash,
        configuration=past.configuration,
        round=past.round,
        index=past.index,
        parent_candidate_ids=past.parents,
        rationale=past.rationale,
        first_replicate=past.first_replicate,
        extra=past.extra,
    )


def conclusion_of(run_id: str, past: Iteration, asked: Asked, min_coverage: float) -> Conclusion:
    """How the trial was concluded, but for its error, which may say more than can be known afterwards."""
    trial = TrialInput.model_construct(
        run_id=run_id,
        trial_id=past.trial_id,
        candidate=candidate_of(past),
        purpose=past.purpose,
        split=Split(past.split or Split.ALL),
        samples=past.samples,
        replicates=past.replicates,
        evaluation_task_queue="",
        min_coverage=min_coverage,
        race=asked.race,
    )
    return Conclusion.model_construct(
        trial=trial,
        exhausted=past.exhausted,
        team_rest=past.team_rest,
        looks=(),
        errors={},
        error=None,
        scoring_error=None,
        ended="done",
    )


def measured_again(past: Iteration, result: TrialResult, **changes: object) -> Recomputed:
    """The trial with its recomputed figures."""
    score = result.objective_score
    status = iteration_status(result.status, score, result.failure)
    success = status is IterationStatus.SUCCESS
    update: dict[str, object] = {
        "statistics": statistics_of(result.summary, result.coverage),
        "score": score if success else None,
        "status": status,
        "failure_reason": None if success else failure_reason(result.status, result.error),
        "trial_status": result.status,
        "error": result.error,
        "failure": result.failure,
        "evidence": result.evidence,
        "stopped_early": result.stopped_early,
        "exhausted": result.exhausted,
        "team_rest": result.team_rest,
        "paid": Spend(samples=result.paid_samples, tokens=result.paid_tokens, cost=result.paid_cost),
        "reused": result.reused_samples,
    }
    return Recomputed(past.model_copy(update={**update, **changes}), result)
