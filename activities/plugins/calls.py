"""Calling a plug-in, whichever way it is written."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

from activities.plugins.loader import Plugin
from activities.plugins.loops import PluginLoops
from activities.plugins.threads import PluginThreads


@dataclass(frozen=True)
class PluginCalls:
    """What plug-ins run in, within one worker process: none of it is the worker's own event loop."""

    threads: PluginThreads = field(default_factory=PluginThreads)
    loops: PluginLoops = field(default_factory=PluginLoops)

    async def call(self, plugin: Plugin, *arguments: Any, **named: Any) -> Any:
        """What the plug-in returned: async ones run in a loop of theirs, others in threads, and what those return may be
        awaitable, too."""
        loop = self.loops.of(plugin.reference)
        if plugin.is_async:
            return await loop.run(lambda: plugin.call(*arguments, **named))
        returned = await self.threads.run(lambda: plugin.call(*arguments, **named))
        return await loop.run(lambda: returned) if inspect.isawaitable(returned) else returned
