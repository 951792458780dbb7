"""Agents that book rooms over several turns, the model that they ask, the house that they book in, and what is counted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from aiohttp import web

from clients.embedded.stack import StackAddresses
from tests.support.http_endpoints import Asked, json_endpoint
from tests.support.scripted_models import script_in, turn_of

HINT = {"value": 0, "change": "structured", "type": "integer", "min": 0, "max": 9}
PAY = {"kind": "python", "ref": "booking:pay", "effects": True}


class BookingHouse:
    """A model that calls tools and says its hint in the end, and the tools. It counts what it is asked for."""

    def __init__(self, turns: int, seconds: float) -> None:
        self.turns = turns
        self.seconds = seconds
        self.origin = ""
        self.asked = Counter[tuple[str, ...]]()
        """The model, by configuration, sample and turn."""
        self.looked = Counter[tuple[str, ...]]()
        """The tool without effects, likewise."""
        self.booked = Counter[str]()
        """The tool with effects, by its key."""

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Those that are called over HTTP."""
        book = {"kind": "http", "name": "book", "url": f"{self.origin}/book", "effects": True, "takes_key": True}
        return [{"kind": "http", "name": "look", "url": f"{self.origin}/look", "method": "GET"}, book]

    async def answer(self, asked: Asked) -> web.StreamResponse:
        if asked.path.startswith("/v1/"):
            return await self._turn(asked)
        by = asked.headers["X-Ratchet-Candidate"], asked.headers["X-Ratchet-Sample"], asked.path
        if asked.path == "/book":
            self.booked[asked.headers["Idempotency-Key"]] += 1
        else:
            self.looked[by] += 1
        await asyncio.sleep(self.seconds)
        return web.json_response({"called": asked.path})

    async def _turn(self, asked: Asked) -> web.StreamResponse:
        hint, (sample, *tools) = asked.body["messages"][0]["content"], script_in(asked.body)
        turn = turn_of(asked.body)
        self.asked[hint, sample, str(turn)] += 1
        await asyncio.sleep(self.seconds)
        message: dict[str, Any] = {"role": "assistant", "content": hint}
        if turn < self.turns - 1:
            name, arguments = tools[turn % len(tools)]
            function = {"name": name, "arguments": json.dumps({**arguments, **({"turn": turn} if name == "look" else {})})}
            message = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}
        usage = {"prompt_tokens": 10 + turn, "completion_tokens": 5, "total_tokens": 15 + turn}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    async def in_flight(self, stack: StackAddresses, run_id: str) -> tuple[int, int]:
        """How many turns that the model was asked for, and how many calls of tools, the store does not have."""
        connection = await asyncpg.connect(stack.database_url)
        try:
            answers, turns, calls = [
                await connection.fetchval(f"SELECT count(*) FROM {table} WHERE run_id = $1 {only}", run_id)
                for table, only in (("answers", ""), ("turns", ""), ("tool_calls", "AND result IS NOT NULL"))
            ]
        finally:
            await connection.close()
        called = len(self.looked) + len(self.booked)
        return len(self.asked) - turns - answers * self.turns, called - calls - answers * (self.turns - 1)


def repeated(counted: Counter[Any]) -> int:
    """How often something was asked for that had been asked for before."""
    return counted.total() - len(counted)


@asynccontextmanager
async def booking_house(turns: int, seconds: float) -> AsyncIterator[BookingHouse]:
    house = BookingHouse(turns, seconds)
    async with json_endpoint(house.answer) as endpoint:
        house.origin = endpoint.origin
        yield house


def booking_spec(house: BookingHouse, samples: int, tools: list[dict[str, Any]] | None = None, **parts: Any) -> dict[str, Any]:
    """A run that looks for the hint that samples want, with agents that call tools in turn."""
    messages = [{"role": "system", "content": "{{factors.hint}}"}, {"role": "user", "content": "{{input.script}}"}]
    called = [["look", {}], ["book", {"room": 3}]] if tools is None else [["pay", {"amount": 5}]]
    items = [{"id": f"s{n}", "input": {"script": [f"s{n}", *called]}, "expected": 2 + n % 3} for n in range(samples)]
    described = [{**tool, "description": "Does it.", "parameters": {"type": "object"}} for tool in tools or house.tools]
    return {
        "name": "booking",
        "configuration": {"hint": HINT, "model": "booker"},
        "target": {"kind": "agent", "messages": messages, "tools": described, "base_url": f"{house.origin}/v1"},
        "dataset": {"items": items, "splits": "none"},
        "scorers": [{"kind": "numeric", "name": "near", "zero_at": 9}, {"kind": "steps", "at_most": house.turns}],
        "objective": {"metric": "near"},
        "optimizer": {"proposer": {"kind": "step"}},
        "prices": {"booker": {"input": 1, "output": 2}},
        "seed": 3,
        **parts,
    }
