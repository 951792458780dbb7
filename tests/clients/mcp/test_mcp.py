"""`ratchet mcp`, asked by the protocol's own client: what agents may read, and what they may do only when that was allowed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from clients.cli import main
from clients.http.access.security import Trust
from clients.http.access.token import Entrance
from clients.mcp import PATH
from clients.mcp.bounded_answers import DATA, LARGEST_ANSWER, LONGEST_TEXT, MOST_ITEMS, as_data
from clients.mcp.mcp_server import Allowed, HttpPlace, answering_mcp, backend_of, server_of
from clients.own_modules import python_path
from clients.runs.service.servers import Servers
from tests.support.engines import Engines
from tests.support.hill_specs import ENDLESS, hill_spec, split_items
from tests.support.http_api import TOKEN

READING = {"list_runs", "get_run", "get_report", "list_trials", "list_answers", "get_spec_schema", "check_spec"}
STEERING = {"stop_run", "cancel_run", "pause_run", "resume_run", "adjust_run", "propose_configuration"}


@pytest.fixture(scope="session")
async def finished(engines: Engines) -> str:
    await engines.run(hill_spec(name="seen-by-agents", dataset=split_items(), stop={"max_rounds": 2}), run_id="seen-by-agents")
    return "seen-by-agents"


@asynccontextmanager
async def agent(servers: Servers, allowed: Allowed | None = None) -> AsyncIterator[Client]:
    """An agent in this process, over the very server."""
    async with Client(server_of(backend_of(servers), allowed or Allowed())) as client:
        yield client


async def told(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    text: str = answer.content[0].text  # type: ignore[union-attr]
    assert not answer.is_error, text
    return text


async def data(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    first, _, rest = (await told(client, tool, **arguments)).partition("\n")
    assert first == DATA
    found: dict[str, Any] = json.loads(rest)
    return found


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    text: str = answer.content[0].text  # type: ignore[union-attr]
    return text


def bought(cost: float, **parts: Any) -> str:
    """A spec with a budget. The versions of its plug-ins are stated, so that nobody imports them to start it."""
    usual = {
        "target": {"kind": "python", "ref": "plugged:hill", "version": "1", "at_most": {"cost": 0.001}},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height", "version": "1"}],
        "stop": {"max_rounds": 1},
        "budget": {"cost": cost},
    }
    return json.dumps(hill_spec(**{**usual, **parts}))


# -- by the command ---------------------------------------------------------------------------------------------------------


async def test_the_command_serves_over_stdin_and_stdout_and_reads_only(engines: Engines, finished: str, tmp_path: Path) -> None:
    at = engines.addresses
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": python_path(),
        "DATABASE_URL": at.database_url,
        "TEMPORAL_ADDRESS": at.temporal_address,
        "TEMPORAL_NAMESPACE": at.namespace,
        "RATCHET_HOME": str(tmp_path),
    }
    command = StdioServerParameters(command=sys.executable, args=["-P", "-m", "ratchet", "mcp"], env=environment)
    async with Client(command) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == READING
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
        assert (await data(client, "get_run", run_id=finished))["status"] == "completed"


# -- over HTTP --------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def url(servers: Servers) -> AsyncIterator[str]:
    way_in = Entrance(Trust.of("127.0.0.1", TOKEN))
    async with answering_mcp(server_of(backend_of(servers), Allowed()), way_in, HttpPlace("127.0.0.1", 0)) as address:
        yield f"{address.url}{PATH}"


async def test_over_http_whoever_has_the_token_reads(url: str, finished: str) -> None:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        listed = await data(client, "list_runs", search="seen-by-agents")
        assert [run["optimization_id"] for run in listed["items"]] == [finished]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer a-token-that-is-not-ours"}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "rebound.example"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://elsewhere.example"}, 403),
    ],
)
async def test_nobody_else_is_let_in(url: str, headers: dict[str, str], status: int) -> None:
    """No token, another one, a name that a browser was sent by, a page of another site."""
    async with httpx2.AsyncClient() as http:
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        accept = {"Accept": "application/json, text/event-stream"}
        answer = await http.post(url, json=listing, headers={**accept, **headers})
    assert answer.status_code == status
    assert "list_runs" not in answer.text


# -- reading ----------------------------------------------------------------------------------------------------------------


async def test_an_agent_reads_a_run_its_report_its_trials_and_answers(servers: Servers, finished: str) -> None:
    async with agent(servers) as client:
        run = await data(client, "get_run", run_id=finished, with_spec=True)
        assert run["headline"]["words"] and run["spec"]["name"] == "seen-by-agents"
        report = await told(client, "get_report", run_id=finished)
        assert report.startswith(DATA) and run["headline"]["words"][:20] in report
        trials = (await data(client, "list_trials", run_id=finished, limit=5))["items"]
        answers = await data(client, "list_answers", run_id=finished, candidate_id=trials[-1]["candidate_id"], limit=2)
        assert len(answers["items"]) == 2
        assert "no run 'nobody-knows-it'; list_runs lists" in await refused(client, "get_report", run_id="nobody-knows-it")
        assert "; list_trials lists" in await refused(client, "list_answers", run_id=finished, candidate_id="none-of-it")
        assert "limit" in await refused(client, "list_runs", limit=5000)


async def test_an_agent_reads_the_schema_part_by_part_and_checks_a_spec(servers: Servers, engines: Engines) -> None:
    async with agent(servers) as client:
        schema = json.loads(await told(client, "get_spec_schema"))
        assert "budget" in schema["properties"] and "ChatTarget" in schema["parts"]
        assert "cost" in json.loads(await told(client, "get_spec_schema", part="Budget"))["properties"]
        assert "there is no part" in await refused(client, "get_spec_schema", part="Bugdet")
        checked = await data(client, "check_spec", spec=bought(1.0, name="checked-by-an-agent"))
        assert await data(client, "check_spec", spec=json.loads(bought(1.0, name="checked-by-an-agent"))) == checked
        assert (checked["ok"], checked["ran_before"]) == (True, False)
        at_a_file = await data(client, "check_spec", spec=bought(1.0, dataset={"path": "tickets.jsonl"}))
        assert (at_a_file["unseen"], "run_id" in at_a_file) == (["dataset.path"], False)
        wrong = bought(1.0, scorers=[{"kind": "exact"}])
        assert "objective" in await refused(client, "check_spec", spec=wrong)
        assert "line 2" in await refused(client, "check_spec", spec="name: x\n  y: [")


def test_answers_are_bounded() -> None:
    plain = as_data({"text": "x" * 10_000, "list": list(range(1000)), "escape": "\x1b[31m"})
    assert len(plain) < LONGEST_TEXT + 2_000
    assert f"… and {1000 - MOST_ITEMS} more" in plain and "\x1b" not in plain
    with pytest.raises(Exception, match=f"at most {LARGEST_ANSWER:,} are given; ask for less at once"):
        as_data({f"n{n}": "x" * LONGEST_TEXT for n in range(50)})


# -- steering and starting --------------------------------------------------------------------------------------------------


async def test_an_agent_that_may_steer_steers_and_spends_nothing_without_a_budget(servers: Servers, engines: Engines) -> None:
    endless = {"stop": {**ENDLESS, "max_rounds": 100_000}, "optimizer": {"proposer": {"kind": "noop"}}}
    free = await engines.start(hill_spec(name="steered", **endless), run_id="steered-by-an-agent")
    bounded = await engines.start(hill_spec(name="bounded", **endless, budget={"cost": 5}), run_id="bounded-by-cost")
    async with agent(servers, Allowed(steering=True)) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == READING | STEERING
        assert not any("budget" in tool.input_schema["properties"] for tool in tools)
        await data(client, "pause_run", run_id=free.id)
        await data(client, "adjust_run", run_id=free.id, concurrent_samples=2)
        for tool, arguments in (
            ("adjust_run", {"max_rounds": 90_000}),
            ("propose_configuration", {"configuration": {"x": 700}}),
        ):
            why = await refused(client, tool, run_id=free.id, **arguments)
            assert "budget.cost: steered-by-an-agent has none" in why
            await data(client, tool, run_id=bounded.id, **arguments)
        assert "factor 'y' is unknown" in await refused(
            client, "propose_configuration", run_id=bounded.id, configuration={"y": 1}
        )
        await data(client, "resume_run", run_id=free.id)
        for run in (free, bounded):
            await data(client, "stop_run", run_id=run.id, reason="seen enough")
    for run in (free, bounded):
        assert (await run.result())["message"] == "Stopped early: seen enough"
    async with agent(servers, Allowed(steering=True)) as client:
        assert "nothing can be asked of it" in await refused(client, "pause_run", run_id=free.id)


async def test_runs_that_an_agent_starts_share_what_was_allowed(servers: Servers, engines: Engines) -> None:
    async with agent(servers, Allowed(start_budget=2.0)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == READING | {"start_run"}
        started = await data(client, "start_run", spec=bought(1.5, name="started-by-an-agent"))
        assert (started["created"], started["left_of_the_allowed_cost"]) == (True, 0.5)
        again = await data(client, "start_run", spec=bought(0.4, name="again"))
        assert again["left_of_the_allowed_cost"] == pytest.approx(0.1)
        why = await refused(client, "start_run", spec=bought(0.4, name="once-too-often"))
        assert "budget.cost: is 0.4; runs that are started here may cost 0.1 in all from now on" in why
    for run in (started, again):
        assert (await engines.client.get_workflow_handle(run["optimization_id"]).result())["status"] == "completed"


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"budget": {}}, "budget.cost: is not set"),
        ({"budget": {"samples": 10}}, "budget.cost: is not set"),
        ({"budget": {"cost": 2.5}}, "budget.cost: is 2.5; runs that are started here may cost 2 in all"),
        ({"release": {"prompt": "a/b", "mode": "automatic"}}, "release.mode: is automatic"),
        ({"target": {"kind": "python", "ref": "plugged:hill"}}, "target.at_most: say what one call of the python target costs"),
        (
            {
                "configuration": {"p": {"value": "x {{input}}", "change": "text"}, "model": "m"},
                "target": {"kind": "chat", "messages": [{"role": "user", "content": "{{factors.p}}"}]},
                "prices": {"m": {"input": 0, "output": 0}},
            },
            "prices: 'm' costs nothing by its price, so no budget bounds it",
        ),
    ],
)
async def test_a_spec_that_nothing_bounds_or_that_releases_by_itself_is_not_started(
    parts: dict[str, Any], why: str, servers: Servers
) -> None:
    async with agent(servers, Allowed(start_budget=2.0)) as client:
        assert why in await refused(client, "start_run", spec=bought(1.0, **parts))


# -- what the command takes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--allow-start"], "--allow-start: needs --budget COST"),
        (["--budget", "5"], "--budget: is for runs that agents start; add --allow-start"),
        (["--http", "--host", "0.0.0.0"], "RATCHET_SERVE_TOKEN"),
    ],
)
def test_what_would_be_open_to_everybody_or_without_a_limit_is_refused(
    options: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RATCHET_SERVE_TOKEN", raising=False)
    assert main(["mcp", "--home", str(tmp_path), *options]) == 2
    assert why in capsys.readouterr().err
