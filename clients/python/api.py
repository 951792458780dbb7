"""`ratchet.optimize` and its like: a run in one call."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import pydantic

from clients.commands.context import Context, home_of
from clients.python.attended_run import WORDS, Run, begun, running_loop
from clients.python.engine import close, engine_at
from clients.python.notebook_display import NotebookContext, NotebookDisplay, is_in_notebook
from clients.python.result import Result
from clients.python.spec_arguments import CallOptions, SpecFields, spec_of
from clients.runs.run_options import OptionWords, RunOptions
from ratchet.errors import RunError

__all__ = ["Result", "Run", "aoptimize", "close", "compress", "explore", "measure", "optimize", "start"]

Spec = Mapping[str, Any] | pydantic.BaseModel | str | Path | None
"""A spec: its content, a model of it, or its file."""


def optimize(spec: Spec = None, /, **given: Unpack[CallOptions]) -> Result:
    """Improve a configuration, and return what came of it.

    Keywords are named as in a spec, and come in the place of its fields where a spec is given, too. Functions and closures of
    the program are fine as `target`, `scorer`, `objective`, `data` and wherever a spec has a `ref`; this program serves them.
    The same call is the same run: it goes on where it was, and a finished one is shown, and not paid again.

    Raises SpecError where `ratchet check` would refuse it, and RunError where the run failed.
    """
    return _begun(spec, given, None).result()


async def aoptimize(spec: Spec = None, /, **given: Unpack[CallOptions]) -> Result:
    """Do the same within a running event loop, in which async functions are called, too."""
    return await (await asyncio.to_thread(_begun, spec, given, asyncio.get_running_loop()))


def start(spec: Spec = None, /, **given: Unpack[CallOptions]) -> Run:
    """Start a run, or find the one there is, and return at once: to follow it, to steer it, and to await its result."""
    return _begun(spec, given, running_loop())


def measure(spec: Spec = None, /, **given: Unpack[CallOptions]) -> Result:
    """Measure the configuration as it is; nothing is searched."""
    return _begun(spec, {**given, "optimizer": {"name": "none"}}, None).result()


def explore(configurations: Sequence[Mapping[str, Any]], spec: Spec = None, /, **given: Unpack[CallOptions]) -> Result:
    """Measure variations of the configuration side by side; each names the factors that differ."""
    optimizer = {"name": "none", "configurations": [dict(one) for one in configurations]}
    return _begun(spec, {**given, "optimizer": optimizer}, None).result()


def compress(spec: Spec = None, /, **given: Unpack[CallOptions]) -> Result:
    """Make texts shorter without loss; `optimizer` may hold the options of `compress`."""
    options: Any = given.get("optimizer", {})
    if not isinstance(options, Mapping):
        raise RunError("compress: optimizer holds its options, such as {'max_edits': 10}")
    return _begun(spec, {**given, "optimizer": {**options, "name": "compress"}}, None).result()


def run_declared(given: Mapping[str, Any], words: OptionWords) -> Result:
    """Run what a declaration asks for. `words` are what options are called where it is run."""
    return _begun(None, given, None, words).result()


def _begun(spec: Spec, given: Mapping[str, Any], loop: asyncio.AbstractEventLoop | None, words: OptionWords = WORDS) -> Run:
    if any("plugins.isolated" in argument for argument in sys.orig_argv):
        told = "the module that a function is in was imported by a process of its own, and starts a run as it is imported"
        raise RunError(f'{told}; put the call below `if __name__ == "__main__":`')
    fields = {name: value for name, value in given.items() if name not in CallOptions.__annotations__.keys() - _SPEC_FIELDS}
    shown = given.get("progress")
    home = home_of(None if given.get("home") is None else Path(given["home"])).absolute()
    notebook = is_in_notebook()
    if shown is None:
        shown = sys.stdout.isatty() or notebook
    display = NotebookDisplay() if shown and notebook else None
    context = Context(json=not shown, home=home) if display is None else NotebookContext(False, home, display)
    options = RunOptions(
        new=bool(given.get("new")),
        yes=bool(given.get("yes")),
        ask_above=given.get("ask_above", 1.0),
        words=words,
        asks_after_look=False,
    )
    engine = engine_at(home)
    try:
        with spec_of(spec, fields) as arguments:
            return engine.run(begun(engine, arguments, context, options, loop, display))
    except BaseException:
        if display is not None:
            display.remove()
        raise


_SPEC_FIELDS = SpecFields.__annotations__.keys()
