"""A small task whose prompts are lists of rules, and a proposer that follows feedback: pure, so that runs can be repeated."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ratchet import ExperimentContext, Output, Record, Sample, Score

USEFUL, HARMFUL = 8, 4
OPENING = "Answer {{input.needs}} as you are told."
TONE = "Be polite."


def items(count: int) -> list[dict[str, Any]]:
    """Samples, each of which needs one or two rules."""
    random = Random("needs")
    return [{"id": f"s{n}", "input": {"needs": sorted(random.sample(range(USEFUL), 1 + n % 2))}} for n in range(count)]


def rules_of(texts: Sequence[object]) -> set[int]:
    return {int(number) for text in texts for number in re.findall(r"Rule (\d+)", str(text))}


async def follows_rules(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Right more often when the rules are there that a sample needs. The same call has the same answer."""
    line = f"{context.overrides_tag[:16]} {sample.id} {context.replicate}"
    if "RATCHET_TEST_CALLS" in os.environ:
        _note(f"start {line}")
        await asyncio.sleep(0.03)
        _note(f"end {line}")
    have, needs, random = rules_of([*configuration.values()]), set(sample.input["needs"]), Random(line)
    chance = (0.95 if needs <= have else 0.2) - 0.05 * sum(rule >= USEFUL for rule in have)
    right = random.random() < chance
    missing = sorted(needs - have) or [random.randrange(USEFUL + HARMFUL)]
    return Output(
        {"right": right, "advice": "" if right else f"Consider rule {random.choice(missing)}."}, tokens=10, cost=0.001
    )


def _note(line: str) -> None:
    with open(os.environ["RATCHET_TEST_CALLS"], "a") as calls:
        calls.write(f"{line}\n")


def right(output: Output, sample: Sample) -> Score:
    return Score("right", float(output.value["right"]), reason=output.value["advice"])


def reflect(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    """Adds up to two rules that feedback names to one of the texts; now and then one that does harm."""
    told = " ".join(record.feedback for record in records)
    random = Random(f"{current} {told}")
    have = rules_of([*current.values()])
    named = sorted({int(number) for number in re.findall(r"rule (\d+)", told)} - have)
    added = random.sample(named, min(2, len(named)))
    if random.random() < 0.3:
        added.append(USEFUL + random.randrange(HARMFUL))
    factor = factors[0]
    return {factor: "\n".join([current[factor], *(f"Rule {rule} applies." for rule in added if rule not in have)])}


def loses_the_placeholder(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    """Rewrites everything, and forgets what must stay."""
    return {factors[0]: "Rule 0 applies.\nRule 1 applies."}


def says_the_same(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    return {name: current[name] for name in factors}
