"""Stored baselines: the file of a measurement, read back with what it reached on every sample."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from clients.reports.facts import RunFacts
from ratchet._formats.canonical import content_hash
from ratchet._formats.yaml import YamlProblem, read_yaml
from ratchet._frozen import Payload
from ratchet._text.explanation import explain
from ratchet.optimizer import Direction
from store.read.reader import StoreReader
from store.read.rows.item_rows import ItemRow

LENGTH_OF_CONTENT: Final = 12
MOST_SAMPLES: Final = 20_000
"""Beyond it a file holds the figures alone."""

LARGEST_FILE: Final = 16 * 1024 * 1024
ANSWERS_A_PAGE: Final = 500
DECIMALS: Final = 6


class NoBaseline(ValueError):
    """There is no stored baseline, or none that can be read."""


class StoredSample(Payload):
    """What one sample reached."""

    score: float
    passed: bool
    content: str = ""
    """A hash of what the sample says, so that another sample of the same id is not taken for it."""
    why: str = Field(default="", exclude=True)
    """Why it did not pass, where that is known. It is not stored."""


class StoredBaseline(Payload):
    """A measurement as its file tells it; what else stands in the file is for people."""

    model_config = Payload.model_config | {"alias_generator": to_camel, "populate_by_name": True}

    use_case_id: str
    factor_suit: dict[str, JsonValue] = Field(default_factory=dict)
    objective: str = "MAXIMIZE"
    scorer_description: str = ""
    score: float | None = None
    replicates: int = 1
    run_id: str = ""
    experiment_id: str = ""
    samples: dict[str, StoredSample] = Field(default_factory=dict)

    @property
    def direction(self) -> Direction:
        """Whether higher or lower is better."""
        return Direction(self.objective.lower())


def read_baseline(path: Path) -> StoredBaseline:
    """Read the file of a measurement, or of one configuration of an exploration."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise NoBaseline(
                f"{path}: has {size:,} bytes, a baseline at most {LARGEST_FILE:,}; store it anew with fewer samples"
            )
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NoBaseline(f"{path}: there is no stored baseline") from None
    except (OSError, UnicodeDecodeError) as error:
        raise NoBaseline(f"{path}: cannot be read: {error}") from None
    try:
        return StoredBaseline.model_validate(read_yaml(text))
    except YamlProblem as problem:
        raise NoBaseline(f"{path}{'' if problem.line is None else f':{problem.line}'}: {problem}") from None
    except ValidationError as error:
        raise NoBaseline(f"{path}: is no measurement of Ratchet's: {explain(error)[0]}") from None


def content_of(given: Any, expected: Any) -> str:
    """What a sample says, as a short hash."""
    return content_hash({"input": given, "expected": expected})[:LENGTH_OF_CONTENT]


def sample_lines(samples: Mapping[str, StoredSample]) -> dict[str, dict[str, Any]]:
    """The samples as a file has them, one on a line."""
    return {
        name: {"score": round(sample.score, DECIMALS), "passed": sample.passed, "content": sample.content}
        for name, sample in samples.items()
    }


async def measured_samples(reader: StoreReader, facts: RunFacts) -> dict[str, StoredSample]:
    """What the measured configuration reached on every sample that was answered; nothing where there are too many to keep."""
    if not facts.iterations:
        return {}
    iteration, rows = facts.iterations[0], list[ItemRow]()
    while True:
        page = await reader.trials.items(facts.run_id, iteration.candidate_id, offset=len(rows), limit=ANSWERS_A_PAGE)
        if page is None or page.total > MOST_SAMPLES * max(iteration.replicates, 1):
            return {}
        rows += page.items
        if not page.items or len(rows) >= page.total:
            break
    means = iteration.sample_means or ()
    found: dict[str, StoredSample] = {}
    for name, answers in _by_sample(rows).items():
        place = answers[0].position - iteration.first
        passed = sum(answer.passed for answer in answers)
        mean = means[place] if place < len(means) else None
        score = passed / len(answers) if mean is None else mean
        if math.isfinite(score):
            why = next((told for answer in answers if not answer.passed and (told := answer.feedback or answer.error)), "")
            content = content_of(answers[0].input, answers[0].expected)
            found[name] = StoredSample(score=score, passed=2 * passed >= len(answers), content=content, why=why)
    return {name: found[name] for name in sorted(found, key=_as_counted)}


def _as_counted(name: str) -> list[tuple[bool, int, str]]:
    """Ids as people order them: `s2` comes before `s10`."""
    parts = re.findall(r"\d{1,15}|\D+|\d+", name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _by_sample(rows: Iterable[ItemRow]) -> dict[str, list[ItemRow]]:
    found: dict[str, list[ItemRow]] = {}
    for row in rows:
        found.setdefault(row.item_id, []).append(row)
    return found
