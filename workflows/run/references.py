"""What a round's trials are compared with, what they race against, and what is asked of the noise before."""

from __future__ import annotations

import math

from workflows.model.run.decisions import Reference
from workflows.model.trial import Planning, Race
from workflows.rules.decisions.round_decision import decided_against
from workflows.run.state import RunState

MOST_LOOKS = 64
"""At one trial. Larger ones get larger blocks instead of a longer history."""


def references_of(state: RunState) -> tuple[Reference, ...]:
    """The baseline, and the best so far if that is another candidate."""
    assert state.baseline and state.best
    design = state.design
    compared = {
        state.baseline.candidate_id: Reference(
            candidate_id=state.baseline.candidate_id,
            config_hash=state.baseline.config_hash,
            replicates=design.baseline_replicates,
        )
    }
    if state.best.candidate_id not in compared:
        compared[state.best.candidate_id] = Reference(
            candidate_id=state.best.candidate_id,
            config_hash=state.best.config_hash,
            first_replicate=state.best.first_replicate,
            replicates=design.replicates,
        )
    return tuple(compared.values())


def race_of(state: RunState, candidates: int) -> Race | None:
    """How a round's trials race, where the spec lets them, and a trial has more samples than one block."""
    spec, samples = state.request.judgement, state.design.samples
    if spec.racing is None or state.request.target.runs_whole_trials:
        return None
    assert state.baseline and state.best
    against = decided_against(spec, state.baseline.candidate_id, state.best.candidate_id)
    block = max(spec.racing.block, math.ceil(samples / MOST_LOOKS))
    [reference] = [reference for reference in references_of(state) if reference.candidate_id == against]
    if block >= samples:
        return None
    family = state.family_of(state.round + 1)
    return Race(reference=reference, block=block, candidates=candidates, share=family.share, chosen_from=family.chosen_from)


def planning_of(state: RunState) -> Planning:
    """What is asked once the noise is known."""
    request = state.request
    noise = request.noise_first
    assert noise and state.prepared
    return Planning(
        available=state.prepared.search_samples,
        replicates=None if request.replicates == "auto" else request.replicates,
        most_replicates=noise.most_replicates,
        comparisons=request.optimizer.candidates_per_round,
        power=noise.power,
        held_back=state.prepared.test_samples,
    )


def planning_at_baseline(state: RunState) -> Planning | None:
    """What is asked of the baseline's answers; nothing where the run looks for nothing better."""
    request, design = state.request, state.design
    if not request.optimizer.looks_further:
        return None
    return Planning(
        available=design.samples,
        replicates=design.replicates,
        comparisons=request.optimizer.candidates_per_round,
        power=request.noise_first.power if request.noise_first else Planning.model_fields["power"].default,
        held_back=state.prepared.test_samples if state.prepared else 0,
        known=state.plan if state.noise is not None else None,
    )
