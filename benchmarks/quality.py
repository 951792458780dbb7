"""The quality of answers at the same number of target calls: Ratchet's optimizers, the `gepa` package, and hill climbing.

    python -m benchmarks.quality [--quick]

The task is a prompt of rules (`quality_world.py`): 36 rules may be added, 24 help and 12 harm, 16 fit. Everyone has the same
worlds, the same reflector and the same calls in all, of which every one is noisy; what counts is the true accuracy of the
answer on 200 samples that nobody saw. Settings of the peers are tried out on the reported worlds, and the best one of each
budget is what is compared with: ours has to be at least as good on the task itself, and in no variant significantly worse
than any setting of the peers, with p multiplied by their number, since which one is the best is seen afterwards. Ours is one
setting for all, chosen on other constants and other seeds (`TUNING`, and variants of it). In the variants of the task every
setting of the peers is measured, and of ours only `reflect`.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from scipy import stats

from benchmarks.figures import Figure, main
from benchmarks.peers_environments import GEPA, ROOT, install
from benchmarks.quality_engine import per_evaluation
from benchmarks.quality_world import TASK, VARIANTS

MODEL = {"kind": "model", "model": "simulated"}
OURS: dict[str, dict[str, Any]] = {
    "reflect": {"name": "reflect", "proposer": MODEL},
    "gepa": {"name": "gepa", "proposer": MODEL},
    "meta_prompt": {"name": "meta_prompt", "proposer": MODEL},
    "refine": {"name": "refine", "proposer": MODEL},
}
PROVED = "reflect"
"""The one that the targets are about."""

GEPA_SETTINGS = [("pareto", 3), ("current_best", 3), ("pareto", 10), ("current_best", 10), ("current_best", 20)]
HILL_SETTINGS = [3, 20]

FIXED_SEEDS = range(1, 21)
AIMS = {500: 0.50, 1000: 0.55, 2000: 0.62, 5000: 0.66}
ALPHA = 0.05
SEEDS_PER_PROCESS = 5


@dataclass(frozen=True)
class Scale:
    fixed: int
    fresh: int
    budgets: tuple[int, ...]
    variants: tuple[str, ...]
    timed: tuple[int, int]
    """Budgets of the runs whose overhead is compared."""


QUICK = Scale(6, 2, (500, 1000), ("as published", "capacity 6", "saturated", "rewritten"), (1250, 5000))
FULL = Scale(20, 4, (500, 1000, 2000, 5000), tuple(VARIANTS), (1250, 5000))

Answers = dict[str, list[list[float]]]
"""By setting, seed by seed: the true accuracy at every budget."""


async def measure(quick: bool) -> list[Figure]:
    scale = QUICK if quick else FULL
    install(GEPA)
    fresh = random.SystemRandom().sample(range(10_000, 10**9), scale.fresh)
    seeds = [*FIXED_SEEDS[: scale.fixed], *fresh]
    print(f"seeds: {scale.fixed} fixed and {fresh}; budgets: {scale.budgets}")
    measuring = {name: asyncio.create_task(_variant(name, seeds, scale.budgets)) for name in scale.variants}
    figures: list[Figure] = []
    overshoot = 0.0
    for name, measured in measuring.items():
        ours, peers, most = await measured
        _show(name, scale.budgets, ours, peers)
        figures += _compared(name, scale.budgets, ours[PROVED], peers)
        overshoot = max(overshoot, most)
    return [*figures, Figure("calls beyond the budget", overshoot, 0, "calls"), *await _overhead(scale)]


async def _variant(name: str, seeds: Sequence[int], budgets: Sequence[int]) -> tuple[Answers, Answers, float]:
    """Everybody's answers, and by how many calls ours went beyond the budget at most."""
    parts = [seeds[first : first + SEEDS_PER_PROCESS] for first in range(0, len(seeds), SEEDS_PER_PROCESS)]
    job = {"task": asdict(VARIANTS[name]), "budgets": budgets}
    settings = {"gepa": GEPA_SETTINGS, "hill": HILL_SETTINGS}
    peers = [_asked(GEPA.python, "benchmarks.peers_drivers.quality_driver", job | settings | {"seeds": part}) for part in parts]
    optimizers = OURS if VARIANTS[name] is TASK else {PROVED: OURS[PROVED]}
    asked = job | {"optimizers": optimizers}
    own = [_asked(Path(sys.executable), "benchmarks.quality_ours", asked | {"seeds": part}) for part in parts]
    answered = await asyncio.gather(*peers, *own)
    found, told = _joined(answered[: len(parts)]), _joined(answered[len(parts) :])
    ours = {name: [[run["truth"] for run in of_seed] for of_seed in runs] for name, runs in told.items()}
    beyond = [
        run["calls"] - budget
        for runs in told.values()
        for of_seed in runs
        for run, budget in zip(of_seed, budgets, strict=True)
    ]
    return ours, found, max(0.0, *beyond)


def _joined(parts: Sequence[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    return {name: [answers for part in parts for answers in part[name]] for name in parts[0]}


_room = asyncio.Semaphore(os.cpu_count() or 1)


async def _asked(python: Path, module: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """One job in a process of its own, on a processor of its own."""
    async with _room:
        process = await asyncio.create_subprocess_exec(
            str(python), "-m", module, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, errors = await process.communicate(json.dumps(job).encode())
    if process.returncode:
        raise RuntimeError(f"{module} ended with code {process.returncode}:\n{errors.decode()[-2000:]}")
    answer: dict[str, Any] = json.loads(said.splitlines()[-1])
    return answer


def _compared(name: str, budgets: Sequence[int], ours: Sequence[Sequence[float]], peers: Answers) -> list[Figure]:
    """Ours against the best setting of any peer, budget by budget."""
    figures = []
    for place, budget in enumerate(budgets):
        own = [answers[place] for answers in ours]
        rivals = {rival: [answers[place] for answers in runs] for rival, runs in peers.items()}
        best = max(rivals, key=lambda rival: statistics.fmean(rivals[rival]))
        mean = statistics.fmean(rivals[best])
        if VARIANTS[name] is TASK:
            figures.append(Figure(f"rule task, {budget} calls (aim: {AIMS[budget]:g})", statistics.fmean(own), at_least=mean))
        hindsight, corrected = significance_of_being_worse(own, rivals[best]), worse_than_any(own, [*rivals.values()])
        figures.append(Figure(f"{name}, {budget} calls: p of worse than {best}, seen afterwards", hindsight))
        figures.append(
            Figure(f"{name}, {budget} calls: p of worse than any of {len(rivals)} settings", corrected, at_least=ALPHA)
        )
    return figures


def worse_than_any(ours: Sequence[float], rivals: Sequence[Sequence[float]]) -> float:
    """Small when ours is worse than one of them. Which one is the best is seen afterwards, on the same seeds, where the
    luckiest of several equals looks better than it is: so the smallest p is multiplied by their number."""
    return min(1.0, len(rivals) * min(significance_of_being_worse(ours, theirs) for theirs in rivals))


def significance_of_being_worse(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Paired over seeds, one-sided: small when ours is worse."""
    gains = [one - other for one, other in zip(ours, theirs, strict=True)]
    if len(set(gains)) == 1:
        return 0.0 if gains[0] < 0 else 1.0
    return float(stats.ttest_1samp(gains, 0.0, alternative="less").pvalue)


def _show(name: str, budgets: Sequence[int], ours: Answers, peers: Answers) -> None:
    table = Table(title=f"{name}: true accuracy, mean ± standard error", title_justify="left")
    for heading in ("", *(f"{budget} calls" for budget in budgets)):
        table.add_column(heading)
    for label, answers in (*((f"Ratchet, {each}", runs) for each, runs in ours.items()), *peers.items()):
        columns = [[of_seed[place] for of_seed in answers] for place in range(len(budgets))]
        table.add_row(label, *(f"{statistics.fmean(column):.3f} ± {standard_error(column):.3f}" for column in columns))
    Console(width=110).print(table)


def standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


async def _overhead(scale: Scale) -> list[Figure]:
    """What the optimizer and the frame take for themselves, and what the real engines take with them."""
    small, large = scale.timed
    each = []
    for budget in (small, large):
        job = {"task": asdict(TASK), "budgets": [budget], "seeds": [1], "optimizers": {PROVED: OURS[PROVED]}}
        [[told]] = (await _asked(Path(sys.executable), "benchmarks.quality_ours", job))[PROVED]
        each.append(1000 * told["overhead_seconds"] / told["calls"])
    growth = math.log(each[1] / each[0]) / math.log(large / small)
    return [
        Figure(f"overhead per evaluation, {small} evaluations", each[0], unit="ms"),
        Figure(f"overhead per evaluation, {large} evaluations", each[1], 5.0, "ms"),
        Figure("overhead per evaluation grows with evaluations to the power of", growth, 1.0),
        *await per_evaluation(OURS[PROVED], scale.timed),
    ]


if __name__ == "__main__":
    main("Quality at equal numbers of target calls", measure)
