"""What a call must know of its run, its budget and its permission comes with it, to the target and to models that score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities.concurrency.in_flight_limits import Caller, CallPlaces, Limit
from activities.endpoints.breaker import Breaker
from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatAnswer, ChatModels
from activities.endpoints.gate import Gates
from activities.plugins.loader import Plugins
from activities.scorers import ScorerTools
from activities.shards.outcome_batches import OutcomeBatches
from activities.shards.sample_outcomes import PairToAnswer
from activities.shards.shard import ShardAtWork
from ratchet import ExperimentContext, Output, Sample
from tests.support.suite_building import shard, suite
from workflows.model.spec.objective import Objective
from workflows.model.spec.scorers.rubric import RubricScorer
from workflows.model.spec.targets.python import PythonTarget
from workflows.rules.overlay import Overlay


class Judge(ChatModels):
    """Gives everybody the best grade, and remembers on whose behalf it was asked."""

    def __init__(self) -> None:
        super().__init__(Gates())
        self.contexts: list[CallContext] = []

    async def ask(self, *, context: CallContext, **_: Any) -> ChatAnswer:
        self.contexts.append(context)
        return ChatAnswer('{"reason": "right", "score": 5}', tokens=3, cost=0.0, latency_ms=1.0)


class Target:
    def __init__(self) -> None:
        self.contexts: list[CallContext] = []

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output:
        self.contexts.append(context)
        return Output("yes")


class Lease:
    """Hands out reservations that nobody has to fill."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    async def reservation(self, paid: object, answer_id: int) -> Any:
        self.given.append(Reserved())
        return self.given[-1]


class Reserved:
    def answered(self, tokens: int, cost: float) -> None:
        return

    def close(self) -> None:
        return


async def test_target_and_judge_of_a_sample_are_called_for_the_same_run_budget_and_effort() -> None:
    caller, lease, target, judge = Caller("run", 4), Lease(), Target(), Judge()

    async def commit(_: object) -> None:
        return

    batches = OutcomeBatches(commit, lambda _: False)
    work = ShardAtWork(
        shard(2),
        suite(
            PythonTarget(kind="python", ref="m:f"),
            scorers=[RubricScorer(kind="rubric", model="judge", rubric="Is it right?")],
            objective=Objective(metric="rubric"),
        ),
        Overlay("f" * 64, {}, None),
        [PairToAnswer(n, f"item-{n}", 0, Sample(f"s{n}", n), n) for n in range(2)],
        target=target,
        scorers=ScorerTools(Plugins([]), models=judge),
        limit=CallPlaces([Limit(1)], caller),
        batches=batches,
        breaker=Breaker(),
        budget_lease=lease,  # type: ignore[arg-type]
    )
    await work.run()
    await batches.drain()
    assert (work.fatal, work.result(0).evaluated) == (None, 2)
    for place in range(2):
        asked, judged = target.contexts[place], judge.contexts[place]
        assert asked.caller is judged.caller is caller
        assert asked.meter is judged.meter is lease.given[place]
        assert asked.effort is judged.effort is not None
    assert target.contexts[0].effort is not target.contexts[1].effort
    assert target.contexts[0].beginning is not judge.contexts[0].beginning
