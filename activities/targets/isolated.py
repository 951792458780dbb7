"""The child's side of isolation: calls of a plug-in in a process of its own, which may die without taking a worker along.

Reads one JSON object from stdin that names the plug-in, and writes `ready` when it is imported; then, for every JSON object
with a call, writes one with the answer. Whatever the plug-in itself prints goes to stderr.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from activities.plugins import Plugin, Plugins
from activities.targets.answers import output_from
from activities.targets.faults import CandidateFault
from ratchet import ExperimentContext, Output, Sample, Score, in_experiment
from ratchet.experiment import PromptUnderTest
from workflows.model.failures import described

if TYPE_CHECKING:
    from ratchet.prompts.template import PromptTemplate

READY = "ready"


class _Kind(NamedTuple):
    """How a kind of plug-in is called, and how its answer is written."""

    name: str
    parameters: int
    arguments: Callable[[dict[str, Any]], tuple[Any, ...]]
    answer: Callable[[Any], Any]


def _sample(fields: dict[str, Any]) -> Sample:
    return Sample(**{**fields, "tags": tuple(fields["tags"])})


def _target_arguments(request: dict[str, Any]) -> tuple[Any, ...]:
    return _configuration(request), _sample(request["sample"]), _context(request)


def _scorer_arguments(request: dict[str, Any]) -> tuple[Any, ...]:
    return Output(**request["output"]), _sample(request["sample"])


def _scores(returned: Any) -> list[Any]:
    """Scores as mappings, and bare values as they are: the worker judges them."""
    given = returned if isinstance(returned, list | tuple) else [returned]
    return [dataclasses.asdict(part) if isinstance(part, Score) else part for part in given]


def _configuration(request: dict[str, Any]) -> dict[str, Any]:
    if request["not_rendered"] is None:
        return dict(request["configuration"])
    from workflows.rules.overlay import NotRendered

    return NotRendered(request["configuration"], request["not_rendered"])


def _context(request: dict[str, Any]) -> ExperimentContext | None:
    """Scorers are called under no experiment."""
    return ExperimentContext(**request["context"]) if "context" in request else None


def _prompt(request: dict[str, Any]) -> PromptUnderTest | None:
    told = request.get("template")
    return None if told is None else PromptUnderTest.of(_template(told), request["configuration"])


@lru_cache(maxsize=8)
def _template(told: str) -> PromptTemplate:
    """The same for every sample of a run."""
    from ratchet.prompts.template import PromptTemplate

    return PromptTemplate.model_validate_json(told)


_KINDS = {
    "target": _Kind("target", 3, _target_arguments, lambda returned: dataclasses.asdict(output_from(returned))),
    "scorer": _Kind("scorer", 2, _scorer_arguments, _scores),
}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_until_the_parent_ends, args=(requests,), daemon=True).start()
    try:
        plugin, kind = _imported(json.loads(requests.get()))
    except BaseException as error:
        _write(answers, json.dumps({"fault": f"importing the plug-in raised {described(error)}"}))
        # Not sys.exit: threads that the plug-in left behind must not keep this process alive.
        os._exit(0)
    _write(answers, READY)
    while True:
        _write(answers, _answer(plugin, kind, json.loads(requests.get())))


def _read_until_the_parent_ends(requests: queue.SimpleQueue[str]) -> None:
    """Stdin ends when the worker does, however it ends; then nobody waits for an answer."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(1)


def _imported(named: dict[str, Any]) -> tuple[Plugin, _Kind]:
    place = named["search_path"]
    plugins = Plugins(named["allowed"], Path(place) if place else None)
    kind = _KINDS[named["kind"]]
    return plugins.resolve(named["reference"], kind.parameters), kind


def _answer(plugin: Plugin, kind: _Kind, request: dict[str, Any]) -> str:
    try:
        arguments = kind.arguments(request)
        started = time.perf_counter()
        with in_experiment(_context(request), _prompt(request)):
            returned = plugin.call(*arguments)
            if inspect.isawaitable(returned):
                returned = asyncio.run(_awaited(returned))
        elapsed_ms = (time.perf_counter() - started) * 1000
        return json.dumps({"answer": kind.answer(returned), "elapsed_ms": elapsed_ms})
    except CandidateFault as error:
        return json.dumps({"fault": str(error), "kind": error.kind})
    except BaseException as error:
        return json.dumps({"fault": f"{kind.name} raised {described(error)}", "kind": f"raised {type(error).__name__}"})


async def _awaited(returned: Any) -> Any:
    return await returned


def _write(answers: TextIO, answer: str) -> None:
    answers.write(f"{answer}\n")
    answers.flush()
