"""How often an activity is attempted, and what ends it: what it raises is told after a few attempts, and what kills its worker
is named.

Temporal counts every attempt alike. Here three things are told apart, and travel with the heartbeats from one attempt to the
next: attempts that ended with an error are counted, a few end the activity; attempts that began and never said how they ended
were lost with their worker; and whatever never began, because the worker that was given it stood still, counts for nothing.
A store that is away is no failed attempt, and a worker that stops in order loses none.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, NoReturn

import structlog
from temporalio import activity
from temporalio.client import AsyncActivityCancelledError
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from activities.plugins.isolation import IsolatedFault, ProcessDied
from store.budget_leases import LeaseTaken
from store.connection import StoreAway, is_away
from workflows.model.failures import ATTEMPTS_EXHAUSTED, NOT_RETRYABLE, WORKER_LOST, described, shorten

log = structlog.get_logger("worker")

MOST_FAILURES: Final = 4
"""Attempts that may end with an error."""

MOST_OVERTIMES: Final = 2
"""Attempts that may take longer than they should."""

MOST_LOST: Final = 5
"""Attempts that may be lost with their worker. Where plug-ins are called, the last of them had processes of their own for
these; one that dies there is named at once, and costs no worker."""

ISOLATED_AFTER: Final = 2
"""From so many lost attempts on, plug-ins run in processes of their own."""

LONGEST_SHARE: Final = 0.95
"""Of the time that Temporal gives an attempt: it ends by itself before, and can say so."""

SECONDS_TO_ANNOUNCE: Final = 5.0
MOST_REMEMBERED: Final = 10_000
RECORD: Final = "attempts"
"""The heartbeat detail that is ours."""

BOUNDED: Final[Mapping[str, str]] = {
    "prepare": "preparing the run",
    "ingest_dataset": "reading the dataset",
    "inspect_plugins": "importing plug-ins",
    "conclude_trial": "aggregating the trial",
    "judge": "judging the candidates",
    "decide_race": "looking at the race",
    "propose_values": "asking for new values",
    "compute": "the optimizer's computation",
    "step_optimizer": "the optimizer's step",
    "ask_stop_policy": "asking the stop policy",
    "load_calls": "reading what is to be called",
    "reserve_retries": "setting budget aside",
    "score_answers": "scoring the answers",
    "collect_experiment": "collecting the experiment's results",
    "take_batch": "taking the results of a batch",
}
"""Activities that neither errors nor lost workers may keep alive for ever, in words."""

NEVER_LOST: Final[Mapping[str, str]] = {
    "evaluate_shard": "answering samples",
    "trigger_experiment": "triggering the experiment",
    "submit_batch": "sending a batch",
    "admit_evaluation_queue": "checking the task queue",
    "begin_trial": "beginning the trial",
    "commit_rounds": "writing the run's records",
    "load_history": "reading the history",
    "load_candidate": "reading a candidate",
    "open_test_split": "opening the test split",
    "finish_run": "writing the run's end",
}
"""Activities that errors end, and that outlast any number of workers. Shards judge their plug-ins by themselves."""

_WAITS = frozenset({"WorkerShutdown", "RateLimited", "PluginMismatch", "StoreChanged"})
"""Types of errors that say "not now", or "not here"."""

_OF_OTHER_SERVERS = ("botocore", "aiobotocore", "redis")
"""Packages whose errors are those of a store of prompts or objects that is away."""


@dataclass(frozen=True, slots=True)
class Before:
    """What the attempts before this one came to."""

    lost: int = 0
    """That began, and never said how they ended."""
    failed: int = 0
    """That ended with an error."""
    overtime: int = 0
    """Of these, that took too long."""
    unfinished: int = 0
    """The number of the last one that was lost; 0 when the last one said how it ended."""

    @property
    def isolates(self) -> bool:
        """Whether a plug-in may be what killed the workers before."""
        return self.lost >= ISOLATED_AFTER


def attempts_before() -> Before:
    """What the attempts before this one came to, as far as anybody said."""
    info = activity.info()
    told = _told(info.heartbeat_details)
    if told is None:
        # Nobody said anything: an attempt that was killed in its first second had no time to.
        return Before(lost=1, unfinished=info.attempt - 1) if info.attempt > 1 else Before()
    begun = _number(told, "begun")
    return Before(
        lost=_number(told, "lost") + (1 if begun else 0),
        failed=_number(told, "failed"),
        overtime=_number(told, "overtime"),
        unfinished=begun,
    )


def refuse_killers(plugins: Sequence[str], lost: int | None = None) -> None:
    """Give up what lost its worker again although its plug-ins had processes of their own, and name them."""
    count = attempts_before().lost if lost is None else lost
    if plugins and count >= MOST_LOST:
        names = ", ".join(plugins)
        raise ApplicationError(
            shorten(
                f"plug-in {names}: the call lost its worker {count} times, the last times in a process of its own; "
                "let it neither end, block nor exhaust the machine that it runs on"
            ),
            type=WORKER_LOST,
            non_retryable=True,
        )


def failure_of_isolated(fault: IsolatedFault, told: str, kind: str) -> ApplicationError:
    """What a plug-in's failure in a process of its own is: one that ended that process, after two workers, ends the run."""
    if isinstance(fault, ProcessDied):
        return ApplicationError(shorten(told), type=WORKER_LOST, non_retryable=True)
    return ApplicationError(shorten(told), type=kind, non_retryable=bool(fault.details.get("hopeless")))


class AttemptLimits(Interceptor):
    """Bounds the attempts at every activity of a worker."""

    def __init__(self) -> None:
        self._failed_here: OrderedDict[tuple[str, str], int] = OrderedDict()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Bounded(next, self)

    def failed_here(self, key: tuple[str, str]) -> int:
        """How often a local activity, which has no heartbeats, has failed in this process, this time included."""
        count = self._failed_here.pop(key, 0) + 1
        self._failed_here[key] = count
        while len(self._failed_here) > MOST_REMEMBERED:
            self._failed_here.popitem(last=False)
        return count


class _Bounded(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, limits: AttemptLimits) -> None:
        super().__init__(next)
        self._limits = limits
        self._record: _Record | None = None

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._record = _Record(outbound)
        super().init(self._record)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        doing = BOUNDED.get(info.activity_type) or NEVER_LOST.get(info.activity_type)
        if doing is None:
            return await self.next.execute_activity(input)
        if info.is_local:
            return await self._local(input, doing)
        assert self._record is not None
        before = attempts_before()
        if info.activity_type in BOUNDED and before.lost >= MOST_LOST:
            raise _given_up(f"{doing} lost its worker {before.lost} times; the workers' logs say how they ended", WORKER_LOST)
        await self._record.begin(before)
        try:
            return await self._in_time(input, doing)
        except Exception as error:
            if not counts(error):
                self._record.ended(before)
                raise
            overtime = before.overtime + isinstance(error, _Overtime)
            now = replace(before, failed=before.failed + 1, overtime=overtime)
            self._record.ended(now)
            if now.failed < MOST_FAILURES and overtime < MOST_OVERTIMES:
                raise
            log.warning("an activity is given up", activity=info.activity_type, attempts=now.failed)
            _give_up(error, doing, now.failed)
        except BaseException:  # the worker stops, or nobody waits any more
            self._record.ended(before)
            raise

    async def _in_time(self, input: ExecuteActivityInput, doing: str) -> Any:
        """Ended by us a little before Temporal would end it, which could not say so."""
        given = activity.info().start_to_close_timeout
        bounded = given is not None and activity.info().activity_type in BOUNDED
        longest = given.total_seconds() * LONGEST_SHARE if bounded and given is not None else None
        try:
            async with asyncio.timeout(longest) as limit:
                return await self.next.execute_activity(input)
        except TimeoutError:
            if limit.expired() and longest is not None:
                raise _Overtime(f"{doing} took longer than {timedelta(seconds=round(longest))}") from None
            raise

    async def _local(self, input: ExecuteActivityInput, doing: str) -> Any:
        info = activity.info()
        try:
            return await self.next.execute_activity(input)
        except Exception as error:
            if not counts(error):
                raise
            failed = self._limits.failed_here((info.workflow_run_id or "", info.activity_id))
            if failed < MOST_FAILURES:
                raise
            _give_up(error, doing, failed)


class _Overtime(Exception):
    """An attempt that took too long."""


class _Record(ActivityOutboundInterceptor):
    """Adds to every heartbeat what the next attempt has to know."""

    def __init__(self, next: ActivityOutboundInterceptor) -> None:
        super().__init__(next)
        self._details: tuple[Any, ...] = ()
        self._mine: dict[str, int] | None = None

    def heartbeat(self, *details: Any) -> None:
        self._details = details
        self.next.heartbeat(*details, *self._told())

    async def begin(self, before: Before) -> None:
        """Say that this attempt has begun. The first one says so with its first heartbeat, since most are over by then; later
        ones make sure that it is known before anything happens."""
        info = activity.info()
        self._set(before, begun=info.attempt)
        if info.attempt == 1:
            return
        self._details = tuple(detail for detail in info.heartbeat_details if _told([detail]) is None)
        await announce(*self._details)

    def ended(self, now: Before) -> None:
        """Say how it all stands, this attempt included."""
        self._set(now, begun=0)
        self.heartbeat(*self._details)

    def _set(self, standing: Before, *, begun: int) -> None:
        self._mine = _as_detail(standing, begun)

    def _told(self) -> tuple[Any, ...]:
        return () if self._mine is None else ({RECORD: self._mine},)


async def announce(*details: Any) -> None:
    """Make sure that the server knows that this attempt has begun, and what it knows itself, whatever kills it next."""
    info = activity.info()
    told = (*details, {RECORD: _as_detail(attempts_before(), info.attempt)})
    handle = activity.client().get_async_activity_handle(task_token=info.task_token)
    try:
        async with asyncio.timeout(SECONDS_TO_ANNOUNCE):
            await handle.heartbeat(*told)
    except AsyncActivityCancelledError:
        return  # the SDK tells
    except TimeoutError:
        activity.heartbeat(*details)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise ApplicationError(
                "this attempt was given to somebody else", type="WorkerShutdown", category=ApplicationErrorCategory.BENIGN
            ) from None
        activity.heartbeat(*details)


def counts(error: BaseException) -> bool:
    """Whether an error is one of the few that an activity may end with: not what passes by itself, nor what is final."""
    if isinstance(error, ApplicationError):
        return not error.non_retryable and error.type not in NOT_RETRYABLE and error.type not in _WAITS
    return not isinstance(error, LeaseTaken) and not _passes(error)


def _passes(error: BaseException) -> bool:
    """Whether a server is away."""
    cause: BaseException | None = error
    while cause is not None:
        if _of_the_store(cause) or type(cause).__module__.partition(".")[0] in _OF_OTHER_SERVERS:
            return True
        cause = cause.__cause__
    return False


def _of_the_store(error: BaseException) -> bool:
    """Tell a PostgreSQL that is away from the file, the pipe or the deadline of somebody's code, which raise the same types."""
    if not isinstance(error, OSError | TimeoutError) or isinstance(error, StoreAway):
        return is_away(error)
    frames = traceback.walk_tb(error.__traceback__)
    return any(str(frame.f_globals.get("__name__", "")).partition(".")[0] == "asyncpg" for frame, _ in frames)


def _give_up(error: Exception, doing: str, attempts: int) -> NoReturn:
    """What the last attempt ended with, as something that no further one follows."""
    if isinstance(error, ApplicationError):
        raise ApplicationError(error.message, *error.details, type=error.type, non_retryable=True) from error
    if isinstance(error, _Overtime):
        raise _given_up(str(error)) from error
    raise _given_up(f"{doing} failed {attempts} times: {described(error)}") from error


def _given_up(message: str, kind: str = ATTEMPTS_EXHAUSTED) -> ApplicationError:
    return ApplicationError(shorten(message), type=kind, non_retryable=True)


def _as_detail(standing: Before, begun: int) -> dict[str, int]:
    """`begun` is the number of an attempt that has not said how it ended; 0 when there is none."""
    return {"lost": standing.lost, "failed": standing.failed, "overtime": standing.overtime, "begun": begun}


def _told(details: Sequence[Any]) -> Mapping[str, Any] | None:
    """Our part of what the last heartbeat said; anybody may have said anything."""
    for detail in details:
        if isinstance(detail, Mapping) and isinstance(detail.get(RECORD), Mapping):
            ours: Mapping[str, Any] = detail[RECORD]
            return ours
    return None


def _number(said: Mapping[str, Any], name: str) -> int:
    number = said.get(name)
    return number if isinstance(number, int) and number > 0 else 0
