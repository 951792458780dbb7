"""Datasets: where samples come from, and how they are split."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from workflows.model.frozen import SpecPart
from workflows.model.values import CanonicalValue, ShortText

LARGEST_INLINE_DATASET = 512 * 1024
"""Bytes. A larger one belongs in a file."""


class Item(SpecPart):
    """One sample as written in a dataset."""

    id: Annotated[ShortText, Field(min_length=1, max_length=200)] | None = None
    """A stable name. Default: a hash of the content."""
    input: CanonicalValue
    """What the target gets; a mapping when placeholders name its keys."""
    expected: CanonicalValue = None
    """What a good answer is."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """How much this sample counts in a mean."""
    tags: list[ShortText] = Field(default_factory=list)
    """Labels to slice by."""


class Splits(SpecPart):
    """Shares of the dataset, drawn by the run's seed. They must not exceed 1 in sum."""

    train: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Shown to optimizers as examples."""
    validation: Annotated[float, Field(ge=0, le=1)] = 0.0
    """What candidates are scored on."""
    test: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Untouched until the end: baseline and winner are confirmed on it once."""

    @model_validator(mode="after")
    def _shares_of_one(self) -> Splits:
        total = self.train + self.validation + self.test
        if total > 1 + 1e-9:
            raise ValueError(f"shares add up to {total:g}; they must not exceed 1")
        if self.train + self.validation <= 0:
            raise ValueError("train and validation are both 0; candidates need samples to be scored on")
        return self


class Dataset(SpecPart):
    """Samples, given in exactly one of three ways."""

    items: list[Item] | None = None
    """The samples themselves, for small sets."""
    path: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """A JSONL file with one item per line. Relative to the spec for the CLI, inside RATCHET_DATA_DIR for a worker."""
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """The content hash of a dataset that was ingested before."""
    splits: Splits | None = None
    """Shares for train, validation and test. Default: every sample scores candidates, and nothing is held back."""

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, value: Any) -> Any:
        return {"items": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _one_source(self) -> Dataset:
        given = [name for name in ("items", "path", "id") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of items, path or id (has {', '.join(given) or 'none'})")
        if self.items is not None and not self.items:
            raise ValueError("items is empty; give at least one sample")
        return self
