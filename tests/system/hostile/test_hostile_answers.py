"""Whatever an endpoint answers is at worst one failed sample, and paid for once: through real HTTP, Temporal and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.support.hostile_harness import Arena, Ended, as_json, spec
from tests.support.strange_endpoints import (
    Answer,
    Stranger,
    body,
    calls,
    completion,
    endless,
    nested,
    packed,
    said,
    stranger,
    stream,
    streamed,
    when_asked,
)

DIGITS: Final = int("9" * 300)
BOMB_BYTES: Final = 60_000_000
LONGEST: Final = 200.0

WHOLE: Final[dict[str, Answer]] = {
    "tool-calls-a-number": said({"content": None, "tool_calls": 5}),
    "tool-calls-of-texts": said({"content": None, "tool_calls": ["f"]}),
    "a-function-that-is-text": said({"content": None, "tool_calls": [{"function": "f"}]}),
    "content-a-mapping": said({"content": {"text": "a"}}),
    "parts-without-text": said({"content": [{"type": "image_url", "image_url": {"url": "x"}}]}),
    "no-choices": body(json.dumps({"choices": [], "usage": {}})),
    "choices-a-text": body(json.dumps({"choices": "abc"})),
    "message-a-list": said([1, 2]),
    "deep": body('{"choices": ' + nested(10_000) + "}"),
    "deep-message": body(json.dumps(completion({"content": None, "tool_calls": "HERE"})).replace('"HERE"', nested(900))),
    "no-json": body("{" * 50),
    "no-text": body(b"\xff\xfe\xfa"),
    "20-megabytes": when_asked(lambda: said({"content": "a" * 20_000_000})),
    "2-megabytes": when_asked(lambda: said({"content": "a" * 2_000_000})),
    "a-bomb": when_asked(lambda: packed(b'{"choices": "' + b"a" * BOMB_BYTES + b'"}')),
    "a-broken-bomb": body(b"not packed at all", Content_Encoding="gzip"),
    "an-unknown-packing": body(b"who knows", Content_Encoding="br"),
    "a-million-calls": when_asked(lambda: said({"content": None, "tool_calls": [{}] * 1_000_000})),
    "a-million-lists": when_asked(
        lambda: said({"content": None, "tool_calls": [{"function": {"arguments": [[]] * 1_000_000}}]})
    ),
    "endless": endless(b"[" * 65536),
}
"""Answers that fail their sample."""

FINE: Final[dict[str, Answer]] = {
    "300-digits": said(
        {"content": "an a"}, usage={"prompt_tokens": DIGITS, "completion_tokens": -DIGITS, "total_tokens": DIGITS}
    ),
    "nan-tokens": said({"content": "an a"}, usage={"total_tokens": float("nan"), "prompt_tokens": 1e300}),
    "usage-a-text": said({"content": "an a"}, usage="much"),
    "parts": said({"content": [{"type": "text", "text": "an a"}, {"type": "thinking", "thinking": "…"}]}),
    "a-lone-surrogate": said({"content": "an a \ud800"}),
    "a-nul": said({"content": "an a \x00"}),
    "nan-arguments": said(calls('{"a": NaN}')),
    "deep-arguments": said(calls(nested(10_000))),
    "rather-deep-arguments": said(calls(nested(150))),
    "arguments-an-object": said(calls({"a": 1})),
    "finish-a-mapping": said({"content": "an a"}, finish={"reason": ["a"]}),
    "twice-the-same-key": body('{"choices": 5, ' + json.dumps(completion({"content": "an a"}))[1:]),
    "another-content-type": body(json.dumps(completion({"content": "an a"})), content_type="application/octet-stream"),
}
"""Answers that look hostile, and can be understood."""

STREAMED: Final[dict[str, Answer]] = {
    "streamed-arguments-an-object": streamed({"tool_calls": [{"index": "a", "function": {"arguments": {"a": 1}}}]}),
    "streamed-content-a-number": streamed({"content": 5}),
    "streamed-calls-a-number": streamed({"tool_calls": 5}),
    "streamed-choices-a-mapping": stream('{"choices": {"delta": 1}}'),
    "streamed-choices-of-numbers": stream('{"choices": [7]}'),
    "streamed-delta-a-list": stream('{"choices": [{"delta": [1]}]}'),
    "streamed-rubbish": stream('{"choices": [{"delta": {"content": "a"}}]}', "{{{{", "null"),
    "streamed-nothing": streamed(),
    "streamed-20-megabytes": streamed({"content": "a" * 20_000_000}),
    "streamed-endless": endless(
        b'data: {"choices": [{"delta": {"content": "' + b"a" * 65536 + b'"}}]}\n\n', "text/event-stream"
    ),
    "streamed-without-lines": endless(b"data: " + b"a" * 65536, "text/event-stream"),
    "streamed-a-letter-at-a-time": streamed(*[{"tool_calls": [{"function": {"arguments": "aaaa"}}]}] * 60_000, {"content": 5}),
    "streamed-nothing-at-all": body(""),
}
STREAMED_FINE: Final[dict[str, Answer]] = {
    "streamed-parts": streamed({"content": [{"type": "text", "text": "an a"}]}),
    "streamed-halves": streamed({"content": "an a \ud83d"}, {"content": "\ude00"}),
    "streamed-line-separators": stream('{"choices": [{"delta": {"content": "an a\u2028b"}, "finish_reason": "stop"}]}'),
    "streamed-digits": streamed({"content": "an a"}, usage={"total_tokens": DIGITS}),
    "streamed-objects": streamed({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}),
    "not-streamed": said({"content": "an a"}),
}
STEPS: Final[dict[str, Answer]] = {
    "steps-nan": said({"content": '{"key": NaN}'}),
    "steps-deep": said({"content": '{"key": ' + nested(5_000) + "}"}),
    "steps-parts": said({"content": [{"text": 5}]}),
}
JUDGED: Final[dict[str, Answer]] = {
    "judged-digits": said({"content": json.dumps({"reason": "a", "score": DIGITS})}),
    "judged-400-digits": said({"content": json.dumps({"reason": "a", "score": int("9" * 400)})}),
    "judged-nan": said({"content": '{"reason": "a", "score": NaN}'}),
    "judged-calls": said(calls("{")),
    "judged-deep": said({"content": nested(10_000)}),
    "judged-list": said({"content": ["a", 5]}),
}
EMBEDDED: Final[dict[str, Answer]] = {
    "embedded-text": body('{"data": "vectors"}'),
    "embedded-digits": body(json.dumps({"data": [{"index": 0, "embedding": [int("9" * 400)]}] * 2})),
    "embedded-nan": body(json.dumps({"data": [{"index": float("nan"), "embedding": [float("nan")]}] * 2})),
    "embedded-deep": body('{"data": ' + nested(900) + "}"),
}


FAIR: Final[dict[str, Answer]] = {
    "good": said({"content": "an answer"}),
    "keyed": said({"content": '{"key": "an a"}'}),
    "verdict": said({"content": '{"reason": "It is good.", "score": 5}'}),
    "vectors": body(json.dumps({"data": [{"index": n, "embedding": [1.0, 0.0]} for n in range(2)], "usage": {}})),
}
RUNS: Final[dict[str, dict[str, Answer]]] = {
    "whole": WHOLE | FINE,
    "streamed": STREAMED | STREAMED_FINE,
    "steps": STEPS,
    "judged": JUDGED,
    "embedded": EMBEDDED,
}
"""One run for each protocol: a sample for each hostile answer, and enough whose answers are fair."""
FAIR_SAMPLES: Final = 30


def asking(kind: str, base_url: str) -> dict[str, Any]:
    fair = {"steps": "keyed", "judged": "verdict", "embedded": "vectors"}.get(kind, "good")
    inputs = {name: f"<<{name}|0>>" for name in RUNS[kind]} | {
        f"fair {n}": f"<<{fair}|{kind} {n}>>" for n in range(FAIR_SAMPLES)
    }
    about: dict[str, dict[str, Any]] = {
        "streamed": {"target": {"stream": True}},
        "steps": {"target": {"messages": None, "steps": STEPS_ASKED}},
        "judged": {"target": {"messages": [{"role": "user", "content": "{{input}} <<good|x>>"}]}, "scorer": JUDGE},
        "embedded": {"target": {"messages": [{"role": "user", "content": "<<good|x>>"}]}, "scorer": LIKENESS},
    }
    parts = about.get(kind, {})
    target = {"kind": "chat", "model": "m", "base_url": base_url, "messages": [{"role": "user", "content": "{{input}}"}]}
    contains = {"kind": "contains", "name": "height", "values": ["an a"]}
    scorer = {"base_url": base_url, **parts["scorer"]} if "scorer" in parts else contains
    return spec(
        configuration={"prompt": "Answer."},
        target={name: value for name, value in {**target, **parts.get("target", {})}.items() if value is not None},
        dataset={"items": [{"id": name, "input": text, "expected": text} for name, text in inputs.items()], "splits": "none"},
        scorers=[scorer],
        objective={"metric": scorer["name"]},
        optimizer="none",
        execution={"sample_timeout": "120s", "min_coverage": 0.1},
        stop={"max_rounds": 1},
    )


STEPS_ASKED: Final = [
    {"name": "first", "messages": [{"role": "user", "content": "{{input}}"}]},
    {"name": "second", "messages": [{"role": "user", "content": "<<good|second>> {{steps.first.key}}"}]},
]
JUDGE: Final = {"kind": "rubric", "name": "tone", "rubric": "Judge.", "model": "j", "show": ["input"]}
LIKENESS: Final = {"kind": "similarity", "name": "like", "model": "e"}


@pytest_asyncio.fixture(scope="module")
async def endpoint() -> AsyncIterator[Stranger]:
    async with stranger({**FAIR, **{name: answer for run in RUNS.values() for name, answer in run.items()}}) as there:
        yield there


@pytest_asyncio.fixture(scope="module")
async def ended(arena: Arena, endpoint: Stranger) -> dict[str, Ended]:
    """One after the other: on a busy machine, too, no heartbeat may be missed because of the endpoint's own work."""
    return {
        kind: await arena.run([as_json(asking(kind, endpoint.base_url))], f"hostile-{kind}", longest=LONGEST) for kind in RUNS
    }


@pytest_asyncio.fixture(scope="module")
async def stored(arena: Arena, ended: dict[str, Ended]) -> dict[str, str]:
    """How each sample ended."""
    async with arena.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT s.item_id, o.status FROM outcomes o JOIN runs r USING (run_id) "
            "JOIN samples s ON s.dataset_id = r.dataset_id AND s.item_hash = o.item_hash WHERE o.run_id = ANY($1)",
            [end.run_id for end in ended.values()],
        )
    return {row["item_id"]: row["status"] for row in rows if not row["item_id"].startswith("fair")}


@pytest.mark.parametrize("kind", RUNS)
async def test_no_answer_stops_a_run_or_costs_another_sample_anything(
    kind: str, ended: dict[str, Ended], endpoint: Stranger
) -> None:
    end = ended[kind]
    assert end.status == "completed", str(end)
    assert end.rows["answers"] == len(RUNS[kind]) + FAIR_SAMPLES
    assert end.result["spend"]["tokens"] <= 11 * endpoint.calls.total()


@pytest.mark.parametrize("name", [*WHOLE, *STREAMED, *STEPS])
async def test_an_answer_that_nobody_can_understand_is_not_paid_for_twice(
    name: str, stored: dict[str, str], endpoint: Stranger
) -> None:
    assert endpoint.of(name).total() == 1
    assert stored[name] == "failed"


@pytest.mark.parametrize("name", [*FINE, *STREAMED_FINE])
async def test_an_answer_that_can_be_understood_fails_nothing(name: str, stored: dict[str, str], endpoint: Stranger) -> None:
    assert endpoint.of(name).total() == 1
    assert stored[name] == "answered"


@pytest.mark.parametrize("name", [*JUDGED, *EMBEDDED])
async def test_a_judge_that_answers_rubbish_leaves_one_sample_without_a_score(
    name: str, stored: dict[str, str], endpoint: Stranger
) -> None:
    assert endpoint.of(name).total() == (3 if name in JUDGED else 1)
    assert name not in stored
