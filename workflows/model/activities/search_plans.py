"""What `search` and `few_shot` ask the computations of theirs, and what these hand back."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from workflows.model.spec.factors import Configuration

Sampler = Literal["auto", "tpe", "random", "grid"]


class SearchedSpace(Payload):
    """The space that a search looks through."""

    factors: dict[str, dict[str, JsonValue]]
    """Those that are searched, as the spec has them."""
    base: str
    """The candidate whose other values are held."""
    maximize: bool


class SuggestionsWanted(SearchedSpace):
    """Asks for configurations that were not tried."""

    sampler: Sampler
    wanted: int
    seed: int
    batch: int
    """Its number."""
    cursor: int = 0
    """How far the combinations of a finite space were looked through."""


class Suggestion(Payload):
    """Values for the factors that are searched."""

    values: Configuration
    by: str
    """Who suggested them."""


class Suggestions(Payload):
    """New configurations, and how far a finite space was looked through."""

    suggestions: tuple[Suggestion, ...] = ()
    cursor: int = 0
    exhausted: bool = False
    """Every combination was looked at."""


class ExamplesWanted(Payload):
    """Asks for lists of examples that were not tried."""

    factor: str
    shown: JsonValue
    """The baseline's examples."""
    base: str
    """The candidate whose other values are held."""
    fewest: int
    most: int
    pool: int
    """How many training samples can be chosen from, at most."""
    wanted: int
    seed: int
    batch: int
    """Its number."""
    maximize: bool


class ChosenExamples(Payload):
    """Lists of examples to try."""

    choices: tuple[tuple[int, ...], ...] = ()
    """Examples by their place in the pool, in the order in which they are shown."""
    examples: dict[str, JsonValue] = Field(default_factory=dict)
    """Those that are chosen, by their place."""
    by: str = ""
    """Who chose them."""
    pool: int = 0
    """How many there are to choose from."""
    exhausted: bool = False
    """No list is left that was not tried."""


class Importance(Payload):
    """How much of what makes scores differ over the whole space is due to one factor."""

    factor: str
    share: float
    """Of 1, over all factors."""


class Importances(Payload):
    """What mattered, by a functional ANOVA over the trials of the run."""

    factors: tuple[Importance, ...] = ()
    """The most important first."""
    trials: int = 0
    """How many trials that is computed from."""
