"""The run itself: its input, the state it carries, and what its own activities are asked and answer."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pydantic import Field, JsonValue

from ratchet._frozen import Payload, SpecPart
from ratchet._values import ShortText
from ratchet.optimizer import OptimizerState, TrialFacts
from workflows.model.activities.optimizer_steps import OwnOptimizer
from workflows.model.run.candidates import Candidate, Rejection
from workflows.model.run.clock import StoodStill
from workflows.model.run.decisions import FrontMember
from workflows.model.run.rounds import Counts, RoundRecord, RunStatus, Spend
from workflows.model.run.run_result import OptimizationResult
from workflows.model.spec.execution import Budget
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.extensions.proposers import Asked
from workflows.model.spec.factors import Configuration, Factor
from workflows.model.spec.judgement import Noise, Plan
from workflows.model.spec.limits import DEFAULT_PRIORITY, RateLimit
from workflows.model.spec.prices import Price
from workflows.model.spec.prompt import PromptSnapshot
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import LeftOut
from workflows.model.trial import Split, TrialResult


class Standing(Payload):
    """The best candidate so far."""

    candidate_id: str
    config_hash: str
    configuration: Configuration
    score: float
    round: int
    since_round: int
    """The round of the last improvement of at least `min_delta`."""
    reference_score: float
    """The score that improvement reached."""
    first_replicate: int = 0


class ReadSpec(Payload):
    """What the spec only named, as it was when the run began: its prompt, and every factor with the files that it names."""

    snapshot: PromptSnapshot | None = None
    """None where the spec names no prompt."""
    configuration: dict[str, Factor]


class Prepared(Payload):
    """What `prepare` found out: all that the workflow needs to know of files, data and servers."""

    dataset_id: str
    evaluation_suite_id: str
    search_split: Split
    search_samples: int
    test_samples: int = 0
    train_samples: int = 0
    """Samples to learn from that candidates are not scored on; 0 where the search has one split only."""
    search_attributes: bool = False
    """Whether the server knows Ratchet's search attributes; without them only the filter is lost."""
    duplicates_dropped: int = 0
    left_out: dict[Split, LeftOut] = Field(default_factory=dict)
    """Of given splits: samples that an earlier one has, too."""
    plan: Plan | None = None
    """What the run can find out, as far as that can be said before anything is measured."""
    cross_fits: bool = False
    """Nothing is held back: the winner is confirmed on the samples of the search, by cross-fitting."""
    confirms_in_time: bool = False
    """The time budget holds for the confirmation, too."""
    team_budgeted: bool = False
    """The run's team has a budget for the month: what calls take is set aside, also where the run has no budget of its own."""
    versions: dict[str, str] = Field(default_factory=dict)
    prices: dict[str, Price] = Field(default_factory=dict)
    """Of models that the spec gives no price: what is known of them. They hold for the whole run."""
    descriptions: dict[str, str] = Field(default_factory=dict)
    """What plug-ins say of themselves, by reference."""
    read: ReadSpec | None = None
    """What the spec only named. Taken over into the request at once, so that it is read once for the whole run."""


class Pending(SpecPart):
    """A person's own candidate, waiting for the next round."""

    configuration: dict[str, Any]
    """Values by factor; factors left out keep the baseline's."""
    rationale: ShortText | None = None
    """Why it may be better."""


class OpenRound(Payload):
    """What the round that is not decided yet has used up, in all of its steps."""

    steps: int = 0
    proposals: int = 0
    """Places of proposals that are taken."""
    answers: int = 0
    """Places of answers of models and plug-ins that are taken."""


class CarriedState(Payload):
    """What a run carries from one execution to the next. Bounded: what grows with the run is in the store."""

    prepared: Prepared
    started_at: datetime
    paused_for: timedelta = timedelta(0)
    """How long the run has stood still: paused, or served by nobody."""
    unserved: timedelta | None = None
    """For how long nobody had served it when the store was last asked; None when it never was."""
    opened_in: timedelta = timedelta(0)
    """What it took until the baseline was measured."""
    round: int = 0
    baseline: TrialFacts
    best: Standing
    last: Candidate | None = None
    """The newest candidate, with its configuration, for optimizers that go on from it."""
    optimizer: OptimizerState
    counts: Counts = Field(default_factory=Counts)
    spend: Spend = Field(default_factory=Spend)
    lost: Spend = Field(default_factory=Spend)
    reused: int = 0
    consecutive_failures: int = 0
    rounds_without_admission: int = 0
    """Rounds in a row whose proposals were all rejected."""
    rounds_without_proposal: int = 0
    """Rounds in a row without a proposal, because asking for one failed."""
    last_failure: str | None = None
    """Why the newest failed trial failed."""
    recent_trials: tuple[TrialResult, ...] = ()
    recent_rejections: tuple[Rejection, ...] = ()
    recent_rounds: tuple[RoundRecord, ...] = ()
    recent_parts: tuple[TrialFacts, ...] = ()
    open_round: OpenRound = OpenRound()
    front: tuple[FrontMember, ...] = ()
    """Where there are several objectives: the candidates that no other one beats in all of them."""
    noise: Noise | None = None
    plan: Plan | None = None
    """What the run can find out."""
    first_look: tuple[str, ...] = ()
    """What is probably wrong, as the baseline's answers tell it."""
    adjusted: bool = False
    """Somebody changed stop rules or the budget."""
    waiting: tuple[Pending, ...] = ()
    paused: bool = False
    stop_requested: str | None = None
    executions: int = 1


class RunInput(OptimizationRequest):
    """The workflow's input: the spec, and after a continue-as-new the state to go on from."""

    carried: CarriedState | None = None
    """Set by Ratchet itself when a long run continues as new; leave it out."""


class IngestInput(Payload):
    """A dataset that a plug-in gives."""

    ref: str
    name: str
    """What it is called in the store."""


class IngestedDataset(Payload):
    """A dataset that is in the store."""

    dataset_id: str
    count: int
    duplicates_dropped: int = 0


class PrepareInput(Payload):
    run_id: str
    request: OptimizationRequest
    ingested: IngestedDataset | None = None
    """The request's dataset, when a plug-in gave it."""
    evaluators: dict[str, str] = Field(default_factory=dict)
    """For each plug-in, the hash of its source or the version the spec states."""
    started_at: datetime | None = None
    """When the run's clock began."""


class NamedQueue(Payload):
    """The task queue on which a spec wants its run evaluated."""

    task_queue: str


class InspectInput(Payload):
    """Which plug-ins the evaluation worker must be able to import."""

    references: dict[str, str | None]
    arguments: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """With how many positional arguments each will be called."""
    optimizer: OwnOptimizer | None = None
    """A user's optimizer, which has to have its methods and to take its options."""
    search: OptimizerSpec | None = None
    """An optimizer that needs packages which not every worker has."""
    describable: tuple[str, ...] = ()
    """Those that may say in words what they are."""


class Inspected(Payload):
    """What each plug-in is: a hash of its source, or the version the spec states."""

    evaluators: dict[str, str]
    descriptions: dict[str, str] = Field(default_factory=dict)
    """What some say of themselves."""


class ShownSamples(Payload):
    """Evaluated samples of one configuration that a proposer reads about."""

    config_hash: str
    split: Split
    first: int = 0
    count: int | None = None
    """None: up to the last."""
    limit: int | None = None
    """How many at most. None: as many as the proposer is shown by its own options."""
    worst_first: bool = True


class RankedConfiguration(Payload):
    """A configuration that the proposer reads, with its score."""

    config_hash: str
    score: float


class ProposalInput(Payload):
    """Asks for new values of some factors of one candidate."""

    run_id: str
    round: int
    index: int
    """Which of the round's proposals this is."""
    batch_position: int = 0
    """How many others are asked for at the same time, before this one."""
    side_by_side: int = 1
    """How many a round may ask for."""
    parent: str
    """The candidate to start from."""
    config_hash: str
    configuration: Configuration | None = None
    """What is rewritten, where that is no candidate's."""
    factors: tuple[str, ...]
    proposer: Asked
    feedback: str = ""
    """The last iterations in words."""
    objective: str = ""
    limits: dict[str, int] = Field(default_factory=dict)
    """Longest text per factor."""
    split: Split
    template: str | None = None
    """The request in the optimizer's words, unless the proposer has some of its own."""
    hall_of_fame: tuple[RankedConfiguration, ...] = ()
    """The best so far, the best last."""
    shown: tuple[ShownSamples, ...] = ()
    """Whose samples the proposer reads about. Default: the parent's, on the split."""
    seed: int = 0
    metered: bool = False
    """The run has a budget of samples, tokens or cost."""
    retry_of: str | None = None
    """A run whose proposals are taken over where they start from the same configuration."""
    prices: dict[str, Any] = Field(default_factory=dict)
    priority: int = DEFAULT_PRIORITY
    rate_limits: dict[str, RateLimit] = Field(default_factory=dict)


class Proposed(Payload):
    """New values by factor, and what they cost."""

    values: dict[str, JsonValue]
    rationale: str | None = None
    tokens: int = 0
    cost: float = 0.0


class HistoryPage(Payload):
    """Finished trials of a run, those in full first, read back after a continue-as-new."""

    run_id: str
    after: int = 0
    """How many were read already."""
    limit: int = 4000


class TrialRow(Payload):
    """One finished trial, in full or of a part, with what deduplication and lineage need."""

    facts: TrialFacts
    first_replicate: int = 0


class HistoryRows(Payload):
    rows: tuple[TrialRow, ...] = ()


class CommitRounds(Payload):
    """Round records to commit, with the run's current status."""

    run_id: str
    records: tuple[RoundRecord, ...]
    status: RunStatus = "running"
    limits: dict[str, JsonValue] = Field(default_factory=dict)
    budget: Budget | None = None
    """Set once it was adjusted."""
    stood_still: StoodStill | None = None


class CandidateKey(Payload):
    run_id: str
    candidate_id: str


class FinishInput(Payload):
    """How a run ended, with the rounds that may not have been committed yet."""

    run_id: str
    result: OptimizationResult
    records: tuple[RoundRecord, ...] = ()
