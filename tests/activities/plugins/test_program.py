"""Functions of the program that a worker runs in: called where they are, and never imported."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugins
from activities.plugins.loops import PluginLoops
from activities.plugins.probe import import_elsewhere
from activities.plugins.program import ImportablePlace, Program, ProgramFunction
from tests.support.engines import PLUGINS
from workflows.model.spec.extensions.named_plugins import PROGRAM

ANSWER = f"{PROGRAM}:answer"


def served(function: Any, place: ImportablePlace | None = None) -> Plugins:
    return Plugins(program=Program({ANSWER: ProgramFunction(function, place)}))


async def test_it_is_called_where_it_is_also_where_others_are_isolated() -> None:
    seen: list[Any] = []

    def answer(statistics: Any) -> float:
        seen.append(statistics)
        if statistics["n"] > 1:
            raise RuntimeError("too much")
        return float(os.getpid())

    plugins = served(answer)
    await import_elsewhere(plugins, [ANSWER], 1.0)
    called = await Isolation().call(plugins, ANSWER, "objective", {"statistics": {"n": 1}})
    assert (called, seen) == ({"number": float(os.getpid())}, [{"n": 1}])
    with pytest.raises(IsolatedFault, match="too much"):
        await Isolation().call(plugins, ANSWER, "objective", {"statistics": {"n": 2}})


def test_only_its_own_program_serves_it() -> None:
    with pytest.raises(ApplicationError, match="of the program that started the run, which alone serves it"):
        Plugins([PROGRAM]).resolve(ANSWER, 3)
    with pytest.raises(ApplicationError, match="no other process can import it"):
        served(print).import_elsewhere(ANSWER)
    told = served(print, ImportablePlace("plugged:answer", PLUGINS)).import_elsewhere(ANSWER)
    assert told == {"reference": "plugged:answer", "allowed": ["plugged"], "search_path": str(PLUGINS)}


def test_a_target_may_do_without_the_last_argument() -> None:
    assert served(lambda configuration, sample: (configuration, sample)).resolve(ANSWER, 3).call(1, 2, 3) == (1, 2)
    with pytest.raises(ApplicationError, match="called with 3 positional arguments"):
        served(lambda configuration: configuration).resolve(ANSWER, 3)
    with pytest.raises(ApplicationError, match="called with 2 positional arguments"):
        served(lambda output: output).resolve(ANSWER, 2)


async def test_its_async_functions_run_in_its_own_loop_and_what_is_cancelled_with_that_is_no_answer() -> None:
    here = asyncio.get_running_loop()
    loop = PluginLoops(program=here).of(ANSWER)
    begun = asyncio.Event()

    async def where() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def ends_with_its_program() -> None:
        begun.set()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    assert await loop.run(where) is here
    call = asyncio.create_task(loop.run(ends_with_its_program))
    await begun.wait()
    await asyncio.wait({call}, timeout=0.05)
    assert not call.done()
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
