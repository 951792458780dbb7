"""Google's generateContent and its embeddings, by Google's SDK."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx2

from activities.endpoints.chat_protocol import THOUGHTS, Thoughts, is_page, parsed
from activities.endpoints.endpoint_policy import UNTAKEN_FILES, causes_of
from activities.endpoints.model_faults import OVERLOAD, ModelRefusal
from activities.endpoints.providers.message_parts import (
    FilePart,
    LinkPart,
    Part,
    is_json,
    listed,
    parts_of,
    schema_of,
    text_of,
    tool_calls_of,
)
from activities.endpoints.response_bodies import ENCODINGS
from activities.targets.faults import BROKEN_ANSWER, CandidateFault, NotSent, Throttled, Unreachable

if TYPE_CHECKING:
    from google import genai

_VERSION: Final = re.compile(r"(.*)/(v\d\w*)")
DEFAULT_VERSION: Final = "v1beta"

_WITHHELD: Final = frozenset(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT")
)
"""Why an answer ends that is not given out."""

_SIGNATURE: Final = "thoughtSignature"
"""What it thought before a call of a tool, sealed: newer models refuse to go on without it."""

_REPLACED: Final = "."
"""What the SDK is handed as contents: the request's own take its place, untouched by the SDK, which rewrites what it knows."""

_CONFIGURED: Final = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_TRANSLATED: Final = (
    *("model", "messages", "stream", "max_tokens", "max_completion_tokens", "stop"),
    *("response_format", "reasoning_effort", "tools", "tool_choice", "generationConfig", *_CONFIGURED),
)
_CHOICES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_OF_THE_REQUEST: Final = ("safetySettings", "cachedContent", "toolConfig", "labels", "serviceTier", "store")
"""Names of Google's own that stand beside the generation's configuration; all others are within it."""

_THOUGHTS: Final = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
"""Tokens, for models that count them; newer ones are told a level."""


class Answered(Exception):
    """An answer whose status says that it is none. Told before the SDK reads it, which is not ready for every body."""

    def __init__(self, refusal: ModelRefusal) -> None:
        super().__init__(refusal.said)
        self.refusal = refusal


class GeminiContent:
    """Contents and embeddings."""

    changes_no_request = False

    def client(self, url: str, key: str, http: httpx2.AsyncClient) -> genai.Client:
        from google import genai
        from google.genai import types

        versioned = _VERSION.fullmatch(url)
        address, version = (versioned[1], versioned[2]) if versioned is not None else (url, DEFAULT_VERSION)
        http.event_hooks["response"].append(refuse)
        return genai.Client(
            vertexai=False,  # whatever the environment says of Google's cloud
            api_key=key,
            http_options=types.HttpOptions(
                base_url=address, api_version=version, headers={"Accept-Encoding": ENCODINGS}, httpx_async_client=http
            ),
        )

    async def prepare(self, client: object) -> None:
        return

    async def whole(self, client: genai.Client, body: Mapping[str, Any]) -> dict[str, Any]:
        response = await client.aio.models.generate_content(
            model=body["model"], contents=_REPLACED, config=_config(request_of(body), raw=True)
        )
        got = response.sdk_http_response
        headers = dict(got.headers or {}) if got is not None else {}
        kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
        return answer_of(parsed((got.body if got is not None else None) or "", kind))

    async def streamed(
        self, client: genai.Client, body: Mapping[str, Any], started: float
    ) -> tuple[dict[str, Any], float | None]:
        from google.genai import errors

        ttft_ms: float | None = None
        together = StreamedContent()
        try:
            stream = await client.aio.models.generate_content_stream(
                model=body["model"], contents=_REPLACED, config=_config(request_of(body), raw=False)
            )
            async for chunk in stream:
                together.add(chunk.model_dump(mode="json", by_alias=True, exclude_none=True))
                if ttft_ms is None and together.began:
                    ttft_ms = (time.perf_counter() - started) * 1000
        except errors.APIError as error:
            raise _broken_off(error, began=together.began) from None
        except errors.UnknownApiResponseError as error:
            raise CandidateFault(f"the answer cannot be understood: {error}"[:300], kind=BROKEN_ANSWER) from None
        return answer_of(together.whole()), ttft_ms

    async def embedded(self, client: genai.Client, model: str, texts: list[str]) -> dict[str, Any]:
        """Google counts no tokens here."""
        response = await client.aio.models.embed_content(model=model, contents=list(texts))
        vectors = [{"index": index, "embedding": one.values} for index, one in enumerate(response.embeddings or [])]
        return {"data": vectors}

    def refusal_in(self, error: Exception) -> ModelRefusal | None:
        from google.genai import errors

        answered = next((one for one in causes_of(error) if isinstance(one, Answered)), None)
        if answered is not None:
            return answered.refusal
        return refusal_of(error.code, error.details, {}) if isinstance(error, errors.APIError) else None

    def is_lost(self, error: Exception) -> bool:
        return False  # the SDK lets the errors of its HTTP client through


async def refuse(response: httpx2.Response) -> None:
    """Raise what a response says that is no answer, or that it is a web page; a hook of the client's."""
    if response.status_code < 300:
        if is_page(response.headers.get("content-type", "")):
            raise Unreachable("the endpoint answered a web page", kind=BROKEN_ANSWER)
        return
    body = await response.aread()
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = body.decode("utf-8", "replace")
    raise Answered(refusal_of(response.status_code, told, response.headers))


def refusal_of(status: int, told: Any, headers: Mapping[str, str]) -> ModelRefusal:
    """What Google says of an error, with the delay that it asks for and the reasons that it names."""
    whole = told[0] if isinstance(told, list) and told else told
    error = whole.get("error", whole) if isinstance(whole, Mapping) else {}
    error = error if isinstance(error, Mapping) else {"message": str(error)}
    said, labels, delay = error.get("message"), [error.get("status")], None
    details = error.get("details")
    for detail in details if isinstance(details, list) else []:
        if not isinstance(detail, Mapping):
            continue
        labels.append(detail.get("reason"))
        delay = _seconds(detail.get("retryDelay")) if "retryDelay" in detail else delay
    known = tuple(label for label in labels if isinstance(label, str))
    return ModelRefusal(status, said if isinstance(said, str) else str(told), known, headers, delay)


def _seconds(duration: Any) -> float | None:
    """Seconds of a duration as Google writes it: `34.07s`."""
    try:
        seconds = float(str(duration).removesuffix("s"))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def _broken_off(error: Any, *, began: bool) -> Unreachable:
    refusal = refusal_of(error.code if isinstance(error.code, int) else 0, error.details, {})
    told = f"the stream broke off: {refusal.said[:200]}"
    if not began and (refusal.status == 429 or OVERLOAD.intersection(refusal.labels)):
        return Throttled(told, refusal.retry_after, kind="overloaded")
    return Unreachable(told, kind=BROKEN_ANSWER)


def _config(request: Mapping[str, Any], *, raw: bool) -> Any:
    """The SDK's configuration of a request: all that it might add itself is turned off."""
    from google.genai import types

    return types.GenerateContentConfig(
        http_options=types.HttpOptions(extra_body=dict(request)),
        should_return_http_response=raw or None,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        automatic_continuation=False,
    )


def request_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request for a chat completion as one to generate content. Parameters that have no other name here go into the
    generation's configuration as they are."""
    system, contents = _contents(body.get("messages") or [])
    config: dict[str, Any] = {_CONFIGURED[name]: body[name] for name in _CONFIGURED if body.get(name) is not None}
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is not None:
        config["maxOutputTokens"] = limit
    if body.get("stop") is not None:
        config["stopSequences"] = listed(body["stop"])
    if is_json(body.get("response_format")):
        config["responseMimeType"] = "application/json"
        schema = schema_of(body["response_format"])
        config |= {} if schema is None else {"responseJsonSchema": schema}
    if body.get("reasoning_effort") is not None:
        config["thinkingConfig"] = _thinking(str(body["model"]), str(body["reasoning_effort"]))
    others = {name: value for name, value in body.items() if name not in _TRANSLATED}
    request: dict[str, Any] = {name: others.pop(name) for name in _OF_THE_REQUEST if name in others}
    stated = body.get("generationConfig")
    request["generationConfig"] = {**config, **others, **(stated if isinstance(stated, Mapping) else {})}
    if system:
        request["systemInstruction"] = {"parts": [{"text": system}]}
    if body.get("tools"):
        functions = [_function(tool["function"]) for tool in body["tools"] if isinstance(tool, Mapping) and "function" in tool]
        own = [tool for tool in body["tools"] if not (isinstance(tool, Mapping) and "function" in tool)]
        request["tools"] = [*([{"functionDeclarations": functions}] if functions else []), *own]
    if body.get("tool_choice") is not None:
        request["toolConfig"] = {"functionCallingConfig": _tool_choice(body["tool_choice"])}
    return {"contents": contents, **{name: value for name, value in request.items() if value}}


def _thinking(model: str, effort: str) -> dict[str, Any]:
    if re.match(r"(models/)?gemini-(1|2)", model) is None:
        return {"thinkingLevel": "minimal" if effort == "none" else effort}
    return {"thinkingBudget": _THOUGHTS.get(effort, -1)}


def _contents(messages: list[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The instructions, and what is said in turns."""
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role in ("system", "developer"):
            system.append(text_of(content))
            continue
        parts = [_tool_result(message, names)] if role == "tool" else [_part(part) for part in parts_of(content)]
        signatures = dict(message.get(THOUGHTS) or [])
        for place, call in enumerate(tool_calls_of(message)):
            names[call.id] = call.name
            signed = {_SIGNATURE: signatures[place]} if place in signatures else {}
            parts.append({"functionCall": {"name": call.name, "args": dict(call.arguments)}, **signed})
        speaker = "model" if role == "assistant" else "user"
        if turns and turns[-1]["role"] == speaker:
            turns[-1]["parts"] += parts
        else:
            turns.append({"role": speaker, "parts": parts})
    if not turns:
        raise NotSent("a request to Google needs a message beside the system's; add one of role user")
    return "\n\n".join(system), turns


def _part(part: Part) -> Any:
    match part:
        case str():
            return {"text": part}
        case FilePart(media_type) if media_type in UNTAKEN_FILES["google"]:
            raise NotSent(f"models google/… take no files of type {media_type}; give image/png")
        case FilePart(media_type, content):
            return {"inlineData": {"mimeType": media_type, "data": content}}
        case LinkPart(url):
            return {"fileData": {"fileUri": url}}
    return part


def _tool_result(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    name = message.get("name") or names.get(str(message.get("tool_call_id")), "")
    return {"functionResponse": {"name": name, "response": {"result": text_of(message.get("content"))}}}


def _function(function: Mapping[str, Any]) -> dict[str, Any]:
    described = {name: function[name] for name in ("name", "description") if name in function}
    return {**described, **({"parametersJsonSchema": function["parameters"]} if function.get("parameters") else {})}


def _tool_choice(choice: Any) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"mode": _CHOICES.get(choice, choice)}
    function = choice.get("function") if isinstance(choice, Mapping) else None
    return {"mode": "ANY", "allowedFunctionNames": [function.get("name")]} if isinstance(function, Mapping) else dict(choice)


def answer_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """What was generated in the form of a chat completion; what has another form is left for its reader to refuse."""
    usage = _usage(content.get("usageMetadata"))
    feedback = content.get("promptFeedback")
    blocked = feedback.get("blockReason") if isinstance(feedback, Mapping) else None
    candidates = content.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    if not isinstance(first, Mapping):
        if blocked is None:
            return {**content, "usage": usage}
        return {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}], "usage": usage}
    said, reason = first.get("content"), first.get("finishReason")
    parts = said.get("parts") if isinstance(said, Mapping) else said
    found = [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    called = [part for part in found if part.get("functionCall")]
    calls = [_call(part["functionCall"]) for part in called]
    texts: Any = [part for part in found if not part.get("thought")] if isinstance(parts, list) else parts
    signatures = [[place, part[_SIGNATURE]] for place, part in enumerate(called) if part.get(_SIGNATURE)]
    message = {"content": texts, "tool_calls": calls, THOUGHTS: Thoughts(signatures)}
    return {"choices": [{"message": message, "finish_reason": _finish(reason, bool(calls))}], "usage": usage}


def _call(call: Any) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        return {"function": call}
    return {"id": call.get("id"), "function": {"name": call.get("name"), "arguments": call.get("args")}}


def _finish(reason: Any, calls: bool) -> str | None:
    if reason in _WITHHELD:
        return "content_filter"
    if reason == "STOP":
        return "tool_calls" if calls else "stop"
    return "length" if reason == "MAX_TOKENS" else reason.lower() if isinstance(reason, str) else None


def _usage(usage: Any) -> Any:
    """What was thought is counted beside what was said; a chat completion counts it with that."""
    if not isinstance(usage, Mapping):
        return usage
    read, used, said, thought, cached = (
        _count(usage.get(name))
        for name in (
            *("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount"),
            *("thoughtsTokenCount", "cachedContentTokenCount"),
        )
    )
    return {
        "prompt_tokens": read + used,
        "completion_tokens": said + thought,
        "total_tokens": read + used + said + thought,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class StreamedContent:
    """Streamed contents, put together chunk by chunk."""

    def __init__(self) -> None:
        self.began = False
        """Whether something of the answer is there."""
        self._parts: list[Any] = []
        self._last: dict[str, Any] = {}
        self._reason: Any = None

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take in one chunk."""
        self._last |= {name: value for name, value in chunk.items() if name != "candidates"}
        candidates = chunk.get("candidates") or []
        if not candidates:
            return
        self._reason = candidates[0].get("finishReason") or self._reason
        parts = (candidates[0].get("content") or {}).get("parts") or []
        self._parts += parts
        self.began = self.began or any(part.get("text") or part.get("functionCall") for part in parts)

    def whole(self) -> dict[str, Any]:
        """The contents in the form that they have when they are not streamed."""
        if self._reason is None and not (self._last.get("promptFeedback") or {}).get("blockReason"):
            raise Unreachable("the stream broke off before the answer was complete", kind=BROKEN_ANSWER)
        if not self._parts and self._reason is None:
            return self._last
        return {**self._last, "candidates": [{"content": {"parts": self._parts}, "finishReason": self._reason}]}
