"""What an experiment's function is given: each of its parameters has a role, by its annotation or by its name."""

from __future__ import annotations

import dis
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from ratchet._declared.use_cases import UseCase
from ratchet.errors import SpecError
from ratchet.plugins import ExperimentContext, Output, Sample

Role = Literal["self", "use_case", "sample", "captor", "context", "treatment", "fixture"]

_NAMED: Final[dict[str, Role]] = {
    "self": "self",
    "use_case": "use_case",
    "sample": "sample",
    "captor": "captor",
    "context": "context",
}
_WRITTEN: Final = re.compile(r"\btreatment_value\((?:['\"](?P<factor>[^'\"]+)['\"])?\)")
"""The mark in an annotation that stays a text."""


class NoOutcome(ValueError):
    """A function recorded no outcome, or two."""


class _Unknown(SpecError):
    """A parameter that nothing gives."""

    def __init__(self, function: Callable[..., Any], parameter: str) -> None:
        super().__init__(
            f"{function.__qualname__}: nothing here gives its parameter {parameter!r}; it may have use_case, sample, captor, "
            "context, and what is annotated with Annotated[…, experiment.treatment_value()]. Fixtures are given by pytest "
            "alone: run it by pytest --ratchet=measure, or make in the function what the fixture gives"
        )
        self.parameter = parameter


class Captor:
    """Takes the outcome of one sample, for functions that do not return it."""

    def __init__(self) -> None:
        self._recorded: Output | None = None

    def record(self, outcome: Any, *, tokens: int = 0, cost: float = 0.0, trace: Any = None) -> None:
        """Record the outcome: text, numbers, lists, mappings, or a `ratchet.Output`. One call is one sample."""
        if self._recorded is not None:
            raise NoOutcome("two outcomes were recorded; one call is one sample, which has one outcome")
        self._recorded = outcome if isinstance(outcome, Output) else Output(outcome, tokens, cost, trace=trace)

    def _outcome(self, returned: Any) -> Output:
        """What was recorded, or else returned."""
        if self._recorded is not None:
            if returned is not None:
                raise NoOutcome("an outcome was recorded, and another one returned; do one of both")
            return self._recorded
        if returned is None:
            raise NoOutcome("there is no outcome: return it, or call captor.record(outcome)")
        return returned if isinstance(returned, Output) else Output(returned)


@dataclass(frozen=True, slots=True)
class TreatmentValue:
    """Marks a parameter that gets the initial value of a treatment factor."""

    factor: str | None = None


def treatment_value(factor: str | None = None) -> TreatmentValue:
    """Mark a parameter: `initial: Annotated[str, treatment_value()]` gets the value that the treatment factor begins with.
    Where there are several, `treatment_value("temperature")` says which."""
    return TreatmentValue(factor)


@dataclass(frozen=True)
class Body:
    """An experiment's function, with the role of every parameter."""

    function: Callable[..., Any]
    owner: type | None
    """The class that it is a method of."""
    roles: tuple[tuple[str, Role, str | None], ...]
    """Every parameter with its role, and with the factor that it gets the initial value of."""
    fixtures: Mapping[str, Any] = field(default_factory=dict)
    """What fixtures of pytest gave, by parameter."""

    @classmethod
    def of(cls, function: Callable[..., Any], owner: type | None, fixtures: Mapping[str, Any] | None = None) -> Body:
        """Read the parameters of a function. `fixtures` has the values of those that nothing else is known of."""
        parameters = list(inspect.signature(function).parameters.values())
        says_use_case = any(parameter.name == "use_case" for parameter in parameters)
        roles: list[tuple[str, Role, str | None]] = []
        for place, parameter in enumerate(parameters):
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            annotation = _annotation(function, parameter.annotation)
            found = _role(parameter.name, annotation)
            is_first = not any(role != "self" for _, role, _ in roles)
            if found is None and is_first and place <= 1 and not says_use_case:
                found = ("use_case", None)
            if found is None and parameter.default is parameter.empty:
                if fixtures is None or parameter.name not in fixtures:
                    raise _Unknown(function, parameter.name)
                found = ("fixture", None)
            if found is not None:
                roles.append((parameter.name, *found))
        return cls(function, owner, tuple(roles), fixtures or {})

    @classmethod
    def fixtures_of(cls, function: Callable[..., Any], owner: type | None) -> tuple[str, ...]:
        """Name the parameters that only a fixture can give."""
        found: dict[str, Any] = {}
        while True:
            try:
                cls.of(function, owner, found)
                return tuple(found)
            except _Unknown as unknown:
                found[unknown.parameter] = None

    @property
    def takes_sample(self) -> bool:
        """Whether it is given the sample."""
        return any(role == "sample" for _, role, _ in self.roles)

    @property
    def uses_its_class(self) -> bool:
        """Whether the code of a method says `self` at all; the rest of its class does not matter where it does not."""
        named = [name for name, role, _ in self.roles if role == "self"]
        return any(step.argval in named for step in dis.get_instructions(self.function))

    def answering(self, use_case: UseCase, treatment: Mapping[str, Any]) -> Callable[..., Any]:
        """Return the target that calls it once for a sample, with a use case of its own on which the factors are set."""
        function = self.function
        initial = self._initial_values(treatment)
        if self.owner is None and any(role == "self" for _, role, _ in self.roles):
            raise SpecError(
                f"{function.__qualname__}: is a method, and its class was not found; declare it in a class of the module"
            )

        def arguments(
            configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext, captor: Captor
        ) -> dict[str, Any]:
            given: dict[str, Any] = {"sample": sample, "captor": captor, "context": context}
            for _, role, _ in self.roles:
                if role == "use_case":
                    given[role] = use_case.made_with(configuration)
                elif role == "self" and self.owner is not None:
                    given[role] = self.owner()
            given_by_name = {**initial, **self.fixtures}
            return {
                name: given_by_name[name] if role in ("treatment", "fixture") else given[role] for name, role, _ in self.roles
            }

        def answer(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
            captor = Captor()
            return captor._outcome(function(**arguments(configuration, sample, context, captor)))

        async def answer_awaited(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
            captor = Captor()
            return captor._outcome(await function(**arguments(configuration, sample, context, captor)))

        chosen: Callable[..., Any] = answer_awaited if inspect.iscoroutinefunction(function) else answer
        chosen.__name__ = function.__name__
        return chosen

    def _initial_values(self, treatment: Mapping[str, Any]) -> dict[str, Any]:
        """By parameter."""
        found = {}
        for name, role, factor in self.roles:
            if role != "treatment":
                continue
            if factor is None and len(treatment) != 1:
                raise SpecError(
                    f"{self.function.__qualname__}: {name!r} gets the initial value of the treatment factor, and there "
                    f"{'is none' if not treatment else 'are several'}; "
                    + ("drop it" if not treatment else f"name one, as treatment_value({next(iter(treatment))!r})")
                )
            wanted = factor or next(iter(treatment))
            if wanted not in treatment:
                known = ", ".join(treatment) or "none"
                told = f"{name!r} gets the initial value of {wanted!r}, which is no treatment factor; they are {known}"
                raise SpecError(f"{self.function.__qualname__}: {told}")
            found[name] = treatment[wanted]
        return found


def _annotation(function: Callable[..., Any], given: Any) -> Any:
    """The annotation as an object; as it is written where its names cannot be resolved, as within a function."""
    if not isinstance(given, str):
        return given
    inner = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    names = dict(vars(sys.modules.get(function.__module__, sys)))
    names |= getattr(function, "__globals__", {})
    try:
        return eval(given, names | {name: cell.cell_contents for name, cell in inner})  # noqa: S307 (the user's own annotation)
    except Exception:
        return given


def _role(name: str, annotation: Any) -> tuple[Role, str | None] | None:
    if isinstance(annotation, str) and (written := _WRITTEN.search(annotation)):
        return "treatment", written["factor"]
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else (annotation,)
    for mark in marks:
        if isinstance(mark, TreatmentValue):
            return "treatment", mark.factor
        if mark is treatment_value or mark is TreatmentValue:
            return "treatment", None
    found: Role | None = None
    if isinstance(annotation, type):
        known: dict[type, Role] = {Captor: "captor", Sample: "sample", ExperimentContext: "context"}
        found = known.get(annotation)
    found = found or _NAMED.get(name)
    return None if found is None else (found, None)
