"""Targets that run elsewhere: an activity of somebody else's worker, or an experiment runner behind HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from ratchet._frozen import Payload
from ratchet._values import CanonicalMapping, ShortText
from workflows.model.spec.durations import PositiveDuration
from workflows.model.spec.extensions.target_options import CalledPlace, Target
from workflows.model.spec.targets.at_most import AtMost
from workflows.model.spec.task_queues import TaskQueue


def _is_runner_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("is not the URL of a runner; write http(s)://host/path, without ? and #")
    if parts.username or parts.password:
        raise ValueError("carries credentials; take them out and set RATCHET_RUNNER_TOKEN in the worker's environment")
    return value.rstrip("/")


RunnerUrl = Annotated[ShortText, AfterValidator(_is_runner_url)]


class ActivityTarget(Target):
    """An activity of any name on any task queue, in any language. `examples/activity-target` has the contract and workers."""

    renders_prompts = True

    kind: Literal["activity"]
    activity: Annotated[ShortText, Field(min_length=1, max_length=200)]
    """The activity's name, as its worker registers it."""
    task_queue: TaskQueue
    """Where that worker polls. A trial waits until somebody does. It must be in RATCHET_ACTIVITY_QUEUES of the workers that
    serve workflows; `ratchet run` on embedded servers allows it."""
    batch: Annotated[int, Field(ge=1, le=1000)] = 1
    """Samples per call. With 1 the activity gets `sample` and gives one answer; above, `samples` and a list of answers."""
    timeout: PositiveDuration | None = None
    """The longest one call may take. Default: `execution.sample_timeout` times `batch`."""
    heartbeat: PositiveDuration | None = None
    """The activity heartbeats at least this often, so that a lost worker is noticed this soon. Default: it does not heartbeat,
    and a lost worker looks like a call that takes too long."""
    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """How often a call that fails with a retryable error is made. Calls lost with their worker do not count."""
    execution_params: CanonicalMapping = Field(default_factory=dict)
    """Passed through to the activity, untouched."""
    at_most: AtMost | None = None
    """What one call takes at most for each of its samples. It makes budgets of tokens and cost hard: so much is set aside
    before every call, also before one that failed is made again, and what a failed call may have taken counts. Default: 1.5
    times the dearest answer so far, after a first call made alone."""
    version: ShortText | None = None
    """Names the code behind the activity; another version is another target, whose answers are not mixed with these."""
    must_echo: bool = False
    """Whether an answer fails that does not say which configuration was used (`overlay_hash`)."""

    def calls(self, sample_timeout: timedelta) -> ActivityCalls:
        """What a trial needs to know of this target."""
        return ActivityCalls(
            activity=self.activity,
            task_queue=self.task_queue,
            batch=self.batch,
            timeout=self.timeout or sample_timeout * self.batch,
            heartbeat=self.heartbeat,
            attempts=self.attempts,
        )

    @property
    def demands_echo(self) -> bool:
        return self.must_echo

    @property
    def stated(self) -> AtMost | None:
        return self.at_most

    @property
    def is_set_aside_whole(self) -> bool:
        return True


class ExternalTarget(Target):
    """An experiment runner behind HTTP, which runs a whole trial by itself. `examples/external-runner` has the contract and
    a runner."""

    renders_prompts = True
    runs_whole_trials = True

    kind: Literal["external"]
    url: RunnerUrl
    """Where the runner answers: experiments are at `{url}/experiments`. Its origin must be in the worker's RATCHET_RUNNER_URLS,
    on the worker's own machine, too; `ratchet run` on embedded servers allows it. Its token comes from RATCHET_RUNNER_TOKEN."""
    execution_params: CanonicalMapping = Field(default_factory=dict)
    """Passed through to the runner, untouched."""
    at_most: AtMost | None = None
    """What the runner takes at most for one sample, its own retries included. It makes budgets of tokens and cost hard: so much
    is set aside for all samples of an experiment before it is triggered, and one that is not covered is not begun. Default: 1.5
    times the dearest answer so far, after a first experiment that runs alone."""
    samples: Literal["auto", "inline", "reference"] = "auto"
    """Send the samples with the trigger, or where in the store they are. `auto` sends them up to 4 MB."""
    poll: PositiveDuration = timedelta(seconds=30)
    """How long after the trigger the runner is first asked, in case its signal was lost; later more and more rarely."""
    longest_poll: PositiveDuration = timedelta(minutes=10)
    """The longest pause between two such questions."""
    patience: PositiveDuration = timedelta(minutes=10)
    """How long a runner that cannot be reached, or whose results cannot be read, is tried again."""
    timeout: PositiveDuration = timedelta(hours=24)
    """The longest an experiment may take; then it is cancelled, and the trial ends as `timeout`."""
    version: ShortText | None = None
    """Names the code behind the runner; another version is another target, whose answers are not mixed with these."""

    @model_validator(mode="after")
    def _polls_grow(self) -> ExternalTarget:
        if self.longest_poll < self.poll:
            raise ValueError(f"longest_poll is shorter than poll ({self.poll.total_seconds():g} s); make it at least as long")
        return self

    def rules(self) -> ExperimentRules:
        """What a trial needs to know of this target."""
        return ExperimentRules(poll=self.poll, longest_poll=self.longest_poll, patience=self.patience, timeout=self.timeout)

    @property
    def stated(self) -> AtMost | None:
        return self.at_most

    @property
    def is_set_aside_whole(self) -> bool:
        return True

    def called_places(self) -> Iterator[CalledPlace]:
        yield CalledPlace(self.url, "RATCHET_RUNNER_URLS", "the runner", "runners")


class ActivityCalls(Payload):
    """How a trial calls somebody else's activity."""

    activity: str
    task_queue: str
    batch: int = 1
    timeout: timedelta
    heartbeat: timedelta | None = None
    attempts: int = 3


class ExperimentRules(Payload):
    """How a trial waits for an external experiment."""

    poll: timedelta
    longest_poll: timedelta
    patience: timedelta
    timeout: timedelta
