"""Answers that are paid for and cannot be scored: they are kept, and a retry only scores them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from clients.demo.model_server import simulated_model
from tests.support.activity_targets import Call, failure, height, theirs
from tests.support.engines import Engines
from tests.support.external_runners import ONE_TRIAL, running
from tests.support.graded_runs import SAYINGS, graded

Spec = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("budget", [{}, {"cost": 10.0}], ids=["free", "on a budget"])
async def test_answers_whose_judge_is_away_for_good_are_scored_by_a_retry_and_not_paid_again(
    engines: Engines, budget: dict[str, Any]
) -> None:
    async with simulated_model() as server:
        parts = {"budget": budget}
        server.simulate({"status": 401, "model": "simulated-judge"})
        handle = await engines.start(graded(server, **parts))
        with pytest.raises(Exception, match="Workflow execution failed") as failed:
            await handle.result()
        assert "wait for their score, which a retry of the run gives them" in str(failed.value.__cause__)
        async with engines.database.connection() as connection:
            paid = await connection.fetchrow("SELECT paid_samples, paid_tokens FROM trials WHERE run_id = $1", handle.id)
        before = server.stats()
        assert paid is not None
        assert tuple(paid) == (len(before["answered"]), before["prompt_tokens"] + before["completion_tokens"])
        assert 0 < paid["paid_samples"] <= len(SAYINGS)

        server.reset()
        retry = await engines.run(graded(server, retry_of=handle.id, **parts))
        after = server.stats()
        assert not set(before["answered"]) & set(after["answered"]), "an answer was paid for twice"
        assert retry["reused"] == paid["paid_samples"]
        assert retry["spend"]["samples"] == 2 * len(SAYINGS) - paid["paid_samples"]
        assert retry["spend"]["tokens"] == after["prompt_tokens"] + after["completion_tokens"], (
            "what the judge took is paid here"
        )


async def test_answers_that_could_not_be_scored_are_not_asked_for_again(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    calls: list[str] = []

    def answer(call: Call) -> Any:
        calls.append(call["sample"]["id"])
        return height(call)

    broken = tmp_path / "broken"
    broken.touch()
    async with theirs(engines, answer) as target:
        parts = {
            "target": target,
            "dataset": {"items": [{"id": f"s{n}", "input": {"broken": str(broken)}} for n in range(8)], "splits": "none"},
            "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height_unless_broken"}],
            "budget": {"trials": 1, "samples": 100},
        }
        run_id, message = await failure(engines, spec(**parts))
        assert "the scorer is broken; 8 answers wait for their score" in message
        broken.unlink()
        retry = await engines.run(spec(retry_of=run_id, **parts))
    assert sorted(calls) == [f"s{n}" for n in range(8)]
    assert (retry["reused"], retry["spend"]["samples"]) == (8, 0)
    assert retry["baseline_score"] == pytest.approx(0.31)


async def test_results_that_could_not_be_scored_need_no_other_experiment(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    async with running(engines) as (runner, target):
        parts = {
            "target": target,
            "dataset": {"items": [{"id": f"s{n}", "input": {"broken": str(broken)}} for n in range(8)], "splits": "none"},
            "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height_unless_broken"}],
            "budget": ONE_TRIAL,
        }
        handle = await engines.start(spec(**parts))
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        broken.unlink()
        retry = await engines.run(spec(retry_of=handle.id, **parts))
    assert runner.asked["trigger"] == 1
    assert (retry["reused"], retry["spend"]["samples"]) == (8, 0)
    assert retry["baseline_score"] == pytest.approx(0.31)
