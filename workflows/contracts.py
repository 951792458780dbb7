"""What workflows call: activity names and signatures, with no implementation.

Each class is implemented in `activities/` by a subclass that repeats the decorators; the worker checks, when it wires them,
that every name here is served.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from temporalio import activity

from workflows.model.activities.cleanup import CleanupInput, CleanupResult
from workflows.model.activities.computation import Computed, ComputeInput
from workflows.model.activities.external_trials import (
    AnswersInput,
    Calls,
    CallsInput,
    ExperimentInput,
    ExperimentKey,
    ExperimentState,
    ReservedRetries,
    RetriesInput,
    Triggered,
)
from workflows.model.activities.judge import JudgeInput, Judgements, RaceLookInput
from workflows.model.activities.optimizer_steps import CustomStepInput, CustomStepResult
from workflows.model.activities.provider_batches import (
    BatchEnd,
    BatchInput,
    BatchKey,
    BatchLook,
    OverBatches,
    SubmittedBatch,
    TakenBatch,
)
from workflows.model.activities.stop_policies import PolicyAnswer, PolicyInput
from workflows.model.run.candidates import Candidate
from workflows.model.run.clock import ClockKey, RunClock
from workflows.model.run.contract import (
    CandidateKey,
    CommitRounds,
    FinishInput,
    HistoryPage,
    HistoryRows,
    IngestedDataset,
    IngestInput,
    Inspected,
    InspectInput,
    NamedQueue,
    Prepared,
    PrepareInput,
    ProposalInput,
    Proposed,
)
from workflows.model.run.test_split import OpenedTestSplit, OpenTestSplit
from workflows.model.spec.judgement import RaceDecision
from workflows.model.spec.release import (
    LoadedReleases,
    OpenRelease,
    ReleaseRequest,
    ReleaseRequests,
    ReleaseState,
    ReleaseStep,
    Settle,
)
from workflows.model.trial import Conclusion, ShardInput, ShardResult, TrialInput, TrialResult


class Bookkeeping(ABC):
    """Short, idempotent writes and reads of the store; served on the workflows' own task queue."""

    @activity.defn(name="admit_evaluation_queue")
    @abstractmethod
    async def admit_evaluation_queue(self, named: NamedQueue) -> None:
        """Refuse a run that would be evaluated on a task queue which the operator does not list."""

    @activity.defn(name="prepare")
    @abstractmethod
    async def prepare(self, request: PrepareInput) -> Prepared:
        """Check the spec, ingest the dataset, store the baseline overlay and the run's row."""

    @activity.defn(name="begin_trial")
    @abstractmethod
    async def begin_trial(self, trial: TrialInput) -> RunClock | None:
        """In one transaction: the rounds that travel with the trial, its overlay, its candidate, its row, its event."""

    @activity.defn(name="commit_rounds")
    @abstractmethod
    async def commit_rounds(self, rounds: CommitRounds) -> RunClock | None:
        """Round records, rejections, the run's status and limits, with their events, in one transaction."""

    @activity.defn(name="read_clock")
    @abstractmethod
    async def read_clock(self, key: ClockKey) -> RunClock:
        """For how long no worker has served the run, and its time budget."""

    @activity.defn(name="load_history")
    @abstractmethod
    async def load_history(self, page: HistoryPage) -> HistoryRows:
        """Finished trials in the order of their proposals, a page at a time."""

    @activity.defn(name="load_candidate")
    @abstractmethod
    async def load_candidate(self, key: CandidateKey) -> Candidate:
        """One candidate with its configuration."""

    @activity.defn(name="open_test_split")
    @abstractmethod
    async def open_test_split(self, asked: OpenTestSplit) -> OpenedTestSplit:
        """Note that the baseline and the winner are going to be measured on the held-back samples, once."""

    @activity.defn(name="finish_run")
    @abstractmethod
    async def finish_run(self, finish: FinishInput) -> None:
        """The run's end: result, status, last round records and events, in one transaction."""


class Releasing(ABC):
    """Steps of releases, each of which may be taken twice; served on the workflows' own task queue."""

    @activity.defn(name="request_release")
    @abstractmethod
    async def request_release(self, request: ReleaseRequest) -> ReleaseState:
        """Ask the one writer of the prompt, which is started if need be, and wait for its answer."""

    @activity.defn(name="load_releases")
    @abstractmethod
    async def load_releases(self, desk: ReleaseRequests) -> LoadedReleases:
        """Where the releases of a prompt stand."""

    @activity.defn(name="open_release")
    @abstractmethod
    async def open_release(self, opening: OpenRelease) -> ReleaseState:
        """Store a release that is asked for, with what it is about, and say whether it waits, goes on, or has no chance."""

    @activity.defn(name="accept_release")
    @abstractmethod
    async def accept_release(self, step: ReleaseStep) -> ReleaseState:
        """Keep who approved it."""

    @activity.defn(name="carry_out_release")
    @abstractmethod
    async def carry_out_release(self, step: ReleaseStep) -> ReleaseState:
        """Move the tag by compare-and-swap, and close the release in the audit log."""

    @activity.defn(name="settle_release")
    @abstractmethod
    async def settle_release(self, settle: Settle) -> ReleaseState:
        """Close a release that moves nothing."""

    @activity.defn(name="remind_of_release")
    @abstractmethod
    async def remind_of_release(self, step: ReleaseStep) -> ReleaseState:
        """Announce, once, that an approval is still waited for."""


class Cleanup(ABC):
    """Clearing away; served on the workflows' own task queue."""

    @activity.defn(name="clean_up")
    @abstractmethod
    async def clean_up(self, cleanup: CleanupInput) -> CleanupResult:
        """Remove temporary tags and overlays that nothing needs any more."""


class Evaluating(ABC):
    """Work that needs targets, scorers and plug-ins; served on the evaluation task queue."""

    @activity.defn(name="inspect_plugins")
    @abstractmethod
    async def inspect_plugins(self, request: InspectInput) -> Inspected:
        """Import every plug-in the spec names and say what it is."""

    @activity.defn(name="evaluate_shard")
    @abstractmethod
    async def evaluate_shard(self, shard: ShardInput) -> ShardResult:
        """Answer what is missing of a range of (sample, replicate) pairs, committing outcomes as they come."""

    @activity.defn(name="conclude_trial")
    @abstractmethod
    async def conclude_trial(self, conclusion: Conclusion) -> TrialResult:
        """Aggregate the stored outcomes of a trial and record it, with its event, in one transaction."""

    @activity.defn(name="decide_race")
    @abstractmethod
    async def decide_race(self, asked: RaceLookInput) -> RaceDecision:
        """Whether a trial that races goes on, from stored outcomes."""

    @activity.defn(name="judge")
    @abstractmethod
    async def judge(self, asked: JudgeInput) -> Judgements:
        """The verdicts on candidates against one reference, from stored outcomes, decided together."""

    @activity.defn(name="propose_values")
    @abstractmethod
    async def propose_values(self, request: ProposalInput) -> Proposed:
        """Ask a model or a plug-in for new values; the answer is stored, so that a retry does not pay again."""

    @activity.defn(name="compute")
    @abstractmethod
    async def compute(self, request: ComputeInput) -> Computed:
        """Run a function of an optimizer over what is stored of the run."""

    @activity.defn(name="step_optimizer")
    @abstractmethod
    async def step_optimizer(self, step: CustomStepInput) -> CustomStepResult:
        """One step of a user's optimizer: it observes, decides, proposes."""

    @activity.defn(name="ask_stop_policy")
    @abstractmethod
    async def ask_stop_policy(self, asked: PolicyInput) -> PolicyAnswer:
        """Ask a user's rule whether the run ends."""


class Ingesting(ABC):
    """Datasets that need plug-ins; served on the evaluation task queue."""

    @activity.defn(name="ingest_dataset")
    @abstractmethod
    async def ingest_dataset(self, request: IngestInput) -> IngestedDataset:
        """Call a plug-in for items, and store them."""


class Delegating(ABC):
    """What trials need whose samples are answered elsewhere; served on the evaluation task queue."""

    @activity.defn(name="load_calls")
    @abstractmethod
    async def load_calls(self, asked: CallsInput) -> Calls:
        """What is missing of a shard, as it is handed to somebody else's activity."""

    @activity.defn(name="reserve_retries")
    @abstractmethod
    async def reserve_retries(self, asked: RetriesInput) -> ReservedRetries:
        """Set budget aside for calls that failed and shall be made again."""

    @activity.defn(name="score_answers")
    @abstractmethod
    async def score_answers(self, given: AnswersInput) -> ShardResult:
        """Score answers that came from elsewhere, and commit their outcomes."""

    @activity.defn(name="trigger_experiment")
    @abstractmethod
    async def trigger_experiment(self, asked: ExperimentInput) -> Triggered:
        """Have an external runner begin the trial's experiment, once, however often this is tried."""

    @activity.defn(name="experiment_state")
    @abstractmethod
    async def experiment_state(self, key: ExperimentKey) -> ExperimentState:
        """Ask the runner where an experiment stands."""

    @activity.defn(name="collect_experiment")
    @abstractmethod
    async def collect_experiment(self, key: ExperimentKey) -> ShardResult:
        """Read the runner's results, score them, and commit their outcomes."""

    @activity.defn(name="cancel_experiment")
    @abstractmethod
    async def cancel_experiment(self, key: ExperimentKey) -> None:
        """Tell the runner that nobody waits for an experiment any more."""


class Batching(ABC):
    """What trials need whose samples are answered in batches of a provider; served on the evaluation task queue."""

    @activity.defn(name="submit_batch")
    @abstractmethod
    async def submit_batch(self, asked: BatchInput) -> SubmittedBatch:
        """Send what lacks an answer of a part of a trial, once, however often this is tried."""

    @activity.defn(name="await_batch")
    @abstractmethod
    async def await_batch(self, look: BatchLook) -> BatchEnd:
        """Look whether a batch is over. One that is not fails the attempt, and says when the next one is due."""

    @activity.defn(name="take_batch")
    @abstractmethod
    async def take_batch(self, batch: BatchKey) -> TakenBatch:
        """Read the results of a batch, score them, and commit their outcomes."""

    @activity.defn(name="cancel_batches")
    @abstractmethod
    async def cancel_batches(self, part: ShardInput) -> OverBatches:
        """Cancel what a part of a trial still has at its provider, and say what can be taken."""
