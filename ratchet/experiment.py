"""The experiment that code runs under: known to everything a target calls, and carried on to whatever it calls elsewhere.

Ratchet enters it around every call of a Python target. What runs outside of Ratchet's processes is told by headers or by its
input, and enters it itself: `with in_experiment(experiment_from_headers(request.headers)): …`.

Experiments are also declared by names of this module, `@experiment.measure(…)`, `@experiment.explore(…)` and
`@experiment.optimize(…)`, which are loaded when they are asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from ratchet.plugins import ExperimentContext

if TYPE_CHECKING:
    from ratchet._declared.declarations import explore as explore
    from ratchet._declared.declarations import language_model as language_model
    from ratchet._declared.declarations import measure as measure
    from ratchet._declared.declarations import optimize as optimize
    from ratchet._declared.declarations import weighted as weighted
    from ratchet._declared.declared_bodies import Captor as Captor
    from ratchet._declared.declared_bodies import treatment_value as treatment_value
    from ratchet.prompts.template import PromptTemplate

_DECLARATIONS = ("explore", "language_model", "measure", "optimize", "weighted")
_BODIES = ("Captor", "treatment_value")

PREFIX = "X-Ratchet-"
SAFE_IN_HEADERS = "!#$&'()*+,/:;=?@[]~ "
"""What is not percent-encoded beside letters and digits."""

_AS_TEXT = {
    "Trial": "id",
    "Experiment": "name",
    "Overlay": "overrides_tag",
    "Overlay-Hash": "overlay_hash",
    "Prompt": "prompt",
    "Parent": "parent_tag",
    "Run": "run_id",
    "Candidate": "candidate_id",
}
_AS_NUMBER = {"Replicate": "replicate", "Seed": "seed"}
_FLAGS = "Flags"
_OVERLAY_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PromptUnderTest:
    """A prompt as this trial has it, whatever its tags say."""

    template: PromptTemplate
    configuration: Mapping[str, Any]
    """Every factor of the trial, the prompt's sections and parameters among them."""

    @classmethod
    def of(cls, template: PromptTemplate | None, configuration: Mapping[str, Any]) -> PromptUnderTest | None:
        """None where the trial is about no prompt."""
        return None if template is None else cls(template, configuration)


_current: ContextVar[ExperimentContext | None] = ContextVar("ratchet_experiment", default=None)
_prompt: ContextVar[PromptUnderTest | None] = ContextVar("ratchet_prompt_under_test", default=None)


def current_experiment() -> ExperimentContext | None:
    """The experiment that this code runs under; None in production.

    Known in the target and in everything it calls or awaits, tasks and `asyncio.to_thread` included. Threads that a target
    starts by itself begin without it, as with every context variable: run them in `contextvars.copy_context()`.
    """
    return _current.get()


def prompt_under_test(name: str) -> PromptUnderTest | None:
    """The prompt of this name as the present trial has it; None where it is not what the trial is about."""
    prompt = _prompt.get()
    return prompt if prompt is not None and prompt.template.name == name else None


@contextmanager
def in_experiment(context: ExperimentContext | None, prompt: PromptUnderTest | None = None) -> Iterator[None]:
    """Run code under an experiment; with None, under none. `resolve` gives the `prompt` as it is here; without one it reads the
    prompt under test from the store, at the tag that the context names."""
    entered, seen = _current.set(context), _prompt.set(prompt)
    try:
        yield
    finally:
        _current.reset(entered)
        _prompt.reset(seen)


def experiment_headers(context: ExperimentContext) -> dict[str, str]:
    """The experiment as HTTP headers: `X-Ratchet-Run`, `-Trial`, `-Experiment`, `-Candidate`, `-Overlay`, `-Overlay-Hash`,
    `-Prompt`, `-Parent`, `-Flags` (JSON), `-Replicate` and `-Seed`. What headers cannot carry is percent-encoded."""
    told = {name: getattr(context, field) for name, field in {**_AS_TEXT, **_AS_NUMBER}.items()}
    headers = {name: quote(str(value), safe=SAFE_IN_HEADERS) for name, value in told.items() if value is not None}
    if context.flags:
        headers[_FLAGS] = json.dumps(dict(context.flags), separators=(",", ":"), sort_keys=True)
    return {f"{PREFIX}{name}": value for name, value in headers.items()}


def experiment_from_headers(headers: Mapping[str, str]) -> ExperimentContext | None:
    """The experiment that a request is part of, as its headers say; None for a request that is part of none.

    Whoever may send these headers chooses which candidate answers: where strangers reach the service, take them off at its
    edge. Only the hash of an overlay is taken for one, so that no header can choose another tag. Raises ValueError for headers
    that say something else than they should.
    """
    given = {name.title(): value for name, value in headers.items()}
    told = {name: given[f"{PREFIX}{name}"] for name in (*_AS_TEXT, *_AS_NUMBER, _FLAGS) if f"{PREFIX}{name}" in given}
    if _OVERLAY_HASH.fullmatch(told.get("Overlay", "")) is None:
        return None
    texts = {field: unquote(told[name]) for name, field in _AS_TEXT.items() if name in told}
    try:
        numbers = {field: int(told[name]) for name, field in _AS_NUMBER.items() if name in told}
        flags = json.loads(told.get(_FLAGS, "{}"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the headers {PREFIX}… say something else than an experiment: {error}") from None
    if not isinstance(flags, dict):
        raise ValueError(f"the header {PREFIX}{_FLAGS} is no JSON object")
    given_in_all: dict[str, Any] = {"id": "", "name": "", **texts, **numbers, "flags": flags}
    return ExperimentContext(**given_in_all)


def experiment_from_input(told: Mapping[str, Any]) -> ExperimentContext:
    """The experiment in the `context` of an activity's or a runner's input; what this version does not know is left out."""
    known = {field.name for field in fields(ExperimentContext)}
    return ExperimentContext(**{name: value for name, value in told.items() if name in known})


if not TYPE_CHECKING:  # a type checker shall tell a misspelt name

    def __getattr__(name: str) -> Any:
        """Return what experiments are declared with, which is loaded when it is asked for."""
        if name in _DECLARATIONS:
            return getattr(import_module("ratchet._declared.declarations"), name)
        if name in _BODIES:
            return getattr(import_module("ratchet._declared.declared_bodies"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names, those that are not loaded yet among them."""
    return sorted({*globals(), *_DECLARATIONS, *_BODIES})
