"""Calling a plug-in, whichever way it is written."""

from __future__ import annotations

import inspect
from typing import Any

from activities.plugins import Plugin
from activities.targets.threads import PluginThreads


async def called(plugin: Plugin, threads: PluginThreads, *arguments: Any) -> Any:
    """What the plug-in returned: async ones run in the loop, others in threads, and what they return may be awaitable, too."""
    if plugin.is_async:
        return await plugin.call(*arguments)
    returned = await threads.run(lambda: plugin.call(*arguments))
    return await returned if inspect.isawaitable(returned) else returned
