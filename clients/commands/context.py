"""What every command shares: where its home is, how it prints facts, and how it says that something is wrong."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from clients.embedded.home import nearest_home
from clients.settings import DEFAULT_HOME, client_settings
from ratchet._text.visible import STEERING, visible


class ExitCode(IntEnum):
    """What the caller of `ratchet` learns from its exit code."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    GATE_NOT_MET = 3
    CANCELLED = 4
    UNREACHABLE = 5
    DETACHED = 130
    """Ctrl-C: the run goes on (or sleeps), and nothing is known of its end."""


class CommandError(Exception):
    """Something a person can put right. The message names the field and the fix."""

    def __init__(self, message: str, code: ExitCode = ExitCode.BAD_INPUT, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.facts = dict(facts or {})


@dataclass(frozen=True)
class Context:
    """The options that every command has."""

    json: bool
    home: Path

    # Whatever is printed may repeat what plug-ins, models and other people wrote.

    def say(self, text: str = "") -> None:
        """For a person; nothing but the facts goes to stdout with --json."""
        if not self.json:
            print(visible(text), flush=True)

    def note(self, text: str) -> None:
        """What a person should know beside the facts."""
        print(visible(text), file=sys.stderr, flush=True)

    def facts(self, facts: Mapping[str, Any], text: str | None = None) -> None:
        """What the command found out: one JSON object with --json, else the text."""
        if self.json:
            print_json(facts)
        elif text is not None:
            print(visible(text), flush=True)


def print_json(facts: Mapping[str, Any]) -> None:
    """One JSON object on stdout, on one line. What would steer a terminal is written as an escape, which means the same."""
    text = json.dumps(facts, ensure_ascii=False, default=_as_json)
    print(STEERING.sub(lambda found: json.dumps(found.group())[1:-1], text), flush=True)


def _as_json(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else.")]
HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="DIR",
        help="Where the embedded servers keep their data, and where logs go. [default: RATCHET_HOME, else .ratchet here or in "
        "the nearest folder above]",
    ),
]


def command(app: typer.Typer, name: str, panel: str) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Register a function as a command: it gets a Context first, and --json and --home are added to its options."""

    def register(function: Callable[..., int | None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(*, json: bool, home: Path | None, **given: Any) -> None:
            code = function(Context(json, home_of(home)), **given)
            raise typer.Exit(int(code or ExitCode.DONE))

        own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.annotation is not Context]
        shared = [_option("json", JsonOption, False), _option("home", HomeOption, None)]
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in [*own, *shared]]
        run.__dict__["__signature__"] = inspect.Signature(parameters)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del run.__dict__["__wrapped__"]
        app.command(name, rich_help_panel=panel)(run)
        return run

    return register


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def home_of(given: Path | None) -> Path:
    """The home of the embedded stack: as given, else by RATCHET_HOME, else `.ratchet` here or in the nearest folder above."""
    named = given or client_settings().home
    if named != DEFAULT_HOME:
        return named
    here = Path.cwd()
    found = nearest_home(here)
    return named if found.parent == here else found
