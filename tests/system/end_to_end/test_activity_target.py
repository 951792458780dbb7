"""Targets that are somebody else's activity: on their own task queue, in their own language, with errors of their own."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.settings import ACTIVITY_QUEUES
from tests.support.activity_targets import Call, failure, height, theirs
from tests.support.allowed import allow
from tests.support.engines import Engines
from tests.support.example_modules import EXAMPLES, example

Spec = Callable[..., dict[str, Any]]


async def stored(engines: Engines, run_id: str, what: str, table: str) -> list[Any]:
    async with engines.database.connection() as connection:
        return [row[0] for row in await connection.fetch(f"SELECT {what} FROM {table} WHERE run_id = $1", run_id)]


async def test_an_activity_answers_one_sample_a_call(engines: Engines, spec: Spec) -> None:
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        calls.append(call)
        return height(call)

    async with theirs(engines, answer) as target:
        result = await engines.run(spec(target={**target, "execution_params": {"region": "north"}}))
    assert result["status"] == "completed"
    assert result["best_score"] > result["baseline_score"]
    assert result["spend"] == {"samples": 5 * 8, "trials": 5, "tokens": 5 * 80, "cost": pytest.approx(5 * 8 * 0.001)}
    assert len(calls) == 5 * 8
    first = calls[0]
    assert first["configuration"] == {"x": 10, "unit": "metre"}
    assert first["execution_params"] == {"region": "north"}
    assert set(first["sample"]) == {"id", "input", "expected", "weight", "tags", "replicate", "seed"}
    assert first["context"]["run_id"] == result["optimization_id"]
    assert len(first["context"]["overrides_tag"]) == 64


async def test_an_activity_answers_batches(engines: Engines, spec: Spec) -> None:
    sizes: list[int] = []

    def answer(call: Call) -> Any:
        sizes.append(len(call["samples"]))
        return [height(call) for _ in call["samples"]]

    async with theirs(engines, answer) as target:
        result = await engines.run(spec(target={**target, "batch": 3}, stop={"max_rounds": 1}))
    assert result["status"] == "completed"
    assert sorted(sizes) == [2, 2, 3, 3, 3, 3]


async def test_a_trial_whose_samples_others_answer_races_like_any_other(engines: Engines, spec: Spec) -> None:
    """Whoever is hopeless asks for no more than its first blocks."""
    asked: list[float] = []

    def answer(call: Call) -> Any:
        asked.append(call["configuration"]["x"])
        return height(call)

    async with theirs(engines, answer) as target:
        result = await engines.run(
            spec(
                target=target,
                dataset={"items": [{"input": n} for n in range(60)], "splits": "none"},
                configuration={"x": {"value": 700, "change": "structured", "type": "integer", "min": 0, "max": 1000}},
                optimizer={"name": "none", "configurations": [{"x": 0}]},
                judgement={"racing": {"block": 8}},
                execution={"samples_per_shard": 5},
            )
        )
    [stopped] = [told for told in await stored(engines, result["optimization_id"], "stopped_early", "trials") if told]
    assert stopped.startswith("certainly worse after 8 of 60 samples")
    assert (asked.count(700), asked.count(0)) == (60, 8)
    assert result["spend"]["samples"] == 68


async def test_answers_that_came_are_those_that_were_asked_for(engines: Engines, spec: Spec) -> None:
    """Every sample gets its own answer, replicates too, whatever order they come in."""

    async def answer(call: Call) -> Any:
        sample = call["sample"]
        await asyncio.sleep((sample["input"] * 7 % 5) / 200)
        return {"value": {"height": sample["input"] / 100 + sample["replicate"] / 1000}}

    async with theirs(engines, answer) as target:
        result = await engines.run(spec(target=target, replicates=3, budget={"trials": 1}, execution={"samples_per_shard": 5}))
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT s.input::text AS input, o.replicate, o.output FROM outcomes o JOIN samples s USING (item_hash)"
            " WHERE o.run_id = $1 AND s.dataset_id = (SELECT dataset_id FROM runs WHERE run_id = $1)",
            result["optimization_id"],
        )
    assert len(rows) == 24
    for row in rows:
        assert json.loads(row["output"])["height"] == pytest.approx(int(row["input"]) / 100 + row["replicate"] / 1000)


async def test_an_error_that_says_that_it_stays_is_the_candidates_fault(engines: Engines, spec: Spec) -> None:
    calls = itertools.count()

    def answer(call: Call) -> Any:
        if call["sample"]["input"] < 2:
            next(calls)
            raise ApplicationError("no such unit", non_retryable=True)
        return height(call)

    async with theirs(engines, answer) as target:
        result = await engines.run(spec(target=target, budget={"trials": 1}))
    assert next(calls) == 2
    errors = [error for error in await stored(engines, result["optimization_id"], "error", "outcomes") if error]
    assert errors == ["theirs failed: no such unit"] * 2
    assert result["baseline_score"] == pytest.approx(0.31 * 6 / 8)


async def test_an_error_that_may_pass_is_tried_again(engines: Engines, spec: Spec) -> None:
    seen: dict[int, int] = {}

    def answer(call: Call) -> Any:
        number = call["sample"]["input"]
        seen[number] = seen.get(number, 0) + 1
        if seen[number] < 3 and number == 1:
            raise ConnectionError("the model is away")
        return height(call)

    async with theirs(engines, answer) as target:
        result = await engines.run(spec(target=target, budget={"trials": 1}))
    assert seen[1] == 3
    assert result["baseline_score"] == pytest.approx(0.31)


async def test_an_error_that_stays_is_no_score_but_a_missing_answer(engines: Engines, spec: Spec) -> None:
    def answer(call: Call) -> Any:
        raise ConnectionError("the model is away")

    async with theirs(engines, answer) as target:
        run_id, message = await failure(engines, spec(target={**target, "attempts": 2}))
    assert "only 0 of 8 samples have an answer" in message
    assert "theirs failed 2 times: the model is away" in message
    assert await stored(engines, run_id, "1", "outcomes") == []


async def test_an_activity_that_is_down_ends_the_trial_early(engines: Engines, spec: Spec) -> None:
    calls = 0

    def answer(call: Call) -> Any:
        nonlocal calls
        calls += 1
        raise ConnectionError("the model is away")

    items = {"items": [{"input": n} for n in range(200)], "splits": "none"}
    async with theirs(engines, answer) as target:
        narrow = {"concurrent_samples": 8}
        _, message = await failure(engines, spec(target={**target, "attempts": 1}, dataset=items, execution=narrow))
    assert "gave up on the target: 10 calls in a row got no answer" in message
    assert calls <= 10 + 8


UNUSABLE = {
    "a-number": (7, "it is a int"),
    "nothing": (None, "it is a NoneType"),
    "no-value": ({"height": 1}, "neither value nor error, but height"),
    "an-error": ({"error": "the tool broke"}, "target failed: the tool broke"),
    "nan": ({"value": math.nan}, "nan is not a finite number"),
    "bytes": (b"raw", "it is encoded as 'binary/plain'"),
    "other-overlay": ({"value": {"height": 1}, "overlay_hash": "0" * 64}, "the target used overlay 0000"),
    "negative-tokens": ({"value": "x", "tokens": -3}, "tokens=-3"),
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_unusable_answer_fails_the_sample_and_says_why(name: str, engines: Engines, spec: Spec) -> None:
    answer, why = UNUSABLE[name]
    async with theirs(engines, lambda call: answer) as target:
        run_id, message = await failure(engines, spec(target=target))
    assert why in message
    assert set(await stored(engines, run_id, "status", "outcomes")) == {"failed"}


async def test_a_list_of_another_length_fails_its_batch(engines: Engines, spec: Spec) -> None:
    async with theirs(engines, lambda call: [height(call)]) as target:
        _, message = await failure(engines, spec(target={**target, "batch": 4}))
    assert "4 samples need a list of as many answers, and a list of 1 came back" in message


async def test_calls_lost_with_their_worker_are_made_again_without_limit(engines: Engines, spec: Spec) -> None:
    """No heartbeat comes from a lost worker; more calls are lost than errors would be tolerated."""
    lost = 0

    async def answer(call: Call) -> Any:
        nonlocal lost
        if lost < 2:
            lost += 1
            await asyncio.sleep(60)
        return height(call)

    one = {"items": [{"input": 1}], "splits": "none"}
    async with theirs(engines, answer) as target:
        slow = {**target, "attempts": 1, "heartbeat": "500ms"}
        result = await engines.run(spec(target=slow, dataset=one, budget={"trials": 1}))
    assert lost == result["lost"]["samples"] == 2
    assert result["baseline_score"] == pytest.approx(0.31)


async def test_a_call_that_is_never_told_to_have_ended_is_lost_and_made_again(engines: Engines, spec: Spec) -> None:
    """Without a heartbeat, a worker that cannot reach the server looks like a call that takes too long."""
    calls = 0

    async def answer(call: Call) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(60)
        return height(call)

    one = {"items": [{"input": 1}], "splits": "none"}
    async with theirs(engines, answer) as target:
        result = await engines.run(spec(target={**target, "timeout": "500ms"}, dataset=one, budget={"trials": 1}))
    assert (calls, result["lost"]["samples"]) == (2, 1)


async def test_a_call_that_takes_too_long_is_the_candidates_fault(engines: Engines, spec: Spec) -> None:
    async def answer(call: Call) -> Any:
        if call["sample"]["input"] == 1:
            await asyncio.sleep(60)
        return height(call)

    async with theirs(engines, answer) as target:
        slow = {**target, "attempts": 1, "timeout": "500ms"}
        result = await engines.run(spec(target=slow, budget={"trials": 1}))
    errors = [error for error in await stored(engines, result["optimization_id"], "error", "outcomes") if error]
    assert errors == ["theirs took longer than 0.5 s"]


async def test_no_more_calls_are_pending_than_the_run_allows(engines: Engines, spec: Spec) -> None:
    pending = most = 0

    async def answer(call: Call) -> Any:
        nonlocal pending, most
        pending += 1
        most = max(most, pending)
        await asyncio.sleep(0.02)
        pending -= 1
        return height(call)

    wide = {"proposer": {"kind": "step"}, "candidates_per_round": 2}
    items = {"items": [{"input": n} for n in range(30)], "splits": "none"}
    async with theirs(engines, answer) as target:
        result = await engines.run(
            spec(target=target, dataset=items, optimizer=wide, execution={"concurrent_samples": 4}, stop={"max_rounds": 1})
        )
    assert result["status"] == "completed"
    assert 2 <= most <= 4


async def pending(engines: Engines, run_id: str) -> int:
    """Activities of the run's trial whose end Temporal does not know yet."""
    run = await engines.client.get_workflow_handle(run_id).describe()
    [trial_id] = [child.workflow_id for child in run.raw_description.pending_children]
    trial = await engines.client.get_workflow_handle(trial_id).describe()
    return len(trial.raw_description.pending_activities)


async def test_a_cancelled_run_keeps_the_answers_that_came(engines: Engines, spec: Spec) -> None:
    answered: list[int] = []

    async def answer(call: Call) -> Any:
        if call["sample"]["input"] >= 3:
            await asyncio.sleep(60)
        answered.append(call["sample"]["input"])
        return height(call)

    async with theirs(engines, answer) as target:
        handle = await engines.start(spec(target=target))
        async with asyncio.timeout(20):
            while len(answered) < 3 or await pending(engines, handle.id) > 5:
                await asyncio.sleep(0.02)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert await stored(engines, handle.id, "status", "trials") == ["cancelled"]
    assert len(await stored(engines, handle.id, "1", "outcomes")) == 3
    assert await stored(engines, handle.id, "lost_samples", "trials") == [5]


async def test_the_end_of_the_runs_time_cuts_the_trial_off_and_keeps_what_came(engines: Engines, spec: Spec) -> None:
    async def answer(call: Call) -> Any:
        if call["sample"]["input"] == 7:
            await asyncio.sleep(60)
        return height(call)

    async with theirs(engines, answer) as target:
        run_id, message = await failure(engines, spec(target=target, budget={"wall_time": "1s"}))
    assert "the run's time budget is over" in message
    assert await stored(engines, run_id, "status", "trials") == ["timeout"]
    assert len(await stored(engines, run_id, "1", "outcomes")) == 7


async def test_samples_that_do_not_fit_into_one_message_travel_in_several(engines: Engines, spec: Spec) -> None:
    items = {"items": [{"input": [n, "x" * 60_000]} for n in range(8)], "splits": "none"}
    large = {"value": {"height": 0.5, "text": "y" * 400_000}}
    async with theirs(engines, lambda call: large) as target:
        result = await engines.run(spec(target=target, dataset=items, replicates=4, budget={"trials": 1}))
    assert result["baseline_score"] == 0.5
    assert len(await stored(engines, result["optimization_id"], "1", "outcomes")) == 32


async def test_an_answer_too_large_to_keep_fails_its_sample(engines: Engines, spec: Spec) -> None:
    def answer(call: Call) -> Any:
        return {"value": "y" * 600_000} if call["sample"]["input"] == 1 else height(call)

    async with theirs(engines, answer) as target:
        result = await engines.run(spec(target=target, budget={"trials": 1}))
    errors = [error for error in await stored(engines, result["optimization_id"], "error", "outcomes") if error]
    assert errors == ["the answer is unusable: it has 600,212 bytes, at most 524,288 are kept"]


@pytest.mark.timeout(240)
async def test_a_long_trial_continues_as_new_and_asks_for_nothing_twice(engines: Engines, spec: Spec) -> None:
    calls = 0

    def answer(call: Call) -> Any:
        nonlocal calls
        calls += 1
        return height(call)

    items = {"items": [{"input": n} for n in range(1_600)], "splits": "none"}
    async with theirs(engines, answer) as target:
        result = await engines.run(
            spec(target=target, dataset=items, execution={"concurrent_samples": 100}, budget={"trials": 1})
        )
    run_id = result["optimization_id"]
    [trial_id] = await stored(engines, run_id, "trial_id", "trials")
    executions = [run async for run in engines.client.list_workflows(f"WorkflowId = '{trial_id}'")]
    assert len(executions) >= 2
    assert calls == 1_600
    assert len(await stored(engines, run_id, "1", "outcomes")) == 1_600
    assert result["baseline_score"] == pytest.approx(0.31)


# -- the examples -----------------------------------------------------------------------------------------------------------

TICKETS = [
    {"input": {"ticket": "My invoice is wrong"}, "expected": "billing"},
    {"input": {"ticket": "Where is the invoice?"}, "expected": "billing"},
    {"input": {"ticket": "The page is slow"}, "expected": "other"},
]


async def test_the_python_example_answers(engines: Engines, spec: Spec) -> None:
    served = example("activity-target/worker.py")
    allow(ACTIVITY_QUEUES, "tickets")
    async with Worker(engines.client, task_queue="tickets", activities=[served.answer_ticket]):
        result = await engines.run(
            spec(
                configuration={"system_prompt": {"value": "An invoice is billing.", "change": "text"}},
                target={"kind": "activity", "activity": "answerTicket", "task_queue": "tickets"},
                dataset={"items": TICKETS, "splits": "none"},
                scorers=[{"kind": "exact", "name": "label"}],
                objective={"metric": "label"},
                optimizer={"proposer": {"kind": "noop"}},
                budget={"trials": 1},
            )
        )
    assert result["baseline_score"] == 1.0


@pytest.fixture(scope="module")
async def typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TypeScript example, installed from npm and built."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("typescript") / "worker"
    shutil.copytree(EXAMPLES / "activity-target" / "typescript", folder)
    for command in (["install", "--no-audit", "--no-fund", "--no-package-lock"], ["run", "build"]):
        process = await asyncio.create_subprocess_exec(
            npm, *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, f"npm {command[0]}: {output.decode()}"
    return folder / "dist"


async def _awaited_by_the_client(script: Path, spec: dict[str, Any], file: Path, environment: dict[str, str]) -> dict[str, Any]:
    file.write_text(json.dumps(spec), "utf-8")
    client = await asyncio.create_subprocess_exec(
        *("node", str(script), str(file), "from-typescript"), env=environment, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await client.communicate()
    assert client.returncode == 0
    result: dict[str, Any] = json.loads(said)
    return result


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "batch"), [("answerTicket", 1), ("answerTickets", 2)])
async def test_the_typescript_example_answers(
    name: str, batch: int, typescript: Path, engines: Engines, spec: Spec, tmp_path: Path
) -> None:
    """One of the two runs is started, asked, adjusted and awaited by the example's own client."""
    queue = f"typescript-{batch}"
    allow(ACTIVITY_QUEUES, "typescript-*")
    environment = os.environ | {
        "TEMPORAL_ADDRESS": engines.addresses.temporal_address,
        "TEMPORAL_NAMESPACE": engines.addresses.namespace,
        "TASK_QUEUE": queue,
    }
    asked = spec(
        configuration={
            "system_prompt": {"value": "Labels: page, the.", "change": "text"},
            "labels": "billing",
        },
        flags={"shortest_word": 3},
        target={"kind": "activity", "activity": name, "task_queue": queue, "batch": batch, "heartbeat": "20s"},
        dataset={"items": [{**item, "expected": "invoice"} for item in TICKETS], "splits": "none"},
        scorers=[{"kind": "exact", "name": "label"}],
        objective={"metric": "label"},
        optimizer={"name": "refine", "proposer": {"kind": "python", "ref": "plugged:knows_invoices"}},
        stop={"max_rounds": 1},
    )
    process = await asyncio.create_subprocess_exec("node", str(typescript / "worker.js"), env=environment)
    try:
        if batch == 1:
            result = await _awaited_by_the_client(typescript / "client.js", asked, tmp_path / "spec.json", environment)
            assert result["asked"] == result["optimization_id"] == "from-typescript"
        else:
            result = await engines.run(asked)
    finally:
        process.terminate()
        await process.wait()
    assert result["status"] == "completed"
    assert (result["baseline_score"], result["best_score"]) == (0.0, pytest.approx(1 / 3)), "`the` is long enough to be a label"
    assert result["spend"]["tokens"] > 0
