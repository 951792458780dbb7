"""Bedrock's Converse and its embeddings, by boto3.

boto3 says where a request goes, puts it in form and signs it with what the worker's environment has for AWS. It would hold a
thread while it waits for an answer, and could not be told to stop. So it hands out each request before it sends it, and the
request is sent as those of all other providers are.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import threading
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import Any, Final

import httpx2

from activities.endpoints.chat_protocol import is_page, parsed
from activities.endpoints.endpoint_policy import SIGNED_FOR, region_in
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
    thoughts_in,
    tool_calls_of,
    with_thoughts,
)
from activities.targets.faults import BROKEN_ANSWER, CandidateFault, NotSent, Refused, Throttled, Unreachable
from workflows.model.failures import described, quoted, shorten

SERVICE: Final = "bedrock-runtime"
STREAM: Final = "application/vnd.amazon.eventstream"
PREPARING_THREADS: Final = 4
"""Preparing a request takes a millisecond, and now and then a look for new credentials."""

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
_MOST_COHERE_TEXTS: Final = 96


class Answered(Exception):
    """An answer whose status says that it is none."""

    def __init__(self, refusal: ModelRefusal) -> None:
        super().__init__(refusal.said)
        self.refusal = refusal


class _Prepared(Exception):
    """A request that is ready to be sent, on its way out of boto3."""

    def __init__(self, request: Any) -> None:
        super().__init__("prepared")
        self.request = request


class BedrockConverse:
    """Converse and embeddings."""

    changes_no_request = True

    def client(self, url: str, key: str, http: httpx2.AsyncClient) -> Bedrock:
        return Bedrock(url, region_in(url) or key.removeprefix(SIGNED_FOR), http)

    async def prepare(self, client: Bedrock) -> None:
        await client.prepare()

    async def whole(self, client: Bedrock, body: Mapping[str, Any]) -> dict[str, Any]:
        async with client.asked("converse", request_of(body)) as response:
            return answer_of(parsed(await response.aread(), response.headers.get("content-type", "")))

    async def streamed(self, client: Bedrock, body: Mapping[str, Any], started: float) -> tuple[dict[str, Any], float | None]:
        from botocore.eventstream import EventStreamBuffer

        ttft_ms: float | None = None
        together, events = StreamedMessage(), EventStreamBuffer()
        async with client.asked("converse_stream", request_of(body)) as response:
            kind = response.headers.get("content-type", "")
            if not kind.startswith(STREAM):  # it does not stream, although it was asked to
                return answer_of(parsed(await response.aread(), kind)), None
            async for piece in response.aiter_bytes():
                events.add_data(piece)
                for event in events:
                    together.add(event.headers, event.payload)
                if ttft_ms is None and together.began:
                    ttft_ms = (time.perf_counter() - started) * 1000
        return answer_of(together.whole()), ttft_ms

    async def embedded(self, client: Bedrock, model: str, texts: list[str]) -> dict[str, Any]:
        """Texts one by one with Amazon's models, and many at once with Cohere's; Converse has no embeddings."""
        if "cohere.embed" in model:
            groups = [texts[start : start + _MOST_COHERE_TEXTS] for start in range(0, len(texts), _MOST_COHERE_TEXTS)]
            requests: list[dict[str, Any]] = [
                {"texts": group, "input_type": "clustering", "embedding_types": ["float"], "truncate": "END"}
                for group in groups
            ]
        elif "amazon.titan-embed" in model:
            requests = [{"inputText": text} for text in texts]
        else:
            told = "of Bedrock's models, those of amazon.titan-embed and cohere.embed are known to embed texts"
            raise Refused(f"{model!r} gives no embeddings that are understood here; {told}")
        vectors: list[Any] = []
        read = 0
        for request in requests:
            found, count = await client.invoked(model, request)
            vectors += found
            read += count
        data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        return {"data": data, "usage": {"prompt_tokens": read, "total_tokens": read}}

    def refusal_in(self, error: Exception) -> ModelRefusal | None:
        return error.refusal if isinstance(error, Answered) else None

    def is_lost(self, error: Exception) -> bool:
        return False  # what sends the requests says so itself


class Bedrock:
    """One endpoint. boto3's client is made with the first request, in a thread, as it reads files for a while."""

    def __init__(self, url: str, region: str, http: httpx2.AsyncClient) -> None:
        self._url = url
        self._region = region
        self._http = http
        self._client: Any = None
        self._making = threading.Lock()
        self._threads = ThreadPoolExecutor(PREPARING_THREADS, thread_name_prefix="bedrock")

    async def prepare(self) -> None:
        """Make boto3's client, unless that was done."""
        if self._client is None:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._made)

    @asynccontextmanager
    async def asked(self, operation: str, request: Mapping[str, Any]) -> AsyncIterator[httpx2.Response]:
        """Ask once, and hand over the answer before its body is read."""
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(self._threads, partial(self._prepared, operation, request))
        headers = [(name, value.decode() if isinstance(value, bytes) else str(value)) for name, value in made.headers.items()]
        sent = self._http.build_request(made.method, made.url, headers=headers, content=made.body or b"")
        response = await self._http.send(sent, stream=True)
        try:
            if response.status_code >= 300:
                raise Answered(await _refusal(response))
            yield response
        finally:
            await response.aclose()

    async def invoked(self, model: str, body: Mapping[str, Any]) -> tuple[list[Any], int]:
        """Vectors of a model's own answer, and the tokens that it read."""
        request = {"modelId": model, "body": json.dumps(body), "contentType": "application/json", "accept": "application/json"}
        async with self.asked("invoke_model", request) as response:
            answer = parsed(await response.aread(), response.headers.get("content-type", ""))
            counted = response.headers.get("x-amzn-bedrock-input-token-count", "")
        read = int(counted) if counted.isdecimal() else _count(answer.get("inputTextTokenCount"))
        if "embedding" in answer:
            return [answer["embedding"]], read
        found = answer.get("embeddings")
        vectors = found.get("float") if isinstance(found, Mapping) else found
        return (list(vectors) if isinstance(vectors, list) else []), read

    def _prepared(self, operation: str, request: Mapping[str, Any]) -> Any:
        """The signed request. In a thread: boto3 may ask somebody for credentials."""
        from botocore import exceptions

        try:
            getattr(self._made(), operation)(**request)
        except _Prepared as prepared:
            return prepared.request
        except exceptions.ParamValidationError as error:
            raise NotSent(shorten(f"Bedrock's Converse takes no such request: {error}", 500)) from None
        except (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.MetadataRetrievalError) as error:
            told = f"{self._url}: no credentials could be had: {type(error).__name__}: {error}"
            raise Unreachable(shorten(told, 300), billed="no") from None
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            told = shorten(f"{self._url}: {error}", 300)
            raise Refused(
                f"{told}; give the worker's environment credentials, as AWS_ACCESS_KEY_ID or AWS_PROFILE do"
            ) from None
        raise AssertionError("boto3 sent a request by itself")

    def _made(self) -> Any:
        with self._making:
            if self._client is None:
                import boto3
                import botocore.session
                from botocore.config import Config

                found = botocore.session.get_session()
                found.register_component("data_loader", _loader())
                session = boto3.session.Session(botocore_session=found)
                config = Config(retries={"mode": "standard", "total_max_attempts": 1})
                client = session.client(SERVICE, endpoint_url=self._url, region_name=self._region, config=config)
                client.meta.events.register_last(f"before-send.{SERVICE}", _hand_out)
                self._client = client
            return self._client


@lru_cache(maxsize=1)
def _loader() -> Any:
    """What reads the descriptions of AWS's services, and keeps them: they take a third of a second."""
    from botocore.loaders import create_loader

    return create_loader()


def _hand_out(request: Any, **_: Any) -> None:
    raise _Prepared(request)


async def _refusal(response: httpx2.Response) -> ModelRefusal:
    """What an error says, by the word for programs that stands in its head, or in its body."""
    body = await response.aread()
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = body.decode("utf-8", "replace")
    said = told.get("message", told.get("Message")) if isinstance(told, Mapping) else None
    label = response.headers.get("x-amzn-errortype") or (told.get("__type") if isinstance(told, Mapping) else None) or ""
    labels = (str(label).partition(":")[0].rpartition("#")[2],)
    if is_page(response.headers.get("content-type", "")) and response.status_code < 400:
        raise Unreachable("the endpoint answered a web page", kind=BROKEN_ANSWER)
    return ModelRefusal(response.status_code, said if isinstance(said, str) else str(told), labels, response.headers)


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
    own = {name: value for name, value in body.items() if name not in _TRANSLATED}
    held: dict[str, Any] = {}
    _think(body["model"], body.get("reasoning_effort"), held, own)
    schema, form = schema_of(body.get("response_format")), body.get("response_format")
    if schema is not None and isinstance(form, Mapping):
        named = {"schema": json.dumps(schema), "name": form["json_schema"].get("name") or "answer"}
        held["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": named}}
    if form is not None and not is_json(form):
        own["response_format"] = form  # to be told that it is not known
    request = {
        "system": system,
        "inferenceConfig": {**inference, **(body.get("inferenceConfig") or {})},
        "toolConfig": _tools(body.get("tools") or [], body.get("tool_choice")),
        "outputConfig": held,
        _FIELDS: {**own, **(body.get(_FIELDS) or {})},
        **{name: body[name] for name in _OWN if name in body},
    }
    said = {name: value for name, value in request.items() if value}
    return {"modelId": body["model"], "messages": messages, **said}


def _think(model: str, effort: Any, held: dict[str, Any], own: dict[str, Any]) -> None:
    """Say how much is to be thought, in the words of the model's maker."""
    if effort is None:
        return
    least = "low" if effort == "minimal" else effort
    if "openai." in model:
        own["reasoning_effort"] = effort
    elif "amazon." in model:
        own["reasoningConfig"] = {"type": "disabled"} if effort == "none" else {"type": "enabled", "maxReasoningEffort": least}
    else:
        if effort != "none":
            held["effort"] = least
        if "anthropic." in model:
            own.setdefault("thinking", {"type": "disabled" if effort == "none" else "adaptive"})


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
        _count(usage.get(name)) for name in ("inputTokens", "cacheWriteInputTokens", "cacheReadInputTokens", "outputTokens")
    )
    read = plain + written + cached
    return {
        "prompt_tokens": read,
        "completion_tokens": out,
        "total_tokens": read + out,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
    }


def _count(value: Any) -> int:
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
