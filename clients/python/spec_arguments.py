"""From the arguments of `ratchet.optimize` to what a spec file would say."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import pydantic

from clients.checks.spec_file import SpecFile, SpecFileError, read_spec_file
from clients.python.given_rows import dataset_of
from clients.python.program_functions import ProgramFunctions, name_of
from ratchet import Sample
from ratchet._declared.spec_keywords import FurtherFields, GivenScorer, OptionFields
from ratchet.errors import SpecError

CALLED: Final = "ratchet.optimize()"
"""What stands for the spec file in messages and memos."""


SOURCES: Final = ("items", "path", "paths", "ref", "version", "id")
"""Where a dataset says that its samples are."""


GivenRow = Mapping[str, Any] | Sample


class DataTable(Protocol):
    """A table of pandas or polars."""

    @property
    def columns(self) -> Any:
        """The names of its columns."""


GivenRows = Iterable[GivenRow] | DataTable


class SpecFields(FurtherFields, total=False):
    """Everything that a spec says, by the same names, and what Python has other words for."""

    data: str | Path | GivenRows | Mapping[str, GivenRows] | Callable[[], Iterable[GivenRow]]
    scorer: GivenScorer | Sequence[GivenScorer]
    objective: Callable[[Mapping[str, Any]], float] | str | Mapping[str, Any]
    use_case: str


class CallOptions(SpecFields, OptionFields, total=False):
    """What a call says: a spec, and options."""


@dataclass
class SpecArguments(AbstractContextManager["SpecArguments"]):
    """A spec that a program gave, with its functions; data that is too large for a spec lies in files until the end."""

    content: dict[str, Any]
    path: Path
    program: ProgramFunctions = field(default_factory=ProgramFunctions)
    _files: tempfile.TemporaryDirectory[str] | None = None

    @property
    def file(self) -> SpecFile:
        """What `ratchet check` would read."""
        return SpecFile(self.path, self.content, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._files is not None:
            self._files.cleanup()

    def _give_rows(self, data: Any) -> None:
        """Samples from the program, in the place of those that the spec names; how they are split and read stays."""
        before = self.content.get("dataset")
        dataset = {name: part for name, part in before.items() if name not in SOURCES} if isinstance(before, Mapping) else {}
        if callable(data):
            self.content["dataset"] = self.program.named(data, "data", dataset)
            return
        self._files = tempfile.TemporaryDirectory(prefix="ratchet-data-")
        given = dataset_of(data, Path(self._files.name), self.content.get("name") or "data")
        self.content["dataset"] = given | dataset

    def _give_functions(self) -> None:
        """Put a reference in the place of every function."""
        content = self.content
        if "target" in content:
            content["target"] = self._plugin(content["target"], "target")
        scorers = content.get("scorers")
        if isinstance(scorers, Sequence) and not isinstance(scorers, str):
            content["scorers"] = [self._scorer(scorer, f"scorers[{place}]") for place, scorer in enumerate(scorers)]
        if "objective" in content:
            content["objective"] = self._plugin(content["objective"], "objective")
        optimizer = content.get("optimizer")
        if callable(optimizer):
            content["optimizer"] = self.program.named(optimizer, "optimizer", {"name": "python"})
        elif isinstance(optimizer, Mapping):
            named = self.program.named(optimizer["ref"], "optimizer", dict(optimizer)) if callable(optimizer.get("ref")) else {}
            content["optimizer"] = {**optimizer, **named}
            if "proposer" in optimizer:
                content["optimizer"]["proposer"] = self._plugin(optimizer["proposer"], "optimizer.proposer")

    def _plugin(self, given: Any, where: str) -> Any:
        if callable(given):
            return self.program.named(given, where, {"kind": "python"})
        if isinstance(given, Mapping) and callable(given.get("ref")):
            return self.program.named(given["ref"], where, {"kind": "python", **given})
        return given

    def _scorer(self, given: Any, where: str) -> Any:
        if isinstance(given, str):
            return {"kind": given}
        function = given.get("ref") if isinstance(given, Mapping) else given
        found = self._plugin(given, where)
        return {"name": name_of(function), **found} if callable(function) else found


def spec_of(given: Any, fields: Mapping[str, Any]) -> SpecArguments:
    """The spec that a call means: a file, a mapping or a model, with keywords in the place of its fields."""
    path = Path.cwd() / CALLED
    content: dict[str, Any] = {}
    if isinstance(given, str | Path):
        path = Path(given)
        try:
            content = dict(read_spec_file(path).content)
        except SpecFileError as error:
            raise SpecError(f"{path}: {error}") from None
    elif isinstance(given, pydantic.BaseModel):
        content = given.model_dump(mode="json", by_alias=True, exclude_unset=True)
    elif isinstance(given, Mapping):
        content = dict(given)
    elif given is not None:
        raise SpecError(f"spec: is a {type(given).__name__}; give a mapping, an OptimizationRequest or the path of a file")
    both = [one for one in ("scorer", "scorers") if one in fields]
    if len(both) > 1:
        raise SpecError("scorer: is given beside scorers; give one of them")
    if "target" in fields and not (callable(fields["target"]) or isinstance(fields["target"], Mapping)):
        imported = ', or {"kind": "python", "ref": "module:function"}' if isinstance(fields["target"], str) else ""
        raise SpecError(f"target: is a {type(fields['target']).__name__}; give a function, or a mapping with ref{imported}")
    said = {name: value for name, value in fields.items() if name not in ("data", "scorer")}
    if "scorer" in fields:
        scorer = fields["scorer"]
        said["scorers"] = list(scorer) if isinstance(scorer, list | tuple) else [scorer]
    arguments = SpecArguments({**content, **said}, path)
    if "data" in fields:
        arguments._give_rows(fields["data"])
    arguments._give_functions()
    arguments.content.setdefault("objective", _first_score(arguments.content))
    return arguments


def _first_score(content: Mapping[str, Any]) -> str:
    """What goes without saying where there is one score."""
    scorers = content.get("scorers") or [{"kind": "exact"}]
    first = scorers[0] if isinstance(scorers, Sequence) else {}
    return str(first.get("name") or first.get("kind") or "exact") if isinstance(first, Mapping) else "exact"
