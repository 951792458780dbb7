"""Rows of runs: a line of the list, one in full, its progress, and what was removed of it or is held."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from ratchet._frozen import Payload
from store.read.marks import RunMarks
from workflows.model.run.first_look import FirstLook
from workflows.model.run.rounds import Counts, RunStatus, Spend, Unanswered
from workflows.model.run.run_result import Confirmation, OptimizationResult
from workflows.model.spec.judgement import Noise, Plan, Verdict
from workflows.model.trial import Purpose, Split


class UnprovenCandidate(Payload):
    """The winner of a search that does not hold, without its configuration."""

    candidate_id: str
    score: float
    """In the search."""
    why: str


class RunSummary(Payload):
    """One line per run."""

    run_id: str
    name: str
    use_case: str
    experiment: str
    status: RunStatus
    stop_reason: str | None
    message: str
    optimizer: str
    objective: str
    direction: str
    round: int
    counts: Counts
    spend: Spend
    cached_tokens: int = 0
    """Of the tokens that were paid for, those that came from a provider's cache."""
    baseline_candidate_id: str | None
    baseline_score: float | None
    best_candidate_id: str | None
    best_score: float | None
    confirmation: Confirmation | None = None
    """Of the search's winner, once the run is over."""
    unproven: UnprovenCandidate | None = None
    """The search's winner, where the result is the baseline instead."""
    search_verdict: Verdict | None = None
    """Of the best candidate against the best of its time, as its round decided."""
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    stood_still_seconds: float = 0.0
    """Since the start, paused or served by nobody: what the time budget does not count."""

    def elapsed_seconds(self, now: datetime) -> float:
        """Count how long the run has gone on, as its time budget does."""
        return max(((self.finished_at or now) - self.started_at).total_seconds() - self.stood_still_seconds, 0.0)


class ListedRun(RunSummary):
    """A run with what its progress is measured against."""

    max_rounds: int
    """As in force now; 0 is no limit. Likewise the budget."""
    budget: dict[str, Any]
    marks: RunMarks = RunMarks()


class RunPage(Payload):
    total: int
    items: tuple[ListedRun, ...]


class TrialInFlight(Payload):
    """A trial that runs now."""

    candidate_id: str
    purpose: Purpose
    round: int
    answered: int
    expected: int
    """Answers it will have when it is over."""
    started_at: datetime


class LiveProgress(RunSummary):
    """What a progress display polls."""

    answered: int
    """Answers of the trials that run now."""
    expected: int
    """Answers they will have when they are over."""
    in_flight: tuple[TrialInFlight, ...] = ()
    """These trials, in the order of their proposals."""


class Removal(Payload):
    """What a policy has removed of a run."""

    run_id: str = ""
    """Empty where it is told with its run."""
    kind: Literal["texts", "answers", "runs"]
    policy: str
    """The rule that it was removed by: `texts=30d`."""
    at: datetime
    complete: bool
    """False while more is to be removed."""
    answers: int = 0
    bytes: int = 0
    """About."""


class LegalHold(Payload):
    """As long as it is in force, nothing of a run is removed."""

    label: str
    reason: str = ""
    set_by: str
    through: str
    """How that name was established."""
    set_at: datetime


class RunDetail(RunSummary):
    """A run with all that is stored in its row."""

    spec: dict[str, Any]
    result: OptimizationResult | None
    dataset_id: str
    dataset_name: str
    dataset_count: int
    dataset_merged: int = 0
    """How many of the samples it draws count as one with another."""
    evaluation_suite_id: str
    search_split: Split
    limits: dict[str, Any]
    """What the adjust update changed of budget, stop rules and concurrency."""
    task_queue: str
    versions: dict[str, str]
    life: int
    plan: Plan | None = None
    """What the run can find out."""
    noise: Noise | None = None
    """How much the baseline's scores vary, where that was measured first."""
    first_look: FirstLook | None = None
    """What there is to see in the baseline's answers, once it was measured."""
    lost: Unanswered = Field(default_factory=Unanswered)
    removals: tuple[Removal, ...] = ()
    """What policies have removed of it since it began, in order."""
    legal_holds: tuple[LegalHold, ...] = ()
    """Those in force."""
    sources_removed: int = 0
    """Runs whose answers it would have taken over, had no policy removed them before."""
