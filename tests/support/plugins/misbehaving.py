"""Plug-ins that do everything a plug-in should not."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ratchet import (
    ExperimentContext,
    OptimizerState,
    Output,
    Record,
    RunContext,
    Sample,
    Score,
    TrialFacts,
    TrialHistory,
)

HALF = {"height": 0.5}


class Untellable(Exception):
    """An error whose own text raises."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class TrapMapping(Mapping[str, Any]):
    """A mapping that raises when it is read."""

    def __getitem__(self, key: str) -> Any:
        raise OSError("trap")

    def __iter__(self) -> Iterator[str]:
        raise OSError("trap")

    def __len__(self) -> int:
        return 1


class TrapNumber:
    """A number that raises when it is one, and when it is shown."""

    def __index__(self) -> int:
        raise OSError("trap")

    def __float__(self) -> float:
        raise OSError("trap")

    def __repr__(self) -> str:
        raise OSError("trap")


def target(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    """Does what the configuration's `deed` says."""
    return DEEDS[configuration["deed"]]()


async def async_target(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    return DEEDS[configuration["deed"]]()


def _raise(error: BaseException) -> Any:
    raise error


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _endless_recursion() -> Any:
    return _endless_recursion()


def _circle() -> Any:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    return circle


DEEDS: dict[str, Any] = {
    "returns nothing": lambda: None,
    "returns bytes": lambda: b"bytes",
    "returns a generator": lambda: (part for part in "abc"),
    "returns the class": lambda: Output,
    "returns nan": lambda: {"height": math.nan},
    "returns infinity inside": lambda: {"a": [{"b": -math.inf}]},
    "returns nul": lambda: "a\x00b",
    "returns a surrogate": lambda: "half \ud83d",
    "returns a surrogate as key": lambda: {"half \ud83d": 1},
    "returns keys that are no text": lambda: {1: 2},
    "returns a set": lambda: {"a": {1, 2}},
    "returns 5 mb": lambda: "x" * 5_000_000,
    "returns a list of 5 mb": lambda: {"a": ["x" * 1000] * 5_000},
    "returns 300 levels": lambda: {"a": _deep(300)},
    "returns 100000 levels": lambda: {"a": _deep(100_000)},
    "returns a circle": _circle,
    "returns an integer of 5000 digits": lambda: {"a": 10**5000},
    "returns a trap": TrapMapping,
    "returns a trap inside": lambda: {"a": TrapMapping()},
    "returns nan tokens": lambda: Output(HALF, tokens=math.nan),  # type: ignore[arg-type]
    "returns negative tokens": lambda: Output(HALF, tokens=-1),
    "returns tokens as text": lambda: Output(HALF, tokens="many"),  # type: ignore[arg-type]
    "returns endless tokens": lambda: Output(HALF, tokens=10**30),
    "returns trapped tokens": lambda: Output(HALF, tokens=TrapNumber()),  # type: ignore[arg-type]
    "returns nan cost": lambda: Output(HALF, cost=math.nan),
    "returns negative cost": lambda: Output(HALF, cost=-0.5),
    "returns infinite latency": lambda: Output(HALF, latency_ms=math.inf),
    "returns a trapped cost": lambda: Output(HALF, cost=TrapNumber()),  # type: ignore[arg-type]
    "returns another overlay": lambda: Output(HALF, overlay_hash="another\ud800"),
    "raises": lambda: _raise(ValueError("no idea")),
    "raises a surrogate": lambda: _raise(ValueError("half \ud83d and \x00")),
    "raises 5 mb": lambda: _raise(ValueError("x" * 5_000_000)),
    "raises markdown": lambda: _raise(ValueError("a | b\n| **Status** | <script>alert(1)</script> `code`")),
    "raises without text": lambda: _raise(Untellable()),
    "raises SystemExit": lambda: _raise(SystemExit(3)),
    "raises KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "raises GeneratorExit": lambda: _raise(GeneratorExit()),
    "raises CancelledError": lambda: _raise(asyncio.CancelledError()),
    "raises a group": lambda: _raise(ExceptionGroup("several", [ValueError("one"), OSError("two")])),
    "raises MemoryError": lambda: _raise(MemoryError()),
    "raises StopIteration": lambda: _raise(StopIteration("stopped")),
    "recurses": _endless_recursion,
}


def answers(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Behaves."""
    return Output(HALF)


def strange_trace(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """A usable answer with a trace that is not."""
    return Output(HALF, tokens=1, trace={"half \ud83d": [b"bytes", math.nan, object(), "\x00", _circle()]})


def changes_its_configuration(configuration: dict[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    """Tries to make every other sample use other values."""
    seen = configuration["x"]
    configuration["x"] = 10**9
    configuration["inner"]["list"].append(1)
    return {"height": 0.5 if seen <= 1000 and len(configuration["inner"]["list"]) == 1 else 0.0}


def kills_its_process(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    os._exit(17)


def scores_nothing(output: Output, sample: Sample) -> Any:
    return []


def scores_none(output: Output, sample: Sample) -> Any:
    return None


def scores_twice(output: Output, sample: Sample) -> Any:
    return [Score("height", 1.0), Score("height", 0.5)]


def scores_something_else(output: Output, sample: Sample) -> Any:
    return Score("width", 1.0)


def scores_with_a_strange_name(output: Output, sample: Sample) -> Any:
    return Score("height; DROP TABLE runs; \ud800", 1.0)


def scores_a_trap(output: Output, sample: Sample) -> Any:
    return TrapNumber()


def scores_with_a_surrogate(output: Output, sample: Sample) -> Any:
    raise ValueError("half \ud83d and \x00")


def scores_without_text(output: Output, sample: Sample) -> Any:
    raise Untellable


def scores_by_exiting(output: Output, sample: Sample) -> Any:
    raise SystemExit(4)


def strange_reason(output: Output, sample: Sample) -> Score:
    """A usable score whose reason is not."""
    return Score("height", 0.5, reason="half \ud83d \x00 " + "x" * 1_000_000)


def objective_of_text(statistics: Mapping[str, Any]) -> Any:
    return "good"


def objective_raises(statistics: Mapping[str, Any]) -> Any:
    raise ValueError("half \ud83d")


def objective_exits(statistics: Mapping[str, Any]) -> Any:
    raise SystemExit(5)


def objective_is_a_trap(statistics: Mapping[str, Any]) -> Any:
    return TrapNumber()


def objective_of_400_digits(statistics: Mapping[str, Any]) -> Any:
    return 10**400


def proposes_nothing(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    return {}


def proposes_a_list(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    return [1, 2]


def proposes_an_unknown_factor(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    return {"half \ud83d | <b>": 1}


def proposes_another_factor(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    return {"y" * 100_000: 1}


def proposes_nan(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    return {"x": math.nan}


def proposes_text(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    return {"x": "ten"}


def proposes_5_mb(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    return {"x": "x" * 5_000_000}


def proposes_a_trap(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    return TrapMapping()


def proposes_300_levels(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    return {"x": _deep(300)}


def proposer_exits(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    raise SystemExit(6)


def proposer_without_text(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    raise Untellable


def scores_its_sample(output: Output, sample: Sample) -> Any:
    """The score that the dataset gives."""
    return sample.input


def bills_its_sample(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """An answer that says it took what the dataset says."""
    return Output(HALF, **sample.input)


def objective_near_the_end_of_floats(statistics: Mapping[str, Any]) -> Any:
    return 1.7e308


def objective_kills_its_process(statistics: Mapping[str, Any]) -> Any:
    os._exit(17)


def scorer_kills_its_process(output: Output, sample: Sample) -> Any:
    os._exit(17)


def proposer_kills_its_process(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Any:
    os._exit(17)


def classifier_kills_its_process(records: Sequence[Record]) -> Any:
    os._exit(17)


def dataset_kills_its_process() -> Iterator[Any]:
    yield {"input": 1}
    os._exit(17)


class KillsItsProcess:
    """An optimizer that gets as far as its first proposal."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id)

    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Any:
        os._exit(17)

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        return state

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> bool:
        return False
