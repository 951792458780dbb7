"""Tools that steer open runs, where whoever serves allowed it. None lets a run spend what its own budget does not cover."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from clients.http.backend import Backend
from clients.http.errors import Refused
from clients.http.routes.runs import steering
from clients.http.routes.runs.stored_runs import get_optimization
from clients.local_audit import audited
from clients.mcp.bounded_answers import as_data
from clients.mcp.read_tools import RunId
from clients.wire import Done, StopWish
from workflows.model.run.contract import Pending
from workflows.model.spec.execution import Adjustment

Reason = Annotated[str, Field(max_length=200, description="Why, in a few words; it is kept with the run.")]


class SteeringTools:
    """What `--allow-steering` adds."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def all(self) -> list[Callable[..., Awaitable[str]]]:
        """Every tool, in the order in which they are listed."""
        return [self.stop_run, self.cancel_run, self.pause_run, self.resume_run, self.adjust_run, self.propose_configuration]

    async def stop_run(self, run_id: RunId, reason: Reason = "") -> str:
        """End a run early: what is in flight finishes, the best is kept, confirmed and reported."""
        return await self._steered("stop", run_id, lambda: steering.stop(run_id, self._backend, StopWish(reason=reason)))

    async def cancel_run(self, run_id: RunId) -> str:
        """Cancel a run: trials in flight are cut off, what is known so far is kept. Rather stop it, which gives a result."""
        return await self._steered("cancel", run_id, lambda: steering.cancel(run_id, self._backend))

    async def pause_run(self, run_id: RunId) -> str:
        """Let a run rest before its next round."""
        return await self._steered("pause", run_id, lambda: steering.pause(run_id, self._backend))

    async def resume_run(self, run_id: RunId) -> str:
        """Let a paused run go on."""
        return await self._steered("resume", run_id, lambda: steering.resume(run_id, self._backend))

    async def adjust_run(
        self,
        run_id: RunId,
        concurrent_trials: Annotated[int | None, Field(description="Trials side by side.")] = None,
        concurrent_samples: Annotated[int | None, Field(description="Target calls in flight, on each worker.")] = None,
        max_rounds: Annotated[int | None, Field(description="Rounds after the baseline.")] = None,
        no_improvement: Annotated[int | None, Field(description="Rounds in a row without a better one; 0 is no rule.")] = None,
        score: Annotated[float | None, Field(description="A score that is good enough.")] = None,
    ) -> str:
        """Change how fast an open run goes and when it stops. Budgets are a person's to change: `ratchet adjust`.

        Stop rules can be changed of runs only that have a budget of cost, which bounds what more rounds may take.
        """
        rules: dict[str, Any] = {"max_rounds": max_rounds, "no_improvement": no_improvement, "score": score}
        limits: dict[str, Any] = {"concurrent_trials": concurrent_trials, "concurrent_samples": concurrent_samples}
        given = {name: value for name, value in {**rules, **limits}.items() if value is not None}
        if given.keys() & rules.keys():
            await self._refuse_unbounded(run_id)
        return await self._steered(
            "adjust", run_id, lambda: steering.adjust(run_id, self._backend, Adjustment.model_validate(given))
        )

    async def propose_configuration(
        self,
        run_id: RunId,
        configuration: Annotated[dict[str, Any], Field(description="Values by factor; factors left out keep the baseline's.")],
        rationale: Annotated[str | None, Field(max_length=2000, description="Why it may be better.")] = None,
    ) -> str:
        """Have an open run try a configuration in its next round; only of runs that have a budget of cost."""
        await self._refuse_unbounded(run_id)
        pending = Pending.model_validate({"configuration": configuration, "rationale": rationale})
        return await self._steered("propose", run_id, lambda: steering.propose(run_id, self._backend, pending))

    async def _steered(self, action: str, run_id: str, ask: Callable[[], Awaitable[Done]]) -> str:
        async with audited(self._backend.database, action, run_id=run_id, refusals=(Refused,)):
            return as_data(await ask())

    async def _refuse_unbounded(self, run_id: str) -> None:
        run = await get_optimization(run_id, self._backend, spec=False)
        if not run.budget.get("cost"):
            raise Refused(
                409,
                f"budget.cost: {run_id} has none, so nothing bounds what this would spend; a person can set one: "
                f"ratchet adjust {run_id}",
                "budget.cost",
            )
