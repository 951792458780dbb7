"""Scorers say what an output is worth; what is not a finite number never becomes a score."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from pydantic import TypeAdapter

from activities.plugins.loader import Plugins
from activities.scorers import ScorerTools, score
from activities.scorers.bounded_patterns import BoundedMatching
from ratchet import Output, Sample, Score
from tests.support.suite_building import PLUGINS
from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.rules.scoring.objective_score import ScoringFailed

SCORER: TypeAdapter[Scorer] = TypeAdapter(Scorer)


@pytest.fixture
async def tools() -> AsyncIterator[ScorerTools]:
    tools = ScorerTools(Plugins([PLUGINS]))
    yield tools
    await tools.matching.close()


async def scores(tools: ScorerTools, spec: dict[str, Any], output: Any, expected: Any = None) -> list[Score]:
    grades = await score([SCORER.validate_python(spec)], Output(output), Sample("s1", {}, expected), tools)
    return [grade.score for grade in grades]


async def value(tools: ScorerTools, spec: dict[str, Any], output: Any, expected: Any = None) -> float:
    (only,) = await scores(tools, spec, output, expected)
    return only.value


@pytest.mark.parametrize(
    ("options", "output", "expected", "worth"),
    [
        ({}, "billing", "billing", 1),
        ({}, " billing\n", "billing", 1),
        ({}, "Billing", "billing", 0),
        ({"ignore_case": True}, "STRASSE", "straße", 1),
        ({"strip": False}, "billing ", "billing", 0),
        ({}, "billing.", "billing", 0),
        ({}, "", "billing", 0),
        ({}, "42", 42, 1),
        ({}, "42.0", 42, 1),
        ({}, "true", True, 1),
        ({}, "1", True, 0),
        ({}, '{"b": 2, "a": 1}', {"a": 1, "b": 2}, 1),
        ({}, {"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}, 1),
        ({}, {"a": 1}, {"a": 2}, 0),
        ({}, 5, "5", 1),
        ({}, "NaN", 3, 0),
    ],
)
async def test_exact(tools: ScorerTools, options: dict[str, Any], output: Any, expected: Any, worth: float) -> None:
    assert await value(tools, {"kind": "exact", **options}, output, expected) == worth


@pytest.mark.parametrize(
    ("options", "output", "expected", "worth"),
    [
        ({}, "The label is billing.", "billing", 1),
        ({}, "The label is Billing.", "billing", 0),
        ({"ignore_case": True}, "The label is Billing.", "billing", 1),
        ({}, "a b", ["a", "b"], 1),
        ({}, "a", ["a", "b"], 0),
        ({"mode": "any"}, "a", ["a", "b"], 1),
        ({"values": ["sorry"]}, "so sorry", None, 1),
        ({"values": []}, "anything", None, 1),
        ({}, {"label": "bug"}, '"label":"bug"', 1),
        ({}, "7 items", 7, 1),
    ],
)
async def test_contains(tools: ScorerTools, options: dict[str, Any], output: Any, expected: Any, worth: float) -> None:
    assert await value(tools, {"kind": "contains", **options}, output, expected) == worth


@pytest.mark.parametrize(
    ("options", "output", "expected", "worth"),
    [
        ({}, "42", 42, 1),
        ({}, "42.0000000001", 42, 1),
        ({}, "43", 42, 0),
        ({"absolute": 1}, "43", 42, 1),
        ({"relative": 0.1}, 45, 42, 1),
        ({"absolute": 1, "zero_at": 3}, "44", 42, 0.5),
        ({"absolute": 1, "zero_at": 3}, "45", 42, 0),
        ({"zero_at": 10}, 39.5, 42, 0.75),
        ({"absolute": 5, "zero_at": 3}, 45, 42, 1),
        ({}, "1,234.5", 1234.5, 1),
        ({}, "12,34", 1234, 0),
        ({}, " -3e2 ", "-300", 1),
        ({}, "forty-two", 42, 0),
        ({}, "nan", 42, 0),
        ({}, "inf", 42, 0),
        ({}, "1e999", 42, 0),
        ({}, True, 1, 0),
        ({}, {"n": 1}, 1, 0),
        ({}, "0", 0, 1),
    ],
)
async def test_numeric(tools: ScorerTools, options: dict[str, Any], output: Any, expected: Any, worth: float) -> None:
    assert await value(tools, {"kind": "numeric", **options}, output, expected) == pytest.approx(worth)


@pytest.mark.parametrize(
    ("options", "output", "expected", "worth"),
    [
        ({"pattern": r"\d{3}"}, "call 112", None, 1),
        ({"pattern": r"\d{3}", "full_match": True}, "call 112", None, 0),
        ({"pattern": r"\d{3}", "full_match": True}, "112", None, 1),
        ({}, "bug", "^(bug|outage)$", 1),
        ({"pattern": "(?i)BUG"}, "a bug", None, 1),
        ({"pattern": '"a":1'}, {"a": 1}, None, 1),
        ({"pattern": "é"}, "café", None, 1),
    ],
)
async def test_regex(tools: ScorerTools, options: dict[str, Any], output: Any, expected: Any, worth: float) -> None:
    assert await value(tools, {"kind": "regex", **options}, output, expected) == worth


SCHEMA = {"type": "object", "required": ["label"], "properties": {"label": {"enum": ["bug", "billing"]}}}


@pytest.mark.parametrize(
    ("options", "output", "worth"),
    [
        ({}, '{"label": "bug"}', 1),
        ({}, "3", 1),
        ({}, '{"label": bug}', 0),
        ({}, "Sure! {}", 0),
        ({}, "", 0),
        ({}, "NaN", 0),
        ({}, {"already": "parsed"}, 1),
        ({"schema": SCHEMA}, '{"label": "bug"}', 1),
        ({"schema": SCHEMA}, '{"label": "unknown"}', 0),
        ({"schema": SCHEMA}, '{"x": 1}', 0),
        ({"schema": SCHEMA}, {"label": "billing"}, 1),
        ({"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}, {"type": "object"}, 1),
    ],
)
async def test_json(tools: ScorerTools, options: dict[str, Any], output: Any, worth: float) -> None:
    assert await value(tools, {"kind": "json", **options}, output) == worth


class TestFeedback:
    async def test_a_miss_says_what_was_expected(self, tools: ScorerTools) -> None:
        (exact,) = await scores(tools, {"kind": "exact"}, "bug", "billing")
        (schema,) = await scores(tools, {"kind": "json", "schema": SCHEMA}, '{"label": "x"}')
        (numeric,) = await scores(tools, {"kind": "numeric"}, "40", 42)
        assert exact.reason == "expected billing, got bug"
        assert schema.reason == "does not satisfy the schema at $.label: 'x' is not one of ['bug', 'billing']"
        assert numeric.reason == "expected 42, off by 2"

    async def test_a_hit_says_nothing(self, tools: ScorerTools) -> None:
        assert (await scores(tools, {"kind": "exact"}, "bug", "bug"))[0].reason is None

    async def test_the_threshold_decides_what_passes(self, tools: ScorerTools) -> None:
        numeric = {"kind": "numeric", "zero_at": 10}
        assert (await scores(tools, numeric, 38, 42))[0].passed is True
        assert (await scores(tools, {**numeric, "threshold": 0.7}, 38, 42))[0].passed is False

    async def test_names_come_from_the_spec(self, tools: ScorerTools) -> None:
        assert (await scores(tools, {"kind": "exact", "name": "label"}, "x", "x"))[0].name == "label"


class TestPythonScorers:
    @pytest.mark.parametrize(("name", "worth", "passed"), [("half", 0.5, True), ("perfect", 1.0, True)])
    async def test_numbers_and_booleans_become_scores(self, tools: ScorerTools, name: str, worth: float, passed: bool) -> None:
        (given,) = await scores(tools, {"kind": "python", "ref": f"{PLUGINS}:{name}", "name": "mine"}, "x")
        assert given == Score("mine", worth, passed)

    async def test_a_scorer_may_decide_itself_what_passes(self, tools: ScorerTools) -> None:
        tone, facts = await scores(tools, {"kind": "python", "ref": f"{PLUGINS}:detailed"}, "x")
        assert (tone.passed, facts.passed) == (True, True)

    async def test_the_same_name_twice_is_refused(self, tools: ScorerTools) -> None:
        both = [SCORER.validate_python({"kind": "python", "ref": f"{PLUGINS}:half"})] * 2
        with pytest.raises(ScoringFailed, match="given twice"):
            await score(both, Output("x"), Sample("s", {}), tools)


class TestWhatCannotBeScored:
    @pytest.mark.parametrize("kind", ["exact", "contains", "numeric", "regex"])
    async def test_a_sample_without_an_expected_value(self, tools: ScorerTools, kind: str) -> None:
        with pytest.raises(ScoringFailed, match=f"sample 's1' has no expected value, which scorer '{kind}' needs"):
            await scores(tools, {"kind": kind}, "x")

    async def test_an_expected_value_of_the_wrong_kind(self, tools: ScorerTools) -> None:
        with pytest.raises(ScoringFailed, match="not a number"):
            await scores(tools, {"kind": "numeric"}, "1", "one")
        with pytest.raises(ScoringFailed, match="not a regular expression"):
            await scores(tools, {"kind": "regex"}, "1", 7)
        with pytest.raises(ScoringFailed, match="cannot be used"):
            await scores(tools, {"kind": "regex"}, "1", "(unclosed")

    async def test_a_schema_that_is_none(self, tools: ScorerTools) -> None:
        with pytest.raises(ScoringFailed, match="JSON Schema cannot be used"):
            await scores(tools, {"kind": "json", "schema": {"type": "text"}}, "{}")


class TestHostileMatching:
    async def test_a_pattern_that_backtracks_without_end_stops_nothing_else(self) -> None:
        tools = ScorerTools(Plugins(), matching=BoundedMatching(timeout=0.3))
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        with pytest.raises(ScoringFailed, match=r"took longer than 0\.3 s"):
            await scores(tools, {"kind": "regex", "pattern": r"(a+)+$"}, "a" * 40 + "b")
        ticking.cancel()
        assert ticks > 10
        tools = ScorerTools(Plugins(), matching=BoundedMatching())
        assert await value(tools, {"kind": "regex", "pattern": "a+$"}, "aaa") == 1
        await tools.matching.close()

    async def test_the_process_is_replaced_when_it_died(self, tools: ScorerTools) -> None:
        assert await value(tools, {"kind": "regex", "pattern": "a"}, "a") == 1
        assert tools.matching._process is not None
        tools.matching._process.kill()
        await tools.matching._process.wait()
        assert await value(tools, {"kind": "regex", "pattern": "a"}, "a") == 1

    async def test_a_cancelled_match_leaves_no_answer_for_the_next(self, tools: ScorerTools) -> None:
        assert await value(tools, {"kind": "regex", "pattern": "a"}, "a") == 1
        slow = asyncio.create_task(value(tools, {"kind": "regex", "pattern": r"(a+)+$"}, "a" * 30 + "b"))
        await asyncio.sleep(0.05)
        slow.cancel()
        await asyncio.wait({slow})
        assert await value(tools, {"kind": "regex", "pattern": "x"}, "a") == 0

    async def test_a_schema_cannot_make_the_worker_fetch_anything(self, tools: ScorerTools) -> None:
        asked: list[str] = []

        async def answer(request: web.Request) -> web.Response:
            asked.append(request.path)
            return web.json_response({})

        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        with pytest.raises(ScoringFailed, match="cannot be used"):
            await scores(tools, {"kind": "json", "schema": {"$ref": f"http://127.0.0.1:{port}/schema"}}, "{}")
        await runner.cleanup()
        assert asked == []

    async def test_matching_is_fast_enough_for_every_sample(self, tools: ScorerTools) -> None:
        await value(tools, {"kind": "regex", "pattern": "a"}, "a")
        started = time.process_time()
        for _ in range(200):
            await value(tools, {"kind": "regex", "pattern": r"\d+"}, "call 112")
        assert (time.process_time() - started) / 200 < 0.005  # 0.2 ms
