"""Models that a run asks in batches: whose they are, and whether their providers have batches at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from activities.endpoints.endpoint_policy import WITHOUT_BATCHES, OperatorLists
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.batch_rules import models_in_batches, time_of_a_batch
from workflows.rules.spec.check import stated_model_url


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """A model that the spec wants asked in batches."""

    where: str
    """The field that names it."""
    model: str
    provider: str

    @property
    def has_batches(self) -> bool:
        """Whether its provider has batches."""
        return self.provider not in WITHOUT_BATCHES

    @property
    def is_judge(self) -> bool:
        """Whether it scores."""
        return self.where.startswith("scorers")

    @property
    def hours(self) -> int:
        """How long a batch of its provider takes at most."""
        return round(time_of_a_batch(self.provider).total_seconds() / 3600)


def placed_models(request: OptimizationRequest, lists: OperatorLists) -> tuple[PlacedModel, ...]:
    """The models of target and judges that are asked in batches, as far as the spec says which these are."""
    return tuple(
        PlacedModel(where, model, lists.model_place(model, stated_model_url(request, where)).provider)
        for where, model in models_in_batches(request)
        if "{{" not in model
    )


def batch_refusals(request: OptimizationRequest, models: Iterable[PlacedModel]) -> Iterator[str]:
    """Models that are to be asked in batches alone, and whose providers have none."""
    for placed in models if request.execution.mode == "batch" else ():
        if not placed.has_batches:
            told = f"{placed.model!r} is of a provider that has no batches"
            alone = "execution.batches.judges: false, or " if placed.is_judge else ""
            yield f"{placed.where}: {told}; set {alone}execution.mode: auto or direct, which ask it at once"
