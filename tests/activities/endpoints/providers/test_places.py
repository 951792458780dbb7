"""Which provider a model is of, where it is asked, and whose key it is asked with."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from activities.endpoints.endpoint_policy import NO_KEY, NotListed
from activities.settings import MODEL_URLS
from tests.support.allowed import lists_of

GEMINI = "https://generativelanguage.googleapis.com"
OPENROUTER = "https://openrouter.ai/api/v1"
BEDROCK_IN_PARIS = "https://bedrock-runtime.eu-west-3.amazonaws.com"
THEIRS = {"ANTHROPIC_BASE_URL": "https://claude.example", "GOOGLE_GEMINI_BASE_URL": "https://gemini.example/v1beta"}


@pytest.mark.parametrize(
    ("variables", "model", "base_url", "place"),
    [
        ({}, "anthropic/claude", None, ("anthropic", "https://api.anthropic.com", "claude")),
        ({}, "google/gemini", None, ("google", "https://generativelanguage.googleapis.com", "gemini")),
        ({}, "openai/gpt", None, ("openai", "https://api.openai.com/v1", "gpt")),
        ({}, "gpt", None, ("openai", "https://api.openai.com/v1", "gpt")),
        ({}, "mistral/small", None, ("openai", "https://api.openai.com/v1", "mistral/small")),
        (THEIRS, "anthropic/claude", None, ("anthropic", "https://claude.example", "claude")),
        (THEIRS, "anthropic/claude", "https://claude.example/x", ("anthropic", "https://claude.example/x", "claude")),
        ({}, "google/gemini", "https://generativelanguage.googleapis.com/v1", ("google", ..., "gemini")),
        ({}, "bedrock/m", None, ("bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com", "m")),
        ({"AWS_DEFAULT_REGION": "eu-west-3"}, "bedrock/m", None, ("bedrock", BEDROCK_IN_PARIS, "m")),
        ({"AWS_REGION": "eu-west-3"}, "bedrock/m", BEDROCK_IN_PARIS, ("bedrock", BEDROCK_IN_PARIS, "m")),
        ({"AWS_REGION": "eu-west-1"}, "bedrock/m", BEDROCK_IN_PARIS, ("openai", BEDROCK_IN_PARIS, "bedrock/m")),
        ({MODEL_URLS: f"bedrock={BEDROCK_IN_PARIS}"}, "bedrock/m", BEDROCK_IN_PARIS, ("bedrock", BEDROCK_IN_PARIS, "m")),
        ({"OPENAI_BASE_URL": OPENROUTER, "AWS_REGION": "eu-west-3"}, "bedrock/m", None, ("openai", OPENROUTER, "bedrock/m")),
        # Names of gateways and of servers of open models are theirs, as before there were prefixes.
        ({}, "anthropic/claude", OPENROUTER, ("openai", OPENROUTER, "anthropic/claude")),
        ({"OPENAI_BASE_URL": OPENROUTER}, "anthropic/claude", None, ("openai", OPENROUTER, "anthropic/claude")),
        ({"OPENAI_BASE_URL": OPENROUTER}, "openai/gpt", None, ("openai", OPENROUTER, "openai/gpt")),
        ({"OPENAI_BASE_URL": OPENROUTER, "ANTHROPIC_API_KEY": "k"}, "google/gemma", None, ("openai", OPENROUTER, ...)),
        ({"OPENAI_BASE_URL": OPENROUTER, **THEIRS}, "anthropic/claude", None, ("anthropic", ..., "claude")),
        ({"OPENAI_BASE_URL": OPENROUTER, MODEL_URLS: f"openai={OPENROUTER}"}, "openai/gpt", None, ("openai", ..., "gpt")),
        ({MODEL_URLS: "anthropic=https://mine.example"}, "anthropic/claude", "https://mine.example", ("anthropic", ..., ...)),
        # Their endpoints that are like OpenAI's are asked like OpenAI's.
        ({}, "claude", "https://api.anthropic.com/v1", ("openai", "https://api.anthropic.com/v1", "claude")),
    ],
)
def test_a_prefix_names_a_provider_where_the_place_is_its_own(
    variables: dict[str, str], model: str, base_url: str | None, place: tuple[Any, ...]
) -> None:
    found = dataclasses.astuple(lists_of(variables).model_place(model, base_url))
    assert [one for one, wanted in zip(found, place, strict=True) if wanted is not ...] == [
        wanted for wanted in place if wanted is not ...
    ]


def test_each_key_goes_to_its_own_provider_only() -> None:
    keys = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g"}
    lists = lists_of({**keys, MODEL_URLS: "https://plain.example, anthropic=https://claude.example"})
    origins = {
        ("openai", "https://api.openai.com/v1"): "o",
        ("openai", "https://plain.example"): "o",
        ("anthropic", "https://api.anthropic.com"): "a",
        ("anthropic", "https://claude.example"): "a",
        ("google", "https://generativelanguage.googleapis.com"): "g",
    }
    for provider in ("openai", "anthropic", "google"):
        for _, url in origins:
            if (provider, url) in origins:
                assert lists.model_key(url, provider) == origins[provider, url]
            else:
                with pytest.raises(NotListed, match=MODEL_URLS):
                    lists.model_key(url, provider)
        assert lists.model_key("http://127.0.0.1:9/v1", provider) == NO_KEY
    assert lists_of({"GEMINI_API_KEY": "g", "GOOGLE_API_KEY": "h"}).model_key(GEMINI, "google") == "h"
