"""What a spec may say differently from the run whose answers it scores anew, and the spec that does so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from workflows.model.measured_parts import MeasuredPart
from workflows.model.spec.execution import Stop
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.prompt_factors import template_of

MAY_DIFFER: Final = frozenset(
    {
        *("scorers", "objective", "judgement", "prices", "release", "name", "use_case", "experiment"),
        *("stop", "budget", "execution", "reuse", "retry_of"),
    }
)
"""What changes none of the answers. The optimizer is another matter: its candidates are there already."""

MANY_FAILED_TRIALS: Final = 1_000_000


def differing_fields(new: OptimizationRequest, before: OptimizationRequest) -> Iterator[str]:
    """The fields of a spec, both with their prompts read, by which its answers would be others than those of the run before."""
    for name in OptimizationRequest.model_fields:
        if name in MAY_DIFFER:
            continue
        if name == "configuration":
            values, known = new.baseline, before.baseline
            yield from (f"configuration.{key}" for key in {**known, **values} if values.get(key) != known.get(key))
        elif name == "prompt":
            if template_of(new) != template_of(before):
                yield name
        elif name == "dataset":
            if _drawn(new) != _drawn(before):
                yield "dataset.splits"
        elif name == "optimizer":
            if before.optimizer.answers_of is None and new.optimizer != before.optimizer:
                yield name
        elif getattr(new, name) != getattr(before, name):
            yield name


def _drawn(request: OptimizationRequest) -> Any:
    splits = request.dataset.splits
    return splits and splits.model_dump(), request.dataset.group_by


def rescored(
    new: OptimizationRequest,
    before: OptimizationRequest,
    run_id: str,
    candidates: Sequence[Sequence[str]],
    parts: Sequence[MeasuredPart] = (),
) -> OptimizationRequest:
    """The new spec over the candidates of the run before, which were chosen by these parts. All of them are judged: nothing
    ends it earlier but its budget."""
    own = before.optimizer
    names = [list(together) for together in candidates]
    drawn = {"learned_from_train": own.learns_from_train, "sought_winner": own.seeks_winner}
    chosen_by = [*own.parts_before, *parts]
    rescore = {"name": "rescore", "run": run_id, "candidates": names, "parts": chosen_by, **drawn}
    return new.model_copy(
        update={
            "configuration": dict(own.in_play(new.configuration)),
            "optimizer": OptimizerSpec.kinds()["rescore"].model_validate(rescore),
            "stop": Stop(max_rounds=0, no_improvement=0),
            "execution": new.execution.model_copy(update={"max_consecutive_failed_trials": MANY_FAILED_TRIALS}),
            "retry_of": None,
        }
    )
