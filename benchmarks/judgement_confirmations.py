"""Whole runs of every optimizer over a target that nothing improves: how many end with an improvement that is said to hold.

The runs are the test kit's (`clients.testing`): the product's own loop, optimizers and rules. Nothing is held back, so that the
winner is confirmed by cross-fitting, which is what a run with few samples does. Two worlds: in one every answer is a toss of a
coin; in the other the target answers the same every time, and each configuration mends some samples and breaks as many.
For comparison, how many winners are called better by the very answers that they were chosen for, and how many true gains hold.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from random import Random
from typing import Any

from benchmarks.figures import Figure
from benchmarks.judgement_cells import ALPHA, rate
from clients.testing import World, simulate
from ratchet import Record, Sample
from ratchet._formats.canonical import content_hash, derive_seed
from ratchet.optimizer import Direction
from workflows.model.measured_parts import MeasuredPart
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.decisions.verdicts import judge
from workflows.rules.statistics import compare
from workflows.rules.statistics.cross_fit import search_cross_fitted

SAMPLES, BUDGET, PASSES = 30, 500, 0.6
RUNS, QUICK_RUNS = 200, 2
GAIN = 0.3
MODEL = {"kind": "model", "model": "simulated"}
X = {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}
PROMPT = {"value": "Be brief. Be polite. Be brief. Name the price. Say where.", "change": "text", "max_length": 2000}
EXAMPLES = {"value": [], "change": "structured", "type": "json", "schema": {"type": "array"}}
THRESHOLD = {"failure": "low", "more_than": 0, "mutation": {"kind": "threshold", "factor": "x", "delta": 40}}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "refine": {"name": "refine", "proposer": MODEL, "candidates_per_round": 2},
    "reflect": {"name": "reflect", "proposer": MODEL, "minibatch": 5},
    "gepa": {"name": "gepa", "proposer": MODEL},
    "meta_prompt": {"name": "meta_prompt", "proposer": MODEL},
    "search": {"name": "search", "candidates_per_round": 4},
    "few_shot": {"name": "few_shot", "max_examples": 3},
    "evolve": {"name": "evolve", "classifier": "kit:failures", "table": [THRESHOLD], "padding": []},
    "compress": {"name": "compress", "min_section_tokens": 1},
    "none": {"name": "none", "configurations": [{"x": 200 + 10 * place} for place in range(20)]},
}
STAND_INS = {
    "target": {"kind": "python", "ref": "simulated:target"},
    "dataset": {"items": [{"input": 1}], "splits": {"train": 0.5, "validation": 0.5}},
    "objective": "score",
    "scorers": [{"kind": "reported", "name": "score"}],
}
WORDS = ("Be exact.", "Answer in full.", "Be kind.", "Think.", "Name it.", "Write less.")


def confirmations(quick: bool) -> list[Figure]:
    """For every optimizer and world: runs that claim an improvement where there is none."""
    runs = QUICK_RUNS if quick else RUNS
    asked = list(product(OPTIMIZERS, ("tossed", "fixed"), (0.0, GAIN)))
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as pool:
        told = list(pool.map(_told, [(*one, seed) for one in asked for seed in range(runs)], chunksize=4))
    figures = []
    for place, (name, world, gain) in enumerate(asked):
        of_these = told[place * runs : (place + 1) * runs]
        held, naive = (sum(one[which] for one in of_these) for which in (0, 1))
        if gain:
            figures.append(rate(f"  {name}, {world}: a run with a true gain of {gain:g} says it", held, runs, None))
        else:
            figures.append(rate(f"A/A run, {name}, {world}: says an improvement", held, runs, ALPHA))
            figures.append(rate(f"  {name}, {world}: by the answers of the search", naive, runs, None))
    return figures


def _told(asked: tuple[str, str, float, int]) -> tuple[bool, bool]:
    """Whether a run says that an improvement holds, and whether the answers of its search would."""
    name, kind, gain, seed = asked
    request = _request(name, seed)
    run = simulate(request, _world(kind, gain, seed))
    baseline, *candidates = [trial for trial in run.trials if trial.part is None and trial.status == "completed"]
    best = next((one for one in candidates if one.candidate_id == run.best_candidate_id), None)
    if best is None or best.config_hash == baseline.config_hash:
        return False, False
    spec = OptimizationRequest.model_validate({**STAND_INS, **request}).judgement
    parts = [
        MeasuredPart(config_hash=trial.config_hash, round=trial.round, first=trial.part.first, count=trial.part.count)
        for trial in run.trials
        if trial.part is not None and trial.split is baseline.split and trial.status == "completed"
    ]
    naive = compare(baseline.sample_means, best.sample_means, spec=spec)
    found = search_cross_fitted(
        naive,
        baseline,
        candidates,
        parts=parts,
        spec=spec,
        direction=Direction.MAXIMIZE,
        weights=None,
        clusters=None,
        seed=seed,
    )
    held, claimed = (judge([evidence], spec)[0] for evidence in (found, naive))
    return held.verdict == "better", claimed.verdict == "better"


def _request(name: str, seed: int) -> dict[str, Any]:
    return {
        "configuration": {"x": X, "prompt": PROMPT, "examples": EXAMPLES},
        "optimizer": OPTIMIZERS[name],
        "budget": {"samples": BUDGET},
        "stop": {"max_rounds": 20, "no_improvement": 0},
        "seed": seed,
    }


def _world(kind: str, gain: float, seed: int) -> World:
    """Samples that pass or fail. Where there is a gain, every configuration but the first has it."""
    first = content_hash({"x": X["value"], "prompt": PROMPT["value"], "examples": EXAMPLES["value"]})

    def target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> tuple[float, str]:
        known = content_hash(dict(configuration))
        chance = Random(derive_seed(seed, known, sample.id, replicate if kind == "tossed" else 0))
        passes = Random(derive_seed(seed, sample.id)).random() < PASSES
        if kind == "tossed":
            passes = chance.random() < PASSES
        elif known != first:
            passes = chance.random() >= 0.2 * (1 - PASSES) / PASSES if passes else chance.random() < 0.2
        passes = passes or (known != first and chance.random() < gain / (1 - PASSES))
        return float(passes), "" if passes else "low"

    def rewrite(current: Mapping[str, Any], _records: list[Record], _factors: list[str], seed: int) -> Mapping[str, Any]:
        return {"prompt": f"{current['prompt']} {Random(seed).choice(WORDS)}"}

    return World(
        target=target,
        samples=range(SAMPLES),
        train=[Sample(id=f"t{place}", input=place, expected=str(place)) for place in range(12)],
        propose=rewrite,
        plugins={"kit:failures": lambda records: {"low": sum(1 for record in records if record.feedback)}},
    )
