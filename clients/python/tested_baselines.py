"""Stored baselines of ordinary tests: `ratchet.testing.not_worse`, after its target was called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clients.python.declared_runs import FOLDER
from clients.reports.comparisons.baseline_comparisons import BaselineComparison, compared, rule_of, unshowable
from clients.reports.history.specifications import SPECIFICATIONS, write_baseline
from clients.reports.history.stored_baselines import NoBaseline, StoredBaseline, StoredSample, content_of, read_baseline
from clients.settings import client_settings
from ratchet.plugins import Sample
from workflows.model.spec.judgement import JudgementSpec

SCORED_BY: Final = "by the test"


__all__ = ["KeptBaseline", "NoBaseline", "Unshowable"]


class Unshowable(ValueError):
    """So few samples could never show it."""


@dataclass(frozen=True)
class KeptBaseline:
    """A stored baseline, and the rule by which it is compared with."""

    path: Path
    rule: JudgementSpec

    @classmethod
    def at(cls, named: str | Path, beside: Path, margin: float, confidence: float) -> KeptBaseline:
        """Find it: a file, or a name below `experiments/specs`, both beside the test."""
        place = Path(named)
        if place.suffix not in (".yaml", ".yml"):
            folder = client_settings().experiments or beside / FOLDER
            place = folder / SPECIFICATIONS / f"{named}.yaml"
        alpha = round(1 - confidence, 12)
        return cls(beside / place, rule_of(JudgementSpec(alpha=alpha), margin))

    def read(self, samples: Sequence[Sample]) -> StoredBaseline:
        """Read it, and refuse one that could show nothing with these samples."""
        stored = read_baseline(self.path)
        if not stored.samples:
            raise NoBaseline(f"{self.path}: says nothing of single samples")
        known = [sample.id for sample in samples if sample.id in stored.samples]
        wanted = unshowable(stored, known, self.rule)
        if wanted is not None:
            raise Unshowable(wanted)
        return stored

    def compare(
        self, stored: StoredBaseline, samples: Sequence[Sample], given: Sequence[tuple[float, str | None]]
    ) -> BaselineComparison:
        """Compare what was measured now."""
        return compared(stored, _stored(samples, given), self.rule)

    def renew(
        self, samples: Sequence[Sample], given: Sequence[tuple[float, str | None]], configuration: Mapping[str, Any]
    ) -> Path:
        """Store what was measured now."""
        measured = _stored(samples, given)
        passed = sum(sample.passed for sample in measured.values())
        document = {
            "useCaseId": self.path.stem,
            "factorSuit": dict(configuration),
            "objective": "MAXIMIZE",
            "scorerDescription": SCORED_BY,
            "statistics": {"sampleCount": len(measured), "successRate": passed / len(measured), "successCount": passed},
            "score": sum(sample.score for sample in measured.values()) / len(measured),
        }
        written = write_baseline(self.path, document, measured)
        if written != self.path:
            raise NoBaseline(f"{self.path}: is somebody else's file, so the measurement is in {written}; move one of them")
        return written


def _stored(samples: Sequence[Sample], given: Sequence[tuple[float, str | None]]) -> dict[str, StoredSample]:
    return {
        sample.id: StoredSample(
            score=score, passed=why is None, content=content_of(sample.input, sample.expected), why=why or ""
        )
        for sample, (score, why) in zip(samples, given, strict=True)
    }
