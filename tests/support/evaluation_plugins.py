"""Plug-ins as people write them, good and bad, for the tests of evaluation."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ratchet import (
    CandidateProposal,
    ExperimentContext,
    OptimizerState,
    Output,
    Record,
    RunContext,
    Sample,
    Score,
    StopFacts,
    TrialFacts,
    TrialHistory,
    TryAgain,
    current_experiment,
)

calls: list[str] = []
in_flight = 0
most_in_flight = 0
release = threading.Event()
NOT_CALLABLE = "text"


def echo(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    calls.append(sample.id)
    return str(sample.input["word"])


async def echo_async(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    calls.append(sample.id)
    return str(sample.input["word"])


def chatty(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    """Prints what it does, a key among it, then as much as the sample says."""
    print(f"asking {sample.id} with {os.environ.get('SHOP_API_KEY')}", "x" * int(sample.input.get("more", 0)))
    print("noted", file=sys.stderr)
    if sample.input.get("raises"):
        raise ValueError("no such ticket")
    return str(sample.input["word"])


async def chatty_async(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    await asyncio.sleep(0)
    return chatty(configuration, sample, context)


def chatty_score(output: Output, sample: Sample) -> float:
    print(f"scoring {sample.id}")
    return 1.0


async def patient(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    """Takes as long as the sample says, and counts how many of it run at once."""
    global in_flight, most_in_flight
    calls.append(sample.id)
    in_flight += 1
    most_in_flight = max(most_in_flight, in_flight)
    try:
        await asyncio.sleep(sample.input.get("seconds", 0.0))
    finally:
        in_flight -= 1
    return str(sample.input["word"])


_served = 0


def in_a_pool(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    """Does what its sample says, and tells which process did it, and how much that has done."""
    global _served
    _served += 1
    match sample.input["does"]:
        case "answer":
            return str(sample.input["word"])
        case "spin":
            while True:
                pass
        case "die":
            os._exit(3)
        case "raise":
            raise ValueError("no")
        case "huge":
            return "x" * 2_000_000
        case "mine":
            threading.Timer(0.1, os._exit, [9]).start()
        case float(seconds):
            time.sleep(seconds)
    return {"pid": os.getpid(), "served": _served}


def impatient(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    """Asks to try again as often as the sample says, in the words that it says, and then answers."""
    calls.append(sample.id)
    if calls.count(sample.id) <= sample.input["busy"]:
        raise TryAgain("the shop is busy", **sample.input.get("told", {}))
    return str(sample.input["word"])


async def impatient_async(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    return impatient(configuration, sample, context)


def everything(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    value = {
        "configuration": dict(configuration),
        "seed": context.seed,
        "overlay": context.overrides_tag,
        "tags": list(sample.tags),
    }
    used = context.overrides_tag
    return Output(value, tokens=12, cached_tokens=5, cost=0.25, ttft_ms=3.0, trace={"steps": 2}, overlay_hash=used)


def _tool() -> ExperimentContext | None:
    """Deep within a target, where nobody passes the context along."""
    return current_experiment()


def tells_its_experiment(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    return _told(context, _tool())


async def tells_its_experiment_async(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    first = _tool()
    await asyncio.sleep(0.01)
    return _told(context, first, _tool(), await asyncio.to_thread(_tool), await asyncio.create_task(_awaited_tool()))


def returns_an_awaitable(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    return tells_its_experiment_async(configuration, sample, context)


async def _awaited_tool() -> ExperimentContext | None:
    return _tool()


def _told(context: ExperimentContext, *seen: ExperimentContext | None) -> dict[str, Any]:
    return {"given": asdict(context), "seen": [None if one is None else asdict(one) for one in seen]}


def tells_its_prompt(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    return str(configuration["prompt"])


def fine(output: Output, sample: Sample) -> float:
    return 1.0


def is_in_production(output: Output, sample: Sample) -> bool:
    return current_experiment() is None


def misbehaving(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    match sample.input["how"]:
        case "raise":
            raise ValueError("no such ticket")
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "cancel":
            raise asyncio.CancelledError
        case "nothing":
            return None
        case "class":
            return Output
        case "nan":
            return Output("x", cost=math.nan)
        case "nan inside":
            return {"score": math.inf}
        case "negative tokens":
            return Output("x", tokens=-1)
        case "set":
            return {"labels": {"a"}}
        case "other overlay":
            return Output("x", overlay_hash="0" * 64)
        case "huge":
            return "x" * 2_000_000
        case "changes its configuration":
            assert configuration["a"] == 1
            configuration["a"] = 2  # type: ignore[index]
            return "x"
    return str(sample.input["how"])


async def misbehaving_async(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    if sample.input["how"] == "ignore cancellation":
        mine = release
        while not mine.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue
    return misbehaving(configuration, sample, context)


def hanging(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    if sample.input.get("hang"):
        release.wait()
    return str(sample.input["word"])


def sleeping(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    time.sleep(sample.input.get("seconds", 0.0))
    return str(sample.input["word"])


def deadly(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    match sample.input.get("die"):
        case "exit":
            os._exit(7)
        case "segfault":
            ctypes.string_at(0)
        case "hang":
            time.sleep(3600)
        case "print":
            print("this is not an answer")
        case "raise":
            raise ValueError("no such ticket")
    return str(sample.input["word"])


def half(output: Output, sample: Sample) -> float:
    return 0.5


def perfect(output: Output, sample: Sample) -> bool:
    return True


async def detailed(output: Output, sample: Sample) -> list[Score]:
    return [Score("tone", 0.9, reason="polite"), Score("facts", 0.2, passed=True, reason="two are wrong")]


def nan_score(output: Output, sample: Sample) -> float:
    return math.nan


def nan_for_one(output: Output, sample: Sample) -> float:
    return math.nan if sample.id == "s1" else 1.0


def raising_score(output: Output, sample: Sample) -> float:
    raise KeyError("label")


def deadly_score(output: Output, sample: Sample) -> float:
    os._exit(9)


def exiting_score(output: Output, sample: Sample) -> float:
    sys.exit(1)


def text_score(output: Output, sample: Sample) -> Any:
    return "good"


def no_score(output: Output, sample: Sample) -> Any:
    return []


def share_of_passed(statistics: Mapping[str, Any]) -> float:
    return float(statistics["passed"] / statistics["outcomes"])


def nan_objective(statistics: Mapping[str, Any]) -> float:
    return math.nan


def _looks(value: float) -> None:
    if value > 0.7:
        raise ValueError(f"{value} is too good to be true")


def refusing_objective(statistics: Mapping[str, Any]) -> float:
    return share_of_passed(statistics)


refusing_objective.validate = _looks  # type: ignore[attr-defined]


def raising_objective(statistics: Mapping[str, Any]) -> float:
    raise ZeroDivisionError("no tokens")


def longer(current: Mapping[str, Any], records: list[Record], factors: list[str]) -> dict[str, Any]:
    calls.append("longer")
    return {name: f"{current[name]} ({len(records)} records)" for name in factors}


class Careful:
    """A proposer that looks at its own values: they may not grow for ever."""

    def __call__(self, current: Mapping[str, Any], records: list[Record], factors: list[str]) -> dict[str, Any]:
        return {name: f"{current[name]} and more" for name in factors}

    def validate(self, value: Any) -> None:
        calls.append(value)
        if value.count("and more") > 1:
            raise ValueError("said it twice")


careful = Careful()


async def longer_async(current: Mapping[str, Any], records: list[Record], factors: list[str]) -> dict[str, Any]:
    return {name: f"{current[name]}\r\nmore" for name in factors}


def bad_proposal(current: Mapping[str, Any], records: list[Record], factors: list[str]) -> Any:
    return {"temperature": math.nan}


def raising_proposal(current: Mapping[str, Any], records: list[Record], factors: list[str]) -> Any:
    raise RuntimeError("out of ideas")


def no_mapping(current: Mapping[str, Any], records: list[Record], factors: list[str]) -> Any:
    return "text"


def too_few_parameters(configuration: Mapping[str, Any]) -> str:
    return ""


async def blocking(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    """Blocks its event loop for as long as the sample says."""
    calls.append(sample.id)
    time.sleep(sample.input.get("blocks", 0.0))  # noqa: ASYNC251
    return str(sample.input["word"])


_client: asyncio.Lock | None = None


async def makes_a_client(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    """Keeps something that belongs to the loop it was made in."""
    global _client
    _client = _client or asyncio.Lock()
    async with _client:
        await asyncio.sleep(0.01)
    return str(sample.input["word"])


async def uses_the_client(output: Output, sample: Sample) -> float:
    assert _client is not None
    async with _client:
        await asyncio.sleep(0.01)
    return 1.0


class Proposes:
    """An optimizer that proposes one thing."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState()

    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> list[CandidateProposal]:
        return [CandidateProposal(configuration={"x": state.generation})]

    def observe(self, state: OptimizerState, trials: list[TrialFacts]) -> OptimizerState:
        return OptimizerState(generation=state.generation + 1)

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> bool:
        return False


async def stops_at_once(facts: StopFacts) -> str | None:
    return f"seen {len(facts.history.trials)}" if facts.round else None


def stops_with_a_flag(facts: StopFacts) -> Any:
    return facts.round > 0


def stops_by_raising(facts: StopFacts) -> Any:
    raise LookupError("no idea")


def described_by_a_number(facts: StopFacts) -> None:
    return None


described_by_a_number.description = lambda: 7  # type: ignore[attr-defined]


def numbered_proposer(
    current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str], *, index: int = 0, seed: int = 0
) -> Mapping[str, Any]:
    return {"prompt": f"candidate {index} of seed {seed}"}


class IndexOnly:
    async def __call__(self, current: Any, records: Any, factors: Any, index: int = -1) -> Mapping[str, Any]:
        return {"prompt": f"candidate {index}"}


index_only = IndexOnly()


def look_up(word: str, sample: Sample, times: int = 1) -> dict[str, Any]:
    """A tool: what it is told, and what else it is given."""
    calls.append(f"look_up {word}")
    if word == "nothing":
        raise KeyError("nothing")
    return {"found": word.upper() * times, "for": sample.id}


async def book(room: str, idempotency_key: str | None, context: ExperimentContext) -> str:
    """A tool with effects."""
    calls.append(f"book {room} {idempotency_key}")
    return f"booked {room} for {context.run_id}"


def dies(word: str) -> str:
    """A tool that kills its process."""
    os._exit(3)


def pid_of(word: str) -> int:
    """A tool that says in which process it runs, or kills it."""
    if word == "die":
        os._exit(3)
    return os.getpid()
