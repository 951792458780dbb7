"""Anthropic's Messages, by Anthropic's SDK."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx2

from activities.endpoints.chat_protocol import parsed
from activities.endpoints.model_faults import OVERLOAD, ModelRefusal
from activities.endpoints.providers import TIMEOUT
from activities.endpoints.providers.claude_thinking import thinking_of
from activities.endpoints.providers.message_parts import (
    FilePart,
    LinkPart,
    Part,
    is_json,
    listed,
    parts_of,
    schema_of,
    text_of,
    thoughts_in,
    tool_calls_of,
    with_thoughts,
)
from activities.endpoints.response_bodies import ENCODINGS, lines
from activities.targets.faults import BROKEN_ANSWER, CandidateFault, Refused, Throttled, Unreachable
from workflows.model.failures import described, quoted, shorten
from workflows.rules.decisions.call_bounds import LONGEST_ANSWER

if TYPE_CHECKING:
    import anthropic

_FINISHES: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
_TRANSLATED: Final = (
    *("model", "messages", "stream", "max_tokens", "max_completion_tokens", "stop", "seed"),
    *("response_format", "reasoning_effort", "tools", "tool_choice"),
)


class AnthropicMessages:
    """Messages; there are no embeddings."""

    changes_no_request = False

    def client(self, url: str, key: str, http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
        import anthropic

        return anthropic.AsyncAnthropic(
            base_url=url.removesuffix("/v1"),
            api_key=key,
            max_retries=0,
            timeout=TIMEOUT,
            default_headers={"Accept-Encoding": ENCODINGS},
            http_client=http,
            open_telemetry=False,
        )

    async def prepare(self, client: object) -> None:
        return

    async def whole(self, client: anthropic.AsyncAnthropic, body: Mapping[str, Any]) -> dict[str, Any]:
        response = (await client.messages.with_raw_response.create(**_split(request_of(body)))).http_response
        return answer_of(parsed(response.content, response.headers.get("content-type", "")))

    async def streamed(
        self, client: anthropic.AsyncAnthropic, body: Mapping[str, Any], started: float
    ) -> tuple[dict[str, Any], float | None]:
        ttft_ms: float | None = None
        message = StreamedMessage()
        request = {**request_of(body), "stream": True}
        async with client.messages.with_streaming_response.create(**_split(request)) as response:
            async for line in lines(response.iter_bytes()):
                message.add(line)
                if ttft_ms is None and message.began:
                    ttft_ms = (time.perf_counter() - started) * 1000
                if message.complete:
                    break
            return answer_of(message.whole(response.headers.get("content-type", ""))), ttft_ms

    async def embedded(self, client: anthropic.AsyncAnthropic, model: str, texts: list[str]) -> dict[str, Any]:
        raise Refused(f"Anthropic has no embeddings, so model {model!r} gives none; name a model of another provider")

    def refusal_in(self, error: Exception) -> ModelRefusal | None:
        import anthropic

        if not isinstance(error, anthropic.APIStatusError):
            return None
        told = error.body.get("error") if isinstance(error.body, dict) else None
        said = told.get("message") if isinstance(told, dict) else None
        labels = tuple(str(label) for label in (error.type, error.error_code) if label)
        return ModelRefusal(error.status_code, said if isinstance(said, str) else error.message, labels, error.response.headers)

    def is_lost(self, error: Exception) -> bool:
        import anthropic

        return isinstance(error, anthropic.APIError)


def _split(request: Mapping[str, Any]) -> dict[str, Any]:
    """The SDK's arguments. What has to be there goes by its name, all else into the body as it is; so do messages, at each
    part of which it would look by its type."""
    named = {name: request[name] for name in ("model", "max_tokens", "stream") if name in request}
    rest = {name: value for name, value in request.items() if name not in named}
    return {**named, "messages": [], "extra_body": rest}


def request_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request for a chat completion as one for a message. Parameters that have no other name here are sent as they are.

    There is no seed; it is left out, since it only asks for what chance would bring.
    """
    system, messages = _messages(body.get("messages") or [])
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or LONGEST_ANSWER
    request: dict[str, Any] = {"model": body["model"], "max_tokens": limit, "messages": messages}
    if system:
        request["system"] = system
    if body.get("stop") is not None:
        request["stop_sequences"] = listed(body["stop"])
    if body.get("tools"):
        request["tools"] = [_tool(tool) for tool in body["tools"]]
    if body.get("tool_choice") is not None:
        request["tool_choice"] = _tool_choice(body["tool_choice"])
    schema, effort = schema_of(body.get("response_format")), body.get("reasoning_effort")
    held: dict[str, Any] = {"format": {"type": "json_schema", "schema": schema}} if schema is not None else {}
    thinking, told = (None, None) if effort is None else thinking_of(str(body["model"]), str(effort), limit)
    if thinking is not None:
        request["thinking"] = thinking
    if told is not None:
        held["effort"] = told
    if held:
        request["output_config"] = held
    if body.get("response_format") is not None and not is_json(body["response_format"]):
        request["response_format"] = body["response_format"]  # to be told that it is not known
    return {**request, **{name: value for name, value in body.items() if name not in _TRANSLATED}}


def _messages(messages: list[Mapping[str, Any]]) -> tuple[Any, list[dict[str, Any]]]:
    """The instructions, and what is said in turns. A message with `cache_control` is the last that is kept in the cache."""
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role in ("system", "developer"):
            system.append({"type": "text", "text": text_of(content), **_kept(message)})
            continue
        blocks = [_block(part) for part in parts_of(content)]
        if role == "tool":
            blocks = [{"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": blocks}]
        for call in tool_calls_of(message):
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)})
        blocks = with_thoughts(blocks, message)
        if blocks and _kept(message):
            blocks[-1] = {**blocks[-1], **_kept(message)}
        speaker = "assistant" if role == "assistant" else "user"
        if turns and turns[-1]["role"] == speaker:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": speaker, "content": blocks})
    is_marked = any("cache_control" in block for block in system)
    return system if is_marked else "\n\n".join(block["text"] for block in system), turns


def _kept(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"cache_control": message["cache_control"]} if message.get("cache_control") else {}


def _block(part: Part) -> Any:
    match part:
        case str():
            return {"type": "text", "text": part}
        case FilePart(media_type, content):
            source = {"type": "base64", "media_type": media_type, "data": content}
            return {"type": "image" if media_type.startswith("image/") else "document", "source": source}
        case LinkPart(url):
            return {"type": "image", "source": {"type": "url", "url": url}}
    return part


def _tool(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    described_as = {"description": function["description"]} if "description" in function else {}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"name": function.get("name"), **described_as, "input_schema": schema}


def _tool_choice(choice: Any) -> Any:
    if isinstance(choice, str):
        return {"type": _CHOICES.get(choice, choice)}
    function = choice.get("function") if isinstance(choice, Mapping) else None
    return {"type": "tool", "name": function.get("name")} if isinstance(function, Mapping) else choice


def answer_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message in the form of a chat completion; what has another form than messages have is left for its reader to refuse."""
    content, stop = message.get("content"), message.get("stop_reason")
    if "content" not in message:
        return {**message, "usage": _usage(message.get("usage"))}
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input")}}
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    said: dict[str, Any] = {"content": content, "tool_calls": calls, **thoughts_in(blocks, _is_thought, calls=bool(calls))}
    if isinstance(content, list):
        said["content"] = [block for block in content if not isinstance(block, Mapping) or block.get("type") == "text"]
    if stop == "refusal":  # what was said before is not to be used
        details = message.get("stop_details")
        why = details.get("explanation") if isinstance(details, Mapping) else None
        said = {"content": None, "refusal": why if isinstance(why, str) and why else "it gave no reason"}
    finish = _FINISHES.get(stop, stop) if isinstance(stop, str) else None
    return {"choices": [{"message": said, "finish_reason": finish}], "usage": _usage(message.get("usage"))}


def _is_thought(block: Mapping[str, Any]) -> bool:
    return block.get("type") in ("thinking", "redacted_thinking")


def _usage(usage: Any) -> Any:
    """What was read holds here neither what came from the cache nor what was written to it; a chat completion's holds all."""
    if not isinstance(usage, Mapping):
        return usage
    plain, written, cached, out = (
        _count(usage.get(name))
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    )
    details = usage.get("output_tokens_details")
    thoughts = _count(details.get("thinking_tokens")) if isinstance(details, Mapping) else 0
    read = plain + written + cached
    return {
        "prompt_tokens": read,
        "completion_tokens": out,
        "total_tokens": read + out,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": thoughts},
    }


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class StreamedMessage:
    """A streamed message, put together line by line."""

    def __init__(self) -> None:
        self.began = False
        """Whether something of the answer is there."""
        self.complete = False
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._stop: Any = None
        self._plain: list[str] = []

    def add(self, line: str) -> None:
        """Take in one line of the stream."""
        if not line.startswith("data:"):
            if not self._message:
                self._plain.append(line)
            return
        event = parsed(line[5:].strip())
        if event.get("type") == "error" or event.get("error"):
            raise _broken_off(event.get("error"), began=self.began)
        try:
            self._take(event)
        except CandidateFault:
            raise
        except Exception as error:  # nobody can list what strangers may send
            why = f"the answer cannot be understood: reading a piece raised {described(error)}"
            raise CandidateFault(shorten(why), kind=BROKEN_ANSWER, billed="yes") from None

    def _take(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._message = dict(event["message"])
                self._usage = dict(self._message.get("usage") or {})
            case "content_block_start":
                self._blocks[int(event["index"])] = dict(event["content_block"])
            case "content_block_delta":
                self._take_piece(int(event["index"]), event["delta"])
            case "message_delta":
                self._stop = event["delta"].get("stop_reason") or self._stop
                self._message |= {name: value for name, value in event["delta"].items() if name == "stop_details"}
                self._usage |= {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            case "message_stop":
                self.complete = True

    def _take_piece(self, place: int, delta: Mapping[str, Any]) -> None:
        kind = delta.get("type")
        if kind in ("thinking_delta", "signature_delta"):
            name, block = str(kind).removesuffix("_delta"), self._blocks[place]
            block[name] = f"{block.get(name) or ''}{delta[name]}"
            return
        text = delta.get("text") if kind == "text_delta" else delta.get("partial_json")
        if text is not None:
            self._pieces.setdefault(place, []).append(text)
            self.began = self.began or bool(text)

    def whole(self, content_type: str = "") -> dict[str, Any]:
        """The message in the form that it has when it is not streamed."""
        if not self._message and not self.complete and "event-stream" not in content_type:
            return parsed("\n".join(self._plain), content_type)  # it does not stream, although it was asked to
        if not self.complete and self._stop is None:
            raise Unreachable("the stream broke off before the answer was complete", kind=BROKEN_ANSWER)
        content = [self._block(place, block) for place, block in sorted(self._blocks.items())]
        return {**self._message, "content": content, "stop_reason": self._stop, "usage": self._usage}

    def _block(self, place: int, block: dict[str, Any]) -> dict[str, Any]:
        text = "".join(self._pieces.get(place, ()))
        if block.get("type") == "text":
            return {**block, "text": f"{block.get('text') or ''}{text}"}
        if block.get("type") != "tool_use" or not text:
            return block
        try:
            return {**block, "input": json.loads(text)}
        except (ValueError, RecursionError):
            return {**block, "input": text}


def _broken_off(error: Any, *, began: bool) -> Unreachable:
    label = error.get("type") if isinstance(error, Mapping) else None
    told = f"the stream broke off: {quoted(error, 200)}"
    return (
        Throttled(told, None, kind="overloaded") if label in OVERLOAD and not began else Unreachable(told, kind=BROKEN_ANSWER)
    )
