"""`compute`: a function of an optimizer over what this run has stored, run as an activity because it is too large or too heavy
for workflow code. Its small answer is what history keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from ratchet.optimizer import Part
from ratchet.plugins import Record, Sample
from workflows.model.spec.factors import Configuration
from workflows.model.trial import Purpose, Split

LARGEST_ANSWER = 64 * 1024
"""Bytes of canonical JSON that a computation may hand back."""


class RecordsOf(Payload):
    """Evaluated samples of one candidate on one split."""

    candidate_id: str
    split: Split
    limit: int = 1_000
    worst_first: bool = False
    """Failed ones first, then from the worst score. Otherwise in the order of the split."""


class Bounded(Payload):
    """Some trials only, without their means by sample: the baseline, the best and the newest of the search."""

    best: int
    newest: int
    candidates: tuple[str, ...] = ()
    """These in any case."""


BOUNDED = Bounded(best=100, newest=100)
"""Enough for what learns from the best."""


class SamplesOf(Payload):
    """The first samples of a split, in its seeded order, unmeasured. Never of the test split."""

    split: Literal[Split.TRAIN]
    limit: int = 1_000


class Reads(Payload):
    """What a computation is given of the store."""

    trials: bool = False
    """Every finished trial of the search, in full or of a part, with its configuration and its means by sample."""
    bounded: Bounded | None = None
    """Which trials, where not all are needed. The hashes of all configurations come with them."""
    earlier_runs: tuple[str, ...] = ()
    """Other runs whose trials are read, too; of them, the best and the newest."""
    records: RecordsOf | None = None
    samples: SamplesOf | None = None


class ComputeInput(Payload):
    """Asks for one computation."""

    run_id: str
    function: str
    """Its name in `workflows.optimizers.computations`."""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    reads: Reads = Reads()
    config_hash: str | None = None
    """Of the candidate whose records are read."""
    plugin: str | None = None
    """A callable of the spec's that is shown the records first; the computation is given its answer."""


class Computed(Payload):
    """What a computation found."""

    value: JsonValue = None


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """One finished trial as it is stored."""

    candidate_id: str
    config_hash: str
    configuration: Configuration
    parent_candidate_ids: tuple[str, ...]
    round: int
    purpose: Purpose
    split: Split
    status: str
    score: float | None
    sample_means: tuple[float | None, ...]
    """The score's mean per sample, by place in the split; None where no answer is."""
    part: Part | None = None
    """The samples it was measured on, when these were not all."""
    extra: dict[str, JsonValue] = field(default_factory=dict)
    """What the optimizer said of the candidate when it proposed it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a computation works on; what it did not ask for is empty."""

    trials: Sequence[StoredTrial] = ()
    records: Sequence[Record] = ()
    config_hashes: Sequence[str] = ()
    """Of every configuration that was tried, where not all trials were read."""
    earlier: Sequence[StoredTrial] = ()
    """Of the earlier runs."""
    samples: Sequence[Sample] = ()
    answer: Any = None
    """What the plug-in answered to the records, as it returned it."""


Computation = Callable[[Stored, Mapping[str, JsonValue]], JsonValue]
"""Pure: the same store and the same arguments give the same small JSON."""
