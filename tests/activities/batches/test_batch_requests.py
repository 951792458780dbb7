"""What is sent of a sample in a batch: under the name that the provider knows, priced under the one that the spec has."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from activities.batches.protocols import NoBatchApi, protocol_of
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.endpoint_policy import KEY_NAMES, WITHOUT_BATCHES
from activities.endpoints.gate import Gates
from activities.targets.chat import ChatAnswers
from activities.targets.faults import Refused
from ratchet import Sample
from tests.support.allowed import lists_of
from tests.support.spec_building import request
from workflows.model.spec.targets.chat import ChatTarget
from workflows.rules.spec.batch_rules import batch_rules_of, time_of_a_batch

TARGET = {"kind": "chat", "model": "m", "messages": [{"role": "user", "content": "{{input.q}}"}]}


def asked(model: str, base_url: str | None = None, **parameters: Any) -> ChatAnswers:
    messages = [{"role": "user", "content": "{{input}}"}]
    stated = {"stream": False, **parameters}
    given = {"kind": "chat", "model": model, "base_url": base_url, "messages": messages, "parameters": stated}
    return ChatAnswers(ChatTarget.model_validate(given), ChatModels(Gates(), lists_of({})), {}, timeout=1.0)


@pytest.mark.parametrize(
    ("model", "base_url", "name", "url"),
    [
        ("openai/gpt", None, "gpt", "https://api.openai.com/v1"),
        ("gpt", None, "gpt", "https://api.openai.com/v1"),
        ("openai/gpt", "http://127.0.0.1:1/v1", "openai/gpt", "http://127.0.0.1:1/v1"),
    ],
)
async def test_a_request_names_the_model_as_its_endpoint_does(model: str, base_url: str | None, name: str, url: str) -> None:
    request = await asked(model, base_url).batch_request({}, Sample(id="s", input="hello"))
    assert (request.model, request.url) == (model, url)
    assert request.body == {"model": name, "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize(
    ("model", "base_url", "limit"),
    [
        ("gpt-5-mini", None, "max_completion_tokens"),
        ("openai/o4-mini", None, "max_completion_tokens"),
        ("gpt-5-mini", "https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("gpt-4.1", None, "max_tokens"),
        ("ft:gpt-4o-mini:us", None, "max_tokens"),
        ("gpt-5-mini", "https://gateway.example/v1", "max_tokens"),
        ("anthropic/claude-opus-4-1", None, "max_tokens"),
    ],
)
async def test_openais_newer_models_are_told_the_longest_answer_in_their_word(
    model: str, base_url: str | None, limit: str
) -> None:
    request = await asked(model, base_url, max_tokens=9).batch_request({}, Sample(id="s", input="hello"))
    assert {name: value for name, value in request.body.items() if name.startswith("max")} == {limit: 9}


@pytest.mark.parametrize(
    ("provider", "line"),
    [
        (
            "openai",
            {
                "custom_id": "name",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5},
            },
        ),
        (
            "anthropic",
            {
                "custom_id": f"name-{'k' * 15}",
                "params": {
                    "model": "m",
                    "max_tokens": 5,
                    "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
                },
            },
        ),
        (
            "google",
            {
                "metadata": {"key": "name"},
                "request": {
                    "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
                    "generationConfig": {"maxOutputTokens": 5},
                },
            },
        ),
    ],
)
def test_a_request_is_put_as_its_provider_has_it(provider: str, line: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
    assert protocol_of(provider).line("name", "k" * 48, body) == line


@pytest.mark.parametrize("provider", KEY_NAMES)
def test_what_is_planned_with_is_what_its_protocol_says(provider: str) -> None:
    if provider in WITHOUT_BATCHES:
        with pytest.raises(NoBatchApi):
            protocol_of(provider)
    else:
        assert protocol_of(provider).lasts == time_of_a_batch(provider)


@pytest.mark.parametrize(
    ("spec", "hours"),
    [
        ({}, 24),
        ({"target": {**TARGET, "model": "google/g"}}, 48),
        ({"target": {**TARGET, "model": "{{factors.model}}"}, "configuration": {"prompt": "x", "model": "google/g"}}, 48),
        ({"scorers": [{"kind": "rubric", "name": "exact", "rubric": "Good?", "model": "google/g"}]}, 48),
    ],
)
def test_a_trial_knows_how_long_its_batches_may_take(spec: dict[str, Any], hours: int) -> None:
    rules = batch_rules_of(request(**{"target": TARGET, "execution": {"mode": "auto"}, **spec}))
    assert rules is not None and rules.lasts == timedelta(hours=hours)


def test_a_provider_without_batches_is_refused_with_the_fix() -> None:
    with pytest.raises(Refused, match=r"those of openai, anthropic, google are; set execution\.mode: direct, or auto"):
        protocol_of("bedrock")
