"""The part of the OpenAI protocol that the simulated server speaks: what requests may say, and how answers look."""

import json
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clients.demo.deterministic_text import count_tokens, digest


class SimulatedMessage(BaseModel):
    """One message of a conversation; of files within it only their kind and the beginning of their hash is read."""

    model_config = ConfigDict(extra="allow", frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text of the message, whichever form it came in."""
        if isinstance(self.content, list):
            return "\n".join(filter(None, map(_text_of, self.content)))
        return self.content or ""


def _text_of(part: dict[str, Any]) -> str:
    """A part as text: `[image/png 89a1b2c3]` of a file that is inside of it."""
    image, file = part.get("image_url"), part.get("file")
    url = image.get("url") if isinstance(image, dict) else file.get("file_data") if isinstance(file, dict) else None
    if not isinstance(url, str):
        return str(part.get("text", "")) if part.get("type") == "text" else ""
    kind, encoded, data = url.removeprefix("data:").partition(";base64,")
    if not encoded:
        return f"[{part.get('type')}]"
    return f"[{kind} {sha256(b64decode(data)).hexdigest()[:8]}]"


class StreamOptions(BaseModel):
    """What a streamed answer should contain."""

    include_usage: bool = False


class Function(BaseModel):
    """A function that the model may call."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(BaseModel):
    """A tool that the model may use; those that are no functions are ignored."""

    model_config = ConfigDict(extra="allow", frozen=True)

    function: Function | None = None


class NamedTool(BaseModel):
    """The choice of one tool."""

    function: Function


class NamedSchema(BaseModel):
    """A JSON schema as `response_format` gives it."""

    shape: Annotated[dict[str, Any], Field(alias="schema")] = {}


class ResponseFormat(BaseModel):
    """The form that the answer must have."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: NamedSchema = NamedSchema()


class ChatRequest(BaseModel):
    """The body of `POST /v1/chat/completions`. Parameters that a simulation has no use for are accepted and ignored."""

    model_config = ConfigDict(extra="allow", frozen=True)

    model: str
    messages: Annotated[list[SimulatedMessage], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    seed: int | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: str | list[str] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    response_format: ResponseFormat | None = None

    @property
    def last_user_index(self) -> int | None:
        """Where the last user message is."""
        places = range(len(self.messages) - 1, -1, -1)
        return next((index for index in places if self.messages[index].role == "user"), None)

    @property
    def form(self) -> ResponseFormat:
        """The form that the answer must have; text if the request does not say."""
        return self.response_format or ResponseFormat()

    @property
    def token_limit(self) -> int | None:
        """The most tokens that the answer may have."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def stops(self) -> list[str]:
        """Strings at which the answer ends."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def prompt_tokens(self) -> int:
        """What the messages cost: their words, and four tokens around each."""
        return 3 + sum(4 + count_tokens(message.text) for message in self.messages)


class EmbeddingRequest(BaseModel):
    """The body of `POST /v1/embeddings`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    model: str
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, le=4096)] | None = None

    @property
    def texts(self) -> list[str]:
        """One text per vector; token numbers count as words."""
        if isinstance(self.input, str):
            return [self.input]
        numbers = [part for part in self.input if isinstance(part, int)]
        if numbers:
            return [" ".join(map(str, numbers))]
        return [part if isinstance(part, str) else str(part).strip("[]") for part in self.input]


def request_key(model: str, messages: list[dict[str, Any]]) -> str:
    """The name under which `stats` counts a request: equal for equal model and messages."""
    return digest(model, json.dumps(messages, sort_keys=True, ensure_ascii=False))


def error_body(message: str, kind: str, *, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error as OpenAI words it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def explain(problem: ValidationError) -> tuple[str, str | None]:
    """The first thing that is wrong with a body, and the parameter it concerns."""
    first = problem.errors(include_url=False, include_context=False)[0]
    param = ".".join(str(part) for part in first["loc"][:3]) or None
    return f"Invalid value for '{param or 'body'}': {first['msg']}", param


@dataclass(frozen=True)
class Answer:
    """A finished answer, before it is put into one body or a stream of chunks."""

    id: str
    model: str
    created: int
    fingerprint: str
    content: str | None
    tool: tuple[str, str] | None
    finish_reason: str
    usage: dict[str, Any]

    def body(self) -> dict[str, Any]:
        """The answer in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content, "refusal": None}
        if self.tool is not None:
            message["tool_calls"] = [self._tool_call(*self.tool)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self.usage}

    def chunks(self, *, include_usage: bool) -> Iterator[dict[str, Any]]:
        """The answer as the chunks of a stream: role, words, finish reason, usage if asked for."""
        head = self._head("chat.completion.chunk")
        if include_usage:
            head["usage"] = None
        for delta, finish in self._deltas():
            yield {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
        if include_usage:
            yield {**head, "choices": [], "usage": self.usage}

    def _deltas(self) -> Iterator[tuple[dict[str, Any], str | None]]:
        yield {"role": "assistant", "content": None if self.tool else "", "refusal": None}, None
        if self.tool is not None:
            yield {"tool_calls": [{"index": 0, **self._tool_call(*self.tool)}]}, None
        words = (self.content or "").split(" ")
        for index, word in enumerate(words if self.content else []):
            yield {"content": word if index == 0 else f" {word}"}, None
        yield {}, self.finish_reason

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }

    def _tool_call(self, name: str, arguments: str) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        return {"id": f"call_{digest(self.id, name)}", "type": "function", "function": function}


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    """What an answer cost."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
