"""What a hostile body may do: be refused, in words, while others are answered."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from activities.preparing import request_check
from tests.support.hill_specs import hill_spec
from workflows.rules.spec.check import check_request


def _json(**parts: Any) -> str:
    return json.dumps(hill_spec(**parts))


def _bomb(levels: int) -> dict[str, Any]:
    twice = {f"f{i}": f"{{{{factors.f{i + 1}}}}}{{{{factors.f{i + 1}}}}}" for i in range(levels)} | {f"f{levels}": "x"}
    return {name: {"value": text, "change": "text"} for name, text in twice.items()}


BOMB = _json(
    configuration=_bomb(40),
    target={"kind": "chat", "model": "m", "messages": [{"role": "user", "content": "{{factors.f0}}"}]},
    scorers=[{"kind": "exact"}],
    objective="exact",
)
REDOS = {"value": "a" * 40 + "!", "change": "structured", "type": "json", "schema": {"pattern": "^(a+)+$"}}

BODIES: dict[str, tuple[str, int, str]] = {
    "a budget that is there twice": (_json()[:-1] + ', "seed": 8}', 422, "key 'seed' is there twice in one object; keep one"),
    "a number of 5,001 digits": (
        _json().replace('"seed": 7', f'"seed": {"7" * 5_001}'),
        400,
        "line 1: a number has 5,001 digits",
    ),
    "replicates: true": (_json(replicates=True), 422, "replicates: must be a number (is true)"),
    "seed: true": (_json(seed=True), 422, "seed: must be a number (is true)"),
    "5,000 levels": (_json().replace('"seed": 7', f'"seed": {"[" * 5_000}{"]" * 5_000}'), 400, "nested too deeply"),
    "not a number": (_json().replace('"seed": 7', '"seed": NaN'), 400, "NaN is not a JSON number"),
    "a NUL in a path": (_json(dataset={"path": "a\0b.jsonl"}), 422, "dataset.path: contains a NUL character"),
    "a pattern that counts too far": (
        _json(scorers=[{"kind": "regex", "pattern": "a{99999999999}"}], objective="regex"),
        422,
        "scorers[0].pattern: is not a regular expression: the repetition number is too large",
    ),
    "a pattern without end": (
        _json(scorers=[{"kind": "regex", "pattern": "(" * 3_000}], objective="regex"),
        422,
        "scorers[0].pattern: is not a regular expression",
    ),
    "a placeholder bomb": (BOMB, 422, "let factors name each other less"),
    "a pattern that backtracks": (_json(configuration={"x": REDOS}), 422, "configuration.x.value: does not satisfy its schema"),
    "a spec with 100,000 problems": (
        _json(dataset={"items": [{f"k{i}": 1 for i in range(10)}] * 10_000}),
        422,
        "dataset.items[0].k0: is not a known field",
    ),
}


@pytest.mark.parametrize("body", BODIES)
async def test_a_hostile_body_is_refused_in_words(http: httpx.AsyncClient, body: str) -> None:
    text, status, told = BODIES[body]
    answer = await http.post("/optimizations", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert told in answer.text.replace('\\"', '"')


async def test_a_key_that_is_there_twice_is_refused_wherever_a_body_is_taken(http: httpx.AsyncClient, finished: str) -> None:
    text = '{"by": "ada", "by": "eve"}'
    answer = await http.post(f"/optimizations/{finished}/approve", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "key 'by' is there twice" in answer.text


class HeldChecks:
    """Checks of specs that wait until they may go on."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.go_on = threading.Event()

    def __call__(self, request: Any) -> list[str]:
        self.threads.append(threading.current_thread())
        assert self.go_on.wait(60)
        return check_request(request)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldChecks]:
    checks = HeldChecks()
    monkeypatch.setattr(request_check, "check_request", checks)
    yield checks
    checks.go_on.set()


def bombs(http: httpx.AsyncClient, number: int) -> list[asyncio.Task[httpx.Response]]:
    headers = {"Content-Type": "application/json"}
    return [asyncio.create_task(http.post("/optimizations", content=BOMB, headers=headers)) for _ in range(number)]


async def test_no_check_runs_in_the_thread_that_answers_others(http: httpx.AsyncClient, held: HeldChecks) -> None:
    refused = bombs(http, 5)
    while not held.threads:
        assert (await http.get(str(http.base_url.copy_with(path="/health")))).status_code == 200
    held.go_on.set()
    assert [(await answer).status_code for answer in refused] == [422] * 5
    assert len(set(held.threads)) == 1
    assert threading.main_thread() not in held.threads


async def test_a_flood_of_specs_is_told_to_come_again(
    http: httpx.AsyncClient, held: HeldChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_check, "MOST_WAITING", 3)
    sent = bombs(http, 40)
    answered = [await answer for answer in itertools.islice(asyncio.as_completed(sent), 36)]
    assert {answer.status_code for answer in answered} == {503}
    assert {answer.headers["Retry-After"] for answer in answered} == {"1"}
    held.go_on.set()
    assert {answer.status_code for answer in await asyncio.gather(*sent)} == {422, 503}
    [after] = await asyncio.gather(*bombs(http, 1))
    assert after.status_code == 422
