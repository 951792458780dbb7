"""Malformed signals, updates and queries must not hurt a running run: they are refused or dropped, and the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from temporalio.client import WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.service import RPCError

from tests.support.hostile_harness import LONGEST, Arena, Handle, as_json, gated, measuring, raw, spec

BINARY: Final = raw(b"\x00\xff", "binary/plain")
UNKNOWN: Final = raw("a: b", "text/yaml")
BROKEN: Final = raw('{"max_rounds": ')
NULL: Final = raw(b"", "binary/null")


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


UPDATES: Final[dict[str, tuple[str, tuple[Any, ...], str]]] = {
    "adjust-nothing": ("adjust", (as_json({}),), "changes nothing"),
    "adjust-without-argument": ("adjust", (), "adjustment"),
    "adjust-with-two": ("adjust", (as_json({"max_rounds": 5}), as_json(1)), "positional argument"),
    "adjust-null": ("adjust", (as_json(None),), "mapping"),
    "adjust-a-list": ("adjust", (as_json([]),), "mapping"),
    "adjust-binary": ("adjust", (BINARY,), "binary/plain"),
    "adjust-a-null-payload": ("adjust", (NULL,), "binary/null"),
    "adjust-yaml": ("adjust", (UNKNOWN,), "text/yaml"),
    "adjust-broken": ("adjust", (BROKEN,), "JSON"),
    "adjust-an-unknown-field": ("adjust", (as_json({"max_round": 5}),), "max_round: is not a known field"),
    "adjust-the-wrong-type": ("adjust", (as_json({"max_rounds": "many"}),), "max_rounds: must be a whole number"),
    "adjust-nan": ("adjust", (as_json({"score": float("nan")}),), "score: must be a finite number"),
    "adjust-negative": ("adjust", (as_json({"budget": {"cost": -1}}),), "budget.cost: must be at least 0"),
    "adjust-out-of-range": ("adjust", (as_json({"concurrent_trials": 10**30}),), "concurrent_trials"),
    "adjust-the-same-key-twice": ("adjust", (raw('{"max_rounds": 5, "max_rounds": 6}'),), "twice"),
    "pause-with-yaml": ("pause", (UNKNOWN,), "text/yaml"),
    "propose-nothing": ("propose", (), "proposal"),
    "propose-null": ("propose", (as_json(None),), "mapping"),
    "propose-binary": ("propose", (BINARY,), "binary/plain"),
    "propose-no-configuration": ("propose", (as_json({}),), "configuration: is missing"),
    "propose-a-misspelt-field": ("propose", (as_json({"configuration": {"x": 5}, "reason": "it"}),), "reason"),
    "propose-an-unknown-factor": ("propose", (as_json({"configuration": {"z": 5}}),), "unknown_factor"),
    "propose-out-of-range": ("propose", (as_json({"configuration": {"x": 10**9}}),), "out_of_range"),
    "propose-nan": ("propose", (as_json({"configuration": {"x": float("nan")}}),), "nan"),
    "propose-a-surrogate": ("propose", (as_json({"configuration": {"x": "\ud83d"}}),), "surrogate"),
    "propose-150-levels": ("propose", (as_json({"configuration": {"x": nested(150)}}),), "levels"),
    "propose-endless-digits": ("propose", (as_json({"configuration": {"x": 10**400}}),), "308 digits"),
    "propose-a-rationale-of-1.9-mb": (
        "propose",
        (as_json({"configuration": {"x": 50}, "rationale": "x" * 1_900_000}),),
        "rationale",
    ),
    "propose-a-rationale-with-nul": ("propose", (as_json({"configuration": {"x": 50}, "rationale": "\x00"}),), "NUL"),
    "an-unknown-update": ("explode", (as_json(1),), "explode"),
}

SIGNALS: Final[dict[str, tuple[str, tuple[Any, ...]]]] = {
    "an-unknown-signal": ("explode", (as_json(1),)),
    "an-unknown-binary-signal": ("explode", (BINARY,)),
    "stop-broken": ("stop_early", (BROKEN,)),
    "stop-yaml": ("stop_early", (UNKNOWN,)),
}

QUERIES: Final[dict[str, tuple[str, tuple[Any, ...]]]] = {
    "an-unknown-query": ("explode", ()),
    "progress-with-yaml": ("progress", (UNKNOWN,)),
    "history-with-yaml": ("history", (UNKNOWN,)),
}


@pytest_asyncio.fixture(scope="module")
async def running(arena: Arena, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Handle]:
    """One run that all of this is sent to, and that must end as if nothing had been."""
    gate = tmp_path_factory.mktemp("gate") / "open"
    handle = await arena.start([as_json(gated(gate, stop={"max_rounds": 3, "no_improvement": 0}))], "hostile-messages")
    await measuring(handle)
    yield handle
    gate.touch()
    result = await arena.finish(handle)
    assert (result["status"], result["stop_reason"]) == ("completed", "max_rounds")
    assert result["counts"]["completed"] == 4
    assert result["counts"]["rejected"] == 0


async def is_well(handle: Handle) -> None:
    shown = await handle.query("progress")
    assert (shown["status"], shown["phase"]) == ("running", "measuring the baseline")


@pytest.mark.parametrize("name", UPDATES)
async def test_a_malformed_update_is_refused_with_its_reason(name: str, running: Handle) -> None:
    update, arguments, said = UPDATES[name]
    async with asyncio.timeout(LONGEST):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await running.execute_update(update, args=arguments)
        await is_well(running)
    assert said in str(refused.value.cause)
    assert len(str(refused.value.cause)) < 10_000


@pytest.mark.parametrize("name", SIGNALS)
async def test_a_signal_that_cannot_be_read_is_dropped(name: str, running: Handle) -> None:
    signal, arguments = SIGNALS[name]
    async with asyncio.timeout(LONGEST):
        await running.signal(signal, args=arguments)
        await is_well(running)


@pytest.mark.parametrize("name", QUERIES)
async def test_a_malformed_query_is_answered_with_an_error(name: str, running: Handle) -> None:
    query, arguments = QUERIES[name]
    async with asyncio.timeout(LONGEST):
        with pytest.raises((WorkflowQueryFailedError, RPCError)):
            await running.query(query, args=arguments)
        await is_well(running)


async def test_what_takes_no_argument_ignores_one(running: Handle) -> None:
    for argument in (as_json({"x": 1}), BINARY):
        assert (await running.query("progress", args=[argument]))["status"] == "running"
    await is_well(running)


STOPS: Final[dict[str, tuple[tuple[Any, ...], str]]] = {
    "with-two-reasons": ((as_json("enough"), as_json("really")), "Stopped early: enough"),
    "with-a-number": ((as_json(42),), "Stopped early"),
    "with-an-object": ((as_json({"reason": "enough"}),), "Stopped early"),
    "with-null": ((as_json(None),), "Stopped early"),
    "with-a-null-payload": ((NULL,), "Stopped early"),
    "with-1.9-mb": ((as_json("x" * 1_900_000),), "Stopped early: xxx"),
    "with-a-hostile-text": ((as_json("a | b <img src=x onerror=alert(1)>\n\x00{{factors.x}}"),), "Stopped early: a | b <img"),
}


@pytest.mark.parametrize("name", STOPS)
async def test_who_wants_a_run_to_stop_is_understood(name: str, arena: Arena, tmp_path: Path) -> None:
    arguments, said = STOPS[name]
    gate = tmp_path / "open"
    handle = await arena.start([as_json(gated(gate, stop={"max_rounds": 1000, "no_improvement": 0}))], f"hostile-stop-{name}")
    await measuring(handle)
    await handle.signal("stop_early", args=arguments)
    gate.touch()
    result = await arena.finish(handle)
    assert result["stop_reason"] == "stopped_early"
    assert result["message"].startswith(said)
    assert len(result["message"]) < 300


def proposal(number: int) -> dict[str, Any]:
    return {"configuration": {"text": f"{number} " + "x" * 100_000}}


async def test_a_flood_of_proposals_is_refused_before_it_is_too_much_to_carry(arena: Arena, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    configuration = {"gate": str(gate), "text": {"value": "a", "change": "text", "max_length": 200_000}, "x": 10}
    proposer = {"kind": "python", "ref": "misbehaving:proposes_nothing"}
    sent = spec(
        configuration=configuration,
        target={"kind": "python", "ref": "plugged:waits_for_a_file"},
        execution={"sample_timeout": "60s", "max_rounds_per_execution": 1},
        optimizer={"name": "refine", "proposer": proposer},
    )
    handle = await arena.start([as_json(sent)], "hostile-flood")
    async with asyncio.timeout(LONGEST):
        await measuring(handle)
        for number in range(2):
            await handle.execute_update("propose", proposal(number))
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("propose", proposal(2))
    gate.touch()
    result = await arena.finish(handle)
    assert "2 proposals are waiting already" in str(refused.value.cause)
    assert result["counts"]["completed"] == 1 + 2
