"""Spaces to search, and a store that is filled by whoever measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ratchet._formats.canonical import content_hash, normalize
from workflows.model.activities.computation import Stored, StoredTrial
from workflows.model.spec.factors import Configuration
from workflows.model.trial import Purpose, Split
from workflows.rules.search.suggestion import suggested

Factors = dict[str, dict[str, Any]]


def number(value: float, low: float = 0, high: float = 1, **more: Any) -> dict[str, Any]:
    return {"change": "structured", "type": "number", "value": value, "min": low, "max": high, **more}


def integer(value: int, low: int, high: int, **more: Any) -> dict[str, Any]:
    return {"change": "structured", "type": "integer", "value": value, "min": low, "max": high, **more}


def choice(value: Any, *others: Any, **more: Any) -> dict[str, Any]:
    return {"change": "structured", "type": "choice", "value": value, "choices": [value, *others], **more}


def flag(value: bool = False, **more: Any) -> dict[str, Any]:
    return {"change": "structured", "type": "flag", "value": value, **more}


def order(*items: Any, **more: Any) -> dict[str, Any]:
    return {"change": "structured", "type": "order", "value": list(items), **more}


Measure = Callable[[Mapping[str, Any]], float | None]


@dataclass
class Searching:
    """A search without a run: suggestions are measured as they come. A measurement of None has failed."""

    factors: Factors
    measure: Measure
    sampler: str = "auto"
    maximize: bool = False
    seed: int = 7
    held: Configuration = field(default_factory=dict)
    earlier: list[StoredTrial] = field(default_factory=list)
    trials: list[StoredTrial] = field(default_factory=list)
    suggested_by: list[str] = field(default_factory=list)
    cursor: int = 0
    exhausted: bool = False
    batches: int = 0

    def __post_init__(self) -> None:
        self.tell({**self.held, **{name: factor["value"] for name, factor in self.factors.items()}})

    def tell(self, configuration: Configuration) -> None:
        score = self.measure(configuration)
        given: Any = normalize(configuration)
        self.trials.append(
            StoredTrial(
                candidate_id=f"c{len(self.trials)}",
                config_hash=content_hash(given),
                configuration=given,
                parent_candidate_ids=(),
                round=self.batches,
                purpose=Purpose.CANDIDATE if self.trials else Purpose.BASELINE,
                split=Split.ALL,
                status="failed" if score is None else "completed",
                score=score,
                sample_means=(),
            )
        )

    def suggest(self, wanted: int) -> list[Configuration]:
        """One batch, which is not measured."""
        found: Any = suggested(Stored(trials=self.trials, earlier=self.earlier), self.arguments(wanted))
        self.cursor, self.exhausted = found["cursor"], found["exhausted"]
        self.suggested_by += [one["by"] for one in found["suggestions"]]
        self.batches += 1
        return [{**self.held, **one["values"]} for one in found["suggestions"]]

    def arguments(self, wanted: int) -> dict[str, Any]:
        return {
            "factors": self.factors,
            "base": "c0",
            "sampler": self.sampler,
            "wanted": wanted,
            "seed": self.seed,
            "batch": self.batches,
            "cursor": self.cursor,
            "maximize": self.maximize,
        }

    def go_on(self, trials: int, batch: int = 4) -> Searching:
        """So many trials in all, or as many as there are."""
        while len(self.trials) < trials and not self.exhausted:
            for configuration in self.suggest(min(batch, trials - len(self.trials))):
                self.tell(configuration)
        return self

    @property
    def scores(self) -> list[float]:
        return [trial.score for trial in self.trials if trial.score is not None]

    @property
    def hashes(self) -> list[str]:
        return [trial.config_hash for trial in self.trials]
