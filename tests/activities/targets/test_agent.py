"""Agents: turns and tools against real endpoints, what is kept of them, and what is never done twice."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvicorn
from aiohttp import web
from mcp.server.mcpserver import MCPServer
from pydantic import ValidationError

from activities.settings import HTTP_URLS, MCP_SERVERS
from ratchet import Sample
from ratchet._text.explanation import explain
from store.write.answers.turns import AnswerKey
from tests.support import evaluation_plugins
from tests.support.activity_attempts import activity_environment
from tests.support.allowed import allow
from tests.support.http_endpoints import Asked, Endpoint, json_endpoint
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.scripted_models import SCRIPT, results_in, scripted, turn_of
from tests.support.spec_building import request
from tests.support.suite_building import RUN_ID, plugin, suite
from workflows.model.spec.scorers.matches import ContainsScorer
from workflows.model.spec.targets.agent import AgentTarget
from workflows.model.suite import Outcome
from workflows.model.trial import ShardResult

pytestmark = pytest.mark.usefixtures("measured_runs")

LOOK_UP: dict[str, Any] = {
    "kind": "python",
    "ref": plugin("look_up"),
    "description": "Finds {{factors.what}}.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string", "description": "{{factors.what}}, one word"}}},
}
BOOK = {"kind": "python", "ref": plugin("book"), "effects": True}
FACTORS = {"model": "m", "what": "words", "temperature": 0.5}
TWICE = [[["look_up", {"word": "a"}]], [["look_up", {"word": "b", "times": 2}]], "results"]


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    evaluation_plugins.calls.clear()


def agent(endpoint: Endpoint, **more: Any) -> AgentTarget:
    given = {"kind": "agent", "messages": [SCRIPT], "tools": [LOOK_UP, BOOK], "base_url": f"{endpoint.origin}/v1"}
    return AgentTarget.model_validate({**given, **more})


def run_for(target: AgentTarget, script: list[Any], factors: dict[str, Any] | None = None) -> MeasuredRun:
    scorers = [ContainsScorer(kind="contains", values=[])]
    return MeasuredRun(suite(target, scorers=scorers), [Sample("s0", {"script": script})], {**FACTORS, **(factors or {})})


async def evaluated(run: MeasuredRun, environment: Mapping[str, str] | None = None, **attempt: Any) -> ShardResult:
    async with evaluation(run, environment=environment) as evaluating:
        return await activity_environment(**attempt).run(evaluating.evaluate_shard, run.shard(1))


async def answered(run: MeasuredRun, environment: Mapping[str, str] | None = None) -> Outcome:
    await evaluated(run, environment)
    return (await run.by_sample())["s0"]


async def outcome_of(script: list[Any], answering: Callable[[Asked], web.Response] = scripted, **more: Any) -> Outcome:
    factors = more.pop("factors", None)
    async with json_endpoint(answering) as endpoint:
        return await answered(run_for(agent(endpoint, **more), script, factors))


def key_of(run: MeasuredRun) -> AnswerKey:
    return AnswerKey(run.config_hash, "target", RUN_ID, "item-s0", 0)


def turn_with(tool: str, arguments: dict[str, Any], latency_ms: float = 1.0) -> dict[str, Any]:
    """A turn as it is kept."""
    calls = [{"tool": tool, "arguments": arguments}]
    return {"said": None, "calls": calls, "latency_ms": latency_ms, "finish_reason": "tool_calls"}


class TestConversations:
    async def test_a_model_calls_tools_until_it_answers(self) -> None:
        async with json_endpoint(scripted) as endpoint:
            outcome = await answered(run_for(agent(endpoint), TWICE))
        assert (outcome.status, outcome.tokens) == ("answered", 45)
        assert outcome.output == '{"for":"s0","found":"A"} {"for":"s0","found":"BB"}'
        first, second, third = (asked.body for asked in endpoint.asked)
        [told, _] = first["tools"]
        assert told["function"]["description"] == "Finds words."
        assert told["function"]["parameters"]["properties"]["word"]["description"] == "words, one word"
        assert first["temperature"] == 0.5
        assert second["messages"][1]["tool_calls"][0]["function"] == {"name": "look_up", "arguments": '{"word":"a"}'}
        assert second["messages"][2]["tool_call_id"] == second["messages"][1]["tool_calls"][0]["id"]
        assert results_in(third) == ['{"for":"s0","found":"A"}', '{"for":"s0","found":"BB"}']

    async def test_the_trace_keeps_every_turn_and_the_store_no_other_copy(self) -> None:
        async with json_endpoint(scripted) as endpoint:
            run = run_for(agent(endpoint), TWICE)
            outcome = await answered(run)
        turns = outcome.trace["turns"]
        assert outcome.trace["ended"] == "answered"
        assert [call["arguments"]["word"] for turn in turns for call in turn["calls"]] == ["a", "b"]
        assert turns[0]["calls"][0]["result"] == {"found": "A", "for": "s0"}
        took = [turn["latency_ms"] for turn in turns] + [call["latency_ms"] for turn in turns for call in turn["calls"]]
        assert outcome.latency_ms == pytest.approx(sum(took))
        assert (await run.count("turns"), await run.count("tool_calls")) == (0, 0)

    async def test_a_factor_tools_describes_the_tools_that_it_names(self) -> None:
        told = [{"type": "function", "function": {"name": "look_up", "description": "Says it otherwise."}}]
        async with json_endpoint(scripted) as endpoint:
            await answered(run_for(agent(endpoint), ["hello"], {"tools": told}))
        functions = [tool["function"] for tool in endpoint.asked[0].body["tools"]]
        assert [function["description"] for function in functions] == ["Says it otherwise.", ""]
        stranger = [{"type": "function", "function": {"name": "other"}}]
        outcome = await outcome_of(["hello"], factors={"tools": stranger})
        assert (outcome.error_class, outcome.tokens) == ("placeholder", 0)
        assert "describes 'other'" in (outcome.error or "")

    @pytest.mark.parametrize(
        ("call", "told"),
        [
            (["look_up", {"word": "nothing"}], "error: raised KeyError"),
            (["look_up", {"wrong": 1}], "error: raised TypeError"),
            (["look_up", ["a"]], "error: the arguments are no JSON object"),
            (["no_such_tool", {}], "error: there is no tool 'no_such_tool'; there are look_up, book"),
        ],
    )
    async def test_what_a_tool_refuses_the_model_is_told(self, call: list[Any], told: str) -> None:
        outcome = await outcome_of([[call], "results"])
        assert outcome.status == "answered"
        assert str(outcome.output).startswith(told)

    async def test_a_model_that_says_nothing_fails_its_sample_which_has_cost_what_it_took(self) -> None:
        outcome = await outcome_of([[["look_up", {"word": "a"}]], ""])
        assert (outcome.status, outcome.error_class, outcome.tokens) == ("failed", "empty answer", 30)
        assert len(outcome.trace["turns"]) == 1


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "kind", "tokens", "calls"),
        [
            ({"turns": 2}, "limit: turns", 30, 1),
            ({"tool_calls": 1}, "limit: tool_calls", 30, 1),
            ({"tokens": 20}, "limit: tokens", 30, 1),
        ],
    )
    async def test_a_conversation_that_reaches_one_ends_by_its_name(
        self, limits: dict[str, Any], kind: str, tokens: int, calls: int
    ) -> None:
        outcome = await outcome_of(TWICE, limits=limits)
        assert (outcome.status, outcome.error_class, outcome.tokens) == ("failed", kind, tokens)
        assert (len(evaluation_plugins.calls), outcome.trace["ended"]) == (calls, kind)

    async def test_models_and_tools_may_only_take_so_long_together(self) -> None:
        async with json_endpoint(scripted) as endpoint:
            run = run_for(agent(endpoint, limits={"time": "5s"}), TWICE)
            await run.open()
            await run.store.turns.keep(key_of(run), 0, turn_with("look_up", {"word": "a"}, latency_ms=6_000.0), 15, 0.0)
            await run.store.turns.keep_result(key_of(run), 0, 0, {"result": "A", "latency_ms": 1.0})
            outcome = await answered(run)
        assert (outcome.error_class, outcome.tokens, endpoint.asked) == ("limit: time", 15, [])
        assert outcome.latency_ms == 6_001.0

    async def test_what_was_said_last_may_count_as_the_answer(self) -> None:
        outcome = await outcome_of(TWICE, limits={"turns": 2}, at_limit="answer")
        assert (outcome.status, outcome.output, outcome.trace["ended"]) == ("answered", "", "limit: turns")

    async def test_a_long_result_is_cut(self) -> None:
        script = [[["look_up", {"word": "a", "times": 500}]], "results"]
        outcome = await outcome_of(script, longest_result=100)
        assert len(str(outcome.output)) <= 100


class TestWhatIsKept:
    def _breaking_at(self, turn: int, broken: list[bool]) -> Callable[[Asked], web.Response]:
        def answer(asked: Asked) -> web.Response:
            return web.Response(status=500) if broken and turn_of(asked.body) == turn else scripted(asked)

        return answer

    async def test_a_conversation_goes_on_where_it_was(self) -> None:
        broken = [True]
        async with json_endpoint(self._breaking_at(2, broken)) as endpoint:
            run = run_for(agent(endpoint), TWICE)
            assert (await evaluated(run)).missing == 1
            assert (await run.count("turns"), await run.count("tool_calls")) == (2, 2)
            broken.clear()
            before = len(endpoint.asked)
            outcome = await answered(run)
        assert len(endpoint.asked) == before + 1
        assert evaluation_plugins.calls == ["look_up a", "look_up b"]
        assert (outcome.output, outcome.tokens) == ('{"for":"s0","found":"A"} {"for":"s0","found":"BB"}', 45)
        assert await run.count("turns") == 0

    async def test_a_call_with_effects_that_was_begun_is_never_made_again(self) -> None:
        outcome = await self._after_a_kill_while_booking({})
        assert (outcome.status, outcome.error_class) == ("failed", "effect unknown")
        assert "tool book was being called when its worker was lost" in (outcome.error or "")
        assert evaluation_plugins.calls == []

    async def test_a_tool_that_takes_a_key_is_called_again_with_the_same_one(self) -> None:
        assert (await self._after_a_kill_while_booking({"takes_key": True})).status == "answered"
        first = evaluation_plugins.calls.pop()
        assert (await self._after_a_kill_while_booking({"takes_key": True})).status == "answered"
        assert evaluation_plugins.calls == [first]
        assert len(first.split()[-1]) == 32

    async def _after_a_kill_while_booking(self, more: dict[str, Any]) -> Outcome:
        """A worker noted that it was about to book, and never said more."""
        script = [[["book", {"room": "blue"}]], "results"]
        async with json_endpoint(scripted) as endpoint:
            target = agent(endpoint, tools=[{**BOOK, **more}])
            run = run_for(target, script)
            await run.open()
            await run.store.turns.keep(key_of(run), 0, turn_with("book", {"room": "blue"}), 15, 0.0)
            assert await run.store.turns.begin_call(key_of(run), 0, 0, "the one that was killed")
            outcome = await answered(run)
        assert outcome.tokens == (30 if outcome.status == "answered" else 15)
        return outcome


class TestUsers:
    async def test_a_scripted_user_says_his_words_and_leaves(self) -> None:
        script = ["hello", [["look_up", {"word": "a"}]], "found", "bye"]
        async with json_endpoint(scripted) as endpoint:
            target = agent(endpoint, user={"kind": "scripted", "says": ["And?", "Thanks."]})
            outcome = await answered(run_for(target, script))
        assert (outcome.output, outcome.trace["ended"]) == ("bye", "answered")
        last = endpoint.asked[-1].body["messages"]
        said = [(message["role"], message["content"]) for message in last[1:] if message["role"] in ("user", "assistant")]
        words = [
            ("assistant", "hello"),
            ("user", "And?"),
            ("assistant", None),
            ("assistant", "found"),
            ("user", "Thanks."),
        ]
        assert said == words
        assert [turn.get("user") for turn in outcome.trace["turns"]] == [None, "And?", None, None, "Thanks.", None]

    def _played(self, asked: Asked) -> web.Response:
        if asked.body["model"] != "customer":
            return scripted(asked)
        says = "[end]" if "Assistant: two" in asked.body["messages"][1]["content"] else "And b?"
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
        message = {"role": "assistant", "content": says}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    async def test_a_model_plays_a_user_with_a_seed_of_his_own_until_he_has_what_he_wants(self) -> None:
        user = {"kind": "model", "model": "customer", "goal": "a and b", "persona": "Hasty.", "seed": 5}
        async with json_endpoint(self._played) as endpoint:
            outcome = await answered(run_for(agent(endpoint, user=user), ["one", "two", "never"]))
        customers = [asked.body for asked in endpoint.asked if asked.body["model"] == "customer"]
        assert (outcome.output, outcome.tokens, len(customers)) == ("two", 2 * 15 + 2 * 101, 2)
        assert [turn.get("user") for turn in outcome.trace["turns"]] == [None, "And b?", None, ""]
        assert "What you want: a and b" in customers[0]["messages"][0]["content"]
        assert customers[1]["messages"][1]["content"].split("\n\n")[1:3] == ["Assistant: one", "You: And b?"]
        assert len({body["seed"] for body in customers}) == 2
        async with json_endpoint(self._played) as again:
            await answered(run_for(agent(again, user=user), ["one", "two", "never"], {"what": "other"}))
        seeds = [asked.body["seed"] for asked in again.asked if asked.body["model"] == "customer"]
        assert seeds == [body["seed"] for body in customers], "another candidate has the same user"

    async def test_a_user_who_has_more_to_say_when_a_limit_is_reached_ends_by_it(self) -> None:
        outcome = await outcome_of(["a", "b"], user={"kind": "scripted", "says": ["x"]}, limits={"turns": 1})
        assert outcome.error_class == "limit: turns"


class TestPythonTools:
    async def test_one_that_kills_its_process_runs_in_processes_of_its_own(self) -> None:
        tools = [{"kind": "python", "ref": plugin("dies"), "pool": "process", "processes": 1}]
        outcome = await outcome_of([[["dies", {"word": "a"}]], "results"], tools=tools)
        assert outcome.output == "error: tool killed its process (exit code 3)"

    async def test_after_lost_attempts_a_process_of_its_own_answers_call_after_call_until_one_kills_it(self) -> None:
        tools = [{"kind": "python", "ref": plugin("pid_of"), "name": "where"}]
        calls = [["where", {"word": word}] for word in ("a", "b", "die", "c")]
        async with json_endpoint(scripted) as endpoint:
            run = run_for(agent(endpoint, tools=tools), [calls, "results"])
            await evaluated(run, attempt=3)
            told = (await run.by_sample())["s0"].output
        first, second, *killed, third = told.split()
        assert first == second and first not in (third, str(os.getpid()))
        assert " ".join(killed) == "error: tool killed its process (exit code 3)"


class TestHttpTools:
    def _shop(self, asked: Asked) -> web.Response:
        if asked.path.startswith("/v1"):
            return scripted(asked)
        if asked.path == "/broken":
            return web.json_response({"why": "no such order"}, status=404)
        told = {"key": asked.headers.get("Idempotency-Key"), "sample": asked.headers["X-Ratchet-Sample"]}
        return web.json_response({"result": {"path": asked.path, "body": asked.body, **told}})

    async def test_an_endpoint_gets_the_arguments_and_its_key(self) -> None:
        async with json_endpoint(self._shop) as endpoint:
            tools = [
                {"kind": "http", "name": "order", "url": f"{endpoint.origin}/order", "effects": True, "takes_key": True},
                {"kind": "http", "name": "find", "url": f"{endpoint.origin}/find", "method": "GET", "output": "result.path"},
                {"kind": "http", "name": "broken", "url": f"{endpoint.origin}/broken"},
            ]
            script = [[["order", {"n": 2}], ["find", {"id": "a b", "n": 1}], ["broken", {}]], "results"]
            run = run_for(agent(endpoint, tools=tools), script)
            await evaluated(run)
        [turn, _] = (await run.by_sample())["s0"].trace["turns"]
        order, find, broken = turn["calls"]
        assert order["result"]["result"]["body"] == {"n": 2}
        assert len(order["result"]["result"]["key"]) == 32
        assert order["result"]["result"]["sample"] == "s0"
        assert find["result"] == "/find?id=a+b&n=1"
        assert "no such order" in broken["error"]

    async def test_an_origin_that_no_list_names_is_not_called(self) -> None:
        async with json_endpoint(self._shop, allowed=False) as endpoint:
            tools = [{"kind": "http", "name": "order", "url": f"{endpoint.origin}/order"}]
            run = run_for(agent(endpoint, tools=tools), [[["order", {}]], "results"])
            with pytest.raises(Exception, match=HTTP_URLS):
                await evaluated(run)
        assert [asked.path for asked in endpoint.asked] == ["/v1/chat/completions"]

    async def test_an_effect_of_which_nobody_heard_is_never_repeated(self) -> None:
        async def hangs_up(request: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
            booked.append(await request.readline())
            answer.close()

        booked: list[bytes] = []
        async with await asyncio.start_server(hangs_up, "127.0.0.1", 0) as shop, json_endpoint(scripted) as endpoint:
            origin = f"http://127.0.0.1:{shop.sockets[0].getsockname()[1]}"
            allow(HTTP_URLS, origin)
            tools = [{"kind": "http", "name": "order", "url": f"{origin}/order", "effects": True}]
            outcome = await answered(run_for(agent(endpoint, tools=tools), [[["order", {}]], "results"]))
        assert (outcome.status, outcome.error_class, len(booked)) == ("failed", "effect unknown", 1)


SERVER = '''
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("shop")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def price(of: str) -> str:
    """Says what something costs."""
    if of == "nothing":
        raise ToolError("no such thing")
    return f"{of} costs {len(of)}"


@server.tool()
def buy(what: str) -> str:
    """Buys something."""
    return f"bought {what}"
'''


@asynccontextmanager
async def mcp_over_http() -> AsyncIterator[str]:
    found: dict[str, Any] = {}
    exec(SERVER, found)
    server: MCPServer[Any] = found["server"]
    serving = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), port=0, log_level="error"))
    task = asyncio.create_task(serving.serve())
    while not serving.started:
        await asyncio.sleep(0.01)
    port = serving.servers[0].sockets[0].getsockname()[1]
    allow(HTTP_URLS, f"http://127.0.0.1:{port}")
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        serving.should_exit = True
        await task


class TestMcpTools:
    SCRIPT: ClassVar[list[Any]] = [
        [["price", {"of": "tea"}], ["price", {"of": "nothing"}], ["buy", {"what": "tea"}]],
        "results",
    ]

    async def _bought(self, tools: dict[str, Any], environment: Mapping[str, str]) -> None:
        more = {"descriptions": {"price": "Costs of {{factors.what}}."}}
        async with json_endpoint(scripted) as endpoint:
            run = run_for(agent(endpoint, tools=[{"kind": "mcp", **tools, **more}]), self.SCRIPT)
            outcome = await answered(run, environment)
        functions = [tool["function"] for tool in endpoint.asked[0].body["tools"]]
        assert [(one["name"], one["description"]) for one in functions] == [
            ("price", "Costs of words."),
            ("buy", "Buys something."),
        ]
        assert functions[1]["parameters"]["required"] == ["what"]
        told = [call.get("error") or call["result"] for call in outcome.trace["turns"][0]["calls"]]
        assert "tea costs 3" in json.dumps(told[0])
        assert "no such thing" in told[1]
        assert "bought tea" in json.dumps(told[2])

    async def test_a_server_over_http(self) -> None:
        async with mcp_over_http() as url:
            await self._bought({"url": url}, {})

    async def test_a_server_over_stdio_is_started_by_the_operators_command(self, tmp_path: Path) -> None:
        program = tmp_path / "shop.py"
        program.write_text(f"{SERVER}\nserver.run()\n")
        commands = {MCP_SERVERS: json.dumps({"shop": [sys.executable, str(program)]})}
        await self._bought({"server": "shop"}, commands)
        with pytest.raises(Exception, match=f"no MCP server 'shop'.*{MCP_SERVERS}"):
            await self._bought({"server": "shop"}, {})


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([LOOK_UP, LOOK_UP], "target: two tools are named 'look_up'; give each a name of its own"),
        ([{**LOOK_UP, "takes_key": True}], "target.tools[0]: takes_key belongs to effects: true"),
        ([{"kind": "mcp"}], "target.tools[0]: needs a server, which RATCHET_MCP_SERVERS of the worker has, or a url"),
        ([{"kind": "http", "name": "x", "url": "http://a/{{input.b}}"}], "target.tools[0].url: has a placeholder"),
        ([{**LOOK_UP, "parameters": "no"}], "target.tools[0].parameters: is no JSON Schema of an object"),
    ],
)
def test_what_is_wrong_with_tools_is_told_with_its_field(tools: list[Any], problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        request(target={"kind": "agent", "messages": [{"role": "user", "content": "x"}], "tools": tools})
    [told] = explain(refused.value)
    assert told.startswith(problem)


def test_no_candidate_chooses_its_user() -> None:
    user = {"kind": "model", "model": "m", "goal": "{{factors.prompt}}"}
    with pytest.raises(ValidationError, match="no candidate chooses its user"):
        request(target={"kind": "agent", "messages": [{"role": "user", "content": "x"}], "user": user})
