"""What the models of a run cost, each as it is asked: at once, or in batches."""

from __future__ import annotations

from dataclasses import dataclass

from clients.checks.findings import Checked
from ratchet._text.placeholders import placeholders
from workflows.model.run.amounts import Amount
from workflows.model.spec.prices import Price
from workflows.model.spec.request import OptimizationRequest
from workflows.model.spec.targets.chat import ChatStep
from workflows.rules.decisions.call_bounds import bound_of
from workflows.rules.spec.check import models_used

USER = "target.user.model"


@dataclass(frozen=True, slots=True)
class AskedModel:
    """A model as it is asked."""

    name: str
    price: Price | None
    in_batches: bool

    def amount(self, read: int, written: int, *, at_worst: bool, requests: int = 1) -> Amount:
        """What so many requests take that read and write so many tokens together. At worst each token read is as dear as one
        can be, which it is where the provider puts it into its cache."""
        if at_worst or self.price is None:
            return bound_of(read, written, self.price)
        return Amount(tokens=read + written, cost=self.price.for_request(read // requests).cost(read, written))


class ModelPrices:
    """Says what models cost that a run asks: at worst, or as is expected."""

    def __init__(self, checked: Checked, request: OptimizationRequest, *, at_worst: bool) -> None:
        self._prices = request.prices
        self._used = models_used(request)
        mode = request.execution.mode
        is_in_batches = mode == "batch" or (mode == "auto" and not at_worst)
        self._batched = {(one.where, one.model) for one in checked.batched} if is_in_batches else set()

    def of_step(self, step: ChatStep) -> AskedModel:
        """Of the models that a request of the target may name, the dearest."""
        given = step.model or ""
        named = placeholders(given)
        factor = f"configuration.{named[0].removeprefix('factors.')}" if named else ""
        may_be = [
            self.at(where, model)
            for where, model in self._used
            if (where == factor if factor else where.startswith("target.") and where != USER and model == given)
        ]
        return max(may_be, key=_dearness, default=AskedModel(given, None, False))

    def at(self, where: str, model: str) -> AskedModel:
        """A model that a field names."""
        price, in_batches = self._prices.get(model), (where, model) in self._batched
        return AskedModel(model, price.in_batches if price is not None and in_batches else price, in_batches)


def _dearness(asked: AskedModel) -> tuple[float, float]:
    return (-1.0, -1.0) if asked.price is None else (asked.price.output, asked.price.input)
