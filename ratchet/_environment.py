"""Read settings from environment variables: a field of a dataclass names its variable, its default and its meaning.

What reads a variable and what documents it is one place: `docs/reference/environment.md` is made from these fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

Side = Literal["servers", "worker", "client", "observation", "prompts", "internal"]
"""Who reads a variable: everything that connects, workers, commands and the HTTP side, whatever is observed, code that renders
prompts, or only processes that Ratchet starts itself."""

S = TypeVar("S")


class BadSetting(ValueError):
    """A variable whose value cannot be meant; the message names it."""


@dataclass(frozen=True)
class Variable:
    """One environment variable."""

    name: str
    side: Side
    default: str
    """As Markdown; empty where nothing is the default."""
    meaning: str


DEFAULT_TASK_QUEUE: Final = "optimization"

DATABASE_URL: Final = Variable(
    "DATABASE_URL",
    "servers",
    "embedded server",
    "PostgreSQL 14 or newer that keeps runs, datasets and answers, as `postgresql://user:password@host/database`.",
)
TASK_QUEUE: Final = Variable(
    "RATCHET_TASK_QUEUE",
    "servers",
    f"`{DEFAULT_TASK_QUEUE}`",
    "Task queue of the workflows. Evaluations use the same name with `-evaluation`.",
)
OVERRIDES: Final = Variable(
    "RATCHET_OVERRIDES",
    "prompts",
    "`postgres`",
    "Where prompts are kept: `postgres` (the database of `DATABASE_URL`), `s3://bucket/prefix`, `file:dir` or `redis://…`.",
)
PLUGINS: Final = Variable(
    "RATCHET_PLUGINS", "worker", "none", "Module prefixes from which plug-ins may be imported, separated by commas."
)
LOG: Final = Variable(
    "RATCHET_LOG",
    "worker",
    "`json`",
    "Form of the worker's log: `json` or `text`. Where it is set, `ratchet serve` logs to stderr, too, instead of a file.",
)
PLUGIN_PATH: Final = Variable("RATCHET_PLUGIN_PATH", "worker", "", "Directory in which plug-in modules are found.")


def _read_text(text: str, _name: str) -> str:
    return text


def read_path(text: str, _name: str) -> Path:
    """Read the path of a file or a directory."""
    return Path(text)


def read_entries(text: str, _name: str) -> tuple[str, ...]:
    """Read a list with commas between its entries."""
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def read_count(text: str, name: str) -> int:
    """Read a whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise BadSetting(f"{name} is {text!r}; give a whole number of 1 or more, or leave it out")
    return int(text)


def setting(variable: Variable, *, default: Any = "", read: Callable[[str, str], Any] = _read_text) -> Any:
    """Make a field of a dataclass that a variable sets. One that is not set, or blank, leaves the default."""
    return field(default=default, metadata={"variable": variable, "read": read})


def values_from(settings: type, environment: Mapping[str, str]) -> dict[str, Any]:
    """Read what the environment sets of a dataclass, by the field."""
    found: dict[str, Any] = {}
    for one in fields(settings):
        if "variable" not in one.metadata:
            continue
        name = one.metadata["variable"].name
        if text := environment.get(name, "").strip():
            found[one.name] = one.metadata["read"](text, name)
    return found


def settings_from(settings: type[S], environment: Mapping[str, str]) -> S:
    """Read a dataclass from the environment."""
    return settings(**values_from(settings, environment))


def variables_of(settings: type) -> list[Variable]:
    """List the variables that set a dataclass's fields."""
    return [one.metadata["variable"] for one in fields(settings) if "variable" in one.metadata]
