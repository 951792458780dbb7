"""The tool that starts runs, where whoever serves allowed it and said how much all of them together may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from fastapi import Response

from clients.http.backend import Backend
from clients.http.errors import Refused
from clients.http.routes.runs.start import start_for
from clients.local_audit import audited
from clients.mcp.bounded_answers import as_data
from clients.mcp.read_tools import SpecText, spec_of
from clients.settings import client_settings
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.check import models_used


class StartTool:
    """What `--allow-start` adds. It counts what the runs it started may cost, for as long as the server lives."""

    def __init__(self, backend: Backend, budget: float) -> None:
        self._backend = backend
        self._budget = budget
        self._promised = 0.0
        self._starting = asyncio.Lock()

    def all(self) -> list[Callable[..., Awaitable[str]]]:
        """The one tool."""
        return [self.start_run]

    async def start_run(self, spec: SpecText) -> str:
        """Start a run of a spec, or name the run that there is: the same spec is the same run, and is not paid again.

        It spends money. The spec must set `budget.cost`, and all runs that are started here share what the user allowed; what
        is left is told with each. Check the spec first, and ask your user before you start it.
        """
        request = spec_of(spec)
        async with self._starting:
            left = self._budget - self._promised
            for problem in problems_for_agents(request, left):
                raise Refused(422, problem, problem.partition(": ")[0])
            team = client_settings().team
            async with audited(self._backend.database, "start", refusals=(Refused,)) as noted:
                started = await start_for(self._backend, request, Response(), team)
                noted.run_id = started.optimization_id
            if started.created:
                self._promised += request.budget.cost
            told = started.model_dump(mode="json") | {"left_of_the_allowed_cost": self._budget - self._promised}
        return as_data(told)


def problems_for_agents(request: OptimizationRequest, left: float) -> Iterator[str]:
    """Say why a run of this spec might spend more than is left, or do more than measure, field by field."""
    if request.release is not None and request.release.mode == "automatic":
        yield "release.mode: is automatic, and a run that an agent starts releases nothing by itself; use approval, or none"
    cost = request.budget.cost
    if not 0 < cost <= left:
        asked = f"is {cost:g}" if cost else "is not set"
        yield f"budget.cost: {asked}; runs that are started here may cost {left:g} in all from now on; set it to at most that"
    free = [model for _, model in models_used(request) if _is_free(request, model)]
    if free:
        yield f"prices: {free[0]!r} costs nothing by its price, so no budget bounds it; give the price that is really paid"
    asks_a_model = any(True for _ in request.target.models())
    stated = request.target.stated
    if not asks_a_model and (stated is None or "cost" not in stated.model_fields_set):
        yield (
            f"target.at_most: say what one call of the {request.target.kind} target costs at most, such as "
            "at_most: {cost: 0.01}; without that its calls are not bounded by budget.cost"
        )


def _is_free(request: OptimizationRequest, model: str) -> bool:
    price = request.prices.get(model)
    return price is not None and not price.input and not price.output
