"""Rows of trials: the evaluation of one candidate, for the API and for reports."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from ratchet._frozen import Payload
from workflows.model.run.amounts import Resource
from workflows.model.run.decisions import Decision
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.judgement import Evidence, RaceDecision
from workflows.model.trial import Purpose, Split, TrialSummary


class Trial(Payload):
    """The evaluation of one candidate."""

    run_id: str = Field(serialization_alias="optimization_id")
    candidate_id: str
    config_hash: str = Field(serialization_alias="mask_id")
    """The overlay it ran against: the hash of its configuration."""
    experiment_id: str
    """The external runner's, where one runs the trial; else its own."""
    purpose: Purpose
    status: str
    """`running`, `completed`, `failed`, `cancelled` or `timeout`."""
    score: float | None = Field(serialization_alias="objective_score")
    coverage: float | None
    summary: TrialSummary
    stopped_early: str | None
    error: str | None
    failure: str | None
    evidence: tuple[Evidence, ...]
    """What its comparison with the baseline, and with the best of its time, found."""
    judged: Decision | None
    """What its round decided about it, and why."""
    round: int
    index: int
    parent_candidate_ids: tuple[str, ...]
    rationale: str | None
    extra: dict[str, Any]
    split: Split
    samples: int
    part: str
    """Tells trials of some samples only apart; empty for a trial in full."""
    first_sample: int
    """The place of its first sample in the split."""
    split_samples: int
    """How many samples the split has."""
    replicates: int
    first_replicate: int
    paid_samples: int
    paid_tokens: int
    paid_cost: float
    cached_tokens: int = 0
    """Of the tokens that were paid for, those that came from a provider's cache."""
    reused_samples: int
    duration_ms: int | None
    started_at: datetime
    finished_at: datetime | None


class TrialDetail(Trial):
    """A trial with its configuration and what each sample scored."""

    configuration: dict[str, Any]
    sample_means: tuple[float | None, ...] | None


class TrialInFull(TrialDetail):
    """A trial with what reports and replays tell of it beside what the API does."""

    trial_id: str
    score_low: float | None = None
    score_high: float | None = None
    lost_samples: int = 0
    """Calls without an answer that may have been paid for."""
    lost_tokens: int = 0
    lost_cost: float = 0.0
    exhausted: Resource | None = None
    """The budget that did not cover the whole trial."""
    team_rest: TeamRest | None = None
    """What was left of the team's month, where it was that budget."""
    looks: tuple[RaceDecision, ...] = ()
    """At a trial that raced: what each look at it decided."""


class TrialPage(Payload):
    """Some of a run's trials, in the order of their proposals."""

    total: int
    items: tuple[Trial, ...]
