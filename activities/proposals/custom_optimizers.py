"""Users' optimizers: each step of one runs here, whole, with what is stored of the run at hand."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from temporalio.exceptions import ApplicationError

from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugin, Plugins
from activities.plugins.lost_attempts import attempts_before, failure_of_isolated, refuse_killers
from activities.proposals.kept_requests import proposed_hash
from ratchet.optimizer import Part, TrialFacts
from store.write.repositories import Store
from workflows.model.activities.optimizer_steps import CustomStepInput, CustomStepResult
from workflows.model.failures import OPTIMIZER_FAILED, shorten
from workflows.model.trial import Split
from workflows.rules.proposals.optimizer_step import OwnOptimizerFailed, take_step, with_what_is_stored


class OwnOptimizers:
    """Takes steps. Nothing is kept between two of them but what the optimizer returned as its state."""

    def __init__(self, store: Store, plugins: Plugins, calls: PluginCalls, isolation: Isolation | None = None) -> None:
        self._isolation = isolation or Isolation()
        self._store = store
        self._plugins = plugins
        self._calls = calls

    async def step(self, step: CustomStepInput) -> CustomStepResult:
        isolates = attempts_before().isolates
        stored = await self._store.search_history.trials(step.run_id)
        history = with_what_is_stored(await self._store.search_history.facts(step.run_id), stored)
        observed = None
        if step.observed is not None:
            completed = with_what_is_stored(step.observed, stored)
            observed = tuple([await self._with_records(step, trial) for trial in completed])
        asked = step.model_copy(update={"observed": observed})
        taken = await (self._isolated(asked, history) if isolates else self._taken(asked, history))
        made = await asyncio.to_thread(_proposed_by, taken)
        if made:
            await self._store.proposals.store_configurations(step.run_id, made)
        return taken

    async def _taken(self, asked: CustomStepInput, history: Sequence[TrialFacts]) -> CustomStepResult:
        ref = asked.optimizer.ref
        plugin = await self._calls.threads.run(partial(self._plugins.resolve, ref, 0))
        try:
            return await take_step(plugin.call, asked, history, partial(self._call, ref))
        except OwnOptimizerFailed as error:
            told = shorten(f"optimizer {ref} {error}")
            raise ApplicationError(told, type=OPTIMIZER_FAILED, non_retryable=error.hopeless) from error

    async def _isolated(self, step: CustomStepInput, history: Sequence[TrialFacts]) -> CustomStepResult:
        """By an optimizer that may be what killed the workers before."""
        ref = step.optimizer.ref
        refuse_killers([f"{ref} (optimizer)"])
        request = {"step": step.model_dump(mode="json"), "history": [facts.model_dump(mode="json") for facts in history]}
        try:
            return CustomStepResult.model_validate(await self._isolation.call(self._plugins, ref, "optimizer", request))
        except IsolatedFault as fault:
            told = f"optimizer {ref} {fault}" if fault.kind == "told" else f"optimizer {ref}: {fault}"
            raise failure_of_isolated(fault, told, OPTIMIZER_FAILED) from None

    async def _with_records(self, step: CustomStepInput, trial: TrialFacts) -> TrialFacts:
        """What went wrong on the samples that it was measured on."""
        if not step.optimizer.examples:
            return trial
        split = Split(trial.split) if trial.split else step.search_split
        part = trial.part or Part()
        records = await self._store.evaluated_samples.records(
            step.run_id, split, trial.config_hash, step.optimizer.examples, first=part.first, count=part.count
        )
        return trial.model_copy(update={"records": tuple(records)})

    async def _call(self, ref: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        is_async = inspect.iscoroutinefunction(function)
        return await self._calls.call(Plugin(ref, partial(function, **options), is_async, ""), *arguments)


def _proposed_by(step: CustomStepResult) -> dict[str, Any]:
    """What it proposes by the names under which rejections are looked up; what is no JSON is not kept."""
    named = {proposed_hash(proposal.configuration): proposal.configuration for proposal in step.proposals}
    return {name: configuration for name, configuration in named.items() if name is not None}
