"""What holds for every optimizer: the same run again, no call beyond the budget, nothing asked twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from clients.testing import World, simulate
from ratchet import Record, Sample
from ratchet._formats.canonical import content_hash, derive_seed
from tests.support.plugins.own_optimizers import Peeks, Stepper

MODEL = {"kind": "model", "model": "simulated"}
NUMBER = {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}
PROMPT = "Be brief. Be polite. Be brief. Name the price. Say where it is sold."

EXAMPLES = {"value": [], "change": "structured", "type": "json", "schema": {"type": "array"}}

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "refine by steps": {"name": "refine", "proposer": {"kind": "step"}, "candidates_per_round": 3},
    "refine by a model": {"name": "refine", "proposer": MODEL, "candidates_per_round": 2},
    "compress": {"name": "compress", "min_section_tokens": 1},
    "evolve": {
        "name": "evolve",
        "classifier": "kit:failures",
        "table": [{"failure": "low", "more_than": 0, "mutation": {"kind": "threshold", "factor": "x", "delta": 40}}],
        "padding": [],
    },
    "search": {"name": "search", "candidates_per_round": 4},
    "search with texts": {"name": "search", "proposer": MODEL, "candidates_per_round": 2},
    "meta_prompt": {"name": "meta_prompt", "proposer": MODEL},
    "reflect": {"name": "reflect", "proposer": MODEL, "minibatch": 5},
    "gepa": {"name": "gepa", "proposer": MODEL},
    "few_shot": {"name": "few_shot", "max_examples": 3},
    "none": {"name": "none", "configurations": [{"x": 200}, {"x": 700}, {"x": 800}]},
    "python": {"name": "python", "ref": "own_optimizers:Stepper", "candidates_per_round": 2},
    "python in parts": {"name": "python", "ref": "own_optimizers:Peeks", "candidates_per_round": 2},
}
CLASSES = {"python": Stepper, "python in parts": Peeks}


def simulated(name: str, budget: int, calls: Counter[tuple[str, str, int]], seed: int = 7) -> Any:
    def target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> tuple[float, str]:
        known = content_hash(dict(configuration))
        calls[known, sample.id, replicate] += 1
        noise = Random(derive_seed(seed, known, sample.id, replicate)).uniform(-0.2, 0.2)
        score = 1 - abs(configuration["x"] - 700) / 1000 + 0.1 * ("exactly" in configuration["prompt"]) + noise
        score += 0.05 * len(configuration["examples"])
        return score, "low" if score < 0.6 else ""

    def rewrite(current: Mapping[str, Any], records: list[Record], factors: list[str], seed: int) -> Mapping[str, Any]:
        return {"prompt": f"{current['prompt']} {Random(seed).choice(['Be exact.', 'Answer exactly.', 'Be kind.'])}"}

    world = World(
        target=target,
        samples=range(20),
        train=[Sample(id=f"t{place}", input=place, expected=str(place)) for place in range(12)],
        propose=rewrite,
        plugins={"kit:failures": lambda records: {"low": sum(1 for record in records if record.feedback)}},
    )
    request = {
        "configuration": {"x": NUMBER, "prompt": {"value": PROMPT, "change": "text", "max_length": 2000}, "examples": EXAMPLES},
        "optimizer": OPTIMIZERS[name],
        "budget": {"samples": budget},
        "stop": {"max_rounds": 30, "no_improvement": 0},
        "seed": seed,
    }
    return simulate(request, world, optimizer=CLASSES.get(name))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_same_request_gives_the_same_run(name: str) -> None:
    one, other = simulated(name, 400, Counter()), simulated(name, 400, Counter())
    assert one.status == "completed", one.message
    assert one == other
    assert len(one.trials) > 2


@pytest.mark.parametrize("budget", [133, 177, 400])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_call_goes_beyond_the_budget_and_none_is_made_twice(name: str, budget: int) -> None:
    calls: Counter[tuple[str, str, int]] = Counter()
    run = simulated(name, budget, calls)
    assert sum(calls.values()) == run.calls <= budget
    assert set(calls.values()) == {1}
