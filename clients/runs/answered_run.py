"""A run that scores the answers of an earlier one anew: what command line and HTTP share of preparing it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clients.reports.removal_notes import removal_text
from clients.runs.lookup import TERMINAL
from store.read.reader import StoreReader
from store.read.rows.trial_rows import Trial
from workflows.model.measured_parts import MeasuredPart
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Purpose
from workflows.rules.spec.rescored_spec import differing_fields, rescored

MOST_TRIALS = 100_000


class NotRescored(Exception):
    """Why the answers of a run cannot be scored by a spec, with the field."""


@dataclass(frozen=True)
class Answered:
    """A finished run, as far as it is scored anew."""

    run_id: str
    request: OptimizationRequest
    dataset_id: str
    trials: tuple[Trial, ...]
    """Those of the search that have answers to be scored: the others were no trials in full, or not answered."""
    explored: tuple[Trial, ...] = ()
    """Those of some samples only."""

    def refuse_other_answers(self, new: OptimizationRequest, dataset_id: str) -> None:
        """Raise unless the answers of the run are those that the new spec, its prompt read, would ask for."""
        differing = [*differing_fields(new, self.request)]
        if dataset_id != self.dataset_id:
            differing.append("dataset")
        if differing:
            raise NotRescored(
                f"{differing[0]}: differs from that of {self.run_id}, whose answers are scored anew"
                + (f"; so do {', '.join(differing[1:])}" if differing[1:] else "")
                + ". Leave all but scorers, objective, judgement and prices as they were, or run it as a spec of its own"
            )

    def scored_by(self, new: OptimizationRequest) -> OptimizationRequest:
        """The spec of the run that scores them."""
        rounds: dict[int, list[str]] = {}
        for trial in self.trials:
            if trial.purpose is Purpose.CANDIDATE:
                rounds.setdefault(trial.round, []).append(trial.candidate_id)
        if new.replicates == "auto":
            last = self.trials[-1]
            new = new.model_copy(update={"replicates": last.replicates, "samples_per_trial": last.samples})
        candidates = [rounds[number] for number in sorted(rounds)]
        return rescored(new, self.request, self.run_id, candidates, [*self._chosen_by()])

    def _chosen_by(self) -> Iterator[MeasuredPart]:
        """What candidates were measured on until they were measured in full: after that, nothing is chosen by it."""
        in_full = {(trial.config_hash, trial.split): trial.round for trial in reversed(self.trials)}
        for part in self.explored:
            measured = in_full.get((part.config_hash, part.split))
            if measured is not None and part.round <= measured:
                yield MeasuredPart(config_hash=part.config_hash, first=part.first_sample, count=part.samples)


async def answered_run(reader: StoreReader, run_id: str) -> Answered:
    """A run that is over, with its trials; raises where there is nothing to score."""
    row = await reader.runs.load(run_id)
    page = await reader.trials.page(run_id, limit=MOST_TRIALS)
    if row is None or page is None:
        raise NotRescored(f"there is nothing to rescore: {run_id} never began; run its spec first")
    if row.status not in TERMINAL:
        raise NotRescored(f"{run_id} is {row.status}; wait for its end, or `ratchet stop` it")
    if told := removal_text(row.removals):
        raise NotRescored(f"there is nothing to rescore: {told} An answer without its text cannot be scored; run the spec anew")
    trials = tuple(
        trial
        for trial in page.items
        if trial.purpose in (Purpose.BASELINE, Purpose.CANDIDATE)
        and (trial.status == "completed" or trial.failure == "scoring")
    )
    if not trials:
        raise NotRescored(f"there is nothing to rescore: no trial of {run_id} has its answers; `ratchet retry` asks again")
    explored = tuple(trial for trial in page.items if trial.purpose is Purpose.EXPLORATION and trial.status == "completed")
    return Answered(run_id, OptimizationRequest.model_validate(row.spec), row.dataset_id, trials, explored)
