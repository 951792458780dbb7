"""The child's side of isolation: one call of a plug-in in a process of its own, which may die without taking a worker along.

Reads one JSON object from stdin, writes `ready` when the plug-in is imported, then one JSON object with the answer.
Whatever the plug-in itself prints goes to stderr.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from activities.plugins import Plugins
from activities.targets.answers import output_from
from activities.targets.faults import CandidateFault
from ratchet import ExperimentContext, Output, Sample, Score
from workflows.model.failures import described

READY = "ready"


class _Kind(NamedTuple):
    """How a kind of plug-in is called, and how its answer is written."""

    arguments: Callable[[dict[str, Any]], tuple[Any, ...]]
    answer: Callable[[Any], Any]


def _sample(fields: dict[str, Any]) -> Sample:
    return Sample(**{**fields, "tags": tuple(fields["tags"])})


def _target_arguments(request: dict[str, Any]) -> tuple[Any, ...]:
    return request["configuration"], _sample(request["sample"]), ExperimentContext(**request["context"])


def _scorer_arguments(request: dict[str, Any]) -> tuple[Any, ...]:
    return Output(**request["output"]), _sample(request["sample"])


def _scores(returned: Any) -> list[Any]:
    """Scores as mappings, and bare values as they are: the worker judges them."""
    given = returned if isinstance(returned, list | tuple) else [returned]
    return [dataclasses.asdict(part) if isinstance(part, Score) else part for part in given]


_KINDS = {
    "target": _Kind(_target_arguments, lambda returned: dataclasses.asdict(output_from(returned))),
    "scorer": _Kind(_scorer_arguments, _scores),
}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    _write(answers, _answer(request, answers))
    # Not sys.exit: threads that the plug-in left behind must not keep this process alive.
    os._exit(0)


def _end_with_the_parent() -> None:
    """Stdin ends when the worker does, however it ends; then nobody waits for the answer."""
    sys.stdin.read()
    os._exit(1)


def _answer(request: dict[str, Any], answers: TextIO) -> str:
    try:
        kind = _KINDS[request["kind"]]
        place = request["search_path"]
        plugins = Plugins(request["allowed"], Path(place) if place else None)
        arguments = kind.arguments(request)
        plugin = plugins.resolve(request["reference"], len(arguments))
        answers.write(f"{READY}\n")
        answers.flush()
        started = time.perf_counter()
        returned = plugin.call(*arguments)
        if inspect.isawaitable(returned):
            returned = asyncio.run(_awaited(returned))
        elapsed_ms = (time.perf_counter() - started) * 1000
        return json.dumps({"answer": kind.answer(returned), "elapsed_ms": elapsed_ms})
    except CandidateFault as error:
        return json.dumps({"fault": str(error)})
    except BaseException as error:
        return json.dumps({"fault": f"{request['kind']} raised {described(error)}"})


async def _awaited(returned: Any) -> Any:
    return await returned


def _write(answers: TextIO, answer: str) -> None:
    answers.write(f"{answer}\n")
    answers.flush()
