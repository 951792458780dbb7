"""Which factors mattered, by PED-ANOVA: how differently their values are spread among the best trials and among all."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from pydantic import JsonValue

from workflows.model.computation import Stored
from workflows.rules.suggesting.parzen import distributions, study_of
from workflows.rules.suggesting.space import Space
from workflows.rules.suggesting.told import told_of

FEWEST = 10
"""Trials that say anything about importance."""

QUANTILE = 0.25
"""The best are so large a part of all."""


def importances(stored: Stored, arguments: Mapping[str, Any]) -> JsonValue:
    """`{factors: [{factor, share}], trials}`; nothing where there are too few trials, or where all scores are the same.

    `arguments`: `factors` (those that are searched, as the spec has them), `base` (a candidate of the run), `maximize`.
    """
    base = next((trial.configuration for trial in stored.trials if trial.candidate_id == arguments["base"]), {})
    space = Space.of(arguments["factors"], base)
    told = [one for one in told_of(stored.trials, space, maximize=arguments["maximize"]) if one.loss is not None]
    if len(told) < FEWEST or len({one.loss for one in told}) == 1:
        return {"factors": [], "trials": len(told)}
    study = study_of(space, told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares: dict[str, float] = defaultdict(float)
        for name in space.factors:
            shares[name] = _share(study, name, space)
    return _ranked(shares, len(told))


def _share(study: optuna.Study, name: str, space: Space) -> float:
    """Of the trials in which the factor counts."""
    parameters = list(distributions(name, space.factors[name]))
    return sum(_of_parameter(study, parameter) for parameter in parameters)


def _of_parameter(study: optuna.Study, parameter: str) -> float:
    trials = [trial for trial in study.trials if parameter in trial.params]
    if len(trials) < FEWEST or len({trial.params[parameter] for trial in trials}) == 1:
        return 0.0
    evaluator = PedAnovaImportanceEvaluator(target_quantile=QUANTILE, evaluate_on_local=False)
    return get_param_importances(study, evaluator=evaluator, params=[parameter], normalize=False)[parameter]


def _ranked(shares: Mapping[str, float], trials: int) -> JsonValue:
    total = sum(shares.values())
    ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    factors: list[JsonValue] = [{"factor": name, "share": share / total if total else 0.0} for name, share in ranked]
    return {"factors": factors, "trials": trials}
