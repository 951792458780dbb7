"""Plug-ins are imported in a process of their own first: what an import kills, or never gives back, shall not be the worker."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from activities.plugins.isolation import ending
from activities.plugins.loader import Plugins, invalid
from activities.settings import environment_of_children
from ratchet._processes.child_process import begin_piped

LONGEST_IMPORT = 60.0
"""Seconds for all plug-ins of a run."""

PROGRAM = f"from {__name__} import main; main()"
DONE = "done"


async def import_elsewhere(plugins: Plugins, references: Sequence[str], longest: float) -> None:
    """Refuse what cannot be imported without losing the process. Other errors are told by the import that follows here."""
    imported = [reference for reference in references if not plugins.of_program(reference)]
    unknown = [reference for reference in imported if reference.partition(":")[0] not in sys.modules]
    if not unknown:
        return
    asked = json.dumps([unknown, plugins.allowed, None if plugins.search_path is None else str(plugins.search_path)])
    process = await begin_piped(sys.executable, "-P", "-c", PROGRAM, asked, env=environment_of_children())
    announced = [unknown[0]]
    try:
        async with asyncio.timeout(longest):
            async for line in process.stdout:
                announced.append(line.decode().strip())
            code = await process.wait()
    except TimeoutError:
        told = f"plug-in {announced[-1]}: importing it took longer than {longest:g} s; import less"
        raise invalid(told) from None
    finally:
        process.kill()
        await process.wait()
    if announced[-1] != DONE:
        raise invalid(
            f"plug-in {announced[-1]}: importing it killed the process ({ending(code)}); "
            "do what may end a process in the function, not when the module is imported"
        )


def main() -> None:
    """The child's side: say what is imported next, import it, and say at last that nothing is left."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    references, allowed, search_path = json.loads(sys.argv[1])
    plugins = Plugins(allowed, Path(search_path) if search_path else None)
    for reference in references:
        print(reference, file=answers, flush=True)
        with suppress(BaseException):
            plugins.resolve(reference, 0)
    print(DONE, file=answers, flush=True)
    # Threads that an import left behind must not keep this process alive.
    os._exit(0)
