"""What reflection is tested on: stored trials made by hand, and whole simulated runs of the rule task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from clients.testing import Answer, Simulated, World, simulate
from ratchet import Record, Sample
from ratchet._formats.canonical import content_hash, derive_seed
from tests.support.plugins import ruled
from workflows.model.activities.computation import StoredTrial
from workflows.model.trial import Purpose, Split

MODEL = {"kind": "model", "model": "simulated"}
REFLECT: dict[str, Any] = {"name": "reflect", "proposer": MODEL}
GEPA: dict[str, Any] = {"name": "gepa", "proposer": MODEL}


def trial(
    name: str,
    configuration: Mapping[str, Any],
    means: Sequence[float | None],
    *,
    parents: Sequence[str] = (),
    full: bool = False,
    split: Split = Split.VALIDATION,
    **extra: Any,
) -> StoredTrial:
    """One stored trial. The first of a list is the baseline, named `base`."""
    purpose = Purpose.BASELINE if name == "base" else Purpose.CANDIDATE if full else Purpose.EXPLORATION
    return StoredTrial(
        candidate_id=name,
        config_hash=content_hash(dict(configuration)),
        configuration=dict(configuration),
        parent_candidate_ids=tuple(parents),
        round=0,
        purpose=purpose,
        split=split,
        status="completed",
        score=None,
        sample_means=tuple(means),
        extra=extra,
    )


def arguments(**changes: Any) -> dict[str, Any]:
    """What the optimizer tells a computation, in the middle of a run."""
    return {
        "seed": 1,
        "run_seed": 7,
        "sign": 1.0,
        "generation": 1,
        "steps": 1,
        "steps_per_round": 8,
        "factors": ["prompt"],
        "one_at_a_time": False,
        "candidates_per_round": 4,
        "minibatch": 5,
        "search": 20,
        "train": 0,
    } | changes


def solved(
    configuration: Mapping[str, Any],
    *,
    budget: int | None = None,
    target: Any = None,
    propose: Any = ruled.reflect,
    train: int = 40,
    stop: Mapping[str, Any] | None = None,
    objective: Mapping[str, Any] | None = None,
    seed: int = 7,
    optimizer: Mapping[str, Any] = REFLECT,
    **options: Any,
) -> Simulated:
    """A whole run on the rule task, by the kit."""
    samples = [item["input"] for item in ruled.items(40 + train)]

    def answer(given: Mapping[str, Any], sample: Sample, replicate: int) -> Answer:
        return rules_followed(seed, given, sample, replicate)

    def rewritten(current: Mapping[str, Any], records: list[Record], factors: list[str], seed: int) -> Mapping[str, Any]:
        return propose(current, records, factors)  # type: ignore[no-any-return]

    request = {
        "configuration": {name: {"value": text, "change": "text"} for name, text in configuration.items()},
        "optimizer": {**optimizer, **options},
        "budget": {"samples": budget} if budget else {},
        "stop": {"max_rounds": 1_000, "no_improvement": 0, **(stop or {})},
        "seed": seed,
        **({"objective": objective} if objective else {}),
    }
    world = World(target=target or answer, samples=samples[:40], train=samples[40:], propose=rewritten)
    return simulate(request, world)


def rules_followed(seed: int, configuration: Mapping[str, Any], sample: Sample, replicate: int) -> Answer:
    """The rule task of the plug-ins, as the kit asks for it."""
    return _answer(configuration, sample, f"{seed} {content_hash(dict(configuration))} {replicate}")


def _answer(configuration: Mapping[str, Any], sample: Sample, noise: str) -> Answer:
    have, needs = ruled.rules_of([*configuration.values()]), set(sample.input["needs"])
    random = Random(derive_seed(0, noise, sample.id))
    chance = (0.95 if needs <= have else 0.2) - 0.05 * sum(rule >= ruled.USEFUL for rule in have)
    missing = sorted(needs - have) or [random.randrange(ruled.USEFUL + ruled.HARMFUL)]
    right = random.random() < chance
    return Answer(float(right), "" if right else f"Consider rule {random.choice(missing)}.")


def truth(configuration: Mapping[str, Any]) -> float:
    """The mean chance of being right."""
    have = ruled.rules_of([*configuration.values()])
    harm = 0.05 * sum(rule >= ruled.USEFUL for rule in have)
    needs = [set(item["input"]["needs"]) for item in ruled.items(200)]
    return sum((0.95 if needed <= have else 0.2) - harm for needed in needs) / len(needs)
