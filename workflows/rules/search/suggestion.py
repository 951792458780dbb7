"""The computation behind `search`: new configurations from what is stored of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol

import numpy as np
from pydantic import JsonValue

from ratchet._formats.canonical import content_hash, derive_seed, normalize
from workflows.model.activities.computation import Stored
from workflows.model.activities.search_plans import Suggestion, Suggestions, SuggestionsWanted
from workflows.model.spec.factors import Configuration, IntegerFactor, NumberFactor
from workflows.rules.search.expected_improvement import MODELLED_FROM, Promising
from workflows.rules.search.grid_walk import combinations
from workflows.rules.search.observations import Observation, bounded, told_of
from workflows.rules.search.parzen import Parzen
from workflows.rules.search.quadratic import Quadratic
from workflows.rules.search.space import Searched, Space, from_unit, nth, size_of

DRAWS = 32
"""So often a sampler is asked again when what it suggests was tried already."""


class Sampler(Protocol):
    """Suggests one configuration after the other, for one batch."""

    @property
    def name(self) -> str: ...

    def draw(self) -> Configuration: ...


def suggested(stored: Stored, arguments: Mapping[str, Any]) -> JsonValue:
    """Suggest so many configurations as are wanted, none of which was tried; see `SuggestionsWanted` and `Suggestions`."""
    asked = SuggestionsWanted.model_validate(arguments)
    base = next((trial.configuration for trial in stored.trials if trial.candidate_id == asked.base), {})
    space = Space.of(asked.factors, base)
    tried = {trial.config_hash for trial in stored.trials} | set(stored.config_hashes)
    told = _told(stored, space, asked.maximize)
    seed = derive_seed(asked.seed, "search", asked.batch)
    batch = _Batch(space, tried, asked.wanted, asked.cursor)
    if asked.sampler != "grid":
        batch.fill(sampler(asked.sampler, space, told, seed))
    if space.size is not None:
        batch.walk(derive_seed(asked.seed, "grid"))
    exhausted = batch.cursor == space.size
    found = Suggestions(suggestions=tuple(batch.suggestions), cursor=batch.cursor, exhausted=exhausted)
    answer: JsonValue = found.model_dump(mode="json")
    return answer


def sampler(name: str, space: Space, told: Sequence[Observation], seed: int) -> Sampler:
    """The sampler of that name, having learned all that was told."""
    if name == "random":
        return Uniform(space, seed)
    if name == "tpe":
        return Parzen(space, told, seed)
    if not space.is_of_numbers:
        enough = len(told) >= MODELLED_FROM and space.size != 1
        return Promising(space, told, seed) if enough else Uniform(space, seed)
    model = Quadratic(space, told, np.random.default_rng(seed))
    return model if model.usable else Parzen(space, told, seed)


def _told(stored: Stored, space: Space, maximize: bool) -> list[Observation]:
    """What earlier runs found comes first, where it fits into this space."""
    earlier = bounded(stored.earlier, maximize=maximize)
    trials = bounded(stored.trials, maximize=maximize)
    fitting = [trial for trial in earlier if space.fits(trial.configuration)]
    return told_of([*fitting, *trials], space, maximize=maximize)


class Uniform:
    """Anything, all equally likely."""

    name = "random"

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._random = Random(seed)

    def draw(self) -> Configuration:
        return {name: self._any_of(factor) for name, factor in self._space.factors.items()}

    def _any_of(self, factor: Searched) -> JsonValue:
        if isinstance(factor, NumberFactor | IntegerFactor):
            return from_unit(factor, self._random.random())
        size = size_of(factor)
        assert size is not None
        return nth(factor, self._random.randrange(size))


def _canonical(values: Configuration) -> Configuration:
    return {name: normalize(value) for name, value in values.items()}


class _Batch:
    """Suggestions that are news."""

    def __init__(self, space: Space, tried: set[str], wanted: int, cursor: int) -> None:
        self._space = space
        self._tried = tried
        self._wanted = wanted
        self.cursor = cursor
        self.suggestions: list[Suggestion] = []

    def fill(self, source: Sampler) -> None:
        """From a sampler, asked again for what was tried already."""
        for _ in range(self._wanted):
            for _ in range(DRAWS):
                if self._take(self._space.settled(_canonical(source.draw())), source.name):
                    break

    def walk(self, seed: int) -> None:
        """What is missing, from the combinations that are left."""
        for values in combinations(self._space, seed, self.cursor):
            if len(self.suggestions) == self._wanted:
                return
            self._take(values, "grid")
            self.cursor += 1

    def _take(self, values: Configuration, by: str) -> bool:
        config_hash = content_hash({**self._space.held, **values})
        if config_hash in self._tried:
            return False
        self._tried.add(config_hash)
        self.suggestions.append(Suggestion(values=values, by=by))
        return True
