"""Temporal programs of others start, steer, ask and await runs; what scores and proposes may be their own activities."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from openai import AsyncOpenAI
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, RegisterNamespaceRequest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Worker

from activities.settings import ACTIVITY_QUEUES, MODEL_URLS
from clients.demo import SimulatedModel
from clients.demo.models import REFLECTOR, TRIAGE_SMALL
from ratchet.temporal import (
    TASK_QUEUE,
    Adjustment,
    Optimization,
    OptimizationResult,
    Pending,
    Progress,
    RatchetPlugin,
)
from tests.support.allowed import allow
from tests.support.documents import ROOT, blocks
from tests.support.engines import Engines
from tests.support.example_modules import EXAMPLES
from tests.support.hill_specs import ENDLESS, hill_spec
from tests.support.replaying import nothing_differs
from tests.support.temporal_programs import AsksWithoutThePlugin, Refused
from workflows.search_attributes import SEARCH_ATTRIBUTES

DOCUMENT = ROOT / "docs" / "temporal-programs.md"


@pytest.fixture
async def program(engines: Engines) -> Client:
    """A client of a stranger's program: one line is Ratchet's."""
    at = engines.addresses
    return await Client.connect(at.temporal_address, namespace=at.namespace, plugins=[RatchetPlugin()])


@pytest.fixture
def shown_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A module of the example, by a name that the workflow sandbox finds it by, too."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "temporal"))
    return importlib.import_module


async def test_a_workflow_starts_a_run_as_its_child_steers_it_and_reads_its_result(
    engines: Engines, program: Client, shown_module: Callable[[str], ModuleType]
) -> None:
    """The example. Target, scorer and proposer are activities of the program."""
    shown = shown_module("program")
    allow(ACTIVITY_QUEUES, shown.QUEUE)
    activities = [shown.answer_ticket, shown.grade_label, shown.rewrite_prompt]
    async with Worker(program, task_queue=shown.QUEUE, workflows=[shown.PromptImprovement], activities=activities):
        workflow = shown.PromptImprovement.run
        told = await program.execute_workflow(workflow, shown.SPEC, id="improve-triage", task_queue=shown.QUEUE)
    assert told["run"] == "improve-triage-run"
    assert told["best"] == 1.0
    assert told["why"] == "Stopped early: every ticket is sorted right"
    await nothing_differs(engines.database, told["run"])
    async with engines.database.connection() as connection:
        stored = await connection.fetchrow(
            "SELECT (SELECT count(*) FROM candidates WHERE run_id = $1 AND rationale = 'what support told us') AS proposed,"
            " (SELECT count(*) FROM candidates WHERE run_id = $1 AND rationale LIKE 'it did not know%') AS rewritten",
            told["run"],
        )
    assert stored is not None
    assert stored["proposed"] == 1 and stored["rewritten"] >= 1


async def test_an_agent_that_is_durable_itself_is_optimized(program: Client, shown_module: Callable[[str], ModuleType]) -> None:
    """The example. Each sample of each trial has one workflow of the agent, whatever happens to its activity."""
    shown = shown_module("durable_agent")
    allow(ACTIVITY_QUEUES, shown.QUEUE)
    activities = [shown.answer_with_agent, shown.look_into_stock, shown.guess]
    async with Worker(program, task_queue=shown.QUEUE, workflows=[shown.StockAgent], activities=activities):
        result = await program.execute_workflow(Optimization.run, shown.SPEC, id="durable-agent", task_queue=TASK_QUEUE)
        again = {"context": {"id": "called-twice"}, "sample": {"id": "s", "input": {"item": "lamp"}, "replicate": 0}}
        call = {**again, "configuration": {"tool": "stock"}}
        told = [await ActivityEnvironment(client=program).run(shown.answer_with_agent, call) for _ in range(2)]
    assert (result.status, result.best_configuration["tool"], result.best_score) == ("completed", "stock", 1.0)
    assert told == [{"value": "yes", "trace": {"agent": "agent/called-twice/s/0"}}] * 2
    agents = [one.id async for one in program.list_workflows("WorkflowType = 'StockAgent'")]
    assert len(agents) == len(set(agents)) == result.spend.samples + 1


async def test_the_recipe_improves_the_prompt_of_an_activity(
    engines: Engines, program: Client, server: SimulatedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example in the style of Temporal's cookbook, whose model is simulated here."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "cookbook"))
    monkeypatch.setenv("TICKET_MODEL", TRIAGE_SMALL)
    recipe, does, decides = map(importlib.import_module, ("ticket_spec", "ticket_activities", "ticket_workflows"))
    allow(ACTIVITY_QUEUES, recipe.TICKET_QUEUE)
    allow(MODEL_URLS, server.base_url)
    proposer = {"kind": "model", "model": REFLECTOR, "base_url": server.base_url, "parameters": {"seed": 7}}
    spec = {**recipe.SPEC, "optimizer": {"name": "refine", "proposer": proposer}}
    tickets = does.TicketActivities(AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0))
    workflows, activities = [decides.LabelTicket, decides.ImprovePrompt], [tickets.label_ticket, tickets.label_sample]
    async with Worker(program, task_queue=recipe.TICKET_QUEUE, workflows=workflows, activities=activities):
        found = await program.execute_workflow(
            decides.ImprovePrompt.run, spec, id="improve-ticket-prompt", task_queue=recipe.TICKET_QUEUE
        )
        shown = recipe.TICKETS[0]
        ticket = does.Ticket(shown["input"]["ticket"], found["prompt"], TRIAGE_SMALL)
        labelled = await program.execute_workflow(
            decides.LabelTicket.run, ticket, id="label-ticket", task_queue=recipe.TICKET_QUEUE
        )
    assert found["prompt"] != recipe.PROMPT and found["after"] > found["before"]
    assert labelled in {one["expected"] for one in recipe.TICKETS}
    errors: list[tuple[dict[str, Any], Any]] = [
        ({"status": 401}, (True, None)),
        ({"status": 429, "retry_after": "3"}, (False, timedelta(seconds=3))),
    ]
    for error, (is_final, pause) in errors:
        server.reset()
        server.simulate(error)
        with pytest.raises(ApplicationError) as raised:
            await ActivityEnvironment(client=program).run(tickets.label_ticket, ticket)
        assert (raised.value.non_retryable, raised.value.next_retry_delay) == (is_final, pause)


async def test_a_client_starts_asks_steers_and_awaits_a_run(program: Client) -> None:
    spec = hill_spec(name="by-a-client", stop=ENDLESS, optimizer={"proposer": {"kind": "noop"}})
    handle = await program.start_workflow(Optimization.run, spec, id="by-a-client", task_queue=TASK_QUEUE)
    paused = await handle.execute_update(Optimization.pause)
    assert "pausing" in paused.message
    await handle.execute_update(Optimization.propose, Pending(configuration={"x": 700}, rationale="a guess"))
    await handle.execute_update(Optimization.adjust, Adjustment(max_rounds=50))
    await handle.execute_update(Optimization.resume)
    async with asyncio.timeout(30):
        while (progress := await handle.query(Optimization.progress)).counts.completed < 3:
            await asyncio.sleep(0.05)
    assert isinstance(progress, Progress)
    trials, rounds = await handle.query(Optimization.trials), await handle.query(Optimization.history)
    assert trials.total >= 2 and rounds.total >= 1
    assert (await handle.query(Optimization.graph)).total >= 2
    assert (await handle.query(Optimization.rejections)).total == 0
    with pytest.raises(WorkflowUpdateFailedError):
        await handle.execute_update(Optimization.propose, Pending(configuration={"y": 1}))
    await handle.signal(Optimization.stop_early, "seen enough")
    result = await program.get_workflow_handle_for(Optimization.run, "by-a-client").result()
    assert isinstance(result, OptimizationResult)
    assert (result.status, result.message, result.best_configuration["x"]) == ("completed", "Stopped early: seen enough", 700)


async def test_the_client_that_the_document_shows_has_its_guess_tried(program: Client) -> None:
    [code] = [block.text for block in blocks(DOCUMENT.read_text(encoding="utf-8")) if "def with_a_guess" in block.text]
    shown: dict[str, Any] = {}
    exec(compile(code, str(DOCUMENT), "exec"), shown)
    spec = hill_spec(name="shown", stop=ENDLESS, optimizer={"proposer": {"kind": "noop"}})
    result = await shown["with_a_guess"](program, spec, {"x": 700})
    assert isinstance(result, OptimizationResult)
    assert (result.status, result.best_configuration["x"]) == ("completed", 700)


async def test_what_a_run_refuses_a_workflow_is_told(program: Client) -> None:
    queue = "refused-program"
    async with Worker(program, task_queue=queue, workflows=[Refused]):
        told = await program.execute_workflow(Refused.run, hill_spec(stop=ENDLESS), id=queue, task_queue=queue)
    assert told["type"] == "InvalidRequest"
    assert "'y' is no factor" in told["message"] or "y" in told["message"]
    assert "not found" in told["unknown"]


async def test_the_interface_works_in_a_sandbox_that_passes_nothing_through(engines: Engines) -> None:
    """A program without the plug-in, whose converter reads models, starts a run and reads its result."""
    at = engines.addresses
    client = await Client.connect(at.temporal_address, namespace=at.namespace, data_converter=pydantic_data_converter)
    queue = "without-the-plugin"
    # The SDK takes a workflow that imports for longer than two seconds to be stuck, unless it debugs.
    async with Worker(client, task_queue=queue, workflows=[AsksWithoutThePlugin], debug_mode=True):
        best = await client.execute_workflow(AsksWithoutThePlugin.run, hill_spec(), id=queue, task_queue=queue)
    assert best["x"] > 10


@pytest.mark.parametrize("registers", [True, False])
async def test_search_attributes_are_registered_when_a_worker_starts_unless_that_is_not_wanted(
    registers: bool, engines: Engines
) -> None:
    name = f"programs-{registers}".lower()
    week = Duration(seconds=7 * 24 * 3600)
    await engines.client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=week)
    )
    plugin = RatchetPlugin(search_attributes=registers)
    client = await Client.connect(engines.addresses.temporal_address, namespace=name, plugins=[plugin])

    async def known() -> bool:
        listing = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=name))
        return {key.name for key in SEARCH_ATTRIBUTES} <= set(listing.custom_attributes)

    await _found(client)
    assert not await known()
    async with Worker(client, task_queue="programs", workflows=[Refused]):
        async with asyncio.timeout(30):
            while registers and not await known():
                await asyncio.sleep(0.05)
    assert await known() is registers


async def _found(client: Client) -> None:
    """A server takes a while until all of it has heard of a namespace."""
    describing = DescribeNamespaceRequest(namespace=client.namespace)
    async with asyncio.timeout(30):
        while True:
            try:
                await client.workflow_service.describe_namespace(describing)
                await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=client.namespace))
                return
            except RPCError:
                await asyncio.sleep(0.1)


async def test_a_plugin_that_is_given_twice_serves_once(program: Client) -> None:
    with pytest.warns(UserWarning, match="RatchetPlugin"):
        Worker(program, task_queue="twice", workflows=[Refused], plugins=[RatchetPlugin()])
