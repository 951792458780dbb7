"""Users' stop policies: whether a run ends after a round, and in which words."""

from __future__ import annotations

from functools import partial
from typing import Any

from temporalio.exceptions import ApplicationError

from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugins
from activities.plugins.lost_attempts import attempts_before, failure_of_isolated, refuse_killers
from ratchet.optimizer import StopFacts, TrialHistory
from store.write.repositories import Store
from workflows.model.activities.stop_policies import PolicyAnswer, PolicyInput
from workflows.model.failures import STOP_POLICY_FAILED, described, shorten


class StopPolicies:
    """Asks them."""

    def __init__(self, store: Store, plugins: Plugins, calls: PluginCalls, isolation: Isolation) -> None:
        self._store = store
        self._plugins = plugins
        self._calls = calls
        self._isolation = isolation

    async def ask(self, asked: PolicyInput) -> PolicyAnswer:
        """Tell it where the run stands."""
        trials = [facts for facts in await self._store.search_history.facts(asked.run_id) if facts.part is None]
        facts = asked.facts.model_copy(update={"history": TrialHistory(trials=tuple(trials))})
        returned = await (self._isolated if attempts_before().isolates else self._called)(asked.ref, facts)
        if returned is not None and not isinstance(returned, str):
            raise _no_words(asked.ref, type(returned).__name__)
        return PolicyAnswer(words=returned if returned is None else shorten(returned) or "stopped")

    async def _called(self, ref: str, facts: StopFacts) -> Any:
        plugin = await self._calls.threads.run(partial(self._plugins.resolve, ref, 1))
        try:
            return await self._calls.call(plugin, facts)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            told = shorten(f"stop policy {ref} raised {described(error)}")
            raise ApplicationError(told, type=STOP_POLICY_FAILED) from error

    async def _isolated(self, ref: str, facts: StopFacts) -> Any:
        """By a policy that may be what killed the workers before."""
        refuse_killers([f"{ref} (stop policy)"])
        try:
            returned = await self._isolation.call(self._plugins, ref, "policy", {"facts": facts.model_dump(mode="json")})
        except IsolatedFault as fault:
            raise failure_of_isolated(fault, f"stop policy {ref}: {fault}", STOP_POLICY_FAILED) from None
        if "type" in returned:
            raise _no_words(ref, returned["type"])
        return returned["words"]


def _no_words(ref: str, returned: str) -> ApplicationError:
    told = f"stop policy {ref} returned a {returned}; return why the run ends as text, or None to go on"
    return ApplicationError(told, type=STOP_POLICY_FAILED, non_retryable=True)
