"""One trial: what the child workflow is given, what its shards are given, and the small results they hand back."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from ratchet.optimizer import TrialStatus
from workflows.model.run.amounts import Resource
from workflows.model.run.candidates import Candidate
from workflows.model.run.clock import RunClock
from workflows.model.run.decisions import Reference
from workflows.model.run.rounds import RoundRecord
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.batch_options import BatchRules
from workflows.model.spec.judgement import Evidence, Noise, Plan, RaceDecision
from workflows.model.spec.targets.external import ActivityCalls, ExperimentRules


class Split(StrEnum):
    """Which part of the dataset a trial is scored on."""

    ALL = "all"
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class Purpose(StrEnum):
    """Why a trial is run."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"
    CONFIRMATION = "confirmation"
    NOISE = "noise"
    EXPLORATION = "exploration"
    """Of a part, to learn from it."""


SEARCHING = (Purpose.BASELINE, Purpose.CANDIDATE)
"""Trials of the search itself."""

RUN_ENDED_FIRST: Final = "the run ended before this trial did"
"""The error of a trial that its run did not wait for. What it was paid is in the run's row and account, not in its result."""


class Race(Payload):
    """A trial is looked at after every block of samples, and ends when more of them would decide nothing else."""

    reference: Reference
    """The candidate that it must beat, or not be worse than."""
    block: int
    """Samples between two looks."""
    candidates: int = 1
    """How many are judged together."""
    share: float = 1.0
    """How much of alpha their decision may use up."""
    chosen_from: int = 1
    """Out of how many trials the reference was chosen for its score."""


class Planning(Payload):
    """Asks what the run can find out, once the noise of the baseline is known."""

    available: int
    """Samples that a trial may use."""
    replicates: int | None = None
    """How often each is answered. None: as often as it takes."""
    most_replicates: int = 5
    comparisons: int = 1
    """Candidates that are judged together."""
    power: float = 0.8
    held_back: int = 0
    """Samples by which a winner is confirmed."""
    known: Plan | None = None
    """What the run can find out, where the noise was measured before."""


class Resumed(Payload):
    """What a trial with a long history takes along when it continues as new; what was answered is in the store."""

    started_at: datetime
    next_pair: int = 0
    """All pairs before it were tried."""
    first_error: str | None = None
    errors: dict[str, int] = Field(default_factory=dict)
    looks: tuple[RaceDecision, ...] = ()
    """At a trial that races: what they decided so far."""
    lost: int = 0
    metered: bool = False
    """As its parts told it so far."""


class TrialInput(Payload):
    """Everything one trial needs; samples, target and scorers are in the store, under (run, split)."""

    run_id: str
    trial_id: str
    """The trial's `experiment_id`."""
    candidate: Candidate
    purpose: Purpose = Purpose.CANDIDATE
    split: Split
    samples: int
    replicates: int = 1
    evaluation_task_queue: str
    calls_per_shard: int = 75
    concurrent_samples: int = 32
    min_coverage: float = 0.95
    max_failed_scores: float = 0.05
    deadline: datetime | None = None
    """When the run's time is over: the trial is cut off and keeps what it has."""
    clock: RunClock | None = None
    """What was known of the run's time when the deadline was set; None where nothing is."""
    records: tuple[RoundRecord, ...] = ()
    """Round records that are committed together with this trial's start."""
    references: tuple[Reference, ...] = ()
    """What the candidate is compared with: the baseline, and the best when the round began if that is another one."""
    race: Race | None = None
    """Set when the trial may end early."""
    planning: Planning | None = None
    """Set when the trial measures the noise, and at the baseline of a run that looks for anything better."""
    completes: bool = False
    """The candidate has won its race, and is now measured in full."""
    seed: int = 0
    metered: bool = False
    """The run has a budget of samples, tokens or cost: every call is set aside before it is made."""
    concurrent_trials: int = 1
    """How many trials share `concurrent_samples`; needed where no worker of ours sees all calls."""
    activity: ActivityCalls | None = None
    """Set when the samples are answered by somebody else's activity."""
    experiment: ExperimentRules | None = None
    """Set when an external runner runs the trial."""
    batches: BatchRules | None = None
    """Set when the samples are answered by batches of a provider."""
    resumed: Resumed | None = None

    @property
    def first(self) -> int:
        """The place of its first sample in the split."""
        return self.candidate.part.first if self.candidate.part else 0

    @property
    def first_pair(self) -> int:
        """The place of its first (sample, replicate) pair."""
        return self.first * self.replicates

    @property
    def last_pair(self) -> int:
        """One past the last."""
        return (self.first + self.samples) * self.replicates

    @property
    def part(self) -> str:
        """Tells the trials of parts of one candidate apart; empty for a trial in full."""
        return f"{self.candidate.round}.{self.candidate.index}" if self.candidate.part else ""

    @property
    def workflow_id(self) -> str:
        """The child's."""
        return f"{self.trial_id}/rest" if self.completes else self.trial_id

    @property
    def whole(self) -> ShardInput:
        """All of its pairs in one range."""
        return self.range_of(self.first_pair, self.last_pair)

    def range_of(self, first: int, last: int) -> ShardInput:
        """Some of its pairs."""
        return ShardInput(
            run_id=self.run_id,
            trial_id=self.trial_id,
            candidate_id=self.candidate.candidate_id,
            config_hash=self.candidate.config_hash,
            split=self.split,
            first=first,
            last=last,
            replicates=self.replicates,
            first_replicate=self.candidate.first_replicate,
            concurrent_samples=self.concurrent_samples,
            seed=self.seed,
            round=self.candidate.round,
            metered=self.metered,
            most_failed_scores=most_failed_scores(self.max_failed_scores, self.samples * self.replicates),
        )


def most_failed_scores(share: float, pairs: int) -> int:
    """On how many answers of a trial its scorers may fail. Where any may, one may, however few there are."""
    return max(int(share * pairs), 1 if share else 0)


class TrialSummary(Payload):
    """The numbers of a trial, of one shape for every target."""

    total: int = 0
    passed: int = 0
    failed: int = 0
    pass_rate: float = 0.0
    total_cost: float = 0.0
    total_tokens: int = 0
    avg_latency_ms: float | None = None
    avg_ttft_ms: float | None = None
    errors: dict[str, int] = Field(default_factory=dict)
    """How many answers failed or are missing, by the class of the error: `timeout`, `http 500`, `raised ValueError`."""


class SilentShard(Payload):
    """A shard whose activity ended without a word of its calls: it was cancelled between two attempts, or failed for good."""

    activity_id: str
    first: int
    last: int
    heard: tuple[JsonValue, ...] = ()
    """What its last heartbeat said, where the server told."""


class Conclusion(Payload):
    """How the child asks for its trial to be aggregated and recorded."""

    trial: TrialInput
    ended: Literal["done", "cancelled", "timeout", "error"] = "done"
    error: str | None = None
    errors: dict[str, int] = Field(default_factory=dict)
    """Pairs without an answer, by the class of the error; those that failed are known from what is stored."""
    scoring_error: str | None = None
    """The first shard's that has one."""
    exhausted: Resource | None = None
    """The budget that did not cover the whole trial."""
    team_rest: TeamRest | None = None
    """What was left of the team's month, where it was that budget."""
    started_at: datetime | None = None
    """When the trial's workflow began."""
    experiment_id: str | None = None
    """The external runner's, when it ran the trial."""
    looks: tuple[RaceDecision, ...] = ()
    """At a trial that raced: what each of them decided."""
    metered: bool = False
    """The run got its first budget while the trial went on."""
    lost: int = 0
    """Without a budget: calls without an answer that may have been paid for, as the trial's parts told them."""
    silent: tuple[SilentShard, ...] = ()
    """Parts that told nothing."""

    @property
    def samples(self) -> int:
        """How many samples were to be answered: all of them, or those up to the look that ended the race."""
        if self.trial.race is None or not self.looks or self.looks[-1].go_on:
            return self.trial.samples
        return min(self.trial.samples, len(self.looks) * self.trial.race.block)

    @property
    def places(self) -> range:
        """Their places in the split."""
        return range(self.trial.first, self.trial.first + self.samples)


class TrialResult(Payload):
    """What is known of a trial when it is over; small, whatever the number of samples."""

    optimization_id: str
    candidate_id: str
    mask_id: str
    experiment_id: str
    status: TrialStatus
    objective_score: float | None = None
    summary: TrialSummary = Field(default_factory=TrialSummary)
    coverage: float = 0.0
    stopped_early: str | None = None
    evidence: tuple[Evidence, ...] = ()
    """What its comparison with each reference found."""
    race: RaceDecision | None = None
    """The look at it that ended it early."""
    noise: Noise | None = None
    """How much scores vary, where the trial measured that."""
    plan: Plan | None = None
    """What the run can find out, given that."""
    first_look: tuple[str, ...] = ()
    """What is probably wrong, as the baseline's answers tell it."""
    error: str | None = None
    failure: Literal["execution", "scoring"] | None = None
    """Whether running the samples or scoring them failed."""
    paid_samples: int = 0
    """Target calls this trial really paid for; answers reused from elsewhere cost nothing again."""
    paid_tokens: int = 0
    paid_cost: float = 0.0
    lost_samples: int = 0
    """Target calls without an answer that may have been paid for: their worker was killed, they failed half-way, or were cut
    off by a cancellation. Under a budget at the most that they can have taken; without one, those that had begun."""
    lost_tokens: int = 0
    lost_cost: float = 0.0
    reused_samples: int = 0
    """Answers that were copied from other runs instead of paid for."""
    exhausted: Resource | None = None
    """The budget that did not cover the whole trial."""
    team_rest: TeamRest | None = None
    """What was left of the team's month, where it was that budget."""
    metered: bool = False
    """Budget was set aside for its calls: what it lost is the account's figure, with what the candidate's race lost."""
    duration_ms: int = 0
    unserved: timedelta | None = None
    """For how long nobody had served the run when the trial was over."""

    def after_its_race(self, race: TrialResult) -> TrialResult:
        """The candidate measured in full: what its race lost stays lost."""
        if self.metered:
            return self
        return self.model_copy(
            update={
                "lost_samples": self.lost_samples + race.lost_samples,
                "lost_tokens": self.lost_tokens + race.lost_tokens,
                "lost_cost": self.lost_cost + race.lost_cost,
            }
        )


class ShardInput(Payload):
    """A contiguous range of the trial's (sample, replicate) pairs."""

    run_id: str
    trial_id: str
    candidate_id: str
    config_hash: str
    split: Split
    first: int
    """First pair, in the order sample by sample, replicate by replicate."""
    last: int
    """One past the last pair."""
    replicates: int
    first_replicate: int = 0
    concurrent_samples: int = 32
    seed: int = 0
    round: int = 0
    metered: bool = False
    most_failed_scores: int = 0
    """On how many answers scorers may fail before going on is pointless."""
    judged: bool = False
    """Judges were asked in batches before: what they replied is used, and asked for no second time."""
    concludes: Conclusion | None = None
    """Set when the range is the whole trial: whoever answers it aggregates and records the trial, too."""


class ShardResult(Payload):
    """What a shard did. The outcomes themselves are in the store."""

    evaluated: int = 0
    """Answers paid for by this attempt."""
    found: int = 0
    """Answers that were already there."""
    missing: int = 0
    """Pairs without an answer, because of infrastructure or because the shard was cancelled."""
    first_error: str | None = None
    """Why the first pair, in the shard's order, has no usable answer."""
    errors: dict[str, int] = Field(default_factory=dict)
    """Pairs without an answer, by the class of the error."""
    scoring_error: str | None = None
    """The first failure of a scorer that raised or gave NaN on more answers than it may. It fails the trial."""
    exhausted: Resource | None = None
    """The budget that did not cover all of its calls."""
    team_rest: TeamRest | None = None
    """What was left of the team's month, where it was that budget."""
    metered: bool = False
    """Budget was set aside for its calls."""
    lost: int = 0
    """Without a budget: calls without an answer that may have been paid for, as far as is known. Their worker was lost, or
    they were cut off when the shard was cancelled."""
    trial: TrialResult | None = None
    """The trial's, when it was concluded together with its only shard."""
