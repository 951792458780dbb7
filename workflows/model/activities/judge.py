"""What the `judge` activity is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet._frozen import Payload
from workflows.model.run.decisions import Reference
from workflows.model.spec.judgement import Judged
from workflows.model.suite import MeasuredSample
from workflows.model.trial import Race, Split


class JudgeInput(Payload):
    """Candidates to judge together against one reference, all measured on the same split of their run."""

    run_id: str
    split: Split
    reference: Reference
    candidates: tuple[Reference, ...]
    seed: int = 0
    before: tuple[Reference, ...] = ()
    """The same trials, the reference's first, as they answered these samples earlier; empty where they never did."""
    by_cross_fitting: bool = False
    """The one candidate was chosen for these very answers: it is judged by what the choice did not look at."""


class Judgements(Payload):
    """The verdicts, in the order of the candidates."""

    judged: tuple[Judged, ...]
    alike: bool = False
    """Every answer scored as the earlier ones of the same trial did: asking again showed nothing, so that the verdict is by
    cross-fitting."""


class RaceLookInput(Payload):
    """Asks whether a trial that races goes on."""

    run_id: str
    split: Split
    candidate: Reference
    race: Race
    until: int
    """Samples measured so far, in the order of the suite."""
    of: int
    """Samples of the whole trial."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A trial's answers."""

    trial: Reference
    answers: Sequence[MeasuredSample]
