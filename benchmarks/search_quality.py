"""Structured search against Optuna's own samplers, at the same number of evaluations from the same baselines.

    python -m benchmarks.search_quality [--quick]

All 24 BBOB functions in 5 dimensions, and mixed spaces of our own making (`search_tasks.py`); 200 evaluations, one after the
other and in batches of 4. What counts is the mean rank, over all problems, of the best value found. Instances 1 to 3 and 500 to
540 were used while the algorithm was made; those here are others: fixed ones, and one drawn anew each time. Ours runs as
it does in the product, through the kit that drives optimizers; functions are evaluated in the peers' process.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata

from benchmarks.figures import Figure, main
from benchmarks.peers_environments import OPTUNA, ROOT, install
from benchmarks.search_tasks import Task
from clients.testing import Simulated, World, simulate_async
from ratchet import Sample

EVALUATIONS = 200
BATCHES = (1, 4)
OURS = "search"
PEERS = {
    "bbob": ("TPE, apart", "TPE", "CMA-ES", "QMC", "random"),
    "mixed": ("TPE, apart", "TPE", "TPE, groups", "CMA-ES", "QMC", "random"),
}
"""Optuna's GP sampler needs torch, which is no part of its installation."""


@dataclass(frozen=True)
class Scale:
    fixed: tuple[int, ...]
    """Instances of every BBOB function."""
    fresh: int
    mixed: int
    timed: int
    """Evaluations of the run whose overhead is measured."""


QUICK = Scale((11,), 0, 8, 2000)
FULL = Scale((11, 12), 1, 40, 5000)

Found = dict[str, list[float]]
"""The best loss by who searched, problem by problem."""


async def measure(quick: bool) -> list[Figure]:
    scale = QUICK if quick else FULL
    install(OPTUNA)
    instances = [*scale.fixed, *random.SystemRandom().sample(range(20, 100), scale.fresh)]
    print(f"BBOB instances: {instances}; mixed spaces: {scale.mixed}; {EVALUATIONS} evaluations")
    bbob = [Task("bbob", function, instance) for function in range(1, 25) for instance in instances]
    mixed = [Task("mixed", number, instances[-1]) for number in range(scale.mixed)]
    figures: list[Figure] = []
    for kind, tasks in (("bbob", bbob), ("mixed", mixed)):
        for batch in BATCHES:
            found = await _searched(tasks, PEERS[kind], batch)
            figures.append(_ranked(f"{kind}, {'one by one' if batch == 1 else f'batches of {batch}'}", found))
    return [*figures, *await _overhead(scale)]


async def _searched(tasks: Sequence[Task], peers: Sequence[str], batch: int) -> Found:
    """The peers in their process, ours beside them."""
    with Evaluator() as for_peers, Evaluator() as for_us:
        theirs = asyncio.create_task(asyncio.to_thread(_by_peers, for_peers, tasks, peers, batch))
        await asyncio.sleep(0)  # they begin; ours never waits for anything
        ours = [min(await _by_us(for_us, task, batch)) for task in tasks]
        return {OURS: ours, **await theirs}


def _by_peers(evaluator: Evaluator, tasks: Sequence[Task], peers: Sequence[str], batch: int) -> Found:
    return {
        name: [
            min(evaluator.ask(search=asdict(task), sampler=name, seed=_seed(task), evaluations=EVALUATIONS, batch=batch))
            for task in tasks
        ]
        for name in peers
    }


async def _by_us(evaluator: Evaluator, task: Task, batch: int) -> list[float]:
    evaluator.ask(open=asdict(task))

    def target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> float:
        return float(evaluator.ask(values=dict(configuration)))

    run = await simulate_async(_spec(task, batch, EVALUATIONS), World(target=target, samples=["the only one"]))
    losses = [trial.score for trial in run.trials if trial.score is not None]
    assert len(losses) == EVALUATIONS, run.message
    return losses


def _spec(task: Task, batch: int, trials: int) -> dict[str, Any]:
    return {
        "configuration": task.factors,
        "objective": {"metric": "score", "direction": "minimize"},
        "optimizer": {"name": "search", "candidates_per_round": batch},
        "budget": {"trials": trials},
        "stop": {"max_rounds": 100_000},
        "seed": _seed(task),
    }


def _seed(task: Task) -> int:
    return task.function * 1000 + task.instance


class Evaluator:
    """The driver in the peers' environment, asked line by line."""

    def __enter__(self) -> Evaluator:
        command = [str(OPTUNA.python), "-m", f"benchmarks.peers_drivers.{OPTUNA.driver}"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, **what: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def _ranked(name: str, found: Found) -> Figure:
    names = list(found)
    ranks = [rankdata(losses) for losses in zip(*found.values(), strict=True)]
    means = {one: statistics.fmean(rank[place] for rank in ranks) for place, one in enumerate(names)}
    errors = {one: _standard_error([rank[place] for rank in ranks]) for place, one in enumerate(names)}
    table = Table(title=f"{name}: mean rank over {len(ranks)} problems", title_justify="left")
    for heading in ("", "mean rank", "standard error", "best of all"):
        table.add_column(heading)
    for place, one in enumerate(names):
        first = sum(rank[place] == min(rank) for rank in ranks) / len(ranks)
        table.add_row(one, f"{means[one]:.2f}", f"{errors[one]:.2f}", f"{first:.0%}")
    Console(width=110).print(table)
    best = min(mean for one, mean in means.items() if one != OURS)
    return Figure(f"{name}: mean rank of search, and of Optuna's best sampler", means[OURS], best)


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


async def _overhead(scale: Scale) -> list[Figure]:
    """Of whole runs in which every trial is one evaluation, the worst case; a trial of more shares it among them."""
    task = Task("mixed", 1, 1)
    each: list[float] = []
    for trials in (scale.timed // 4, scale.timed):
        began = time.perf_counter()
        await _quick_run(task, trials)
        each.append(1000 * (time.perf_counter() - began) / trials)
    growth = math.log(each[1] / each[0]) / math.log(4)
    return [
        Figure(f"per evaluation, {scale.timed:,} evaluations", each[1], 5.0, "ms"),
        Figure("per evaluation, grows to the power of", growth, 1.0),
    ]


async def _quick_run(task: Task, trials: int) -> Simulated:
    scored = World(target=lambda configuration, sample, replicate: float(configuration["temperature"]), samples=["one"])
    run = await simulate_async(_spec(task, 4, trials), scored)
    assert len(run.trials) == trials, run.message
    return run


if __name__ == "__main__":
    main("Structured search", measure)
