"""What Converse is sent and answers, in the words of OpenAI's chat completions: requests, answers, streams."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from activities.endpoints.chat_protocol import parsed
from activities.endpoints.model_faults import OVERLOAD
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
from activities.targets.faults import BROKEN_ANSWER, CandidateFault, NotSent, Throttled, Unreachable
from workflows.model.failures import described, quoted, shorten

_FINISHES: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
}
_MALFORMED: Final = ("malformed_model_output", "malformed_tool_use")
_INFERENCE: Final = {"temperature": "temperature", "top_p": "topP"}
_OWN: Final = (
    *("guardrailConfig", "promptVariables", "additionalModelResponseFieldPaths", "requestMetadata"),
    *("performanceConfig", "serviceTier"),
)
"""Names of Converse's own. What nobody knows here is the model's own, and goes into `additionalModelRequestFields`."""

_FIELDS: Final = "additionalModelRequestFields"
_TRANSLATED: Final = (
    *("model", "messages", "stream", "max_tokens", "max_completion_tokens", "stop", "seed", "inferenceConfig"),
    *("response_format", "reasoning_effort", "tools", "tool_choice", _FIELDS, *_INFERENCE, *_OWN),
)
_DOCUMENTS: Final = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}
_PLACE_OF_AN_OBJECT: Final = "s3Location"
_CACHE_POINT: Final = {"type": "default"}


def request_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request for a chat completion as one for Converse.

    There is no seed; it is left out, since it only asks for what chance would bring.
    """
    system, messages = _messages(body.get("messages") or [])
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    inference = {name: body[given] for given, name in _INFERENCE.items() if body.get(given) is not None}
    if limit is not None:
        inference["maxTokens"] = limit
    if body.get("stop") is not None:
        inference["stopSequences"] = listed(body["stop"])
    inference |= body.get("inferenceConfig") or {}
    own = {name: value for name, value in body.items() if name not in _TRANSLATED}
    held: dict[str, Any] = {}
    _think(body["model"], body.get("reasoning_effort"), inference.get("maxTokens"), held, own)
    schema, form = schema_of(body.get("response_format")), body.get("response_format")
    if schema is not None and isinstance(form, Mapping):
        named = {"schema": json.dumps(schema), "name": form["json_schema"].get("name") or "answer"}
        held["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": named}}
    if form is not None and not is_json(form):
        own["response_format"] = form  # to be told that it is not known
    request = {
        "system": system,
        "inferenceConfig": inference,
        "toolConfig": _tools(body.get("tools") or [], body.get("tool_choice")),
        "outputConfig": held,
        _FIELDS: {**own, **(body.get(_FIELDS) or {})},
        **{name: body[name] for name in _OWN if name in body},
    }
    said = {name: value for name, value in request.items() if value}
    return {"modelId": body["model"], "messages": messages, **said}


def _think(model: str, effort: Any, limit: Any, held: dict[str, Any], own: dict[str, Any]) -> None:
    """Say how much is to be thought, in the words of the model's maker."""
    if effort is None:
        return
    least = "low" if effort == "minimal" else effort
    if "openai." in model:
        own["reasoning_effort"] = effort
    elif "amazon." in model:
        own["reasoningConfig"] = {"type": "disabled"} if effort == "none" else {"type": "enabled", "maxReasoningEffort": least}
    elif "anthropic." in model:
        thinking, told = thinking_of(model, str(effort), limit)
        if thinking is not None:
            own.setdefault("thinking", thinking)
        if told is not None:
            held["effort"] = told
    elif effort != "none":
        held["effort"] = least


def _messages(messages: list[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The instructions, and what is said in turns. A message with `cache_control` is the last that is kept in the cache."""
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    documents = 0
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role in ("system", "developer"):
            system += [{"text": text_of(content)}, *_kept(message)]
            continue
        blocks: list[Any] = []
        for part in parts_of(content):
            block = _block(part, documents + 1)
            documents += "document" in block
            blocks.append(block)
        if role == "tool":
            blocks = [{"toolResult": {"toolUseId": str(message.get("tool_call_id")), "content": blocks}}]
        for call in tool_calls_of(message):
            blocks.append({"toolUse": {"toolUseId": call.id, "name": call.name, "input": dict(call.arguments)}})
        blocks = [_sent_back(block) for block in with_thoughts(blocks, message)]
        if not blocks:
            continue
        blocks += _kept(message)
        speaker = "assistant" if role == "assistant" else "user"
        if turns and turns[-1]["role"] == speaker:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": speaker, "content": blocks})
    return system, turns


def _kept(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    mark = message.get("cache_control")
    if not mark:
        return []
    ttl = {"ttl": mark["ttl"]} if isinstance(mark, Mapping) and "ttl" in mark else {}
    return [{"cachePoint": {**_CACHE_POINT, **ttl}}]


def _sent_back(block: Any) -> Any:
    """A block with what was hidden of a thought as bytes, as boto3 takes it."""
    thought = block.get("reasoningContent") if isinstance(block, Mapping) else None
    hidden = thought.get("redactedContent") if isinstance(thought, Mapping) else None
    return block if hidden is None else {"reasoningContent": {"redactedContent": base64.b64decode(hidden)}}


def _block(part: Part, number: int) -> Any:
    match part:
        case str():
            return {"text": part}
        case FilePart(media_type, content):
            return _file(media_type, content, number)
        case LinkPart(url):
            raise NotSent(f"Bedrock fetches no files, so {url[:80]!r} cannot be sent; give the file itself")
    if _PLACE_OF_AN_OBJECT in json.dumps(part, default=str):
        # Bedrock would read it with the worker's rights, whoever named it.
        raise NotSent("a part of a message names an object in S3; workers let nobody but their operator name objects")
    return part


def _file(media_type: str, content: str, number: int) -> dict[str, Any]:
    try:
        source = {"bytes": base64.b64decode(content, validate=True)}
    except (binascii.Error, ValueError):
        raise NotSent("a file in a message is not in base64") from None
    if media_type.startswith("image/"):
        return {"image": {"format": media_type.removeprefix("image/"), "source": source}}
    if media_type not in _DOCUMENTS:
        raise NotSent(f"Bedrock takes no files of type {media_type}; it takes images and {', '.join(_DOCUMENTS)}")
    return {"document": {"format": _DOCUMENTS[media_type], "name": f"document {number}", "source": source}}


def _tools(tools: list[Any], choice: Any) -> dict[str, Any]:
    if not tools:
        return {}
    return {"tools": [_tool(tool) for tool in tools], **({} if choice is None else {"toolChoice": _tool_choice(choice)})}


def _tool(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    described_as = {"description": function["description"]} if function.get("description") else {}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"toolSpec": {"name": function.get("name"), **described_as, "inputSchema": {"json": schema}}}


def _tool_choice(choice: Any) -> Any:
    if choice in ("auto", "required"):
        return {"auto" if choice == "auto" else "any": {}}
    if choice == "none":
        raise NotSent("Bedrock's Converse has no tool_choice none; leave tools out")
    function = choice.get("function") if isinstance(choice, Mapping) else None
    return {"tool": {"name": function.get("name")}} if isinstance(function, Mapping) else choice


def answer_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of Converse in the form of a chat completion; what has another form is left for its reader to refuse."""
    usage = _usage(answer.get("usage"))
    output, stop = answer.get("output"), answer.get("stopReason")
    message = output.get("message") if isinstance(output, Mapping) else None
    if not isinstance(message, Mapping):
        return {**answer, "usage": usage}
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    calls = [_call(block["toolUse"]) for block in blocks if block.get("toolUse")]
    said: Any = [part for block in blocks for part in _texts(block)] if isinstance(content, list) else content
    if stop in _MALFORMED:
        said, calls = None, []
    finish = _FINISHES.get(stop, stop) if isinstance(stop, str) else None
    thoughts = thoughts_in(blocks, lambda block: "reasoningContent" in block, calls=bool(calls))
    told = {"content": said, "tool_calls": calls, **thoughts}
    return {"choices": [{"message": told, "finish_reason": finish}], "usage": usage}


def _texts(block: Mapping[str, Any]) -> list[Any]:
    if "text" in block:
        return [block]
    cited = block.get("citationsContent")
    parts = cited.get("content") if isinstance(cited, Mapping) else None
    return list(parts) if isinstance(parts, list) else []


def _call(call: Any) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        return {"function": call}
    return {"id": call.get("toolUseId"), "function": {"name": call.get("name"), "arguments": call.get("input")}}


def _usage(usage: Any) -> Any:
    """What was read holds here neither what came from the cache nor what was written to it; a chat completion's holds all.
    What was thought is counted with what was said, and nobody says how much it was."""
    if not isinstance(usage, Mapping):
        return usage
    plain, written, cached, out = (
        token_count(usage.get(name))
        for name in ("inputTokens", "cacheWriteInputTokens", "cacheReadInputTokens", "outputTokens")
    )
    read = plain + written + cached
    return {
        "prompt_tokens": read,
        "completion_tokens": out,
        "total_tokens": read + out,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
    }


def token_count(value: Any) -> int:
    """A number of tokens; 0 where none was told."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class StreamedMessage:
    """A streamed answer, put together event by event."""

    def __init__(self) -> None:
        self.began = False
        """Whether something of the answer is there."""
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._stop: Any = None
        self._usage: Any = None

    def add(self, headers: Mapping[str, Any], payload: bytes) -> None:
        """Take in one event."""
        kind = headers.get(":message-type")
        if kind != "event":
            label = str(headers.get(":exception-type") or headers.get(":error-code") or "")
            said = headers.get(":error-message") or payload.decode("utf-8", "replace")
            raise _broken_off(label, said, began=self.began)
        event = parsed(payload)
        try:
            self._take(str(headers.get(":event-type")), event)
        except CandidateFault:
            raise
        except Exception as error:  # nobody can list what strangers may send
            why = f"the answer cannot be understood: reading a piece raised {described(error)}"
            raise CandidateFault(shorten(why), kind=BROKEN_ANSWER, billed="yes") from None

    def _take(self, name: str, event: Mapping[str, Any]) -> None:
        match name:
            case "contentBlockStart":
                self._blocks[int(event["contentBlockIndex"])] = {part: dict(value) for part, value in event["start"].items()}
                self.began = self.began or "toolUse" in event["start"]
            case "contentBlockDelta":
                self._take_piece(int(event["contentBlockIndex"]), event["delta"])
            case "messageStop":
                self._stop = event["stopReason"]
            case "metadata":
                self._usage = event.get("usage")

    def _take_piece(self, place: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks.setdefault(place, {})
        if "text" in delta:
            block["text"] = block.get("text", "") + delta["text"]
            self.began = self.began or bool(delta["text"])
        if "reasoningContent" in delta:
            _add_thought(block.setdefault("reasoningContent", {}), delta["reasoningContent"])
        if "toolUse" in delta:
            self._inputs.setdefault(place, []).append(delta["toolUse"].get("input") or "")

    def whole(self) -> dict[str, Any]:
        """The answer in the form that it has when it is not streamed."""
        if self._stop is None:
            raise Unreachable("the stream broke off before the answer was complete", kind=BROKEN_ANSWER)
        content = [self._block(place, block) for place, block in sorted(self._blocks.items())]
        return {"output": {"message": {"content": content}}, "stopReason": self._stop, "usage": self._usage}

    def _block(self, place: int, block: dict[str, Any]) -> dict[str, Any]:
        text = "".join(self._inputs.get(place, ()))
        if "toolUse" not in block or not text:
            return block
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            given = text
        return {**block, "toolUse": {**block["toolUse"], "input": given}}


def _add_thought(thought: dict[str, Any], piece: Mapping[str, Any]) -> None:
    if "redactedContent" in piece:
        thought["redactedContent"] = thought.get("redactedContent", "") + piece["redactedContent"]
        return
    text = thought.setdefault("reasoningText", {"text": ""})
    for name in ("text", "signature"):
        if name in piece:
            text[name] = text.get(name, "") + piece[name]


def _broken_off(label: str, said: Any, *, began: bool) -> Unreachable:
    told = f"the stream broke off: {label}: {quoted(said, 200)}"
    overloaded = f"{label[:1].upper()}{label[1:]}" in OVERLOAD
    return Throttled(told, None, kind="overloaded") if overloaded and not began else Unreachable(told, kind=BROKEN_ANSWER)
