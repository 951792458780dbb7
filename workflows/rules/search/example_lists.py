"""Few-shot examples by tree-structured Parzen estimators: which samples the better candidates show, where, and how many.

One density is estimated of the better candidates and one of all others: of the number of examples, of every sample's being
among them, and of its place. Lists are drawn from the first, and the one is tried that is the likeliest there compared with
the second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from pydantic import JsonValue

from ratchet._formats.canonical import canonical_json, content_hash, derive_seed
from workflows.model.activities.computation import Stored
from workflows.model.activities.search_plans import ChosenExamples, ExamplesWanted
from workflows.rules.search.example_pool import pool_of
from workflows.rules.search.observations import bounded, penalized, told_of
from workflows.rules.search.space import Space

STARTUP = 10
"""So many lists are drawn at random before anything is modelled."""

BETTER = 0.25
"""So large a part of the candidates counts as the better ones."""

DRAWN = 24
"""Lists that are drawn from the density of the better ones, of which one is tried."""

ATTEMPTS = 64
"""So often is asked again for a list that was not tried."""

LARGEST_BATCH = 48 * 1024
"""Bytes of examples that one batch hands back."""

PRIOR = 2.0
"""So many candidates is the prior worth: that all samples are alike."""

WIDTH = 0.25
"""How far a place is like others, of the whole list."""

Choice = tuple[int, ...]
"""Examples by their place in the pool, in the order in which they are shown."""


def chosen_examples(stored: Stored, arguments: Mapping[str, Any]) -> JsonValue:
    """Choose lists of examples that were not tried; see `ExamplesWanted` and `ChosenExamples`."""
    asked = ExamplesWanted.model_validate(arguments)
    shown: Any = asked.shown
    pool = pool_of(shown, stored.samples, asked.pool)
    fewest, most = asked.fewest, min(asked.most, len(pool))
    if most < fewest:
        raise ValueError(f"only {len(pool)} training samples can be shown; lower min_examples, or give samples with expected")
    factor = asked.factor
    base = next((trial.configuration for trial in stored.trials if trial.candidate_id == asked.base), {})
    tried = {trial.config_hash for trial in stored.trials} | set(stored.config_hashes)
    lists = _Lists(len(pool), fewest, most, Random(derive_seed(asked.seed, "few_shot", asked.batch)))
    _learn(lists, stored, factor, pool, maximize=asked.maximize)
    choices: list[Choice] = []
    while len(choices) < asked.wanted:
        choice = _new_choice(lists, base, factor, pool, tried)
        if choice is None or _size([*choices, choice], pool) > LARGEST_BATCH:
            break
        choices.append(choice)
    used = sorted({place for choice in choices for place in choice})
    found = ChosenExamples(
        choices=tuple(choices),
        examples={str(place): pool[place] for place in used},
        by="tpe" if lists.modelled else "random",
        pool=len(pool),
        exhausted=not choices,
    )
    answer: JsonValue = found.model_dump(mode="json")
    return answer


def _learn(lists: _Lists, stored: Stored, factor: str, pool: Sequence[JsonValue], *, maximize: bool) -> None:
    places = {canonical_json(example): place for place, example in enumerate(pool)}
    trials = bounded(stored.trials, maximize=maximize)
    losses = penalized(told_of(trials, Space.of({}, {}), maximize=maximize))
    for trial, loss in zip(trials, losses, strict=True):
        shown: Any = trial.configuration.get(factor) or []
        lists.tell(tuple(places[text] for text in map(canonical_json, shown) if text in places), loss)


def _new_choice(
    lists: _Lists, base: Mapping[str, JsonValue], factor: str, pool: Sequence[JsonValue], tried: set[str]
) -> Choice | None:
    for _ in range(ATTEMPTS):
        choice = lists.draw()
        config_hash = content_hash({**base, factor: [pool[place] for place in choice]})
        if config_hash not in tried:
            tried.add(config_hash)
            lists.expect_nothing_of(choice)
            return choice
    return None


def _size(choices: Sequence[Choice], pool: Sequence[JsonValue]) -> int:
    return sum(len(canonical_json(pool[place]).encode()) for place in {place for choice in choices for place in choice})


class _Lists:
    """The two densities, and draws from the first of them."""

    def __init__(self, pool: int, fewest: int, most: int, random: Random) -> None:
        self._pool, self._fewest, self._most, self._random = pool, fewest, most, random
        self._told: list[tuple[float, Choice]] = []
        self._pending: list[Choice] = []

    def tell(self, choice: Choice, loss: float) -> None:
        self._told.append((loss, choice))

    def expect_nothing_of(self, choice: Choice) -> None:
        """What is drawn for the same batch counts as bad, so that its lists differ."""
        self._pending.append(choice)

    @property
    def modelled(self) -> bool:
        return len(self._told) >= STARTUP

    def draw(self) -> Choice:
        if not self.modelled:
            return self._any()
        ranked = [choice for _, choice in sorted(self._told, key=lambda told: told[0])]
        count = math.ceil(BETTER * len(ranked))
        good, bad = _Density(ranked[:count], self._pool), _Density([*ranked[count:], *self._pending], self._pool)
        drawn = [self._like(good) for _ in range(DRAWN)]
        return max(drawn, key=lambda choice: good.log(choice) - bad.log(choice))

    def _any(self) -> Choice:
        return tuple(self._random.sample(range(self._pool), self._random.randint(self._fewest, self._most)))

    def _like(self, density: _Density) -> Choice:
        counts = range(self._fewest, self._most + 1)
        [count] = self._random.choices(counts, [density.of_count(count) for count in counts])
        odds = [density.shown[place] / (1 - density.shown[place]) for place in range(self._pool)]
        # The largest of u ** (1 / weight) are a draw without replacement, by these weights.
        keys = [math.log(1 - self._random.random()) / weight for weight in odds]
        members = sorted(range(self._pool), key=lambda place: -keys[place])[:count]
        return tuple(sorted(members, key=lambda place: density.some_position(place, self._random)))


class _Density:
    """How some candidates choose examples."""

    def __init__(self, choices: Sequence[Choice], pool: int) -> None:
        self._counts = [len(choice) for choice in choices]
        self._positions: dict[int, list[float]] = {}
        for choice in choices:
            for at, place in enumerate(choice):
                self._positions.setdefault(place, []).append((at + 0.5) / len(choice))
        usual = min(max(sum(self._counts) / max(len(choices), 1) / pool, 0.5 / pool), 0.9)
        total = len(choices) + PRIOR
        self.shown = [(len(self._positions.get(place, ())) + PRIOR * usual) / total for place in range(pool)]
        """How likely each sample is shown; never certain, and never impossible."""
        self.shown = [min(one, 1 - 1e-3) for one in self.shown]

    def of_count(self, count: int) -> float:
        """How likely so many examples are; numbers beside those that were seen are likelier than others."""
        return 0.5 + sum(1.0 if count == seen else 0.5 if abs(count - seen) == 1 else 0.0 for seen in self._counts)

    def some_position(self, place: int, random: Random) -> float:
        """Where a sample stands, from 0 to 1."""
        seen = self._positions.get(place, [])
        if random.random() * (len(seen) + 1) < 1:
            return random.random()
        return random.choice(seen) + random.gauss(0, WIDTH)

    def log(self, choice: Choice) -> float:
        """The logarithm of a list's density, but for what is the same for all lists."""
        total = sum(self.of_count(seen) for seen in {*self._counts, len(choice)})
        found = math.log(self.of_count(len(choice)) / total)
        members = set(choice)
        found += sum(math.log(one if place in members else 1 - one) for place, one in enumerate(self.shown))
        return found + sum(math.log(self._of_position(place, (at + 0.5) / len(choice))) for at, place in enumerate(choice))

    def _of_position(self, place: int, position: float) -> float:
        seen = self._positions.get(place, [])
        return (1 + sum(_kernel(position - one) for one in seen)) / (1 + len(seen))


def _kernel(distance: float) -> float:
    return math.exp(-0.5 * (distance / WIDTH) ** 2) / (WIDTH * math.sqrt(2 * math.pi))
