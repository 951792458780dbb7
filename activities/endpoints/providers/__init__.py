"""Providers of models: who speaks which protocol, by which SDK; one file for each.

A provider is handed a request in the form of OpenAI's chat completions, and hands back what was answered in that form, so that
what an answer means, what it took and whose fault it is are said once for all of them (`chat_protocol`, `endpoint_policy`).
Its SDK makes the request and nothing else: it retries nothing, and reads no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ClassVar, Final, Protocol

import httpx2

from activities.endpoints.endpoint_policy import BEDROCK, OPENAI
from activities.endpoints.model_faults import ModelRefusal
from activities.endpoints.response_bodies import bound_the_body
from activities.preparing.extras import missing_provider
from activities.targets.faults import Refused

CONNECT_TIMEOUT: Final = 10.0
MOST_CONNECTIONS: Final = 10_000
"""The run's own limits decide what is in flight, so the client must not add one."""

TIMEOUT: Final = httpx2.Timeout(None, connect=CONNECT_TIMEOUT)


class Provider(Protocol):
    """One protocol of model endpoints. Bodies and answers are in the form of OpenAI's chat completions."""

    changes_no_request: ClassVar[bool]
    """Whether its requests are signed, so that they have to be sent to the letter."""

    def client(self, url: str, key: str, http: httpx2.AsyncClient) -> Any:
        """Make the SDK's client of one endpoint. It retries nothing."""
        ...

    async def prepare(self, client: Any) -> None:
        """Do what takes long, and only once, before the first call is timed."""
        ...

    async def whole(self, client: Any, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ask once, and return the complete answer."""
        ...

    async def streamed(self, client: Any, body: Mapping[str, Any], started: float) -> tuple[dict[str, Any], float | None]:
        """Ask once, and return the answer put together, and the milliseconds to its first piece."""
        ...

    async def embedded(self, client: Any, model: str, texts: list[str]) -> dict[str, Any]:
        """Ask once for the vectors of some texts."""
        ...

    def refusal_in(self, error: Exception) -> ModelRefusal | None:
        """Read what the endpoint said in place of an answer; None where it said nothing."""
        ...

    def is_lost(self, error: Exception) -> bool:
        """Say whether the SDK tells with this error that the connection failed."""
        ...


_PROVIDERS: Final = {
    OPENAI: ("openai_compatible", "OpenAiCompatible"),
    "anthropic": ("anthropic_messages", "AnthropicMessages"),
    "google": ("gemini_content", "GeminiContent"),
    BEDROCK: ("bedrock_converse", "BedrockConverse"),
}
"""By the prefix of a model's name, the file and the class."""


def provider_named(name: str) -> Provider:
    """Load a provider. Raises Refused where its package is missing."""
    missing = missing_provider(name)
    if missing is not None:
        raise Refused(f"this worker cannot ask models {name}/…; {missing}")
    module, class_name = _PROVIDERS[name]
    found: Provider = getattr(import_module(f"{__name__}.{module}"), class_name)()
    return found


def http_client(
    *hooks: Callable[[httpx2.Response], Any], follow_redirects: bool, to_the_letter: bool = False
) -> httpx2.AsyncClient:
    """Make what an SDK sends its requests by: bodies of answers are bounded before anybody reads them.

    A key in a header of the vendor's own would follow a redirect to wherever it leads, so such clients follow none. The
    faster client writes paths anew, which a signature does not survive: `to_the_letter` takes the other one.
    """
    import openai

    made = httpx2.AsyncClient if to_the_letter else openai.DefaultAioHttpClient
    return made(
        limits=httpx2.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=30.0),
        event_hooks={"response": [bound_the_body, *hooks]},
        follow_redirects=follow_redirects,
        timeout=TIMEOUT,
    )
