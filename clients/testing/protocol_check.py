"""Whether an optimizer keeps to the protocol, found out in simulated runs. What is broken is told with its cure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from clients.testing.side_effects import DoesMore, Doing, watched
from clients.testing.simulation import Simulated, simulate
from clients.testing.world import World
from ratchet import Sample
from ratchet._formats.canonical import content_hash, derive_seed
from ratchet.optimizer import OptimizerState
from workflows.model.activities.optimizer_steps import LARGEST_STATE
from workflows.model.run.candidates import ReasonCode

MOST_ROUNDS = 10_000
"""For so many rounds a state that keeps growing as it does has to fit."""

USUAL_REJECTIONS = {ReasonCode.DUPLICATE, ReasonCode.NO_CHANGE, ReasonCode.BUDGET, ReasonCode.NOT_SMALLER}
"""A search that comes to its end may propose what was tried before."""


class ProtocolBroken(AssertionError):
    """What an optimizer does wrong, and how to mend it."""


def check_protocol(
    make_optimizer: Callable[..., Any],
    *,
    request: Mapping[str, Any] | None = None,
    world: World | None = None,
    rounds: int = 40,
    allows: Collection[Doing] = (),
) -> Simulated:
    """Run an optimizer three times against a synthetic target, and raise `ProtocolBroken` for the first thing that is wrong.

    Checked are: the same state, history and seed give the same proposals; nothing is remembered but the state; the state is
    JSON, survives a round trip, and stays small; no sockets, files, processes, threads, clock or unseeded chance (`allows`
    lets some of them pass, such as `{"sockets"}` for one that asks a model itself); every proposal is admissible.

    `make_optimizer` is the class, or whatever makes one with the `optimizer.options` of the request. Give a `request` with the
    `configuration` that it is made for, and a `world` that scores it: the default has two numbers, a choice and a text, and
    other configurations are scored by their hash.
    """
    given = {**EXAMPLE, **(request or {}), "stop": {"max_rounds": rounds, "no_improvement": 0}}
    target = any_target if "configuration" in (request or {}) else example_target
    against = world or World(target=target, samples=range(8), train=range(8))
    first = _Watch(frozenset(allows))
    run = simulate(given, against, optimizer=make_optimizer, call=first)
    _refuse_failure(run, first)
    _refuse_bad_proposals(run)
    _refuse_growth(first.sizes)
    again = _Watch(frozenset(allows))
    simulate(given, against, optimizer=make_optimizer, call=again)
    _refuse_difference(
        first, again, "other answers the second time; draw chance from context.seed, and let no order be accidental"
    )
    kept: list[Any] = []

    def the_same(**options: Any) -> Any:
        kept[:] = kept or [make_optimizer(**options)]
        return kept[0]

    whole = _Watch(frozenset(allows))
    simulate(given, against, optimizer=the_same, call=whole)
    _refuse_difference(
        first,
        whole,
        "other answers when one object lives for the whole run. In production it is made anew for every step: keep what it "
        "remembers in state.algorithm_data, not on self",
    )
    return run


@dataclass
class _Watch:
    """Calls the optimizer's methods, one by one, and keeps what they said."""

    allowed: frozenset[Doing]
    said: list[tuple[str, str]] = field(default_factory=list)
    """Method by method, what was returned."""
    sizes: list[int] = field(default_factory=list)
    """Of the state in bytes, step by step."""
    broken: str | None = None

    async def __call__(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        name = getattr(function, "__name__", "__init__")
        method = name if name in ("initialize", "observe", "propose", "should_stop") else "__init__"
        before = [given.model_dump_json(warnings=False) for given in arguments if isinstance(given, OptimizerState)]
        try:
            with watched(self.allowed) as seen:
                returned = _finished(method, function(*arguments, **options))
        except DoesMore as error:
            self._note(f"{method} {error}")
            raise
        if seen:
            self._note(f"{method} {seen[0]}")
        after = [given.model_dump_json(warnings=False) for given in arguments if isinstance(given, OptimizerState)]
        if method != "observe" and before != after:
            self._note(f"{method} changed the state that it was given; only initialize and observe make states")
        if isinstance(returned, OptimizerState):
            self._look_at(method, returned)
        if method != "__init__":
            self.said.append((method, _in_words(returned)))
        return returned

    def _look_at(self, method: str, state: OptimizerState) -> None:
        written = state.model_dump_json(warnings=False)
        if OptimizerState.model_validate_json(written) != state:
            self._note(
                f"{method} returned a state that is another one after a round trip through JSON; keep lists instead of tuples "
                "and sets, and texts as keys"
            )
        self.sizes.append(len(written.encode()))

    def _note(self, told: str) -> None:
        self.broken = self.broken or told


def _finished(method: str, returned: Any) -> Any:
    """The result of a method that may be a coroutine, which must have nothing to wait for."""
    if not inspect.isawaitable(returned):
        return returned
    steps = returned.__await__()
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    raise ProtocolBroken(f"{method} waits for something outside of itself; {method} is given all that it may use")


def _in_words(returned: Any) -> str:
    items = returned if isinstance(returned, list | tuple) else [returned]
    return "; ".join(item.model_dump_json() if hasattr(item, "model_dump_json") else repr(item) for item in items)


def _refuse_failure(run: Simulated, watch: _Watch) -> None:
    if watch.broken is not None:
        raise ProtocolBroken(watch.broken)
    if run.status != "completed":
        raise ProtocolBroken(run.message)
    if not any(method == "propose" for method, _ in watch.said):
        raise ProtocolBroken(
            "it stopped before it proposed anything; should_stop is asked before every propose, also the first"
        )


def _refuse_bad_proposals(run: Simulated) -> None:
    for rejection in run.rejections:
        if rejection.reason_code not in USUAL_REJECTIONS:
            raise ProtocolBroken(
                f"proposal {rejection.proposed_index} of round {rejection.round} is inadmissible ({rejection.reason_code}): "
                f"{rejection.message}. A proposal has every factor, within its domain (context.domains)"
            )


def _refuse_growth(sizes: list[int]) -> None:
    """A state may fill up to some size; one that never stops growing breaks a long run."""
    quarter = len(sizes) // 4
    if quarter < 2:
        return
    third, last = sizes[2 * quarter : 3 * quarter], sizes[3 * quarter :]
    growth = (last[-1] - last[0]) / (len(last) - 1)
    still = (third[-1] - third[0]) / (len(third) - 1)
    reached = (LARGEST_STATE - sizes[-1]) / growth + len(sizes) if growth > 1 and still > 1 else MOST_ROUNDS
    if reached < MOST_ROUNDS:
        raise ProtocolBroken(
            f"its state grows by {growth:.0f} bytes a step, to {sizes[-1]:,} bytes after {len(sizes)}; after about "
            f"{reached:,.0f} it would be larger than the {LARGEST_STATE:,} that fit. Keep the newest or the best only: the "
            "history, which is given to propose and should_stop, has all trials"
        )


def _refuse_difference(first: _Watch, other: _Watch, why: str) -> None:
    for step, (one, another) in enumerate(zip(first.said, other.said, strict=False), start=1):
        if one != another:
            raise ProtocolBroken(f"{one[0]} (call {step}) gave {why}. First: {one[1][:300]} Then: {another[1][:300]}")


def example_target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> float:
    """Smooth, with a little noise."""
    noise = derive_seed(0, repr(sorted(configuration.items())), sample.id, replicate) % 1000 / 10_000
    hidden = 1.0 - abs(configuration["x"] - 0.7) - (configuration["y"] - 30) ** 2 / 10_000
    return float(hidden) + (0.1 if configuration["style"] == "terse" else 0.0) + noise


def any_target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> float:
    """Some number for every configuration."""
    return derive_seed(0, content_hash(dict(configuration)), sample.id, replicate) % 1000 / 1000


EXAMPLE: Mapping[str, Any] = {
    "configuration": {
        "x": {"value": 0.1, "change": "structured", "type": "number", "min": 0, "max": 1},
        "y": {"value": 5, "change": "structured", "type": "integer", "min": 0, "max": 100},
        "style": {"value": "plain", "change": "structured", "type": "choice", "choices": ["plain", "rich", "terse"]},
        "prompt": {"value": "Answer briefly.", "change": "text", "max_length": 500},
        "model": "small",
    },
    "optimizer": {"candidates_per_round": 3},
}
