"""What is sent of a sample in a batch: under the name that the provider knows, priced under the one that the spec has."""

from __future__ import annotations

import pytest

from activities.endpoints.chat_models import ChatModels
from activities.endpoints.gate import Gates
from activities.targets.chat import ChatAnswers
from activities.targets.faults import Refused
from ratchet import Sample
from tests.support.allowed import lists_of
from workflows.model.spec.targets.chat import ChatTarget


def asked(model: str, base_url: str | None = None) -> ChatAnswers:
    messages = [{"role": "user", "content": "{{input}}"}]
    given = {"kind": "chat", "model": model, "base_url": base_url, "messages": messages, "parameters": {"stream": False}}
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


async def test_a_model_of_another_protocol_is_refused_with_the_fix() -> None:
    with pytest.raises(Refused, match=r"anthropic/claude is asked in another; set execution\.mode: direct"):
        await asked("anthropic/claude").batch_request({}, Sample(id="s", input="hello"))
