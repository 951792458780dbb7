"""Warm processes for targets that keep a processor busy: each has imported its plug-in and answers one sample after another."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from activities.plugins.isolation import IsolatedFault, PluginProcess, ProcessDied, target_output, target_request
from ratchet import ExperimentContext, Output, Sample

if TYPE_CHECKING:
    from activities.plugins.loader import Plugins
    from activities.plugins.printed_text import PrintedText
    from ratchet.prompts.template import PromptTemplate

LONGEST_IDLE = 30.0
"""Seconds without work after which a process ends."""


class WarmProcesses:
    """The worker's warm processes, a bounded number per plug-in; they end when they are idle, and with the worker."""

    def __init__(self, *, longest_idle: float = LONGEST_IDLE) -> None:
        self._longest_idle = longest_idle
        self._pools: dict[tuple[str, str, int], _Pool] = {}

    def of(self, plugins: Plugins, reference: str, processes: int | None, kind: str = "target") -> _Pool:
        """The processes of one plug-in; everybody who asks for as many of them shares them."""
        size = processes or os.cpu_count() or 1
        return self._pools.setdefault((kind, reference, size), _Pool(plugins, reference, kind, size, self._longest_idle))

    async def close(self) -> None:
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.close()


class _Pool:
    """Processes of one plug-in. The one that was used last is used next, so that those not needed grow idle."""

    def __init__(self, plugins: Plugins, reference: str, kind: str, size: int, longest_idle: float) -> None:
        self._plugins = plugins
        self._reference = reference
        self._kind = kind
        self._longest_idle = longest_idle
        self._places = asyncio.Semaphore(size)
        self._idle: dict[PluginProcess, asyncio.TimerHandle] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def answer(
        self,
        configuration: Mapping[str, Any],
        sample: Sample,
        context: ExperimentContext,
        timeout: float,
        template: PromptTemplate | None = None,
        begins: Callable[[], None] = lambda: None,
        printed: PrintedText | None = None,
    ) -> Output:
        """The answer of a target to one sample."""
        request = target_request(configuration, sample, context, template)
        return target_output(await self.call(request, timeout, begins, printed))

    async def call(
        self,
        request: dict[str, Any],
        timeout: float,
        begins: Callable[[], None] = lambda: None,
        printed: PrintedText | None = None,
        *,
        repeated: bool = True,
    ) -> dict[str, Any]:
        """What the plug-in answered. `repeated` lets a call be made again whose process had served before, and died."""
        async with self._places:
            used = self._taken() if repeated else None
            if used is not None:
                # What an earlier sample left behind, such as a thread, may kill a process that has served before.
                with suppress(ProcessDied):
                    return await self._called(used, request, timeout, begins, printed)
            fresh = await PluginProcess.started(self._plugins, self._reference, self._kind)
            return await self._called(fresh, request, timeout, begins, printed)

    async def _called(
        self,
        process: PluginProcess,
        request: dict[str, Any],
        timeout: float,
        begins: Callable[[], None],
        printed: PrintedText | None,
    ) -> dict[str, Any]:
        begins()
        try:
            answer = await process.call(request, timeout, printed)
        except IsolatedFault as fault:
            if fault.leaves_the_process_usable:
                self._give_back(process)
            else:
                await process.kill()
            raise
        except BaseException:
            await process.kill()
            raise
        self._give_back(process)
        return answer

    def _taken(self) -> PluginProcess | None:
        while self._idle:
            process, timer = self._idle.popitem()
            timer.cancel()
            if process.is_alive:
                return process
            self._end(process)
        return None

    def _give_back(self, process: PluginProcess) -> None:
        loop = asyncio.get_running_loop()
        self._idle[process] = loop.call_later(self._longest_idle, self._end_idle, process)

    def _end_idle(self, process: PluginProcess) -> None:
        if self._idle.pop(process, None) is not None:
            self._end(process)

    def _end(self, process: PluginProcess) -> None:
        ending = asyncio.create_task(process.kill())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def close(self) -> None:
        for process, timer in self._idle.items():
            timer.cancel()
            self._end(process)
        self._idle.clear()
        if self._endings:
            await asyncio.wait(self._endings)
