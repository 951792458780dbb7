"""Kill -9 of every process of `ratchet run`, at moments when calls are under way, and what each kill cost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil

from clients.embedded.stack import embedded_stack, stack_state
from store.connection import Database
from tests.support.killed_runs import everything_decided
from tests.support.replaying import differences_in_store

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "tests" / "support" / "plugins"
CONCURRENT = 8
PATIENCE = 180.0

Hear = Callable[[], Awaitable[None]]

VICTIMS: tuple[tuple[str, ...], ...] = (
    ("run",),
    ("plugin",),
    ("worker",),
    ("supervisor",),
    ("postmaster",),
    ("backend",),
    ("temporal",),
    ("run", "worker", "plugin"),
    ("supervisor", "run"),
    ("plugin", "postmaster"),
    ("worker", "plugin", "temporal"),
    ("run", "worker", "plugin", "supervisor", "postmaster", "temporal"),
)


@dataclass
class Kill:
    """One moment, and what came of it."""

    victims: tuple[str, ...]
    in_flight: int
    begun: int
    """Calls in the log when the last of those who made them was gone."""
    extra: int = 0
    """Calls that it made necessary once more, also when the next kill came before they were repeated."""
    unsent: int = 0
    """Calls that were noted and had not arrived when their maker was gone: who goes on has to take them for made."""


@dataclass
class Run:
    """What a run decided, and what it says it lost."""

    decided: dict[str, Any]
    calls: int
    lost: dict[str, int]
    differences: list[str]
    kills: list[Kill] = field(default_factory=list)
    unsent: int = 0
    """Calls that were noted before they were made, and that nobody was ever asked."""


class Calls:
    """The log of all calls, whoever made them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._dead = Counter[str]()

    def _lines(self, kind: str) -> Counter[str]:
        text = self._path.read_text() if self._path.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        return Counter(line.removeprefix(kind) for line in lines if line.startswith(kind))

    @property
    def begun(self) -> int:
        return self._lines("start ").total()

    @property
    def extra(self) -> int:
        """Calls that were made once more."""
        begun = self._lines("start ")
        return begun.total() - len(begun)

    def blame(self, kills: list[Kill]) -> None:
        """Attribute every repeated call to the first kill after it had begun; without one, to the last kill before."""
        last: dict[str, int] = {}
        lines = [line for line in self._path.read_text().splitlines() if line.startswith("start ")]
        for place, line in enumerate(lines):
            if line in last:
                between = [kill for kill in kills if last[line] < kill.begun <= place]
                before = [kill for kill in kills if kill.begun <= last[line]]
                for kill in between[:1] or before[-1:]:
                    kill.extra += 1
            last[line] = place

    @property
    def open(self) -> Counter[str]:
        """Begun, not ended, and made by somebody who lives."""
        return self._lines("start ") - self._lines("end ") - self._dead

    def bury(self) -> None:
        """Whoever made the open calls is dead."""
        self._dead += self.open


class NotedCalls:
    """What workers noted before they called, also of shards that are over: every file of notes is linked to before it goes."""

    def __init__(self, folder: Path, links: Path) -> None:
        self._folder, self._links = folder, links
        links.mkdir()

    def link(self) -> None:
        for path in self._folder.glob("*.*"):
            if path.suffix[1:].isdecimal():
                with contextlib.suppress(FileExistsError, FileNotFoundError):
                    (self._links / path.name).hardlink_to(path)

    @property
    def begun(self) -> int:
        """Calls that were noted, without those that were refused for nothing."""
        self.link()
        lines = [line for path in self._links.iterdir() for line in path.read_text().split()]
        return sum(-1 if line.startswith("-") else 1 for line in lines)


class Command:
    """`ratchet run` in a home of its own, killed and started again."""

    def __init__(self, folder: Path, spec: dict[str, Any], hear: Hear | None = None) -> None:
        """`hear` returns when every call that was sent is in the log. Calls that are not sent anywhere need none."""
        folder.mkdir(parents=True)
        self.folder, self.home, self.calls = folder, folder / "home", Calls(folder / "calls")
        self.noted, self._hear = NotedCalls(self.home / "calls", folder / "noted"), hear
        for plugin in PLUGINS.glob("*.py"):
            shutil.copy(plugin, folder)
        (folder / "spec.json").write_text(json.dumps(spec))
        self.process: asyncio.subprocess.Process | None = None
        self.unsent = 0

    async def start(self) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        more = {
            name: value for name, value in os.environ.items() if name.startswith(("OPENAI_", "RATCHET_HTTP", "RATCHET_RUN"))
        }
        environment = {**kept, **more, "PYTHONPATH": str(ROOT), "RATCHET_TEST_CALLS": str(self.folder / "calls")}
        with (self.folder / "out").open("ab") as out:
            self.process = await asyncio.create_subprocess_exec(
                *[sys.executable, "-P", "-m", "clients.cli", "run", "spec.json", "--yes", "--home", str(self.home)],
                cwd=self.folder,
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        return self.process is not None and self.process.returncode is not None

    def _workers(self) -> dict[str, int]:
        """Those that serve this home, also as orphans."""
        found: dict[str, int] = {}
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"] or []
            if "worker" in command and "--log-file" in command and str(self.home) in command[-1]:
                found["plugin" if "plugin-worker" in command[-1] else "worker"] = process.pid
        return found

    def pids(self) -> dict[str, int]:
        """Every process that can be killed, by what it is."""
        state = stack_state(self.home)
        found = self._workers()
        if self.process is not None and self.process.returncode is None:
            found["run"] = self.process.pid
        named = {"supervisor": state.supervisor_pid, "postmaster": state.postgres_pid, "temporal": state.temporal_pid}
        found |= {name: pid for name, pid in named.items() if pid is not None}
        if state.postgres_pid is not None:
            with contextlib.suppress(psutil.Error):
                backends = [
                    p.pid for p in psutil.Process(state.postgres_pid).children() if "ratchet ratchet" in " ".join(p.cmdline())
                ]
                if backends:
                    found["backend"] = backends[-1]
        return found

    async def aim(self, victims: tuple[str, ...], reached: Callable[[], bool]) -> dict[str, int] | None:
        """The processes to kill, at a moment when so many calls are under way; None when the run ended before."""
        while True:
            await until(lambda: self.has_ended or set(victims) <= set(self.pids()))
            pids = self.pids()
            await until(lambda: self.has_ended or self._is_reached(reached))
            if self.has_ended:
                return None
            if set(victims) <= set(pids) and all(psutil.pid_exists(pids[victim]) for victim in victims):
                return pids

    @property
    def under_way(self) -> int:
        """Calls that are noted and have not arrived, and whose maker lives."""
        return self.noted.begun - self.calls.begun - self.unsent

    async def stop_before_sending(self, pid: int) -> bool:
        """Stop this process between the note of a call and its request; False when the run ended before."""
        assert self._hear is not None
        while not self.has_ended:
            await asyncio.sleep(0)
            if self.under_way:
                os.kill(pid, signal.SIGSTOP)
                await self._hear()
                if self.under_way:
                    return True
                os.kill(pid, signal.SIGCONT)
        return False

    def _is_reached(self, reached: Callable[[], bool]) -> bool:
        self.noted.link()
        return reached()

    async def kill(self, victims: tuple[str, ...], pids: dict[str, int], caller: str, random: Random) -> Kill:
        """Kill them at once. Returns when those who made calls are gone, and the command runs again."""
        unsent = 0
        if self._hear is not None and caller in victims:  # it stands still until all that it sent has arrived
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[caller], signal.SIGSTOP)
            await self._hear()
            unsent = self.under_way
            self.unsent += unsent
        kill = Kill(victims, self.calls.open.total(), self.calls.begun, unsent=unsent)
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[victim], signal.SIGKILL)
        if "run" in victims:
            assert self.process is not None
            await self.process.wait()
        alone = caller in victims or ("run" in victims and random.random() < 0.5)
        if alone:
            await until(lambda: self._is_gone(caller, pids))
            self._bury(caller, kill)
        if "run" in victims:
            await self.start()
            await until(lambda: self._is_gone(caller, pids))
            self._bury(caller, kill)
        return kill

    def _is_gone(self, caller: str, pids: dict[str, int]) -> bool:
        return caller not in pids or self._workers().get(caller) != pids[caller]

    def _bury(self, caller: str, kill: Kill) -> None:
        if caller != "nobody":
            self.calls.bury()
            kill.begun = self.calls.begun

    async def ended(self) -> None:
        await until(lambda: self._is_reached(lambda: self.has_ended))
        assert self.process is not None
        code = await self.process.wait()
        assert code == 0, (self.folder / "out").read_text()[-3000:]

    async def told(self, kills: list[Kill]) -> Run:
        """What is stored of it."""
        async with embedded_stack(self.home, ui=False) as stack:
            database = await Database.open(stack.database_url)
            try:
                async with database.connection() as connection:
                    run_id = await connection.fetchval("SELECT run_id FROM runs")
                    lost = await connection.fetchrow(
                        "SELECT (SELECT sum(lost_samples)::int FROM trials) AS trials, b.lost_samples::int AS account,"
                        " (r.result -> 'lost' ->> 'samples')::int AS result FROM runs r JOIN budgets b USING (run_id)"
                    )
                assert lost is not None
                differences = [str(one) for one in await differences_in_store(database, run_id)]
                decided = await everything_decided(stack, run_id)
            finally:
                await database.close()
        unsent = 0 if self._hear is None else self.noted.begun - self.calls.begun
        return Run(decided, self.calls.begun, dict(lost), differences, kills, unsent)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


async def undisturbed(folder: Path, spec: dict[str, Any], hear: Hear | None = None) -> Run:
    command = Command(folder, spec, hear)
    await command.start()
    await command.ended()
    return await command.told([])


async def disturbed(
    folder: Path,
    spec: dict[str, Any],
    victims: list[tuple[str, ...]],
    random: Random,
    caller: str = "plugin",
    most_open: int = CONCURRENT,
    hear: Hear | None = None,
    unsent: bool = False,
) -> Run:
    """Killed again and again, each time with calls under way: at first more, and then as many as there may be.

    `unsent` has it killed when a call of the caller's is noted, and has not arrived."""
    command = Command(folder, spec, hear)
    await command.start()
    kills: list[Kill] = []
    try:
        for one in victims:
            begun, least = command.calls.begun + random.randrange(2, 3 * CONCURRENT), random.randrange(1, most_open + 1)

            def reached(begun: int = begun, least: int = least) -> bool:
                return command.calls.begun >= begun and command.calls.open.total() >= least

            pids = await command.aim(one, reached)
            if pids is None or (unsent and not await command.stop_before_sending(pids[caller])):
                break
            kills.append(await command.kill(one, pids, caller, random))
        await command.ended()
        command.calls.blame(kills)
        return await command.told(kills)
    finally:
        for pid in command.pids().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def judged(spec_name: str, reference: Run, found: Run, concurrent: int = CONCURRENT) -> None:
    """Nothing differs, nothing more is repeated than was in flight, and what was repeated is told.

    A call that a kill kept from arriving is told, too: whoever was killed cannot say any more that it had not yet been sent.
    """
    told = f"{spec_name}: " + ", ".join(
        f"{'+'.join(k.victims)} {k.extra} ({k.in_flight}, {k.unsent} unsent)" for k in found.kills
    )
    for name, rows in reference.decided.items():
        assert found.decided[name] == rows, f"{name} differ; {told}"
    extra, unsent = found.calls - reference.calls, sum(kill.unsent for kill in found.kills)
    assert all(kill.extra + kill.unsent <= concurrent for kill in found.kills), told
    assert extra == sum(kill.extra for kill in found.kills), told
    assert (reference.unsent, found.unsent) == (0, unsent), f"{found.unsent} noted calls never arrived; {told}"
    assert found.differences == [], told
    lost = extra + unsent
    assert set(found.lost.values()) == {lost}, f"{found.lost} are told, {extra} were repeated, {unsent} unsent; {told}"
