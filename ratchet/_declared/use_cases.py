"""Use cases: classes whose instances hold factors, and say themselves which outcomes are a success.

A use case is what an experiment runs. Its factors are what `__init__` sets: everything stays constant but the treatment, whose
initial value a method may give, and which a method may set. Nothing here needs the engine.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar, overload

from ratchet._factors import Factor, frozen
from ratchet.errors import SpecError
from ratchet.plugins import Output, Sample, Score

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

SUCCESS: Final = "success"
"""The score that says whether every criterion holds."""

PASSES_FROM: Final = 0.5
_USE_CASE: Final = "__ratchet_use_case__"
_SOURCE: Final = "__ratchet_treatment_source__"
_SETTER: Final = "__ratchet_factor_setter__"
_CRITERION: Final = "__ratchet_criterion__"


@overload
def use_case(given: C, /) -> C: ...
@overload
def use_case(given: str, /) -> Callable[[C], C]: ...
def use_case(given: Any, /) -> Any:
    """Declare a class to be a use case: `@use_case`, or `@use_case("shopping-assistant")` where its id shall not be the class's
    name."""
    if isinstance(given, type):
        setattr(given, _USE_CASE, dashed(given.__name__))
        return given

    def declared(one: C) -> C:
        setattr(one, _USE_CASE, given)
        return one

    return declared


def treatment_source(factor: str) -> Callable[[F], F]:
    """Declare a method to give a factor's initial value, or the factor with its range: `ratchet.number(0.7, min=0, max=1)`."""
    return _marking(_SOURCE, factor)


def factor_setter(factor: str) -> Callable[[F], F]:
    """Declare a method to set a factor; it is called before every sample. Without one the attribute of that name is set."""
    return _marking(_SETTER, factor)


@overload
def criterion(given: F, /) -> F: ...
@overload
def criterion(given: str, /) -> Callable[[F], F]: ...
def criterion(given: Any, /) -> Any:
    """Declare a method `(outcome)` or `(outcome, sample)` to say whether an outcome is a success; the name may be given."""
    if isinstance(given, str):
        return _marking(_CRITERION, given)
    return _marking(_CRITERION, given.__name__)(given)


def _marking(mark: str, name: str) -> Callable[[F], F]:
    def marked(method: F) -> F:
        setattr(method, mark, name)
        return method

    return marked


def dashed(name: str) -> str:
    """Return a Python name as ids are written: `ShoppingAssistant` and `shopping_assistant` are `shopping-assistant`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name.strip("_")).replace("_", "-").lower()


@dataclass(frozen=True)
class UseCase:
    """A declared class, or a function that makes instances of one."""

    make: Callable[[], Any]

    @cached_property
    def specimen(self) -> Any:
        """An instance that is only looked at."""
        name = getattr(self.make, "__name__", "use case")
        try:
            made = self.make()
        except TypeError as error:
            told = f"use_case: {name} cannot be made without arguments ({error}); give a function that makes it"
            raise SpecError(told) from None
        if not hasattr(type(made), _USE_CASE):
            raise SpecError(f"use_case: {type(made).__name__} is no use case; write @ratchet.use_case above its class")
        return made

    @property
    def id(self) -> str:
        """What files and reports call it."""
        return str(getattr(type(self.specimen), _USE_CASE))

    @cached_property
    def _sources(self) -> dict[str, str]:
        return _methods(type(self.specimen), _SOURCE)

    @cached_property
    def _setters(self) -> dict[str, str]:
        return _methods(type(self.specimen), _SETTER)

    @cached_property
    def criteria(self) -> dict[str, str]:
        """The method of every criterion, by its name."""
        found = _methods(type(self.specimen), _CRITERION)
        if SUCCESS in found and len(found) > 1:
            raise SpecError(
                f"use_case: {self.id} has a criterion {SUCCESS!r}, which is what all of them are together; rename it"
            )
        return found

    @cached_property
    def initial(self) -> Mapping[str, Any]:
        """Every factor with its value, or with how it may change where its source says so; asked for once."""
        given = self.specimen
        found: dict[str, Any] = {}
        for name in _attributes(given):
            value = getattr(given, name)
            if _is_plain(value):
                found[name] = _plain(value)
        for name, method in self._sources.items():
            value = getattr(given, method)()
            if not _is_plain(value):
                told = (
                    f"{name!r}: its source gives a {type(value).__name__}; give text, numbers, lists and mappings, or a factor"
                )
                raise SpecError(f"use_case: {self.id}, factor {told}")
            found[name] = _plain(value)
        for name in self._setters:
            if name not in found:
                raise SpecError(
                    f"use_case: {self.id} sets the factor {name!r}, but nothing gives its initial value; write "
                    f"@ratchet.treatment_source({name!r}) above a method that does, or set self.{name} in __init__"
                )
        return found

    @cached_property
    def values(self) -> dict[str, Any]:
        """Every factor with its initial value alone."""
        return {name: value_of(given) for name, given in self.initial.items()}

    def refuse_unless_set(self, factor: str, where: str) -> None:
        """Refuse a factor that is to change, and that there is not, or that nothing would set."""
        if factor not in self.initial:
            raise SpecError(f"{where}: {self.id} has no factor {factor!r}; it has {', '.join(self.initial) or 'none'}")
        if factor not in self._setters and not hasattr(self.specimen, factor):
            raise SpecError(
                f"{where}: nothing sets {factor!r} of {self.id}; write @ratchet.factor_setter({factor!r}) above a method that "
                "does"
            )

    def made_with(self, configuration: Mapping[str, Any]) -> Any:
        """Make an instance of its own for one call, on which every factor of a configuration is set."""
        made = self.make()
        for name, value in configuration.items():
            if name in self._setters:
                getattr(made, self._setters[name])(value)
            elif hasattr(made, name) and _plain(getattr(made, name)) != value:
                setattr(made, name, value)
        return made

    def scorer(self) -> Callable[..., Any]:
        """Return what scores an outcome: whether each criterion holds, and whether all do."""
        methods = self.criteria

        def success(output: Output, sample: Sample) -> list[Score]:
            made = self.make()
            return _scores(
                {name: _asked(getattr(made, method), output, sample) for name, method in methods.items()}, made, methods
            )

        async def success_awaited(output: Output, sample: Sample) -> list[Score]:
            made = self.make()
            given = {name: _asked(getattr(made, method), output, sample) for name, method in methods.items()}
            held = {name: await one if inspect.isawaitable(one) else one for name, one in given.items()}
            return _scores(held, made, methods)

        waits = any(inspect.iscoroutinefunction(getattr(type(self.specimen), method)) for method in methods.values())
        return success_awaited if waits else success


def value_of(given: Any) -> Any:
    """Return the value of what may be a factor with its domain."""
    return given["value"] if is_factor(given) else given


def is_factor(given: Any) -> bool:
    """Tell whether a value says how it may change, as `ratchet.text` and its like do."""
    return isinstance(given, Mapping) and "change" in given and "value" in given


def constant(value: Any) -> Factor | Any:
    """Return a value as a factor that stays as it is."""
    return frozen(value) if isinstance(value, Mapping) else value


def _methods(one: type, mark: str) -> dict[str, str]:
    """The names of the methods that are marked, by what they are marked with, in the order of their definition."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(name for base in reversed(one.__mro__) for name in vars(base)):
        marked = getattr(inspect.getattr_static(one, name, None), mark, None)
        if isinstance(marked, str):
            found[marked] = name
    return found


def _attributes(given: Any) -> Iterator[str]:
    """The names of what an instance holds; what its class says of all instances comes first."""
    of_classes = [name for base in reversed(type(given).__mro__[:-1]) for name, part in vars(base).items() if _is_plain(part)]
    slots = [slot for base in type(given).__mro__ for slot in getattr(base, "__slots__", ())]
    own = [*getattr(given, "__dict__", {}), *(slot for slot in slots if hasattr(given, slot))]
    yield from (name for name in dict.fromkeys([*of_classes, *own]) if not name.startswith("_"))


def _is_plain(value: Any) -> bool:
    """Whether JSON has a word for it."""
    match value:
        case None | bool() | int() | str():
            return True
        case float():
            return math.isfinite(value)
        case list() | tuple():
            return all(map(_is_plain, value))
        case Mapping():
            return all(isinstance(name, str) and _is_plain(part) for name, part in value.items())
    return False


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _asked(method: Callable[..., Any], output: Output, sample: Sample) -> Any:
    takes_sample = len(inspect.signature(method).parameters) > 1
    return method(output.value, sample) if takes_sample else method(output.value)


def _scores(held: Mapping[str, Any], made: Any, methods: Mapping[str, str]) -> list[Score]:
    scores = [_score(name, given, getattr(made, methods[name])) for name, given in held.items()]
    if [score.name for score in scores] == [SUCCESS]:
        return scores
    succeeds = all(score.passed for score in scores)  # why not is with the criteria
    return [Score(SUCCESS, float(succeeds), succeeds), *scores]


def _score(name: str, given: Any, method: Callable[..., Any]) -> Score:
    """One criterion's score. Why it does not hold is what its own words say it is."""
    if isinstance(given, Score):
        passed = given.passed if given.passed is not None else given.value >= PASSES_FROM
        return Score(name, given.value, passed, given.reason)
    passed = float(given) >= PASSES_FROM
    words = (inspect.getdoc(method) or "").partition("\n")[0]
    reason = None if passed else "does not hold" + (f": {words}" if words else "")
    return Score(name, float(given), passed, reason)
