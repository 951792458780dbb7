"""Asking the person at the terminal, in a way that Ctrl-C still ends."""

from __future__ import annotations

import asyncio
import sys

from clients.commands.context import Context


def is_at_terminal(context: Context) -> bool:
    """Whether somebody is there to be asked."""
    return not context.json and sys.stdin.isatty() and sys.stdout.isatty()


async def agreed(question: str, *, unless_said: bool) -> bool:
    """Ask, and wait for yes or no without holding up anything else; Enter says `unless_said`, the end of the input says no."""
    print(f"{question} [{'Y/n' if unless_said else 'y/N'}] ", end="", flush=True)
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()
    # No thread that reads: nobody could end it. A terminal gives whole lines.
    loop.add_reader(sys.stdin.fileno(), lambda: None if line.done() else line.set_result(sys.stdin.readline()))
    try:
        said = await line
    finally:
        loop.remove_reader(sys.stdin.fileno())
    if not said:
        return False
    return said.strip().lower() in ("y", "yes") or (unless_said and not said.strip())
