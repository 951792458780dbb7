"""The files of batches: written and read line by line, in little memory, whatever is in them."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from activities.batches.protocols import protocol_of
from activities.batches.request_file import RequestFile
from activities.batches.result_file import ModelAsked, ResultFiles
from activities.endpoints.endpoint_policy import ModelPlace
from activities.endpoints.response_bodies import LARGEST_ANSWER_BYTES
from activities.targets.faults import CandidateFault, Refused, Unreachable
from workflows.model.run.amounts import Amount
from workflows.model.spec.prices import Price

OPENAI = protocol_of("openai")
ASKED = ModelAsked("m", ModelPlace("openai", "http://model", "m"), OPENAI, Price(input=2, output=4).in_batches)


def answered(name: str, content: str = "yes", **more: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    body = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}], "usage": usage}
    return {"id": "r", "custom_id": name, "response": {"status_code": 200, "body": body}, "error": None} | more


def failed(name: str, status: int, code: str | None = None) -> dict[str, Any]:
    body = {"error": {"message": "no", "type": "x", "code": code}}
    return {"custom_id": name, "response": {"status_code": status, "body": body}}


def results(folder: Path, *files: list[Any]) -> ResultFiles:
    paths = [folder / f"{number}.jsonl" for number, _ in enumerate(files)]
    for path, lines in zip(paths, files, strict=True):
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return ResultFiles(paths, ASKED)


def test_each_line_is_what_it_is_when_it_is_asked_at_once(tmp_path: Path) -> None:
    expired = {"custom_id": "expired", "response": None, "error": {"code": "batch_expired", "message": "m"}}
    empty = answered("empty", "")
    found = results(
        tmp_path,
        ["", "no JSON", "7", answered("good"), answered("good", "later"), empty, answered("stranger")],
        [failed("bad", 400), failed("busy", 429), failed("down", 500), failed("gone", 400, "model_not_found"), expired],
    )
    found.note({"good", "empty", "bad", "busy", "down", "gone", "expired", "silent"})
    verdicts = {name: (line.verdict, line.error_class) for name, line in found.lines.items()}
    assert verdicts == {
        "good": ("answer", ""),
        "empty": ("answer", "empty answer"),
        "bad": ("answer", "http 400"),
        "busy": ("again", "http 429"),
        "down": ("again", "http 500"),
        "gone": ("refused", "http 400"),
        "expired": ("again", "batch expired"),
    }
    assert found.output("good").value == "yes"
    assert found.taken == Amount(3, 30, 2 * (10 * 2 + 5 * 4) / 2 / 1_000_000)
    for name, fault in (("bad", CandidateFault), ("busy", Unreachable), ("gone", Refused), ("empty", CandidateFault)):
        with pytest.raises(fault):
            found.output(name)


def test_an_answer_that_is_too_large_fails_its_sample_and_is_not_read_again(tmp_path: Path) -> None:
    name = "a" * 48
    found = results(tmp_path, [answered(name, "x" * (LARGEST_ANSWER_BYTES + 100_000)), answered("good")])
    found.note({name, "good"})
    assert {known: line.verdict for known, line in found.lines.items()} == {name: "answer", "good": "answer"}
    with pytest.raises(CandidateFault, match="more than 8,388,608 bytes"):
        found.output(name)


def test_a_file_takes_so_many_requests_and_so_many_bytes_and_gives_the_last_ones_back(tmp_path: Path) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 100}]}
    with RequestFile(tmp_path / "few", "key", 3) as few:
        assert [few.add(OPENAI, str(number), number, body) for number in range(4)] == [True, True, True, False]
    with RequestFile(tmp_path / "small", "key", 100, most_bytes=500) as small:
        assert [small.add(OPENAI, str(number), number + 7, body) for number in range(3)] == [True, True, False]
        assert small.keep_first(1) == 8
        assert small.keep_first(1) is None
    assert [json.loads(line)["custom_id"] for line in (tmp_path / "small").read_text().splitlines()] == ["0"]


def test_ten_thousand_requests_and_results_need_little_memory(tmp_path: Path) -> None:
    """Of 4 KB each: the two files have 80 MB."""
    names = [f"{number:048x}" for number in range(10_000)]
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 4000}]}
    tracemalloc.start()
    try:
        with RequestFile(tmp_path / "requests", "key", 50_000) as file:
            assert all(file.add(OPENAI, name, place, body) for place, name in enumerate(names))
        with (tmp_path / "results").open("w") as written:
            written.writelines(f"{json.dumps(answered(name, 'y' * 4000))}\n" for name in reversed(names))
        found = ResultFiles([tmp_path / "results"], ASKED)
        found.note(file.places.keys())
        assert len(found.output(names[5_000]).value) == 4000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found.lines) == 10_000
    assert peak < 16_000_000
