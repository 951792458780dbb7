"""Experiments as Python declares them: `@experiment.measure`, `@experiment.explore`, `@experiment.optimize` above a function.

A declaration is a thin layer: it says what a call of `ratchet.optimize` would say, in the words of use cases. The function
stays an ordinary one; what was declared hangs on it, for pytest and `ratchet experiments` to find.
"""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, Unpack

from ratchet._declared.declared_bodies import Body
from ratchet._declared.spec_keywords import DeclaredFields
from ratchet._declared.use_cases import SUCCESS, UseCase, constant, dashed, is_factor, value_of
from ratchet.errors import SpecError

F = TypeVar("F", bound=Callable[..., Any])
Kind = Literal["measure", "explore", "optimize"]
Scorer = str | Mapping[str, Any] | Callable[..., Any]
"""What turns the statistics of an iteration into its score: a kind of objective by name, a whole objective, or a function."""

DECLARED: Final = "__ratchet_declaration__"
SAMPLES: Final = 20
"""Samples of an iteration, where neither the declaration nor its data says how many."""

MARGIN: Final = 0.05


@dataclass(frozen=True)
class DeclaredCall:
    """What a declaration asks of `ratchet.optimize`."""

    fields: Mapping[str, Any]
    """Its keywords. The target is the declared function; what it is counts by `code`."""
    code: tuple[Any, ...]
    """What the answers depend on beside the configuration."""
    scored_by: tuple[Any, ...]
    """What scores depend on, where criteria of the use case give them."""


@dataclass(frozen=True)
class Declaration:
    """An experiment, as its decorator says."""

    kind: Kind
    function: Callable[..., Any]
    use_case: UseCase
    name: str
    """The experiment's id."""
    samples: int | None = None
    data: Any = None
    scorer: Scorer = "success_rate"
    direction: str = "maximize"
    treatment: Mapping[str, Any] = field(default_factory=dict)
    """By factor, with how it may change where the declaration says so; None where the use case does."""
    configurations: tuple[Mapping[str, Any], ...] = ()
    combinations: tuple[Mapping[str, Any], ...] = ()
    """Those of factors' values, of which one may be the use case as it is."""
    mutator: Any = None
    stop: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    baseline: str | Path | None = None
    """Of a measurement: where its own is stored. Of an optimization: the measurement that it takes the fixed factors from."""
    margin: float | None = MARGIN
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the spec, and options of the call."""
    owner: type | None = None
    """The class of which it is a method."""
    fixtures: Mapping[str, Any] = field(default_factory=dict)
    """What fixtures of pytest gave for its parameters."""

    @cached_property
    def body(self) -> Body:
        """The function, with the role of every parameter."""
        return Body.of(self.function, self.owner, self.fixtures)

    def within(self, owner: type | None) -> Declaration:
        """Return it as a method of a class."""
        return replace(self, owner=owner)

    def given(self, fixtures: Mapping[str, Any]) -> Declaration:
        """Return it with what fixtures gave for its parameters."""
        return replace(self, fixtures=fixtures)

    def overridden(self, *, samples: int | None = None, budget: Any = None) -> Declaration:
        """Return it with another number of samples, and another budget: money, or a mapping as a spec has it."""
        changes: dict[str, Any] = {} if samples is None else {"samples": samples}
        if budget is not None:
            given = budget if isinstance(budget, Mapping) else {"cost": budget}
            changes["budget"] = {**self.budget, **given}
        return replace(self, **changes)

    @property
    def compares(self) -> bool:
        """Whether it is compared with a stored baseline."""
        return self.kind == "measure" and self.margin is not None

    @property
    def baseline_name(self) -> str | Path:
        """Where its measurement is stored, or is taken from."""
        return self.use_case.id if self.baseline is None else self.baseline

    def call(self, fixed: Mapping[str, Any] | None = None) -> DeclaredCall:
        """Return what to ask for. `fixed` are factors as a stored baseline has them, in the place of the use case's own."""
        use_case, body = self.use_case, self.body
        factors = {name: constant(value) for name, value in {**use_case.values, **(fixed or {})}.items()}
        treatment = {name: self._treatment(name, given) for name, given in self.treatment.items()}
        for place, configuration in enumerate((*self.configurations, *self.combinations)):
            for name in configuration:
                use_case.refuse_unless_set(name, f"configurations[{place}]")
        answer = body.answering(use_case, {name: value_of(factor) for name, factor in treatment.items()})
        said: dict[str, Any] = {
            "name": self.name,
            "use_case": use_case.id,
            "experiment": self.name,
            "target": {"ref": answer},
            "configuration": {**factors, **treatment},
            "optimizer": self._optimizer(),
            **self._data(),
            **self._scoring(),
        }
        said |= {name: given for name, given in (("stop", self.stop), ("budget", self.budget)) if given}
        for name, given in self.more.items():
            both = isinstance(given, Mapping) and isinstance(said.get(name), Mapping)
            said[name] = {**said[name], **given} if both else given
        code = (
            self.function,
            use_case.make,
            *([self.owner] if body.uses_its_class else []),
            *([dict(self.fixtures)] if self.fixtures else []),
        )
        scored_by = () if "scorers" in self.more or not use_case.criteria else (use_case.make,)
        return DeclaredCall(
            {name: given for name, given in said.items() if given is not None or name in self.more}, code, scored_by
        )

    def _treatment(self, name: str, given: Any) -> Any:
        """A treatment factor with how it may change."""
        self.use_case.refuse_unless_set(name, "treatment_factor")
        factor = self.use_case.initial[name] if given is None else given
        if is_factor(factor):
            return factor
        longest = self.mutator.get("max_length") if isinstance(self.mutator, Mapping) else None
        if isinstance(factor, str):
            return {"change": "text", "value": factor} | ({} if longest is None else {"max_length": longest})
        if isinstance(factor, bool):
            return {"change": "structured", "type": "flag", "value": factor}
        raise SpecError(
            f"treatment_factor: {name!r} is {factor!r:.60}, and nothing says how it may change; let its source return a factor "
            f"such as ratchet.number(…, min=…, max=…), or write treatment_factors={{{name!r}: ratchet.number(…)}}"
        )

    def _optimizer(self) -> Any:
        if self.kind == "measure":
            return {"name": "none"}
        if self.kind == "explore":
            return {"name": "none", "configurations": self._explored()}
        if self.mutator is None:
            return None
        if "optimizer" in self.more:
            raise SpecError("mutator: is given beside optimizer; give one of them")
        proposer: Any = {"kind": self.mutator} if isinstance(self.mutator, str) else self.mutator
        if isinstance(proposer, Mapping):
            proposer = {name: part for name, part in proposer.items() if name != "max_length"}
        return {"name": "refine", "proposer": proposer}

    def _explored(self) -> list[dict[str, Any]]:
        """What is measured beside the use case as it is, which is measured anyway."""
        from ratchet._formats.canonical import content_hash

        values = self.use_case.values
        as_it_is = content_hash(values)
        others = [one for one in self.combinations if content_hash({**values, **one}) != as_it_is]
        if not (self.configurations or others):
            raise SpecError(f"factors: give {self.use_case.id} the values that it has already; add others to compare them with")
        return [dict(one) for one in (*self.configurations, *others)]

    def _data(self) -> dict[str, Any]:
        """The samples. Where the function takes none, it is called as often as there are samples in an iteration."""
        # Where nothing is chosen, nothing has to be held back.
        splits: dict[str, Any] = {} if self.kind == "optimize" else {"dataset": {"splits": "none"}}
        if self.data is None and "dataset" not in self.more:
            if self.body.takes_sample:
                raise SpecError(f"data: {self.name} takes a sample, and there are none; give rows, or the path of a file")
            calls = range(1, (self.samples or SAMPLES) + 1)
            return splits | {"data": [{"id": str(call), "input": {"call": call}} for call in calls]}
        given = {} if isinstance(self.data, Mapping) else splits
        given |= {} if self.data is None else {"data": self._placed(self.data)}
        return given | ({} if self.samples is None else {"samples_per_trial": self.samples})

    def _placed(self, data: Any) -> Any:
        """A relative path is relative to the file of the declaration, so that it does not matter where it is run from."""
        if not isinstance(data, str | Path) or "://" in str(data):
            return data
        return self.file.parent / data

    @property
    def file(self) -> Path:
        """The file that declares it."""
        return Path(self.function.__code__.co_filename).absolute()

    @property
    def line(self) -> int:
        """Its line there."""
        return self.function.__code__.co_firstlineno

    def _scoring(self) -> dict[str, Any]:
        """What scores an answer, and what an iteration."""
        scorers: dict[str, Any] = {}
        metric = None
        if "scorers" not in self.more and self.use_case.criteria:
            scorers["scorers"] = [{"name": SUCCESS, "ref": self.use_case.scorer()}]
            metric = SUCCESS
        if metric is None and "scorers" not in self.more and self.data is None and "dataset" not in self.more:
            raise SpecError(
                f"use_case: nothing says which outcomes of {self.use_case.id} are a success; write @ratchet.criterion above a "
                "method that does, or give scorers"
            )
        if callable(self.scorer):
            if _takes_two(self.scorer):
                raise SpecError(
                    "scorer: is a function of two, and what scores an iteration takes its statistics alone; what scores one "
                    "answer is a criterion of the use case, or goes into scorers"
                )
            return {**scorers, "objective": {"kind": "python", "direction": self.direction, "ref": self.scorer}}
        objective: dict[str, Any] = {"kind": self.scorer} if isinstance(self.scorer, str) else dict(self.scorer)
        if metric is not None and "components" not in objective:
            objective = {"metric": metric, **objective}
        if "components" in objective:
            objective["components"] = [
                {**({} if metric is None else {"metric": metric}), **part} for part in objective["components"]
            ]
        return {**scorers, "objective": {"direction": self.direction, **objective}}


def _takes_two(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in by_place and one.default is one.empty for one in parameters) > 1


def declaration_of(given: Any) -> Declaration | None:
    """Return what was declared above a function; None for everything else, which is not asked anything."""
    declared = vars(given).get(DECLARED) if isinstance(given, types.FunctionType) else None
    return declared if isinstance(declared, Declaration) else None


def measure(
    *,
    use_case: Callable[..., Any],
    samples: int | None = None,
    data: Any = None,
    scorer: Scorer = "success_rate",
    objective: str = "maximize",
    experiment_id: str = "",
    baseline: str | Path | None = None,
    margin: float | None = MARGIN,
    time_budget: float | str | timedelta = 0,
    token_budget: int = 0,
    cost_budget: float = 0,
    **spec: Unpack[DeclaredFields],
) -> Callable[[F], F]:
    """Declare that a use case is measured as it is: what it reaches is its baseline, with which later ones are compared.

    `margin` is the largest loss against the stored baseline that is no regression; None compares with nothing. `baseline` names
    the file below `specs` where it is not to be the use case's id.
    """
    return _declaring(
        "measure",
        use_case,
        experiment_id,
        samples=samples,
        data=data,
        scorer=scorer,
        direction=objective,
        baseline=baseline,
        margin=margin,
        budget=_budget(time_budget, token_budget, cost_budget),
        more=spec,
    )


def explore(
    *,
    use_case: Callable[..., Any],
    configurations: Sequence[Mapping[str, Any]] = (),
    factors: Mapping[str, Sequence[Any]] | None = None,
    samples: int | None = None,
    data: Any = None,
    scorer: Scorer = "success_rate",
    objective: str = "maximize",
    experiment_id: str = "",
    time_budget: float | str | timedelta = 0,
    token_budget: int = 0,
    cost_budget: float = 0,
    **spec: Unpack[DeclaredFields],
) -> Callable[[F], F]:
    """Declare that configurations of a use case are measured side by side: those that are listed, and every combination of
    `factors`, such as `{"model": ["a", "b"], "temperature": [0, 1]}`. The use case as it is is measured anyway, and once."""
    names = list(factors or {})
    products = itertools.product(*(list(values) for values in (factors or {}).values())) if names else ()
    combinations = tuple(dict(zip(names, values, strict=True)) for values in products)
    if not (configurations or combinations):
        raise SpecError("configurations: are missing; list some, or give factors with their values")
    return _declaring(
        "explore",
        use_case,
        experiment_id,
        configurations=tuple(configurations),
        combinations=combinations,
        samples=samples,
        data=data,
        scorer=scorer,
        direction=objective,
        budget=_budget(time_budget, token_budget, cost_budget),
        more=spec,
    )


def optimize(
    *,
    use_case: Callable[..., Any],
    treatment_factor: str | None = None,
    treatment_factors: Sequence[str] | Mapping[str, Any] = (),
    scorer: Scorer = "success_rate",
    mutator: Any = None,
    objective: str = "maximize",
    samples_per_iteration: int = SAMPLES,
    max_iterations: int = 20,
    no_improvement_window: int = 5,
    time_budget: float | str | timedelta = 0,
    token_budget: int = 0,
    cost_budget: float = 0,
    experiment_id: str = "",
    data: Any = None,
    baseline: str | Path | None = None,
    **spec: Unpack[DeclaredFields],
) -> Callable[[F], F]:
    """Declare that a treatment factor of a use case is optimized, or several, while all other factors stay as they are.

    The first iteration is the initial value, and counts as one of `max_iterations`. `mutator` is what gives new values; without
    one, and without `optimizer`, it is the default of specs. `baseline` names a stored measurement, or the file of an
    exploration, whose fixed factors are taken.
    """
    if isinstance(treatment_factors, str):
        raise SpecError("treatment_factors: is a text; give a list of names, or say treatment_factor")
    several = dict(treatment_factors) if isinstance(treatment_factors, Mapping) else dict.fromkeys(treatment_factors)
    if (treatment_factor is None) == (not several):
        raise SpecError("treatment_factor: name the factor to optimize, or several by treatment_factors")
    if max_iterations < 1:
        raise SpecError(f"max_iterations: is {max_iterations}; the first iteration is the initial value, so give 1 or more")
    return _declaring(
        "optimize",
        use_case,
        experiment_id,
        treatment=several or {treatment_factor: None},
        samples=samples_per_iteration,
        data=data,
        scorer=scorer,
        direction=objective,
        mutator=mutator,
        stop={"max_rounds": max_iterations - 1, "no_improvement": no_improvement_window},
        budget=_budget(time_budget, token_budget, cost_budget),
        baseline=baseline,
        more=spec,
    )


def language_model(
    model: str,
    *,
    max_length: int | None = None,
    template: str | None = None,
    base_url: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    examples: int | None = None,
) -> dict[str, Any]:
    """Return a mutator that asks a model for a better text, showing it recent scores and failed samples."""
    given = {
        "max_length": max_length,
        "template": template,
        "base_url": base_url,
        "parameters": parameters,
        "examples": examples,
    }
    return {"kind": "model", "model": model} | {name: value for name, value in given.items() if value is not None}


def weighted(**weights: float) -> dict[str, Any]:
    """Return a scorer of several, each by its weight: `weighted(success_rate=0.7, cost_efficiency=0.3)`."""
    return {"kind": "weighted", "components": [{"kind": kind, "weight": weight} for kind, weight in weights.items()]}


def _declaring(kind: Kind, use_case: Callable[..., Any], experiment_id: str, **given: Any) -> Callable[[F], F]:
    more = dict(given.pop("more"))
    for part in ("stop", "budget"):  # what attributes say, and further fields of the spec
        if isinstance(more.get(part), Mapping):
            given[part] = {**given.get(part, {}), **more.pop(part)}

    def declared(function: F) -> F:
        name = experiment_id or dashed(function.__name__)
        setattr(function, DECLARED, Declaration(kind, function, UseCase(use_case), name, more=more, **given))
        return function

    return declared


def _budget(time: float | str | timedelta, tokens: int, cost: float) -> dict[str, Any]:
    """The budget as a spec has it; 0 is unlimited."""
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    given = {"wall_time": seconds, "tokens": tokens, "cost": cost}
    return {name: value for name, value in given.items() if value}
