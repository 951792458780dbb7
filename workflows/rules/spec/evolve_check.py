"""What can be wrong with a spec that evolves, before anything is spent: tables that cannot apply, tests that cannot pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workflows.model.spec.optimizers.evolve import EvolveOptimizer
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split
from workflows.rules.decisions.verdicts import FEWEST_SAMPLES, share_of_round, smallest_p
from workflows.rules.proposals.mutations import refuse_mutation
from workflows.rules.spec.prompt_factors import is_read


def evolution_problems(request: OptimizationRequest, optimizer: EvolveOptimizer) -> Iterator[str]:
    """Everything that is wrong, with its field and the fix."""
    if not optimizer.table and not optimizer.padding:
        yield "optimizer.table: is empty, and so is padding; nothing could ever be proposed"
    for place, mutation in optimizer.mutations():
        problem = refuse_mutation(mutation, request.configuration) if is_read(request) else None
        if problem is not None:
            yield f"{place}: {problem}{_a_default(optimizer, place)}"
    judgement = request.judgement
    if judgement.accept != "better":
        yield f"judgement.accept: is {judgement.accept}, but evolve goes on only from what is significantly better; drop it"
    if judgement.rule != "improvement":
        yield f"judgement.rule: is {judgement.rule}, but evolve asks for improvement; drop it"
    splits = request.dataset.splits
    if splits is None or not splits.train or not splits.validation:
        yield (
            "dataset.splits: evolve learns from train samples and judges on validation samples; "
            "give shares for both, and for test, such as {train: 0.2, validation: 0.5, test: 0.3}"
        )


def _a_default(optimizer: EvolveOptimizer, place: str) -> str:
    part = place.partition("[")[0].removeprefix("optimizer.")
    return "" if part in optimizer.model_fields_set else f" (the default {part} is meant; declare {part} to fit your factors)"


def too_few_samples(request: OptimizationRequest, sizes: Mapping[Split, int]) -> Iterator[str]:
    """Samples so few that no candidate could ever be significantly better, with the numbers."""
    optimizer = request.optimizer
    if not isinstance(optimizer, EvolveOptimizer):
        return
    if not sizes.get(Split.TRAIN):
        yield "dataset.splits.train: leaves no sample to classify failures of; add samples or raise the share"
    most = request.samples_per_trial
    samples = min(sizes.get(Split.VALIDATION, 0), most) if most is not None else sizes.get(Split.VALIDATION, 0)
    judgement, candidates = request.judgement, optimizer.candidates_per_round
    allowed = judgement.alpha * share_of_round(judgement, 1)
    least = smallest_p(judgement.test, samples) * candidates
    if samples >= FEWEST_SAMPLES and least <= allowed:
        return
    of_which = f", of which the first round may use {allowed:g}" if allowed < judgement.alpha else ""
    needed = next(n for n in range(FEWEST_SAMPLES, 1_000) if smallest_p(judgement.test, n) * candidates <= allowed)
    yield (
        f"dataset.splits.validation: has {samples} samples, with which no candidate can ever pass: the smallest p-value of the "
        f"{judgement.test} test, corrected for {candidates} candidates, is {min(least, 1.0):.3g}, and judgement.alpha is "
        f"{judgement.alpha:g}{of_which}; at least {needed} samples are needed, or fewer candidates_per_round"
    )
