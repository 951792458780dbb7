"""Tree-structured Parzen estimators, by Optuna: the study is made anew from what is stored, for every batch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self, assert_never

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState
from pydantic import JsonValue

from workflows.model.spec.factors import ChoiceFactor, Configuration, FlagFactor, IntegerFactor, NumberFactor, OrderFactor
from workflows.rules.search.observations import Observation
from workflows.rules.search.space import (
    Searched,
    Space,
    category_of,
    from_unit,
    grid_of,
    nearest_step,
    nth,
    on_grid,
    ordered_by,
    places_of,
    unit_of,
)

STARTUP = 10
"""So many trials are drawn at random before anything is modelled."""

LONG_AGO = datetime(2000, 1, 1)
"""When trials were: Optuna wants to know, and nothing depends on it."""

optuna.logging.set_verbosity(optuna.logging.ERROR)


class _Finished(FrozenTrial):
    """Never changes: Optuna, which copies every trial that it is told, need not copy this."""

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Parzen:
    """Suggests one configuration after the other; those of a batch count as bad ones, so that they lie apart. Factors that
    always count are modelled together; those that do not, each by itself, which measures better than groups."""

    name = "tpe"

    def __init__(self, space: Space, told: Sequence[Observation], seed: int) -> None:
        self._space = space
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is used here is called experimental
            sampler = optuna.samplers.TPESampler(
                seed=seed % 2**32,
                n_startup_trials=STARTUP,
                multivariate=True,
                constant_liar=True,
                warn_independent_sampling=False,
            )
        self._study = study_of(space, told, sampler)

    def draw(self) -> Configuration:
        """Values of the factors that count."""
        trial = self._study.ask()
        values: Configuration = {}
        for name, factor in self._space.factors.items():
            if not self._space.counts(name, values):
                values[name] = factor.value
                continue
            suggested = {one: _suggest(trial, one, kind) for one, kind in distributions(name, factor).items()}
            values[name] = value_of(factor, list(suggested.values()))
        return values


def study_of(space: Space, told: Sequence[Observation], sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    """Everything that was told, as Optuna's trials; what does not count is no parameter of a trial."""
    study = optuna.create_study(sampler=sampler)
    kinds = {name: distributions(name, factor) for name, factor in space.factors.items()}
    study.add_trials([_trial(space, kinds, one) for one in told])
    return study


def _trial(space: Space, kinds_of: Mapping[str, Mapping[str, BaseDistribution]], told: Observation) -> FrozenTrial:
    kinds: dict[str, BaseDistribution] = {}
    parameters: dict[str, Any] = {}
    for name in space.active(told.values):
        factor, of_factor = space.factors[name], kinds_of[name]
        kinds |= of_factor
        parameters |= dict(zip(of_factor, internal(factor, told.values[name]), strict=True))
    return _Finished(
        number=-1,
        trial_id=-1,
        state=TrialState.FAIL if told.loss is None else TrialState.COMPLETE,
        value=told.loss,
        params=parameters,
        distributions=kinds,
        user_attrs={},
        system_attrs={},
        intermediate_values={},
        datetime_start=LONG_AGO,
        datetime_complete=LONG_AGO,
    )


def distributions(name: str, factor: Searched) -> dict[str, BaseDistribution]:
    """The parameters that stand for a factor: one, but for orders, which are the places of their items."""
    match factor:
        case NumberFactor() | IntegerFactor():
            grid = grid_of(factor)
            if grid is None:
                return {name: FloatDistribution(0.0, 1.0)}
            if factor.scale == "log" and factor.step is None:
                return {name: IntDistribution(int(factor.min), int(factor.max), log=True)}
            return {name: IntDistribution(grid[0], grid[-1])}
        case ChoiceFactor():
            return {name: CategoricalDistribution(range(len(factor.choices)))}
        case FlagFactor():
            return {name: CategoricalDistribution(range(2))}
        case OrderFactor():
            return {f"{name}[{place}]": FloatDistribution(0.0, 1.0) for place in range(len(factor.value))}
        case _:
            assert_never(factor)


def internal(factor: Searched, value: Any) -> list[Any]:
    """The values of those parameters."""
    match factor:
        case NumberFactor() | IntegerFactor():
            grid = grid_of(factor)
            if grid is None:
                return [unit_of(factor, value)]
            steps = nearest_step(factor, grid, value)
            by_value = factor.scale == "log" and factor.step is None
            return [on_grid(factor, steps) if by_value else steps]
        case ChoiceFactor() | FlagFactor():
            return [category_of(factor, value)]
        case OrderFactor():
            return places_of(factor, value)
        case _:
            assert_never(factor)


def value_of(factor: Searched, suggested: Sequence[Any]) -> JsonValue:
    """The value that those parameters stand for."""
    match factor:
        case NumberFactor() | IntegerFactor():
            grid = grid_of(factor)
            if grid is None:
                return from_unit(factor, suggested[0])
            by_value = factor.scale == "log" and factor.step is None
            return int(suggested[0]) if by_value else on_grid(factor, suggested[0])
        case ChoiceFactor() | FlagFactor():
            return nth(factor, suggested[0])
        case OrderFactor():
            return ordered_by(factor, suggested)
        case _:
            assert_never(factor)


def _suggest(trial: optuna.Trial, name: str, kind: BaseDistribution) -> Any:
    match kind:
        case FloatDistribution():
            return trial.suggest_float(name, kind.low, kind.high)
        case IntDistribution():
            return trial.suggest_int(name, kind.low, kind.high, log=kind.log)
        case CategoricalDistribution():
            return trial.suggest_categorical(name, kind.choices)
    raise TypeError(f"{type(kind).__name__} is not used here")
