"""Whatever concluding, judging, proposing or writing the end raises: the run ends, and says why. It never hangs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from activities.plugins.lost_attempts import MOST_FAILURES
from activities.proposals.computation_runner import Computing
from activities.proposals.new_values import Proposing
from activities.shards.conclusion import Concluding
from activities.shards.evidence import Judging
from store.write.runs import Runs
from tests.support.engines import Engines
from workflows.optimizers.refine import Refine

Spec = Callable[..., dict[str, Any]]
TOLD = "OverflowError: intermediate overflow in fsum"


class Raises:
    """Raises a few times, or always, and then does what was meant."""

    def __init__(self, meant: Callable[..., Any], times: int | None = None) -> None:
        self.meant, self.left, self.calls = meant, times, 0

    def method(self) -> Callable[..., Any]:
        async def raises(*arguments: Any) -> Any:
            self.calls += 1
            if self.left is not None:
                self.left -= 1
            if self.left is None or self.left >= 0:
                raise OverflowError("intermediate overflow in fsum")
            return await self.meant(*arguments)

        return raises


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Raises]:
    def patch(kind: type, name: str, times: int | None = None) -> Raises:
        raises = Raises(getattr(kind, name), times)
        monkeypatch.setattr(kind, name, raises.method())
        return raises

    return patch


async def ended(engines: Engines, spec: dict[str, Any]) -> tuple[str, str]:
    """How the run failed, in Temporal and in the store alike."""
    handle = await engines.start(spec)
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    async with engines.database.connection() as connection:
        row = await connection.fetchrow("SELECT status, stop_reason, message FROM runs WHERE run_id = $1", handle.id)
    assert row is not None and row["status"] == "failed"
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.message == row["message"]
    return row["stop_reason"], row["message"]


async def test_concluding_that_raises_ends_the_run(engines: Engines, spec: Spec, raising: Callable[..., Raises]) -> None:
    conclude = raising(Concluding, "conclude")
    reason, message = await ended(engines, spec())
    assert reason == "execution_failure" and TOLD in message
    assert conclude.calls <= 3 * MOST_FAILURES


async def test_concluding_that_raises_now_and_then_does_not(
    engines: Engines, spec: Spec, raising: Callable[..., Raises]
) -> None:
    raising(Concluding, "conclude", MOST_FAILURES - 1)
    assert (await engines.run(spec()))["status"] == "completed"


async def test_judging_that_raises_ends_the_confirmation_with_its_reason(
    engines: Engines, spec: Spec, raising: Callable[..., Raises]
) -> None:
    raising(Judging, "judge")
    items = {"items": [{"id": f"s{n}", "input": n} for n in range(20)], "splits": {"validation": 0.5, "test": 0.5}}
    result = await (await engines.start(spec(dataset=items))).result()
    assert result["status"] == "completed"
    assert TOLD in result["confirmation"]["refused"]


async def test_a_proposer_that_raises_ends_the_run(engines: Engines, spec: Spec, raising: Callable[..., Raises]) -> None:
    raising(Proposing, "propose")
    result = await engines.run(spec(optimizer={"name": "refine", "proposer": {"kind": "python", "ref": "plugged:climb"}}))
    assert result["stop_reason"] == "proposal_failure" and TOLD in result["message"]


async def test_a_computation_that_raises_ends_the_run(engines: Engines, spec: Spec, raising: Callable[..., Raises]) -> None:
    raising(Computing, "compute")
    result = await engines.run(spec(optimizer={"name": "search"}))
    assert result["stop_reason"] == "proposal_failure" and TOLD in result["message"]


async def test_an_end_that_cannot_be_written_is_written_without_the_result(
    engines: Engines, spec: Spec, raising: Callable[..., Raises]
) -> None:
    raising(Runs, "finish", MOST_FAILURES)
    reason, message = await ended(engines, spec())
    assert reason == "execution_failure"
    assert "the result could not be stored" in message and TOLD in message


async def test_an_optimizer_that_raises_what_temporal_does_not_know_ends_the_run(
    engines: Engines, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here in the report, which no guard of the rounds surrounds."""

    def report(*_: Any) -> Any:
        raise OverflowError("intermediate overflow in fsum")

    monkeypatch.setattr(Refine, "report", report, raising=False)
    assert (await engines.run(spec()))["status"] == "completed"
