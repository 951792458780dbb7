"""What a run learned beside its iterations, and the rounds in which it had nothing to propose, in words."""

from __future__ import annotations

from clients.reports.facts import Iteration, RunFacts
from workflows.model.failures import shorten
from workflows.model.run.rounds import PROPOSAL_FAILURE
from workflows.model.trial import Purpose
from workflows.rules.scoring.clusters import told_of_left_out

LONGEST_WHY = 300


def parts_text(facts: RunFacts) -> str | None:
    """How often candidates were measured on some samples only."""
    parts = [trial for trial in facts.further if trial.purpose is Purpose.EXPLORATION]
    if not parts:
        return None
    sizes = sorted({trial.samples for trial in parts})
    each = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    wholes = sorted({drawn.samples for drawn in facts.splits if drawn.split.value in {trial.split for trial in parts}})
    of = f" of {' or '.join(map(str, wholes))}" if wholes else ""
    candidates = len({trial.candidate_id for trial in parts})
    return f"{len(parts)} trials of {candidates} candidates, on {each}{of} samples"


def counted_text(facts: RunFacts) -> str | None:
    """How many samples there really are, where several count as one, or a given split has some of an earlier one."""
    told = [
        f"{drawn.samples:,} {'' if drawn.split.value == 'all' else f'{drawn.split.value} '}samples count as "
        f"{drawn.samples - len(drawn.same_as):,}"
        for drawn in facts.splits
        if drawn.same_as
    ]
    told += [told_of_left_out(drawn.split, drawn.left_out) for drawn in facts.splits if drawn.left_out is not None]
    return "; ".join(told) or None


def measured_in_part(facts: RunFacts) -> tuple[Iteration, ...]:
    """Candidates that were never measured in full, each by its newest trial."""
    in_full = {iteration.candidate_id for iteration in facts.iterations}
    newest = {
        trial.candidate_id: trial
        for trial in facts.further
        if trial.purpose is Purpose.EXPLORATION and trial.candidate_id not in in_full
    }
    return tuple(newest.values())


def lost_rounds_text(facts: RunFacts) -> str | None:
    """Rounds without a proposal, because asking for one failed."""
    why = [str(record.extra[PROPOSAL_FAILURE]) for record in facts.rounds if PROPOSAL_FAILURE in record.extra]
    return f"{len(why)} without a proposal; the last: {shorten(why[-1], LONGEST_WHY)}" if why else None
