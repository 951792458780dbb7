"""Targets: what is run on a sample."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from workflows.model.frozen import SpecPart
from workflows.model.values import CanonicalMapping, ShortText, Text

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def _is_plugin_reference(value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        raise ValueError("is not a plug-in reference; write package.module:attribute")
    return value


PluginReference = Annotated[str, AfterValidator(_is_plugin_reference), Field(max_length=500)]
"""`package.module:attribute`, resolved by the worker from its own import path."""


class Message(SpecPart):
    """One message of a chat, with placeholders."""

    role: Literal["system", "user", "assistant", "developer", "tool"]
    """Who speaks."""
    content: Text
    """Text with placeholders: `{{input.name}}` from the sample, `{{factors.name}}` from the configuration."""


class ChatTarget(SpecPart):
    """A chat model behind any OpenAI-compatible URL.

    Factors named like a request parameter (`model`, `temperature`, `top_p`, `max_tokens`, …) are sent as that parameter.
    """

    kind: Literal["chat"]
    messages: Annotated[list[Message], Field(min_length=1)]
    """What is sent, in order."""
    model: ShortText = "{{factors.model}}"
    """The model's name. Default: the factor `model`."""
    parameters: CanonicalMapping = Field(default_factory=dict)
    """Further request parameters, passed through; they win over factors of the same name."""
    stream: bool = False
    """Stream the answer, which measures the time to the first token."""
    base_url: ShortText | None = None
    """Where the model answers. Default: OPENAI_BASE_URL of the worker. The key always comes from the worker's environment."""


class PythonTarget(SpecPart):
    """A Python callable `(configuration, sample, context) -> Output | str | dict`, sync (run in a thread) or async."""

    kind: Literal["python"]
    ref: PluginReference
    """`package.module:attribute`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""


Target = Annotated[ChatTarget | PythonTarget, Field(discriminator="kind")]


class Price(SpecPart):
    """What a model costs per million tokens."""

    input: Annotated[float, Field(ge=0)]
    """Per million tokens read."""
    output: Annotated[float, Field(ge=0)]
    """Per million tokens written."""
    cached_input: Annotated[float, Field(ge=0)] | None = None
    """Per million tokens read from the provider's cache. Default: the price of `input`."""
