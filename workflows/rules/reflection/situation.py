"""Where a reflective search stands, as the optimizer tells the computations that plan its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from workflows.model.trial import Split


@dataclass(frozen=True, slots=True)
class Situation:
    """What a step is planned for."""

    seed: int
    """This step's own."""
    run_seed: int
    sign: float
    """-1 where lower scores are better."""
    generation: int
    """Steps of the run so far."""
    steps: int
    """Steps of the round so far."""
    steps_per_round: int
    factors: Sequence[str]
    one_at_a_time: bool
    beside: int
    """Proposals side by side."""
    minibatch: int
    search: int
    """How many samples candidates are scored on."""
    train: int
    """How many are set apart to learn from."""
    replicates: int = 1
    calls_left: int | None = None
    trials_left: int | None = None
    brevity: float = 0.0
    """What a line must be worth to be in a leader."""
    merges: int = 0
    under_way: Mapping[str, Any] = field(default_factory=dict)
    """What the published algorithm is in the middle of."""

    def sizes(self, search: Split) -> dict[Split, int]:
        """How many samples each split has."""
        return {search: self.search, Split.TRAIN: self.train} if self.train else {search: self.search}


def situation_of(arguments: Mapping[str, JsonValue]) -> Situation:
    """From the arguments of a computation."""
    given: dict[str, Any] = dict(arguments)
    return Situation(**given)


def as_part(split: Split, first: int, count: int) -> dict[str, JsonValue]:
    """Samples as the plan names them."""
    return {"split": "train" if split is Split.TRAIN else "search", "first": first, "count": count}
