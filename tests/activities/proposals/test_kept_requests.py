"""What is kept of a request: no secret, no more than a bound, and only what JSON can say."""

from __future__ import annotations

import json

import pytest

from activities.proposals.kept_requests import LARGEST_REQUEST, kept_request, proposed_hash


def test_secrets_of_the_worker_are_hidden_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY_API_KEY", "hunter2-hunter2")
    asked = [{"role": "user", "content": "It said hunter2-hunter2.", "parts": {"hunter2-hunter2": ["sk-abcdef"]}}]
    kept = json.dumps(kept_request(asked))
    assert "hunter2" not in kept and "sk-abcdef" not in kept
    assert "It said (hidden)." in kept


@pytest.mark.parametrize("asked", [["x" * 10_000_000], ["y" * 900] * 2_000, {"deep": [{"records": ["z" * 9_000] * 500}]}])
def test_however_much_was_asked_so_much_is_kept(asked: object) -> None:
    assert 1_000 < len(json.dumps(kept_request(asked), ensure_ascii=False)) <= LARGEST_REQUEST * 1.1


def test_what_fits_is_kept_as_it_was() -> None:
    asked = {"records": [{"inputs": {"n": 1}, "score": 0.5, "feedback": None}], "factors": ("a", "b")}
    assert kept_request(asked) == {"records": [{"inputs": {"n": 1}, "score": 0.5, "feedback": None}], "factors": ["a", "b"]}
    assert kept_request({"score": float("nan")}) == {"score": "nan"}


def test_what_is_no_json_has_no_name() -> None:
    assert proposed_hash({"a": float("nan")}) is None
    assert proposed_hash({"a": 1, "b": "x"}) == proposed_hash({"b": "x", "a": 1.0})
