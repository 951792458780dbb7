"""Every timeout, retry and cancellation policy, named, in one place."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, TypedDict

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType, ChildWorkflowCancellationType, ParentClosePolicy

from workflows.model.activities.own_activity_calls import FIRST_PAUSE, LONGEST_PAUSE
from workflows.model.failures import NOT_RETRYABLE


class ActivityPolicy(TypedDict, total=False):
    """The options of one kind of activity."""

    start_to_close_timeout: timedelta
    schedule_to_close_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: ActivityCancellationType


class LocalPolicy(TypedDict, total=False):
    """The options of one kind of local activity."""

    start_to_close_timeout: timedelta
    local_retry_threshold: timedelta
    retry_policy: RetryPolicy


_PATIENT: Final = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=10),
    non_retryable_error_types=NOT_RETRYABLE,
)
"""For the store: it comes back, and until then nothing else can be done."""

STORE: Final = ActivityPolicy(start_to_close_timeout=timedelta(seconds=60), retry_policy=_PATIENT)
"""Short reads and writes of the store. They outlast any outage; only a permanent error ends them."""

LOCAL_STORE: Final = LocalPolicy(
    start_to_close_timeout=timedelta(seconds=10),
    local_retry_threshold=timedelta(seconds=2),
    retry_policy=_PATIENT,
)
"""Writes that travel inside a workflow task: they cost one history event, and fall back to timers when the store is away."""

RELEASE: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=5),
    heartbeat_timeout=timedelta(seconds=8),
    retry_policy=_PATIENT,
)
"""Steps of a release, in the audit log and in the override store: they outlast any outage of both."""

CLEANUP: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=30),
    schedule_to_close_timeout=timedelta(hours=1),
    heartbeat_timeout=timedelta(seconds=10),
    retry_policy=_PATIENT,
)
"""One cleanup; what it does not get done, the next round does."""

ASK_FOR_RELEASE: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=2),
    schedule_to_close_timeout=timedelta(minutes=10),
    heartbeat_timeout=timedelta(seconds=8),
    retry_policy=_PATIENT,
)
"""A run that is otherwise over asks for its release, and does not wait for ever: the release goes on without it."""

PREPARE: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=30),
    heartbeat_timeout=timedelta(seconds=10),
    retry_policy=_PATIENT,
    cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
)
"""Ingesting a dataset may take minutes. A run that is cancelled meanwhile knows whether its row was written."""

INSPECT: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=3),
    heartbeat_timeout=timedelta(seconds=10),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        maximum_interval=timedelta(seconds=10),
        non_retryable_error_types=NOT_RETRYABLE,
    ),
)
"""Importing plug-ins."""

SHARD: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(hours=24),
    heartbeat_timeout=timedelta(seconds=8),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(milliseconds=500),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=60),
        non_retryable_error_types=NOT_RETRYABLE,
    ),
    cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
)
"""A shard heartbeats while it lives, hands back what it has when cancelled, and outlasts any lost worker."""

ONE_CALL: Final = RetryPolicy(maximum_attempts=1)
"""For somebody else's activity: Temporal counts calls that were lost with their worker like those that failed, we do not."""


def some_attempts(number: int) -> RetryPolicy:
    """Return the policy for an activity of the user's that scores or proposes: as many attempts as the spec says."""
    return RetryPolicy(initial_interval=FIRST_PAUSE, maximum_interval=LONGEST_PAUSE, maximum_attempts=number)


LOAD_CALLS: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=5),
    heartbeat_timeout=timedelta(seconds=10),
    retry_policy=_PATIENT,
)
"""Reading from the store what somebody else's activity shall answer."""

SCORE_ANSWERS: Final = SHARD
"""Scoring what came from elsewhere: like a shard, whose calls are made already."""

TRIGGER: Final = SHARD
"""An experiment that is being triggered is waited for when the trial is cancelled: it must be known to be cancelled, too."""

ASK_RUNNER: Final = ActivityPolicy(start_to_close_timeout=timedelta(minutes=2), retry_policy=_PATIENT)
"""Where an experiment stands. A runner that does not answer is an answer of its own; only a lost worker is tried again."""

CANCEL_EXPERIMENT: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=2),
    schedule_to_close_timeout=timedelta(minutes=10),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1), maximum_attempts=5, non_retryable_error_types=NOT_RETRYABLE
    ),
)
"""A courtesy to the runner, which must not hold up the end of a trial for long."""

SUBMIT_BATCH: Final = SHARD
"""A batch that is being sent is waited for when the trial is cancelled: it must be known to be cancelled, too."""

AWAIT_BATCH: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=5),
    heartbeat_timeout=timedelta(seconds=10),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(minutes=1),
        non_retryable_error_types=NOT_RETRYABLE,
    ),
)
"""One look at a batch that is not over fails, and names the time of the next: Temporal's timer waits for it. Nothing runs
meanwhile, and whatever the number of looks, the history has three events."""

TAKE_BATCH: Final = SHARD
"""Scoring what a batch answered: like a shard, whose calls are made already."""

CANCEL_BATCHES: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=5),
    schedule_to_close_timeout=timedelta(minutes=30),
    heartbeat_timeout=timedelta(seconds=10),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=1),
        maximum_interval=timedelta(seconds=30),
        non_retryable_error_types=NOT_RETRYABLE,
    ),
)
"""Providers take up to ten minutes to cancel a batch; what it has done by then is paid for, and taken."""

CONCLUDE: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=10),
    heartbeat_timeout=timedelta(seconds=10),
    retry_policy=_PATIENT,
)
"""Aggregating a trial, with the user's own objective where there is one."""

PROPOSE: Final = ActivityPolicy(
    start_to_close_timeout=timedelta(minutes=10),
    heartbeat_timeout=timedelta(seconds=8),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(milliseconds=500),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=30),
        non_retryable_error_types=NOT_RETRYABLE,
    ),
)
"""A proposal that still fails after its attempts is given up, and the optimizer's rule says what that means. The worker
counts them (`activities/plugins/lost_attempts.py`): here as everywhere, a store that is away is no failed attempt."""

COMPUTE: Final = PROPOSE
"""A computation reads much and may ask a plug-in; like a proposal, it is given up after its attempts."""

TRIAL_CANCELLATION: Final = ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED
TRIAL_PARENT_CLOSE: Final = ParentClosePolicy.REQUEST_CANCEL
"""Trials are told when their run goes away, so that they can hand back what they have."""

SHARDS_AT_ONCE: Final = 25
"""Shards a trial keeps pending; with four trials side by side that is 100 activities, as many as a run should have."""

SHARDS_PER_TRIAL: Final = 400
"""Larger trials get larger shards instead of a longer history."""

CALLS_PER_SHARD: Final = 75

PENDING_AT_ONCE: Final = 100
"""Activities that a run should have pending; more of them make its workflow tasks fail now and then."""

LARGEST_MESSAGE: Final = 2 * 1024 * 1024
"""Bytes of inputs that one workflow task may send; Temporal terminates a run whose task has more than 4 MB."""


def fitting_one_message(size: int) -> int:
    """How many inputs of such a size may be started side by side."""
    return max(1, LARGEST_MESSAGE // max(1, size))
