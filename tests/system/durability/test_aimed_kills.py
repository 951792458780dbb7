"""kill -9 at moments when calls are under way: no decision differs, and what was paid twice is bounded, and told to the call.

`RATCHET_KILL_SEEDS` sets how many seeds of every design are tried; without it, `make test` tries one design a little.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.aimed_endpoint import Server, endpoint, theirs
from tests.support.aimed_kills import CONCURRENT, VICTIMS, Run, disturbed, judged, undisturbed
from tests.support.coin_runs import coins
from tests.support.optimizer_specs import BAKING, EVOLVING, REFLECTING, TEACHING

GIVEN = os.environ.get("RATCHET_KILL_SEEDS")
SEEDS = range(int(GIVEN)) if GIVEN else [pytest.param(0, marks=pytest.mark.skip(reason="RATCHET_KILL_SEEDS: make test-kills"))]
KILLS = 4
EXECUTION = {"concurrent_samples": CONCURRENT}

pytestmark = pytest.mark.timeout(900)


def climbing(ref: str, **parts: Any) -> dict[str, Any]:
    return {
        "name": "climbing",
        "configuration": {"x": {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 9000, "step": 7}},
        "target": {"kind": "python", "ref": f"aimed:{ref}"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(30)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "aimed:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}, "candidates_per_round": 2},
        "replicates": 2,
        "stop": {"max_rounds": 3, "no_improvement": 0},
        "execution": EXECUTION,
        "seed": 1,
    } | parts


DESIGNS: dict[str, dict[str, Any]] = {
    "loop": climbing("walks"),
    "thread": climbing("walks_in_a_thread"),
    "process": climbing("", target={"kind": "python", "ref": "aimed:walks_in_a_thread", "pool": "process", "processes": 2}),
    "budget": climbing("walks", budget={"samples": 100_000}),
    "race": coins(
        0.05,
        0.3,
        0.55,
        0.95,
        target={"kind": "python", "ref": "plugged:logged_coin"},
        judgement={"racing": {"block": 12}, "accept": "better"},
        replicates=2,
        execution=EXECUTION,
    ),
    "search": {
        **BAKING,
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(12)], "splits": "none"},
        "execution": EXECUTION,
    },
    "few_shot": {**TEACHING, "execution": EXECUTION},
    "evolve": {**EVOLVING, "execution": EXECUTION},
    "reflect": {**REFLECTING, "budget": {}, "stop": {"max_rounds": 4, "no_improvement": 0}, "execution": EXECUTION},
}

REMOTE = {"replicates": 1, "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(60)], "splits": "none"}}


def over_http(url: str) -> dict[str, Any]:
    target = {"kind": "http", "url": f"{url}/answer", "body": {"x": "{{factors.x}}", "n": "{{input}}"}}
    return climbing("", **REMOTE, target=target)


def by_chat(url: str) -> dict[str, Any]:
    """Without any plug-in: the worker of all runs makes the calls."""
    messages = [{"role": "user", "content": "{{factors.x}} {{input}}"}]
    parts = {
        **REMOTE,
        "dataset": {"items": [{"id": f"s{n}", "input": n, "expected": "yes"} for n in range(60)], "splits": "none"},
    }
    target = {"kind": "chat", "model": "climber", "base_url": f"{url}/v1", "messages": messages}
    return climbing("", **parts, target=target, scorers=[{"kind": "exact"}], objective="exact")


def by_activity(_: str) -> dict[str, Any]:
    return climbing("", **REMOTE, target={"kind": "activity", "activity": "theirs", "task_queue": "theirs"})


ELSEWHERE: dict[str, tuple[Callable[[str], dict[str, Any]], str]] = {
    "http": (over_http, "plugin"),
    "chat": (by_chat, "worker"),
    "activity": (by_activity, "nobody"),
}
"""Targets that are not in the worker's process, and who calls them."""

_references: dict[str, Run] = {}


async def reference(design: str, folder: Path) -> Run:
    if design not in _references:
        _references[design] = await undisturbed(folder / "reference", DESIGNS[design])
    return _references[design]


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """Of targets that are asked over HTTP; workers may call it."""
    monkeypatch.setenv("OPENAI_API_KEY", "none-needed")
    async with endpoint() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("RATCHET_HTTP_URLS", server.url)
        yield server


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_kill_repeats_what_was_in_flight_and_tells_it(seed: int, design: str, tmp_path: Path) -> None:
    expected = await reference(design, tmp_path)
    random = Random(f"{design} {seed}")
    victims, most_open = random.choices(VICTIMS, k=KILLS), 2 if design == "process" else CONCURRENT
    found = await disturbed(tmp_path / "disturbed", DESIGNS[design], victims, random, most_open=most_open)
    for kill in found.kills:
        print(f"KILL {design} {seed} {'+'.join(kill.victims)}: {kill.extra} repeated, {kill.in_flight} in flight")
    judged(design, expected, found)


@pytest.mark.parametrize("design", ELSEWHERE)
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_kill_repeats_no_more_of_what_others_answer(seed: int, design: str, tmp_path: Path, server: Server) -> None:
    made, caller = ELSEWHERE[design]
    random = Random(f"{design} {seed}")
    given = made(server.url)
    server.calls = tmp_path / "reference" / "calls"
    async with theirs(tmp_path / "reference" / "home", server):
        hear = None if caller == "nobody" else server.hear
        expected = await undisturbed(tmp_path / "reference", given, hear)
    server.calls = tmp_path / "disturbed" / "calls"
    possible = [one for one in VICTIMS if design != "chat" or "plugin" not in one]
    async with theirs(tmp_path / "disturbed" / "home", server):
        victims = random.choices(possible, k=KILLS)
        found = await disturbed(tmp_path / "disturbed", given, victims, random, caller=caller, hear=hear)
    for kill in found.kills:
        print(f"KILL {design} {seed} {'+'.join(kill.victims)}: {kill.extra} repeated, {kill.in_flight} in flight")
    judged(design, expected, found)


@pytest.mark.parametrize("design", ["http", "chat"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_call_that_a_kill_kept_from_arriving_is_told(seed: int, design: str, tmp_path: Path, server: Server) -> None:
    """Nobody who goes on can know that it had not been sent: what is told is never less than what may have been paid."""
    made, caller = ELSEWHERE[design]
    given = made(server.url)
    server.calls = tmp_path / "reference" / "calls"
    expected = await undisturbed(tmp_path / "reference", given, server.hear)
    server.calls = tmp_path / "disturbed" / "calls"
    victims: list[tuple[str, ...]] = [(caller,)] * 3
    found = await disturbed(tmp_path / "disturbed", given, victims, Random(seed), caller=caller, hear=server.hear, unsent=True)
    judged(design, expected, found)
    assert found.kills
    assert all(kill.unsent for kill in found.kills)


async def test_a_command_that_is_killed_alone_costs_no_call(tmp_path: Path) -> None:
    """Its workers notice at once, and its servers stay up until what was in flight is stored."""
    design = climbing("walks", stop={"max_rounds": 1, "no_improvement": 0})
    expected = await undisturbed(tmp_path / "reference", design)
    found = await disturbed(tmp_path / "disturbed", design, [("run",), ("plugin",)], Random(5))
    judged("killed alone", expected, found)
    assert found.kills[0].extra == 0, "what was in flight was not stored"
