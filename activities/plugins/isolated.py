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
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from activities.plugins.isolation import READY
from activities.plugins.loader import Plugin, Plugins
from activities.plugins.printed_text import PrintedText
from activities.plugins.tracebacks import traceback_of
from activities.targets.answers import output_from, usable_value
from activities.targets.faults import CandidateFault
from activities.targets.patience_requests import TRY_AGAIN
from ratchet import ExperimentContext, Output, Record, Sample, Score, StopFacts, TrialFacts, TryAgain, in_experiment
from ratchet._files import with_opened_files
from ratchet._formats.canonical import normalize
from ratchet.experiment import PromptUnderTest
from workflows.model.failures import described

if TYPE_CHECKING:
    from ratchet.prompts.template import PromptTemplate


class IsolatedRefusal(Exception):
    """What is wrong, in words for people; not what the plug-in raised."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


class _Kind(NamedTuple):
    """How a kind of plug-in is called, and how its answer is written."""

    name: str
    parameters: int
    arguments: Callable[[dict[str, Any]], tuple[Any, ...]]
    answer: Callable[[Any], Any]
    call: Callable[[Plugin, dict[str, Any]], Any] | None = None
    """For kinds that take more than one call."""


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
    configuration = with_opened_files(request["configuration"], request.get("sample", {}).get("files", {}))
    if request["not_rendered"] is None:
        return configuration
    from workflows.rules.overlay import NotRendered

    return NotRendered(configuration, request["not_rendered"])


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


def _records(request: dict[str, Any]) -> list[Record]:
    return [Record(**fields) for fields in request["records"]]


def _proposer_arguments(request: dict[str, Any]) -> tuple[Any, ...]:
    return dict(request["configuration"]), _records(request), list(request["factors"])


def _scored(plugin: Plugin, request: dict[str, Any]) -> Any:
    returned = _settled(plugin.call(request["statistics"]))
    plugin.validate({"score": returned}, {})
    return returned


def _proposed(plugin: Plugin, request: dict[str, Any]) -> Any:
    returned = _settled(plugin.call(*_proposer_arguments(request), **plugin.taken(request["offered"])))
    if isinstance(returned, Mapping):
        plugin.validate(returned, request["configuration"])
    return returned


def _mapping(returned: Any) -> Any:
    """A mapping of any kind as a plain one; anything else as the name of what it is, for the worker to refuse."""
    if isinstance(returned, Mapping):
        return {"mapping": normalize(dict(returned))}
    return {"type": type(returned).__name__}


def _number(returned: Any) -> Any:
    """A number; anything else in the words that the worker refuses it with."""
    from workflows.rules.scoring.objective_score import ScoringFailed, finite

    try:
        return {"number": finite(returned)}
    except ScoringFailed as error:
        return {"problem": str(error)}


def _words(returned: Any) -> Any:
    """Why the run ends, or None; anything else as the name of what it is, for the worker to refuse."""
    return {"words": returned} if returned is None or isinstance(returned, str) else {"type": type(returned).__name__}


def _items(plugin: Plugin, request: dict[str, Any]) -> Any:
    from activities.datasets.dataset_errors import DatasetError
    from activities.datasets.plugin_items import Taken

    try:
        Taken(Path(request["file"]), plugin.reference).take_all(plugin)
    except DatasetError as error:
        raise IsolatedRefusal(str(error)) from None


def _step(plugin: Plugin, request: dict[str, Any]) -> Any:
    """Every call of the optimizer's step, awaited one after the other."""
    from workflows.model.activities.optimizer_steps import CustomStepInput
    from workflows.rules.proposals.optimizer_step import OwnOptimizerFailed, take_step

    async def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        returned = function(*arguments, **options)
        return await returned if inspect.isawaitable(returned) else returned

    history = [TrialFacts.model_validate(facts) for facts in request["history"]]
    try:
        taken = asyncio.run(take_step(plugin.call, CustomStepInput.model_validate(request["step"]), history, call))
    except OwnOptimizerFailed as error:
        raise IsolatedRefusal(str(error), hopeless=error.hopeless) from None
    return taken.model_dump(mode="json")


def _called_tool(plugin: Plugin, request: dict[str, Any]) -> Any:
    """A tool, called with the arguments by name, and with what else it has parameters for."""
    sample = _sample(request["sample"])
    offered = {"sample": sample, "context": _context(request), "idempotency_key": request["key"]}
    return _settled(plugin.call(**{**request["arguments"], **plugin.taken(offered)}))


_KINDS = {
    "tool": _Kind("tool", 0, lambda request: (), usable_value, _called_tool),
    "target": _Kind("target", 3, _target_arguments, lambda returned: dataclasses.asdict(output_from(returned))),
    "scorer": _Kind("scorer", 2, _scorer_arguments, _scores),
    "objective": _Kind("objective", 1, lambda request: (), _number, _scored),
    "proposer": _Kind("proposer", 3, _proposer_arguments, _mapping, _proposed),
    "policy": _Kind("stop policy", 1, lambda request: (StopFacts.model_validate(request["facts"]),), _words),
    "classifier": _Kind("plug-in", 1, lambda request: (_records(request),), lambda returned: {"value": normalize(returned)}),
    "dataset": _Kind("dataset", 0, lambda request: (), lambda returned: None, _items),
    "optimizer": _Kind("optimizer", 0, lambda request: (), lambda returned: returned, _step),
}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _be_the_first_to_go()
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


def _be_the_first_to_go() -> None:
    """Where memory runs out, this process is ended instead of its worker. Only Linux can be told."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


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


def answer_here(plugins: Plugins, reference: str, kind: str, request: dict[str, Any]) -> str:
    """The answer of a plug-in that runs where it is; the same as from a process of its own."""
    called = _KINDS[kind]
    return _answer(plugins.resolve(reference, called.parameters), called, request)


def _answer(plugin: Plugin, kind: _Kind, request: dict[str, Any]) -> str:
    """One line of JSON, with what was printed meanwhile."""
    printed = PrintedText()
    with printed.heard():
        answered = _answered(plugin, kind, request)
    return answered if printed.text is None else f'{answered[:-1]}, "printed": {json.dumps(printed.text)}}}'


def _answered(plugin: Plugin, kind: _Kind, request: dict[str, Any]) -> str:
    try:
        arguments = kind.arguments(request)
        started = time.perf_counter()
        with in_experiment(_context(request), _prompt(request)):
            returned = plugin.call(*arguments) if kind.call is None else kind.call(plugin, request)
            returned = _settled(returned)
        elapsed_ms = (time.perf_counter() - started) * 1000
        return json.dumps({"answer": kind.answer(returned), "elapsed_ms": elapsed_ms})
    except CandidateFault as error:
        return json.dumps({"fault": str(error), "kind": error.kind})
    except TryAgain as error:
        said = {name: value for name, value in vars(error).items() if isinstance(value, str | int | float)}
        return json.dumps({"fault": str(error), "kind": TRY_AGAIN, "details": {TRY_AGAIN: said}})
    except IsolatedRefusal as error:
        return json.dumps({"fault": str(error), "kind": "told", "details": error.details})
    except BaseException as error:
        told = {"fault": f"{kind.name} raised {described(error)}", "kind": f"raised {type(error).__name__}"}
        return json.dumps({**told, "traceback": traceback_of(error)})


def _settled(returned: Any) -> Any:
    return asyncio.run(_awaited(returned)) if inspect.isawaitable(returned) else returned


async def _awaited(returned: Any) -> Any:
    return await returned


def _write(answers: TextIO, answer: str) -> None:
    answers.write(f"{answer}\n")
    answers.flush()
