"""One soak: servers, workers, runs that follow each other, faults at random, and at the end what all that left behind."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psutil
from temporalio.client import WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError

from clients.demo.model_server import simulated_model
from clients.embedded.stack import embedded_stack
from clients.temporal import connect
from store.connection import Database
from store.write.access.teams import Teams
from store.write.limits.team_budgets import TeamBudgets
from tests.support.batch_server import Plan as BatchPlan
from tests.support.batch_server import batch_server
from tests.support.engines import PLUGINS, Engines
from tests.support.external_runners import runners
from tests.support.forked_commands import ROOT
from tests.support.hill_specs import hill_spec
from tests.support.release_runs import Prompt, tried_prompt
from tests.support.replaying import differences_in_store
from tests.system.soak.cut_connections import proxied
from tests.system.soak.recorded_history import History, Row, Violation
from tests.system.soak.soak_designs import DESIGNS, OF_A_TEAM, Addresses, Design
from tests.system.soak.soak_endpoint import logged_endpoint, served_activity
from tests.system.soak.soak_faults import FAULTS, NobodyThere
from tests.system.soak.soak_victims import Victims, WornWorker, clock_library, limited_disk
from tests.system.soak.store_records import connections, executions, logged_calls, tables

SECONDS_BETWEEN_POINTS = 2.0
SECONDS_FOR_A_LOOK = 60.0
SECONDS_FOR_CALLS = 2.0
"""How long a fault waits for calls under way."""

SECONDS_FOR_ENDS = 240.0
"""How long runs get to end after the last fault."""

CANCELLED = 0.04
"""The share of runs that somebody cancels."""


@dataclass(frozen=True)
class Plan:
    """What is asked of a soak."""

    folder: Path
    minutes: float
    seed: int
    workers: int = 3
    at_once: int = 4
    """Runs that are open at any time."""
    designs: tuple[Design, ...] = DESIGNS
    faults: tuple[str, ...] = tuple(FAULTS)
    fewest_faults: int = 0
    """It goes on until there were so many, on a slow machine for longer than was asked."""


@dataclass
class Soaked:
    """What came of it."""

    history: History
    witnessed: list[Violation]
    """What the replay of decisions says, and what the soak itself met."""
    began: float
    skipped: dict[str, str]
    """Faults that this machine has no means for, and why."""
    seconds: float = 0.0


def plans_of_batches(seed: int) -> list[BatchPlan]:
    """How batches go, one after the other: at once or after a while, some of them with requests that expire or fail."""
    random, plans = Random(f"batches {seed}"), []
    for _ in range(10_000):
        goes = BatchPlan(looks=random.choice([0, 1, 3, 6]))
        if random.random() < 0.15:
            goes.ends, goes.answers = "expired", random.randrange(10)
        elif random.random() < 0.15:
            goes.statuses = {random.randrange(10): 500}
        plans.append(goes)
    return plans


def now() -> float:
    """A clock that no fault steps."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


async def soak(plan: Plan) -> Soaked:
    """Carry out the plan."""
    plan.folder.mkdir(parents=True)
    disk_folder, scratch = plan.folder / "disk", plan.folder / "scratch"
    for folder in (disk_folder, scratch):
        folder.mkdir()
    async with AsyncExitStack() as exits:
        wanted = "full disk" in plan.faults
        disk = await exits.enter_async_context(limited_disk(disk_folder)) if wanted else None
        calls = plan.folder / "calls"
        calls.touch()
        session = _Session(plan, calls, now())
        processes_before = {process.pid for process in psutil.process_iter()}
        async with session.open(disk_folder / "home", disk, scratch):
            await session.run()
            history = await session.ended()
        history.left_over["processes"] = _processes_of(plan.folder, processes_before)
    return Soaked(history, session.witnessed, session.began, session.skipped, now() - session.began)


@dataclass
class _Session:
    plan: Plan
    calls: Path
    began: float
    witnessed: list[Violation] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    faults: list[Row] = field(default_factory=list)
    series: list[Row] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    watched: asyncio.Event = field(default_factory=asyncio.Event)
    open_runs: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def open(self, home: Path, disk: Path | None, scratch: Path) -> AsyncIterator[None]:
        async with AsyncExitStack() as exits:
            self.stack = await exits.enter_async_context(embedded_stack(home, ui=False))
            store_way = await exits.enter_async_context(proxied(urlsplit(self.stack.database_url).port or 0))
            temporal_way = await exits.enter_async_context(proxied(int(self.stack.temporal_address.rpartition(":")[2])))
            endpoint = await exits.enter_async_context(logged_endpoint(self.calls))
            simulated = await exits.enter_async_context(simulated_model(latency_ms=60))
            batches = await exits.enter_async_context(batch_server(endpoint.batched, self.plan.folder / "batches"))
            batches.plans += plans_of_batches(self.plan.seed)
            self.client = await connect(self.stack.temporal_address)
            runner = await exits.enter_async_context(runners.serving(runners.Runner(self.client)))
            self.where = Addresses(endpoint.url, simulated.base_url, runner, batches.url)
            await exits.enter_async_context(served_activity(self.client, endpoint))
            self.environment = self._environment(store_way.port, temporal_way.port, simulated.url, home, scratch)
            library = clock_library()
            clocks = [None] * (self.plan.workers - 1) + [library]
            workers = [WornWorker(n, self.environment, self.plan.folder, clock) for n, clock in enumerate(clocks)]
            self.scratch = scratch
            self.victims = Victims(self.stack, workers, store_way, temporal_way, endpoint, disk)
            if disk is None and "full disk" in self.plan.faults:
                self.skipped["full disk"] = "no file system may be mounted here"
            if library is None and "step clock" in self.plan.faults:
                self.skipped["step clock"] = "libfaketime is not installed"
            for worker in workers:
                await worker.start()
                exits.push_async_callback(worker.end)
            exits.push_async_callback(self._kill_commands)
            self.database = await Database.open(self.stack.database_url)
            exits.push_async_callback(self.database.close)
            yield

    def _environment(self, store: int, temporal: int, simulated: str, home: Path, scratch: Path) -> dict[str, str]:
        """What workers and commands are told; both reach the servers through the proxies."""
        parts = urlsplit(self.stack.database_url)
        there = parts.netloc.rpartition("@")[0] + f"@127.0.0.1:{store}"
        endpoint = self.where.endpoint
        return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {
            "TEMPORAL_ADDRESS": f"127.0.0.1:{temporal}",
            "DATABASE_URL": urlunsplit(parts._replace(netloc=there)),
            "TMPDIR": str(scratch),
            "RATCHET_PLUGINS": "plugged,ruled,soaked,own_optimizers",
            "RATCHET_PLUGIN_PATH": str(PLUGINS),
            "RATCHET_SOAK_CALLS": str(self.calls),
            "RATCHET_STATE_DIR": str(home.parent / "journal"),
            "RATCHET_HTTP_URLS": endpoint,
            "RATCHET_MODEL_URLS": f"{endpoint},{simulated},{self.where.batches.removesuffix('/v1')}",
            "RATCHET_ACTIVITY_QUEUES": "theirs",
            "RATCHET_RUNNER_URLS": self.where.runner,
            "OPENAI_API_KEY": "none-needed",
            "OPENAI_BASE_URL": f"{endpoint}/v1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    # -- while it lasts -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        engines = Engines(self.stack, self.client, self.database)
        async with tried_prompt(engines, hill_spec(name="soak-prompt")) as prompt:
            await prompt.released(x=500)
            self.began = now()
            numbers = itertools.count()
            watching = asyncio.create_task(self._watch())
            async with asyncio.TaskGroup() as group:
                for _ in range(self.plan.at_once):
                    group.create_task(self._one_run_after_another(numbers))
                group.create_task(self._release(prompt))
                await self._harm()
                self.over.set()
            self.watched.set()
            await watching

    async def _harm(self) -> None:
        random = Random(f"faults {self.plan.seed}")
        kinds = [kind for kind in self.plan.faults if kind not in self.skipped]
        weights = [FAULTS[kind][1] for kind in kinds]
        while now() - self.began < 60 * self.plan.minutes or len(self.faults) < self.plan.fewest_faults:
            await asyncio.sleep(0.2 + random.expovariate(1.0))
            count = 2 if random.random() < 0.15 else 1
            chosen = random.choices(kinds, weights, k=count)
            await asyncio.gather(*(self._one_fault(kind, Random(random.random())) for kind in dict.fromkeys(chosen)))

    async def _one_fault(self, kind: str, random: Random) -> None:
        deadline = now() + SECONDS_FOR_CALLS
        while not (under_way := self._under_way()) and now() < deadline:
            await asyncio.sleep(0.05)
        fault: Row = {"kind": kind, "at": now(), "in_flight": under_way, "callers": self.plan.workers}
        try:
            fault["victim"] = await FAULTS[kind][0](self.victims, random)
        except NobodyThere:
            return
        except TimeoutError:
            self.witnessed.append(Violation("no recovery", kind, "what was killed did not come back", fault["at"]))
            fault["victim"] = "?"
        fault["until"] = now()
        self.faults.append(fault)

    def _under_way(self) -> int:
        """Calls that have begun, are not over, and whose caller lives."""
        found: dict[str, int] = {}
        for line in logged_calls(self.calls)[-400:]:
            if line["what"] == "begun":
                found[line["call"]] = line["pid"]
            else:
                found.pop(line["call"], None)
        return sum(psutil.pid_exists(pid) for pid in found.values())

    async def _one_run_after_another(self, numbers: itertools.count[int]) -> None:
        while not self.over.is_set():
            number = next(numbers)
            random = Random(f"run {self.plan.seed} {number}")
            design = self.plan.designs[(number + self.plan.seed) % len(self.plan.designs)]
            run_id = f"{design.name}-{number}"
            spec = design.spec(run_id, random.randrange(10**6), self.where)
            self.open_runs.add(run_id)
            if design.in_team:
                await self._in_team(run_id, f"soak-{number // len(self.plan.designs)}")
            if design.by_command:
                await self._command(run_id, spec)
            else:
                await self._workflow(run_id, spec, cancelled=random.random() < CANCELLED)
            self.open_runs.discard(run_id)

    async def _in_team(self, run_id: str, team: str) -> None:
        """Let a run be a team's, which has a budget for the month."""
        while True:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(10):
                    await Teams(self.database).create(team, (), "soak")
                    await TeamBudgets(self.database).set(team, OF_A_TEAM, "soak")
                    await Teams(self.database).claim_run(run_id, team)
                    return
            await asyncio.sleep(0.5)

    async def _workflow(self, run_id: str, spec: dict[str, Any], *, cancelled: bool) -> None:
        handle: WorkflowHandle[Any, Any] = self.client.get_workflow_handle(run_id)
        while True:
            try:
                async with asyncio.timeout(10):
                    await self.client.start_workflow("OptimizationWorkflow", spec, id=run_id, task_queue="optimization")
                break
            except WorkflowAlreadyStartedError:
                break
            except Exception:  # the server is away: that is what this is about
                await asyncio.sleep(0.5)
        if cancelled:
            await asyncio.sleep(4)
            with contextlib.suppress(Exception):
                await handle.cancel()
        await self._until_closed(run_id)

    async def _until_closed(self, run_id: str) -> None:
        deadline: float | None = None
        while deadline is None or now() < deadline:
            if self.over.is_set() and deadline is None:
                deadline = now() + SECONDS_FOR_ENDS
            with contextlib.suppress(Exception):
                async with asyncio.timeout(5):
                    found = await self.client.get_workflow_handle(run_id).describe()
                    if found.close_time is not None:
                        return
            await asyncio.sleep(0.5)

    async def _command(self, run_id: str, spec: dict[str, Any]) -> None:
        """`ratchet run`, started again as often as it is killed."""
        folder = self.plan.folder / "commands" / run_id
        folder.mkdir(parents=True)
        (folder / "spec.json").write_text(json.dumps(spec))
        deadline: float | None = None
        code: int | None = None
        while deadline is None or now() < deadline:
            if self.over.is_set():
                deadline = deadline or now() + SECONDS_FOR_ENDS
            with (folder / "out").open("ab") as out:
                process = await asyncio.create_subprocess_exec(
                    *[sys.executable, "-P", "-m", "clients.cli", "run", "spec.json", "--yes", "--home", str(folder / "home")],
                    cwd=folder,
                    env=self.environment | {"PYTHONPATH": str(ROOT)},
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            self.victims.commands[run_id] = process
            try:
                async with asyncio.timeout(60 * self.plan.minutes + SECONDS_FOR_ENDS):
                    code = await process.wait()
            except TimeoutError:
                break
            # 5 is a server that was away for longer than a command is patient: whoever gave it starts it again.
            if code not in (-signal.SIGKILL, 5):
                break
        del self.victims.commands[run_id]
        if code not in (0, 1):
            self.witnessed.append(Violation("command did not end well", run_id, f"it ended with {code}", now()))

    async def _release(self, prompt: Prompt) -> None:
        """Ask again and again for the one version or the other, at times two at once."""
        random = Random(f"releases {self.plan.seed}")
        for number in itertools.count():
            if self.over.is_set():
                return
            asked = [f"soak-{number}-{place}" for place in range(1 + (random.random() < 0.3))]
            await asyncio.gather(*(self._one_release(prompt, one, random.choice(["1.0.0", "1.0.1"])) for one in asked))
            await asyncio.sleep(random.uniform(1, 4))

    async def _one_release(self, prompt: Prompt, release_id: str, version: str) -> None:
        deadline = now() + SECONDS_FOR_ENDS
        while now() < deadline:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(30):
                    await prompt.ask(release_id=release_id, kind="rollback", version=version)
                    return
            await asyncio.sleep(0.5)
        self.witnessed.append(Violation("release without answer", release_id, "asked again and again", now()))

    async def _watch(self) -> None:
        while not self.watched.is_set():
            try:
                async with asyncio.timeout(SECONDS_FOR_A_LOOK):
                    await self._look()
            except Exception as error:  # a look that a fault disturbed; the next one goes on
                sys.stderr.write(f"{now() - self.began:.0f} s, not looked: {error!r}\n")
            if len(self.series) % 15 == 0:
                sys.stderr.write(
                    f"{now() - self.began:.0f} s, {len(self.faults)} faults, open: {', '.join(sorted(self.open_runs))}\n"
                )
            await asyncio.sleep(SECONDS_BETWEEN_POINTS)

    async def _look(self) -> None:
        """Start workers that ended by themselves, and note how large everything is."""
        for worker in self.victims.workers:
            await worker.keep_alive()
        self.series.append(
            {
                "at": now() - self.began,
                "steady_rss_mb": self.victims.workers[0].memory(),
                "connections": await connections(self.stack.database_url),
            }
        )

    # -- afterwards ---------------------------------------------------------------------------------------------------------

    async def ended(self) -> History:
        """Let the workers end in peace, and read everything."""
        async with asyncio.timeout(60):
            while self._under_way():
                await asyncio.sleep(0.2)
        stored = await tables(self.stack.database_url)
        for run in stored["runs"]:
            if run["finished_at"] is not None and run["status"] in {"completed", "failed"}:
                for one in await differences_in_store(self.database, run["run_id"]):
                    self.witnessed.append(Violation("replay differs", run["run_id"], str(one)))
        for worker in self.victims.workers:
            await asyncio.wait_for(worker.end(signal.SIGTERM), 60)
        await self.database.close()
        left = await self._without_connections()
        history = History(stored, logged_calls(self.calls), self.faults, await executions(self.client), self.series)
        files = [str(path.relative_to(self.scratch)) for path in sorted(self.scratch.rglob("*")) if path.is_file()]
        killed = sum(worker.killed for worker in self.victims.workers)
        history.left_over |= {"connections": left, "files": files, "killed_workers": killed}
        return history

    async def _without_connections(self) -> int:
        """Connections that are still there some time after the last client went."""
        deadline, left = now() + 15, None
        while now() < deadline and left != 0:
            left = await connections(self.stack.database_url)
            await asyncio.sleep(0.2)
        return left or 0

    async def _kill_commands(self) -> None:
        for process in self.victims.commands.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def _processes_of(folder: Path, before: set[int]) -> list[str]:
    """Those that came since, and whose command line or environment names the soak's folder."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        if process.pid in before or process.pid == os.getpid():
            continue
        with contextlib.suppress(psutil.Error):
            told = " ".join(process.info["cmdline"] or [])
            if str(folder) in told or str(folder) in process.environ().get("RATCHET_SOAK_CALLS", ""):
                found.append(f"{process.pid} {told[:100]}")
    return found
