"""Runs, or candidates of runs, side by side over the samples they share: what `ratchet compare` and the API tell."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clients.reports.comparisons.diff import FactorDifference, differences
from clients.reports.headline import headline_of_row
from ratchet._frozen import Payload
from ratchet.optimizer import Direction
from store.read.reader import StoreReader
from store.read.rows.run_rows import RunDetail
from store.read.rows.trial_rows import TrialDetail
from store.read.samples.comparisons import Contrast, counted
from store.read.samples.sample_pairs import Turn
from workflows.model.failures import one_line, shorten
from workflows.model.spec.judgement import Judged, JudgementSpec
from workflows.rules.decisions.verdicts import judge
from workflows.rules.scoring.first_look import readable

SAMPLES_NAMED = 5
LONGEST_INPUT = 60
PERCENT = 100.0
CONFIRMATION = "confirmation"


class ComparedCandidate(Payload):
    """One thing that is compared, with what its run paid for it."""

    name: str
    """As it was asked for: a run, or RUN/CANDIDATE."""
    optimization_id: str
    candidate_id: str
    score: float | None
    """On the samples that are compared."""
    direction: Direction
    paid: float
    gained_points: float | None
    """What its run gained over its own baseline, as it was confirmed, in hundredths of a score; positive is better. None where
    no gain holds."""
    paid_per_point: float | None
    """What its run paid for each of those."""


class ComparedStanding(ComparedCandidate):
    """One thing, compared with the first."""

    counts: dict[Turn, int]
    """How many shared samples were fixed, broken, passed in both, in neither, or lack an answer."""
    judged: Judged | None
    """The verdict against the first, corrected for how many comparisons there are. None where nothing was answered in both."""
    samples: dict[Literal["fixed", "broken"], tuple[str, ...]]
    """The ids of the first few samples that were fixed, and broken."""
    inputs: dict[str, str]
    """By these ids, how what they ask begins: samples without an id of their own are called by their content."""
    changes: tuple[FactorDifference, ...]
    """What differs between both configurations."""


class SideBySide(Payload):
    """Several things, each compared with the first of them."""

    samples: Literal["held-back", "search"]
    """Held-back samples where all of them were confirmed on some, else those that the searches used."""
    reference: ComparedCandidate
    compared: tuple[ComparedStanding, ...]


class UnknownEntrant(LookupError):
    """There is no such run, or it has no such candidate."""

    def __init__(self, name: str, run_id: str, candidate_id: str | None) -> None:
        what = f"run {run_id!r}" if candidate_id is None else f"candidate {candidate_id!r} of {run_id}"
        super().__init__(f"there is no {what}")
        self.name, self.run_id, self.candidate_id = name, run_id, candidate_id


class Incomparable(ValueError):
    """They are there, but nothing can be said of the one beside the other."""


@dataclass(frozen=True)
class Entrant:
    """A candidate of a run, as it was named."""

    name: str
    run: RunDetail
    candidate_id: str

    @property
    def gain(self) -> float | None:
        found = headline_of_row(self.run)
        if not found.holds or found.difference is None:
            return None
        return (1.0 if self.run.direction == Direction.MAXIMIZE else -1.0) * found.difference * PERCENT

    def standing(self, score: float | None) -> ComparedCandidate:
        gain, paid = self.gain, self.run.spend.cost
        return ComparedCandidate(
            name=self.name,
            optimization_id=self.run.run_id,
            candidate_id=self.candidate_id,
            score=score,
            direction=Direction(self.run.direction),
            paid=paid,
            gained_points=gain,
            paid_per_point=paid / gain if gain and gain > 0 else None,
        )

    def side(self, purpose: str | None) -> tuple[str, str, str | None]:
        return self.run.run_id, self.candidate_id, purpose


async def side_by_side(reader: StoreReader, names: Sequence[str]) -> SideBySide:
    """Everything that is named compared with the first; a name is a run, for its best candidate, or RUN/CANDIDATE."""
    entrants = [await named_entrant(reader, name) for name in names]
    first, others = entrants[0], entrants[1:]
    confirmed = [await _confirmed(reader, one) for one in entrants]
    purpose = CONFIRMATION if all(confirmed) else None
    pairs = [await _pair(reader, first, other, purpose) for other in others]
    verdicts = await asyncio.to_thread(_judged_together, pairs, first)
    reference = await _trial(reader, first, purpose)
    compared = [
        await _compared(reader, (first, reference), other, pair, judged, purpose)
        for other, pair, judged in zip(others, pairs, verdicts, strict=True)
    ]
    return SideBySide(
        samples="held-back" if purpose else "search",
        reference=first.standing(reference.score),
        compared=tuple(compared),
    )


async def named_entrant(reader: StoreReader, name: str) -> Entrant:
    """The candidate that is named: RUN or RUN/best for its search's best one, proven or not, RUN/CANDIDATE, RUN/baseline."""
    run_id, candidate_id = name, ""
    run = await reader.runs.load(run_id)
    if run is None and "/" in name:
        run_id, _, candidate_id = name.rpartition("/")
        run = await reader.runs.load(run_id)
    if run is None:
        raise UnknownEntrant(name, run_id, None)
    best = run.unproven.candidate_id if run.unproven is not None else run.best_candidate_id
    marked = {"": best, "best": best, "baseline": run.baseline_candidate_id}
    candidate = marked.get(candidate_id, candidate_id)
    if candidate is None:
        raise Incomparable(f"{run_id} has no {candidate_id or 'best'} candidate yet; name one as {run_id}/CANDIDATE")
    if await reader.trials.load(run_id, candidate) is None:
        raise UnknownEntrant(name, run_id, candidate)
    return Entrant(name, run, candidate)


async def _confirmed(reader: StoreReader, one: Entrant) -> bool:
    trial = await reader.trials.load(*one.side(CONFIRMATION))
    return trial is not None and trial.status == "completed"


async def _trial(reader: StoreReader, one: Entrant, purpose: str | None) -> TrialDetail:
    found = await reader.trials.load(*one.side(purpose))
    if found is None:  # deleted a moment ago
        raise UnknownEntrant(one.name, one.run.run_id, None)
    return found


async def _pair(reader: StoreReader, one: Entrant, other: Entrant, purpose: str | None) -> Contrast:
    if one.run.direction != other.run.direction:
        raise Incomparable(
            f"{one.name} is to {one.run.direction}, {other.name} to {other.run.direction}: no gain of one is one of the other"
        )
    found = await reader.comparisons.contrast(one.side(purpose), other.side(purpose), named=SAMPLES_NAMED)
    if found is None or not found.pairs:
        raise Incomparable(
            f"{one.name} and {other.name} share no sample; runs can be compared that use the same dataset and split"
        )
    return found


def _judged_together(pairs: Sequence[Contrast], first: Entrant) -> list[Judged | None]:
    """The verdicts that hold for all comparisons together, each of which is made once."""
    spec = JudgementSpec.model_validate(first.run.spec.get("judgement") or {})
    every = [(place, one.evidence()) for place, one in enumerate(pairs)]
    known = [(place, evidence) for place, evidence in every if evidence is not None]
    verdicts = dict(zip((place for place, _ in known), judge([evidence for _, evidence in known], spec), strict=True))
    return [verdicts.get(place) for place in range(len(pairs))]


async def _compared(
    reader: StoreReader,
    first: tuple[Entrant, TrialDetail],
    other: Entrant,
    pair: Contrast,
    judged: Judged | None,
    purpose: str | None,
) -> ComparedStanding:
    _, measured = first
    trial = await _trial(reader, other, purpose)
    changes = await asyncio.to_thread(differences, measured.configuration, trial.configuration)
    return ComparedStanding(
        **other.standing(trial.score).model_dump(),
        counts=counted(pair.pairs),
        judged=judged,
        samples={"fixed": pair.named["fixed"], "broken": pair.named["broken"]},
        inputs={name: shorten(one_line(readable(given)), LONGEST_INPUT) for name, given in pair.inputs.items()},
        changes=changes,
    )
