"""What the matrix tells: columns, rows, cells, and one sample in full."""

from __future__ import annotations

from typing import Any, Literal

from ratchet._frozen import Payload
from store.read.samples.comparisons import ComparedAnswer
from workflows.model.trial import Purpose

Searched = Literal["contents", "ids"]


class MatrixColumn(Payload):
    """One candidate, of this run or of another."""

    optimization_id: str
    """Whose candidate it is."""
    candidate_id: str
    purpose: Purpose
    status: str
    """Of its trial."""
    round: int
    index: int
    objective_score: float | None
    is_baseline: bool
    is_best: bool


class MatrixCell(Payload):
    """What one candidate made of one sample."""

    score: float | None
    """What the sample adds to the objective; null without an answer, and while the trial runs."""
    passes: bool | None
    """Whether at least half of its answers pass; null without an answer."""
    failed: bool
    """Whether one of its answers failed: no output could be used."""
    excerpt: str | None
    """The beginning of the first answer, or of what went wrong; null without one, or where it is too long to be looked into."""
    texts_removed: bool = False


class MatrixRow(Payload):
    """One sample."""

    position: int
    """Its place in the split."""
    item_id: str
    input: str | None
    """The beginning of it; null where it is too long to be looked into. `listMatrixAnswers` has it in full."""
    expected: str | None
    tags: tuple[str, ...]
    weight: float
    cells: tuple[MatrixCell, ...]
    """In the order of the columns."""


class Matrix(Payload):
    """A page of samples by candidates."""

    optimization_id: str
    split: str
    samples: int
    """How many the split has."""
    total: int
    """How many of them the filters let through."""
    columns: tuple[MatrixColumn, ...]
    """The first one is what `fixed` and `broken` compare with."""
    searched: Searched
    """Where the search looked. Contents that are encrypted cannot be searched: then only in the ids of samples."""
    columns_searched: int
    """Into the answers of how many columns a search looked, from the first on; not all where that would take long."""
    items: tuple[MatrixRow, ...]
    next_after: int | None
    """The position to go on after; null when this was the last page."""


class TracedAnswer(ComparedAnswer):
    """One answer, with the way to it."""

    trace: Any
    """What the target kept of its steps, messages or calls; null where it told nothing."""


class CandidateAnswers(Payload):
    """What one candidate answered to a sample."""

    optimization_id: str
    candidate_id: str
    score: float | None
    answers: tuple[TracedAnswer, ...]


class MatrixAnswers(Payload):
    """One sample in full, with the answers of some candidates."""

    position: int
    item_id: str
    input: Any
    expected: Any
    tags: tuple[str, ...]
    weight: float
    candidates: tuple[CandidateAnswers, ...]
