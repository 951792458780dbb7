"""`few_shot`: which examples a prompt shows, in which order, and how many."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ratchet._frozen import SpecPart
from ratchet._values import ShortText


class FewShotOptimizer(SpecPart):
    """Chooses, orders and counts few-shot examples from the training samples, by tree-structured Parzen estimators over which
    samples the better candidates show, and where. A factor of examples is a list of `{input: …, output: …}`: an example section
    of a prompt, or a structured factor of type json. Samples of validation and test are never shown."""

    name: Literal["few_shot"]
    factor: Annotated[ShortText, Field(min_length=1)] | None = None
    """Which list of examples. Default: the only one there is."""
    min_examples: Annotated[int, Field(ge=0, le=50)] = 1
    """How many examples a candidate shows at least."""
    max_examples: Annotated[int, Field(ge=1, le=50)] = 8
    """How many it shows at most."""
    pool: Annotated[int, Field(ge=1, le=500)] = 50
    """So many training samples are chosen from, and what the baseline shows beside them. The fewer, the more is learned of
    each. Samples without `expected`, with placeholders in their text, or of more than 4,000 characters are passed over."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 4
    """How many lists of examples a round tries side by side."""

    @model_validator(mode="after")
    def _has_room(self) -> FewShotOptimizer:
        if self.min_examples > self.max_examples:
            raise ValueError(f"min_examples is {self.min_examples}, but max_examples is {self.max_examples}; lower one of them")
        return self

    @property
    def proposer(self) -> None:
        """Nobody writes examples: they are samples."""
        return

    @property
    def factors(self) -> list[str] | None:
        """The treatment."""
        return None if self.factor is None else [self.factor]
