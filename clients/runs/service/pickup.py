"""Serving the code of every run that was started from a home, also of those that come while a command serves the home."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from clients.commands.context import Context
from clients.embedded.home import Home, held_shared, is_shared
from clients.runs.lookup import known_run
from clients.runs.service.run_code import CodeMissing, CodeNote, CodeNotes, code_of, notes_for
from clients.runs.service.servers import Servers, is_unreachable
from clients.runs.service.workers import PluginCode, Workers, workers_for

LOOK_EVERY: Final = 1.0
"""Seconds."""


@asynccontextmanager
async def taking_up(context: Context, servers: Servers) -> AsyncIterator[None]:
    """Until the block is left, every open run of this home has a worker for its plug-ins: where no other command serves them
    already, and for as long as their code is what the run began with."""
    with held_shared(Home.at(context.home).taking_up_lock):
        served = TakenUp(context, servers, notes_for(servers, context.home))
        await served.look()
        looking = asyncio.create_task(served.keep_looking())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await served.end()


@dataclass
class TakenUp:
    """The workers of one command for code that was noted."""

    context: Context
    servers: Servers
    notes: CodeNotes
    _workers: dict[str, tuple[AsyncExitStack, Workers]] = field(default_factory=dict)
    """By task queue."""
    _over: set[tuple[str, int]] = field(default_factory=set)
    """Notes of runs that have ended."""
    _given_up: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    async def keep_looking(self) -> None:
        """Look again and again; servers that are away come back."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.look()
            except Exception as error:
                if not is_unreachable(error):
                    self._tell(f"ratchet: a run's code cannot be taken up: {error}")

    async def look(self) -> None:
        """Begin to serve what an open run needs and nobody serves; end what none needs any more."""
        needed: set[str] = set()
        for state, note in await asyncio.to_thread(lambda: list(self.notes.all(self._over))):
            run = await known_run(self.servers, note.run_id)
            if not run.is_open:
                self._over.add(state)
                continue
            needed.add(note.code.task_queue)
            if self._is_served(note):
                continue
            try:
                code = await code_of(self.notes, run)
            except CodeMissing as error:
                self._tell(f"ratchet: {error}")
                continue
            if code is not None:
                await self._serve(code)
        for queue, (_, workers) in list(self._workers.items()):
            if queue not in needed:
                await self._stop(queue)
            elif workers.hopeless is not None:
                self._tell(f"ratchet: {workers.hopeless}")
                self._given_up.add(queue)
                await self._stop(queue)

    def _is_served(self, note: CodeNote) -> bool:
        queue = note.code.task_queue
        return queue in self._workers or queue in self._given_up or is_shared(Home.at(self.context.home).code_lock(queue))

    async def _serve(self, code: PluginCode) -> None:
        exits = AsyncExitStack()
        opening = workers_for(self.servers, self.context.home, plugins=code, role=None)
        self._workers[code.task_queue] = exits, await exits.enter_async_context(opening)

    async def _stop(self, queue: str) -> None:
        exits, _ = self._workers.pop(queue)
        await exits.aclose()

    def _tell(self, told: str) -> None:
        """Once each."""
        if told not in self._told:
            self._told.add(told)
            self.context.note(told)

    async def end(self) -> None:
        """Stop every worker."""
        await asyncio.gather(*(self._stop(queue) for queue in list(self._workers)))
