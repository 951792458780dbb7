"""Runs in the peers' environment: evaluates the tasks of the search benchmark, and lets Optuna's samplers search them.

A line of JSON asks, a line of JSON answers: `{"open": task}`, `{"values": {…}}` for one loss of the open task, and
`{"search": task, "sampler": …, "seed": …, "evaluations": …, "batch": …}` for the losses of a whole search, in order.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import optuna

from benchmarks.search_tasks import DIMENSION, Factors, Loss, Task, mixed_loss

SAMPLERS: dict[str, Callable[[int, int], optuna.samplers.BaseSampler]] = {
    "TPE, apart": lambda seed, batch: optuna.samplers.TPESampler(seed=seed, multivariate=False, constant_liar=batch > 1),
    "TPE": lambda seed, batch: optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=batch > 1),
    "TPE, groups": lambda seed, batch: optuna.samplers.TPESampler(
        seed=seed, multivariate=True, group=True, constant_liar=batch > 1
    ),
    "CMA-ES": lambda seed, batch: optuna.samplers.CmaEsSampler(seed=seed),
    "QMC": lambda seed, batch: optuna.samplers.QMCSampler(seed=seed, scramble=True),
    "random": lambda seed, batch: optuna.samplers.RandomSampler(seed=seed),
}


def loss_of(task: Task) -> Loss:
    if task.kind == "mixed":
        return mixed_loss(task)
    import cocoex

    # A suite has fifteen instances and takes the first of them where it is asked for others; this has all.
    problem = cocoex.BareProblem("bbob", task.function, DIMENSION, task.instance)
    return lambda values: float(problem([values[f"x{place}"] for place in range(DIMENSION)]))


def search(task: Task, sampler: str, seed: int, evaluations: int, batch: int) -> list[float]:
    """The losses of one study, in order. Its first trial is the baseline."""
    factors, loss = task.factors, loss_of(task)
    study = optuna.create_study(sampler=SAMPLERS[sampler](seed, batch))
    study.enqueue_trial({name: value for one, factor in factors.items() for name, value in _baseline(one, factor).items()})
    losses: list[float] = []
    while len(losses) < evaluations:
        wanted = min(batch, evaluations - len(losses)) if losses else 1
        asked = []
        for _ in range(wanted):
            trial = study.ask()
            asked.append((trial, _suggested(trial, factors)))
        for trial, values in asked:
            losses.append(loss(values))
            study.tell(trial, losses[-1])
    return losses


def _baseline(name: str, factor: Mapping[str, Any]) -> dict[str, Any]:
    if factor["type"] != "order":
        return {name: factor["value"]}
    items = sorted(factor["value"])
    return {f"{name}.{item}": factor["value"].index(item) / (len(items) - 1) for item in items}


def _suggested(trial: optuna.Trial, factors: Factors) -> dict[str, Any]:
    """Orders by a number for every item, the best encoding that Optuna's users have; conditions as they write them, too."""
    values: dict[str, Any] = {}
    for name, factor in factors.items():
        if any(values[other] not in wanted for other, wanted in factor.get("when", {}).items()):
            values[name] = factor["value"]
            continue
        match factor["type"]:
            case "number":
                values[name] = trial.suggest_float(name, factor["min"], factor["max"], log=factor.get("scale") == "log")
            case "integer":
                values[name] = trial.suggest_int(name, factor["min"], factor["max"])
            case "choice":
                values[name] = trial.suggest_categorical(name, factor["choices"])
            case "flag":
                values[name] = trial.suggest_categorical(name, [False, True])
            case "order":
                keys = {item: trial.suggest_float(f"{name}.{item}", 0, 1) for item in sorted(factor["value"])}
                values[name] = sorted(keys, key=lambda item: keys[item])
    return values


def serve() -> None:
    """Answers on stdout; what anybody else prints goes to stderr."""
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    ours = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    loss: Loss | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        if "values" in asked:
            assert loss is not None
            ours.write(json.dumps(loss(asked["values"])) + "\n")
        elif "open" in asked:
            loss = loss_of(Task(**asked["open"]))
            ours.write("null\n")
        else:
            task = Task(**asked.pop("search"))
            ours.write(json.dumps(search(task, **asked)) + "\n")
        ours.flush()


if __name__ == "__main__":
    serve()
