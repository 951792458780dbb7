"""From a run's winner to what production renders, through the prompt's one writer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import Payloads, TimeSkippingConfig, WorkflowType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from activities.settings import Settings
from clients.embedded.stack import embedded_stack
from clients.temporal import connect
from ratchet._formats.canonical import canonical_json
from ratchet.prompts import open_store
from store.connection import Database
from tests.support.allowed import OPERATOR
from tests.support.engines import PLUGINS, Engines
from tests.support.release_runs import CONFIGURATION, Prompt, tried_prompt
from worker import serving
from workflows.model.spec.release import release_workflow_id

Spec = Callable[..., dict[str, Any]]
ITEMS = {"items": [{"id": f"s{n}", "input": n} for n in range(12)], "splits": {"validation": 0.5, "test": 0.5}}


@pytest.fixture
async def prompt(engines: Engines, spec: Spec) -> AsyncIterator[Prompt]:
    async with tried_prompt(engines, spec()) as prompt:
        yield prompt


async def refusal(work: Any) -> str:
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await work
    assert isinstance(refused.value.cause, ApplicationError)
    return refused.value.cause.message


async def test_the_first_release_makes_the_baseline_version_1_0_0_and_the_candidate_the_next(prompt: Prompt) -> None:
    state = await prompt.ask(await prompt.tried(x=700), reason="it climbs higher")
    assert (state.status, state.version, state.base_version, state.change_class) == ("released", "1.0.1", None, "patch")
    assert state.changes == {"param:x": "the value of a parameter"}
    now = await prompt.stable()
    assert now.configuration["param:x"] == 700
    assert (now.state.version, now.state.parent) == ("1.0.1", "1.0.0")
    assert (now.state.change.by, now.state.change.why) == ("ann", "it climbs higher")
    first = await prompt.prompts.resolve(prompt.name, tag="1.0.0")
    assert first.configuration["param:x"] == 10


async def test_what_was_tried_is_what_is_shipped_to_the_byte(prompt: Prompt) -> None:
    await prompt.released(x=700, system="Climb  high.\n\n\tDo not fall – ever.\n")
    shipped = (await prompt.stable()).configuration
    tried = {**prompt.baseline, "x": 700, "system": "Climb  high.\n\n\tDo not fall – ever.\n"}
    parts = {"system": "section:system", **{name: f"param:{name}" for name in tried if name != "system"}}
    assert canonical_json(shipped) == canonical_json({parts[name]: value for name, value in tried.items()})


async def test_a_candidate_of_a_base_that_has_moved_changes_nothing(prompt: Prompt) -> None:
    await prompt.released(x=700)
    late = await prompt.ask(await prompt.tried(x=600))
    assert late.status == "stale_base"
    assert "is not what this was compared with: it is 1.0.1" in late.message
    assert (await prompt.stable()).configuration["param:x"] == 700
    assert [state.version for state in await prompt.prompts.versions(prompt.name)] == ["1.0.0", "1.0.1"]


async def test_of_fifty_concurrent_promotes_of_one_base_one_wins(prompt: Prompt) -> None:
    tried = [await prompt.tried(x=x) for x in range(100, 150)]
    states = await asyncio.gather(*(prompt.ask(config_hash) for config_hash in tried))
    winners = [state for state in states if state.status == "released"]
    assert len(winners) == 1
    assert {state.status for state in states if state is not winners[0]} == {"stale_base"}
    assert (await prompt.stable()).hash == winners[0].overlay_hash
    assert len(await prompt.prompts.history(prompt.name, "stable")) == 2  # the base, and the winner
    assert len(await prompt.log()) == 50


async def test_asking_twice_under_one_id_releases_once(prompt: Prompt) -> None:
    config_hash = await prompt.tried(x=700)
    one, other = await asyncio.gather(*(prompt.ask(config_hash, release_id="the-same") for _ in range(2)))
    again = await prompt.ask(config_hash, release_id="the-same")
    assert one == other == again
    assert len(await prompt.prompts.history(prompt.name, "stable")) == 2


async def test_what_is_out_already_is_not_released_again(prompt: Prompt) -> None:
    await prompt.released(x=700)
    again = await prompt.ask(await prompt.tried(x=700))
    assert (again.status, again.message) == ("unchanged", f"stable of {prompt.name} points to exactly this already")


async def test_a_canary_leaves_stable_where_it_is_and_is_promoted_under_its_number(prompt: Prompt) -> None:
    await prompt.released(x=700)
    run = {**prompt.baseline, "x": 700}
    prompt.baseline = run
    canary = await prompt.ask(await of_a_later_run(prompt, order=["c", "a", "b"]), kind="canary")
    assert (canary.status, canary.tag, canary.version, canary.change_class) == ("released", "canary", "1.1.0", "minor")
    assert (await prompt.stable()).state.version == "1.0.1"
    promoted = await prompt.ask(from_tag="canary")
    assert (promoted.status, promoted.tag, promoted.version) == ("released", "stable", "1.1.0")
    assert (await prompt.stable()).hash == (await prompt.stable("canary")).hash


async def of_a_later_run(prompt: Prompt, **values: Any) -> str:
    """A candidate of a run whose baseline is what is stable now."""
    async with prompt.engines.database.connection() as connection:
        for factor, value in prompt.baseline.items():
            await connection.execute(
                "UPDATE runs SET spec = jsonb_set(spec, $2, $3::jsonb) WHERE run_id = $1",
                prompt.run_id,
                ["configuration", factor, "value"],
                canonical_json(value),
            )
    return await prompt.tried(**values)


async def test_a_canary_whose_base_has_moved_is_not_promoted(prompt: Prompt) -> None:
    await prompt.ask(await prompt.tried(x=300), kind="canary")
    await prompt.released(x=700)
    promoted = await prompt.ask(from_tag="canary")
    assert promoted.status == "stale_base"
    assert (await prompt.stable()).configuration["param:x"] == 700


async def test_only_what_was_released_as_a_canary_is_promoted_from_one(prompt: Prompt) -> None:
    assert "has no tag 'canary'" in await refusal(prompt.ask(from_tag="canary"))
    await prompt.released(x=700)
    await prompt.prompts.copy_tag(prompt.name, source="stable", tag="canary", expected=None)
    assert "nobody knows what it was compared with" in await refusal(prompt.ask(from_tag="canary"))


async def test_a_rollback_is_a_step_of_its_own_and_no_number_comes_twice(prompt: Prompt) -> None:
    await prompt.released(x=700)
    back = await prompt.ask(kind="rollback", reason="it fell")
    assert (back.status, back.version, back.base_version) == ("released", "1.0.0", "1.0.1")
    assert (await prompt.stable()).configuration["param:x"] == 10
    other = await prompt.released(x=650)
    assert other.version == "1.0.2"
    forward = await prompt.ask(kind="rollback", version="1.0.1")
    assert (forward.status, (await prompt.stable()).configuration["param:x"]) == ("released", 700)
    assert [(state.kind, state.version) for state in await prompt.log()] == [
        ("promote", "1.0.1"),
        ("rollback", "1.0.0"),
        ("promote", "1.0.2"),
        ("rollback", "1.0.1"),
    ]


async def test_a_rollback_to_nowhere_is_refused(prompt: Prompt) -> None:
    assert "has no tag 'stable'" in await refusal(prompt.ask(kind="rollback"))
    await prompt.released(x=700)
    assert "has no version 3.0.0; it has 1.0.0, 1.0.1" in await refusal(prompt.ask(kind="rollback", version="3.0.0"))
    assert "is no version" in await refusal(prompt.ask(kind="rollback", version="canary"))


async def test_content_that_comes_back_keeps_its_number(prompt: Prompt) -> None:
    await prompt.released(x=700)
    await prompt.ask(kind="rollback")
    again = await prompt.released(x=700)
    assert again.version == "1.0.1"


async def test_an_approval_releases_and_says_who(prompt: Prompt) -> None:
    asked = await prompt.ask(await prompt.tried(x=700), approval=True)
    assert asked.status == "pending"
    waiting = await prompt.engines.client.get_workflow_handle(release_workflow_id(prompt.name)).query("pending")
    assert [state["release_id"] for state in waiting["releases"]] == [asked.release_id]
    done = await prompt.rule("approve", asked.release_id, comment="looks right")
    assert (done.status, done.version, done.decided_by, done.comment) == ("released", "1.0.1", "bea", "looks right")
    assert done.decided_through == "", "over Temporal a name is what its sender says"
    assert (await prompt.stable()).state.change.by == "bea"


async def test_a_rejection_moves_nothing(prompt: Prompt) -> None:
    asked = await prompt.ask(await prompt.tried(x=700), approval=True)
    done = await prompt.rule("reject", asked.release_id, comment="too steep")
    assert (done.status, done.message) == ("rejected", "rejected by bea: too steep")
    assert await prompt.prompts.names() == [] or prompt.name not in await prompt.prompts.names()
    assert f"release {asked.release_id} is rejected already" in await refusal(prompt.rule("approve", asked.release_id))


async def test_only_the_named_approvers_approve(prompt: Prompt) -> None:
    asked = await prompt.ask(await prompt.tried(x=700), approval=True, approvers=["carla"])
    assert "'bea' may not approve this release; one of carla may" in await refusal(prompt.rule("approve", asked.release_id))
    assert (await prompt.rule("approve", asked.release_id, by="carla")).status == "released"


async def test_an_approval_of_a_base_that_has_moved_meanwhile_changes_nothing(prompt: Prompt) -> None:
    asked = await prompt.ask(await prompt.tried(x=600), approval=True)
    await prompt.released(x=700)
    late = await prompt.rule("approve", asked.release_id)
    assert (late.status, late.decided_by) == ("stale_base", "bea")
    assert (await prompt.stable()).configuration["param:x"] == 700


async def test_nobody_is_asked_to_approve_what_cannot_be_released(prompt: Prompt) -> None:
    await prompt.released(x=700)
    assert (await prompt.ask(await prompt.tried(x=600), approval=True)).status == "stale_base"


async def test_what_waits_outlives_a_terminated_writer(prompt: Prompt) -> None:
    asked = await prompt.ask(await prompt.tried(x=700), approval=True)
    await prompt.engines.client.get_workflow_handle(release_workflow_id(prompt.name)).terminate()
    assert (await prompt.rule("approve", asked.release_id)).status == "released"


async def test_an_accepted_release_that_was_cut_off_is_carried_out_by_the_next_writer(prompt: Prompt) -> None:
    asked = await prompt.ask(await prompt.tried(x=700), approval=True)
    await prompt.engines.client.get_workflow_handle(release_workflow_id(prompt.name)).terminate()
    async with prompt.engines.database.connection() as connection:
        await connection.execute(
            "UPDATE releases SET status = 'accepted', decided_by = 'bea' WHERE release_id = $1", asked.release_id
        )
    await prompt.ask(await prompt.tried(x=600))
    [first, second] = await prompt.log()
    assert (first.status, second.status) == ("released", "stale_base")


async def test_the_audit_log_cannot_be_rewritten(prompt: Prompt) -> None:
    state = await prompt.released(x=700)
    async with prompt.engines.database.connection() as connection:
        for statement in ("UPDATE releases SET decided_by = 'nobody'", "DELETE FROM releases"):
            with pytest.raises(asyncpg.RaiseError, match="append-only"):
                await connection.execute(f"{statement} WHERE release_id = $1", state.release_id)


async def test_a_writer_has_the_id_of_its_prompt(engines: Engines) -> None:
    handle = await engines.client.start_workflow(
        "ReleaseWorkflow", {"prompt": "tests/one"}, id="release/tests/other", task_queue="optimization"
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert "has the workflow id 'release/tests/one'" in failed.value.cause.message


async def test_frozen_parts_do_not_change_by_a_release(prompt: Prompt) -> None:
    assert "parameter 'unit': \"mile\" is not one of" in await refusal(prompt.ask(await prompt.tried(unit="mile")))
    assert prompt.name not in await prompt.prompts.names()
    assert await prompt.log() == []


class TestTheRunsOwnRelease:
    """The closing phase of a run asks for it, and the result says what happened and why."""

    async def test_a_confirmed_winner_is_released_by_itself(self, engines: Engines, spec: Spec) -> None:
        result = await self.run(engines, spec, "tests/automatic", mode="automatic")
        release = result["release"]
        assert (release["status"], release["version"]) == ("released", "1.0.1")
        async with await open_store("postgres", database_url=engines.addresses.database_url) as prompts:
            now = await prompts.resolve("tests/automatic", tag="stable")
        assert now.configuration["param:x"] == result["best_configuration"]["x"]
        confirmation = now.state.change.evidence["confirmation"]
        assert isinstance(confirmation, dict)
        assert confirmation["winner_score"] == result["confirmation"]["winner_score"]
        assert await self.told(engines, result) == ["released"]

    async def test_a_regression_on_the_test_split_is_not_released_by_itself(self, engines: Engines, spec: Spec) -> None:
        result = await self.run(
            engines,
            spec,
            "tests/regression",
            mode="automatic",
            target={"kind": "python", "ref": "plugged:hill_of_the_searched"},
        )
        assert result["unproven"]["score"] > result["baseline_score"] == result["best_score"]
        assert result["release"]["status"] == "not_asked"
        assert "the confirmation shows a regression" in result["release"]["message"]

    async def test_a_run_that_asks_for_approval_ends_at_once(self, engines: Engines, spec: Spec) -> None:
        result = await self.run(engines, spec, "tests/approval", mode="approval")
        assert (result["status"], result["release"]["status"]) == ("completed", "pending")
        assert f"for `ratchet approve {result['optimization_id']}`" in result["release"]["message"]
        assert await self.told(engines, result) == ["pending"]

    async def test_a_canary_run_moves_the_canary(self, engines: Engines, spec: Spec) -> None:
        result = await self.run(engines, spec, "tests/canary", mode="automatic", canary=True)
        assert (result["release"]["status"], result["release"]["tag"]) == ("released", "canary")
        async with await open_store("postgres", database_url=engines.addresses.database_url) as prompts:
            assert (await prompts.resolve("tests/canary", tag="stable")).state.version == "1.0.0"

    async def test_of_two_runs_on_one_baseline_the_second_is_stale(self, engines: Engines, spec: Spec, tmp_path: Path) -> None:
        gated = CONFIGURATION | {"gate": str(tmp_path / "gate")}
        target = {"kind": "python", "ref": "plugged:waits_for_a_file"}
        begun = [
            self.run(engines, spec, "tests/twice", mode="automatic", seed=seed, configuration=gated, target=target)
            for seed in (7, 8)
        ]
        running = [asyncio.create_task(run) for run in begun]
        async with asyncio.timeout(30):
            while await self.measuring(engines) < 2:
                await asyncio.sleep(0.05)
        (tmp_path / "gate").touch()
        results = await asyncio.gather(*running)
        assert [result["status"] for result in results] == ["completed", "completed"]
        assert {result["release"]["status"] for result in results} == {"released", "stale_base"}

    async def measuring(self, engines: Engines) -> int:
        async with engines.database.connection() as connection:
            return int(
                await connection.fetchval(
                    "SELECT count(*) FROM runs WHERE status = 'running' AND spec #>> '{release,prompt}' = 'tests/twice'"
                )
            )

    async def test_a_run_that_begins_elsewhere_than_its_tag_is_refused_before_it_costs_anything(
        self, engines: Engines, spec: Spec
    ) -> None:
        await self.run(engines, spec, "tests/elsewhere", mode="automatic")
        with pytest.raises(WorkflowFailureError) as failed:
            await self.run(engines, spec, "tests/elsewhere", mode="approval")
        assert isinstance(failed.value.cause, ApplicationError)
        assert "stable of tests/elsewhere is 1.0.1, and not what this run begins with" in failed.value.cause.message

    async def test_a_winner_that_is_the_baseline_is_nothing_to_release(self, engines: Engines, spec: Spec) -> None:
        top = {**CONFIGURATION, "x": {**CONFIGURATION["x"], "value": 700}}
        result = await self.run(engines, spec, "tests/top", mode="automatic", configuration=top)
        assert result["release"]["message"] == "nothing was better than the baseline"

    async def run(
        self, engines: Engines, spec: Spec, prompt: str, *, mode: str, canary: bool = False, **parts: Any
    ) -> dict[str, Any]:
        release = {"prompt": prompt, "mode": mode, "canary": canary}
        given = {"configuration": CONFIGURATION, "dataset": ITEMS, "stop": {"max_rounds": 12, "no_improvement": 0}, **parts}
        return await engines.run(spec(name="releasing", release=release, **given))

    async def told(self, engines: Engines, result: dict[str, Any]) -> list[str]:
        """What the run's events say of its release."""
        async with engines.database.connection() as connection:
            rows = await connection.fetch(
                "SELECT payload->>'status' AS status FROM events WHERE run_id = $1 AND type = 'release_changed' ORDER BY id",
                result["optimization_id"],
            )
        return [row["status"] for row in rows if row["status"] != "accepted"]


async def test_reminders_and_deadlines_are_durable_timers(spec: Spec, tmp_path: Path) -> None:
    """On a server that skips time: nobody approves for a week."""
    async with embedded_stack(tmp_path / "stack", ui=False, time_skipping=True) as stack, AsyncExitStack() as exits:
        client = await connect(stack.temporal_address)
        settings = Settings(stack.database_url, operator=OPERATOR, plugins="plugged", plugin_path=PLUGINS)
        await exits.enter_async_context(serving(client, settings))
        database = await Database.open(stack.database_url)
        exits.push_async_callback(database.close)
        prompt = await exits.enter_async_context(tried_prompt(Engines(stack, client, database), spec()))
        asked = await prompt.ask(await prompt.tried(x=700), approval=True, deadline=timedelta(days=7), remind=timedelta(days=1))
        writer = client.get_workflow_handle(release_workflow_id(prompt.name))
        await writer.terminate()
        await client.workflow_service.start_workflow_execution(
            StartWorkflowExecutionRequest(
                namespace=stack.namespace,
                workflow_id=writer.id,
                workflow_type=WorkflowType(name="ReleaseWorkflow"),
                task_queue=TaskQueue(name="optimization"),
                input=Payloads(payloads=await client.data_converter.encode([{"prompt": prompt.name}])),
                time_skipping_config=TimeSkippingConfig(enabled=True),
            )
        )
        log: dict[str, Any] = await writer.result()
        assert [state["status"] for state in log["releases"]] == ["expired"]
        assert "nobody approved it in time" in log["releases"][0]["message"]
        async with database.connection() as connection:
            rows = await connection.fetch(
                "SELECT type, payload->>'status' AS status FROM events WHERE run_id = $1"
                " AND type IN ('release_changed', 'approval_due') ORDER BY id",
                prompt.run_id,
            )
        assert [tuple(row) for row in rows] == [
            ("release_changed", "pending"),
            ("approval_due", "pending"),
            ("release_changed", "expired"),
        ]
        [state] = await prompt.log()
        assert state.decided_at is not None and state.deadline_at is not None
        assert timedelta(days=7) <= state.decided_at - state.asked_at < timedelta(days=7, minutes=1)
        assert f"release {asked.release_id} is expired already" in await refusal(prompt.rule("approve", asked.release_id))


async def test_a_long_history_goes_on_as_a_new_one(prompt: Prompt) -> None:
    client = prompt.engines.client
    writer = await client.start_workflow(
        "ReleaseWorkflow",
        {"prompt": prompt.name, "releases_per_execution": 2},
        id=release_workflow_id(prompt.name),
        task_queue="optimization",
    )
    waiting = await prompt.ask(await prompt.tried(x=500), approval=True)
    for x in (100, 200, 300, 400):
        await prompt.ask(await prompt.tried(x=x), approval=True)
    executions = [found async for found in client.list_workflows(f"WorkflowId = '{writer.id}'")]
    async with asyncio.timeout(20):
        while len(executions) < 3:
            await asyncio.sleep(0.05)
            executions = [found async for found in client.list_workflows(f"WorkflowId = '{writer.id}'")]
    assert (await prompt.rule("approve", waiting.release_id)).status == "released"
