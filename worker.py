"""SERVE: connect, wire, register, serve, drain. The only place that knows every room.

python -m worker                  serve workflows and evaluations until SIGTERM
python -m worker --setup          apply migrations, register search attributes, and exit
python -m worker --make-current   have new runs begin on this version, and open ones move to it, and exit
python -m worker --check-health   exit 0 when Temporal and the database answer, and the worker beside does not drain
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import inspect
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypedDict

import asyncpg
import structlog
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
)
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.runtime import Runtime
from temporalio.service import RPCError
from temporalio.worker import Interceptor, Worker, WorkerDeploymentConfig

from activities.batch_evaluation import BatchEvaluation
from activities.bookkeeping import StoreBookkeeping
from activities.cleanup import StoreCleanup
from activities.concurrency.in_flight_limits import RunLimits
from activities.concurrency.serving_marks import leaving_marks
from activities.concurrency.shared_rate_limits import SharedLimits
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.endpoint_policy import OperatorLists
from activities.endpoints.gate import Gates
from activities.endpoints.rate_memory import SharedRateMemory
from activities.endpoints.runner import Runners
from activities.evaluation import ShardEvaluation
from activities.external import DelegatedEvaluation
from activities.ingesting import PluginDatasets
from activities.observation.call_observation import CallObservation
from activities.observation.worker_meters import WorkerMeters
from activities.observation.worker_state import DRAINING, SERVING, WorkerState, state_told_in
from activities.open_activities import OpenActivities, giving_up_for_others
from activities.plugins.blocked_interpreter import ended_when_blocked
from activities.plugins.calls import PluginCalls
from activities.plugins.loader import Plugins
from activities.plugins.loops import PluginLoops
from activities.plugins.lost_attempts import AttemptLimits
from activities.plugins.own_activities import OwnActivities
from activities.plugins.program import Program
from activities.releases.candidate_tags import TemporaryTags
from activities.releases.override_stores import Overrides
from activities.releasing import PromptReleasing
from activities.settings import DEPLOYMENT, Settings
from activities.shards.attempt import CallsEnd
from activities.shards.call_journal import CallJournal
from clients.embedded.home import hold
from clients.embedded.parent_watch import end_by_force_after, when_gone
from clients.logs import configure_logs
from clients.own_modules import DISTRIBUTION
from clients.runs.ended_runs import looking_after_ended_runs, namespace_id_of
from clients.runs.service.deployments import route_to
from clients.search_attribute_registration import register_search_attributes
from clients.telemetry import use_runtime
from clients.temporal import connect
from clients.traces import TRACING
from ratchet._environment import BadSetting
from ratchet._processes.process_end import end_process
from store.connection import Database, StoreAway, is_away
from store.schema import StoreError
from store.write.repositories import Store
from workflows.cleanup import CleanupWorkflow
from workflows.contracts import Batching, Bookkeeping, Cleanup, Delegating, Evaluating, Ingesting, Releasing
from workflows.model.activities.cleanup import CleanupInput
from workflows.model.spec.targets import TARGETS
from workflows.optimization import OptimizationWorkflow
from workflows.own_activity import OwnActivityWorkflow
from workflows.policies import PENDING_AT_ONCE
from workflows.release import ReleaseWorkflow
from workflows.trial import TrialWorkflow

log = structlog.get_logger("worker")

STICKY_TIMEOUT: Final = timedelta(seconds=2)
"""How long a killed worker's cached runs wait before another worker takes them over."""

HEARTBEAT_THROTTLE: Final = timedelta(seconds=1)

LONGEST_WITHOUT_PARENT: Final = 15.0
"""Seconds that a worker gets to hand back what it has when whoever started it is gone."""

CONCURRENT_SHARDS: Final = 2 * PENDING_AT_ONCE
"""Shards wait on endpoints, not on this machine; what runs at once is each run's own limit. So no run alone takes every place
of a worker, and the next one need not wait until a shard is over."""


def versions() -> dict[str, str]:
    """What this worker is made of, for the run's record."""
    found = {"python": sys.version.split()[0]}
    for package in (DISTRIBUTION, "temporalio", "pydantic", "openai"):
        with contextlib.suppress(PackageNotFoundError):
            found["ratchet" if package == DISTRIBUTION else package] = version(package)
    return found


def build_id() -> str:
    """Name the build to Temporal. Where it is not named, the SDK reads and hashes every loaded module at each start."""
    return f"{DISTRIBUTION} {versions().get('ratchet', 'from source')}"


class _Version(TypedDict, total=False):
    build_id: str
    deployment_config: WorkerDeploymentConfig


def deployment_version(settings: Settings) -> WorkerDeploymentVersion | None:
    """What this worker is a version of. None: it is told apart from no other."""
    if not settings.deployment:
        return None
    return WorkerDeploymentVersion(settings.deployment, settings.build_id or versions().get("ratchet", "from source"))


def _version_of(settings: Settings) -> _Version:
    version_served = deployment_version(settings)
    if version_served is None:
        return {"build_id": settings.build_id or build_id()}
    # A history is only ever replayed by the version that wrote it. Workflows that outlast it continue as new on the next one.
    pinned = WorkerDeploymentConfig(version_served, True, VersioningBehavior.PINNED)
    return {"deployment_config": pinned}


async def schedule_cleanup(client: Client, task_queue: str) -> None:
    """Have the cleanup run every hour. Whoever serves first sets it up; a server without schedules costs only that."""
    action = ScheduleActionStartWorkflow("CleanupWorkflow", CleanupInput(), id=f"cleanup-{task_queue}", task_queue=task_queue)
    every_hour = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(hours=1))])
    policy = SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=1))
    try:
        await client.create_schedule(f"cleanup-{task_queue}", Schedule(action=action, spec=every_hour, policy=policy))
    except ScheduleAlreadyRunningError:
        return
    except RPCError as error:
        log.warning("the cleanup is not scheduled; temporary tags stay until it is", error=str(error))


@asynccontextmanager
async def serving(
    client: Client, settings: Settings, calls_end: CallsEnd | None = None, program: Program | None = None
) -> AsyncIterator[None]:
    """Serve until the block is left, then drain: shards in flight get the grace period to hand back what they have.

    Once `calls_end` is set, no call begins any more. `program` is the one that this worker runs in, with its functions.
    """
    async with AsyncExitStack() as stack:
        database = await Database.open(settings.database_url, keys=settings.encryption.keys)
        stack.push_async_callback(database.close)
        store = Store(database)
        overrides = Overrides(settings.overrides, settings.database_url)
        lists = OperatorLists(settings.operator)
        stack.push_async_callback(overrides.close)
        workers: list[Worker] = []
        interceptors: list[Interceptor] = [AttemptLimits()]
        servers = await namespace_id_of(client)
        if settings.role in {"all", "evaluation"}:
            journal = CallJournal(settings.state_dir, of_all_workers=settings.state_dir is not None)
            stack.callback(journal.close)
            open_activities = OpenActivities(journal.folder / "open", servers)
            await stack.enter_async_context(giving_up_for_others(client, open_activities))
            interceptors.insert(0, open_activities)
        if settings.role in {"all", "workflows"}:
            known = await register_search_attributes(client)
            bookkeeping = StoreBookkeeping(
                database,
                search_attributes=known,
                versions=versions(),
                datasets_from=settings.datasets,
                overrides=overrides,
                lists=lists,
                evaluation_task_queue=settings.evaluation_task_queue,
                namespace_id=servers,
            )
            await stack.enter_async_context(looking_after_ended_runs(client, database))
            served = [
                *implementations(Bookkeeping, bookkeeping),
                *implementations(Cleanup, StoreCleanup(database, overrides, retention=settings.retention.policy)),
                *implementations(Releasing, PromptReleasing(database, overrides, search_attributes=known)),
            ]
            workers.append(_workflow_worker(client, settings, served, interceptors))
            await schedule_cleanup(client, settings.task_queue)
        if settings.role in {"all", "evaluation"}:
            plugins = Plugins.from_environment(settings.plugins, settings.plugin_path, program)
            limits = SharedLimits(store.rate_limits, is_away, settings.rate_limits)
            observation = observation_of(settings)
            gates = Gates(
                limits, lambda url, model: SharedRateMemory(store.learned_rates, (url, model), is_away), observation.meters
            )
            in_flight = RunLimits(store.runs.adjusted_limits, worker=settings.concurrent_samples, forget=gates.limits.forget)
            tags = TemporaryTags(overrides)
            calls = PluginCalls(loops=PluginLoops(program=None if program is None else program.loop))
            stack.callback(calls.loops.close)
            models = ChatModels(gates, lists, observation=observation)
            evaluation = ShardEvaluation(
                store,
                models,
                plugins,
                is_away=is_away,
                limits=in_flight,
                tags=tags,
                calls=calls,
                journal=journal,
                calls_end=calls_end,
                own_activities=OwnActivities(client, settings.task_queue),
            )
            stack.push_async_callback(evaluation.close)
            runners = Runners(gates, lists)
            stack.push_async_callback(runners.close)
            batches = BatchEvaluation(store, evaluation, models, is_away=is_away, calls_end=calls_end)
            stack.push_async_callback(batches.close)
            delegated = DelegatedEvaluation(store, evaluation, runners, is_away=is_away, tags=tags)
            served = [
                *implementations(Evaluating, evaluation),
                *implementations(Ingesting, PluginDatasets(database, plugins, calls, settings=settings.datasets)),
                *implementations(Delegating, delegated),
                *implementations(Batching, batches),
            ]
            workers.append(_evaluation_worker(client, settings, served, interceptors))
        queues = [worker.task_queue for worker in workers]
        await stack.enter_async_context(leaving_marks(store.served_times, queues, is_away))
        for worker in workers:
            await stack.enter_async_context(worker)
        log.info("serving", role=settings.role, task_queue=settings.task_queue, evaluation=settings.evaluation_task_queue)
        yield
        log.info("draining")


def observation_of(settings: Settings) -> CallObservation:
    """What is observed of calls: with the meter of this process's runtime, and with spans where it is traced."""
    meter = Runtime.default().metric_meter.with_additional_attributes({"task_queue": settings.task_queue})
    meters = WorkerMeters(meter, settings.rate_limits)
    meters.begin_at_zero(list(TARGETS))
    if not TRACING.is_on:
        return CallObservation(meters)
    from activities.observation.genai_spans import spans_of  # loads OpenTelemetry

    return CallObservation(meters, spans_of(settings.observation))


def _workflow_worker(
    client: Client, settings: Settings, served: Sequence[Callable[..., Any]], interceptors: Sequence[Interceptor]
) -> Worker:
    return Worker(
        client,
        **_version_of(settings),
        task_queue=settings.task_queue,
        workflows=[OptimizationWorkflow, TrialWorkflow, ReleaseWorkflow, CleanupWorkflow, OwnActivityWorkflow],
        activities=served,
        max_concurrent_workflow_tasks=100,
        max_cached_workflows=1000,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        graceful_shutdown_timeout=settings.grace,
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        interceptors=interceptors,
    )


def _evaluation_worker(
    client: Client, settings: Settings, served: Sequence[Callable[..., Any]], interceptors: Sequence[Interceptor]
) -> Worker:
    return Worker(
        client,
        **_version_of(settings),
        task_queue=settings.evaluation_task_queue,
        activities=served,
        max_concurrent_activities=CONCURRENT_SHARDS,
        graceful_shutdown_timeout=settings.grace,
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        interceptors=interceptors,
    )


def implementations(contract: type, implementation: object) -> list[Callable[..., Any]]:
    """Every activity of a contract, as served by the implementation; a name that differs would never be found."""
    served: list[Callable[..., Any]] = []
    for name, declared in inspect.getmembers(contract, inspect.isfunction):
        wanted = getattr(declared, "__temporal_activity_definition", None)
        if wanted is None:
            continue
        method = getattr(implementation, name)
        given = getattr(method, "__temporal_activity_definition", None)
        if given is None or given.name != wanted.name:
            raise TypeError(f"{type(implementation).__name__}.{name} must be decorated as activity {wanted.name!r}")
        served.append(method)
    return served


async def serve(settings: Settings, *, parent: int | None = None) -> None:
    """Serve until SIGTERM or SIGINT, or until the parent process is gone."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    calls_end = CallsEnd()
    state = WorkerState(settings.health_file)

    def orphaned() -> None:
        calls_end.set()
        stop.set()
        end_by_force_after(LONGEST_WITHOUT_PARENT)

    with when_gone(parent, orphaned) if parent is not None else contextlib.nullcontext():
        async with serving(await connect(), settings, calls_end):
            _set_apart_from_garbage()
            state.becomes(SERVING)
            with ended_when_blocked():
                await stop.wait()
            state.becomes(DRAINING)


def _set_apart_from_garbage() -> None:
    """What lives as long as the process is never looked through again: with it, one collection holds every call up for an
    eighth of a second."""
    gc.freeze()


async def set_up(settings: Settings) -> None:
    """Apply migrations and register search attributes."""
    database = await Database.open(settings.database_url, keys=settings.encryption.keys)
    await database.close()
    registered = await register_search_attributes(await connect())
    log.info("set up: the schema is up to date" + (", and the search attributes are registered" if registered else ""))


async def make_current(settings: Settings) -> None:
    """Have new runs begin on this version and open ones move to it at their next round, once its workers serve."""
    version_served = deployment_version(settings)
    assert version_served is not None
    await route_to(await connect(serves=False), version_served)
    log.info("this version serves from now on", deployment=version_served.deployment_name, build_id=version_served.build_id)


async def check_health(settings: Settings) -> None:
    """Fail unless both servers answer and the worker beside, where it tells its state, serves; for probes, which must not
    migrate anything."""
    if settings.health_file is not None and (state := state_told_in(settings.health_file)) != SERVING:
        raise ConnectionError(f"the worker does not serve: it is {state}, as {settings.health_file} says")
    connection = await asyncpg.connect(settings.database_url, timeout=5)
    await connection.close()
    client = await connect()
    if not await client.service_client.check_health():
        raise ConnectionError("Temporal does not answer")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; everything else comes from the environment."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__spec__.name}" if __spec__ else None, description="Serve Ratchet's workflows and evaluations."
    )
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--setup", action="store_true", help="apply migrations, register search attributes, and exit")
    doing.add_argument(
        "--make-current",
        action="store_true",
        help="have new runs begin on this version of RATCHET_DEPLOYMENT and open ones move to it, and exit",
    )
    doing.add_argument(
        "--check-health",
        action="store_true",
        help="exit 0 when Temporal and the database answer, and the worker of RATCHET_HEALTH_FILE serves",
    )
    parser.add_argument(
        "--role",
        choices=("all", "workflows", "evaluation"),
        default=None,
        help="what to serve (default: RATCHET_ROLE, else all)",
    )
    parser.add_argument("--grace", type=float, default=30.0, help="seconds that work in flight gets to finish (default: 30)")
    parser.add_argument(
        "--exit-with-parent", type=int, metavar="PID", default=None, help="stop when this parent process is gone"
    )
    parser.add_argument(
        "--hold", type=Path, metavar="FILE", default=None, help="lock this file for as long as the worker lives"
    )
    parser.add_argument("--log-file", type=Path, default=None, help="write logs here instead of stderr")
    options = parser.parse_args(arguments)
    try:
        settings = Settings.from_environment(options.role, timedelta(seconds=options.grace))
    except BadSetting as error:
        raise SystemExit(str(error)) from None
    configure_logs(file=options.log_file, form="text" if settings.log == "text" else "json")
    if not (options.setup or options.check_health):
        _be_observed(settings)
    if options.hold is not None:
        hold(options.hold)
    if options.setup:
        work = set_up(settings)
    elif options.make_current:
        if not settings.deployment:
            raise SystemExit(f"{DEPLOYMENT} is not set; name the deployment that this worker is a version of")
        work = make_current(settings)
    elif options.check_health:
        work = check_health(settings)
    else:
        work = serve(settings, parent=options.exit_with_parent)
    try:
        _run(work)
    except (StoreError, StoreAway, OSError, RuntimeError, RPCError, asyncpg.PostgresError) as error:
        log.error("worker cannot serve", error=f"{type(error).__name__}: {error}")
        sys.stderr.write(f"{error}\n")
        return 5
    return 0


def _be_observed(settings: Settings) -> None:
    """Before anything connects: a client stays with the runtime that it began with."""
    try:
        use_runtime(settings.observation)
    except BadSetting as error:
        log.error("worker cannot serve", error=str(error))
        raise SystemExit(str(error)) from None
    TRACING.begin(settings.observation)


def _run(work: Any) -> None:
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:  # no uvloop for this platform
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


if __name__ == "__main__":
    end_process(main())
