"""A model server that speaks Bedrock's Converse, and takes no request whose signature is wrong."""

from __future__ import annotations

import binascii
import json
import struct
from typing import Any

from aiohttp import web

from tests.support.model_endpoints import CACHED, ModelEndpoint, called, halves, offered, turn_of

REGION = "eu-central-1"
KEY_ID, SECRET = "AKIAOFTESTS", "secret-of-4711-aws"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": KEY_ID,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-west-2",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What the environment of a worker has for AWS, and nothing of what this machine's user may have set."""

SEAL = "sealed-by-bedrock"
"""Of what was thought before a call of a tool; it has to come back with the call."""

LABELS = {
    "throttled": "ThrottlingException",
    "overloaded": "ServiceUnavailableException",
    "broken": "InternalServerException",
    "not_found": "ResourceNotFoundException",
}


class BedrockEndpoint(ModelEndpoint):
    """Converse, as far as chats go; what was thought is not counted apart."""

    routes = ("/model/{model}/converse", "/model/{model}/converse-stream", "/model/{model}/invoke")
    thinks_apart = False

    def streams(self, request: web.Request, body: dict[str, Any]) -> bool:
        return request.path.endswith("-stream")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not signed_rightly(request, await request.read()):
            return self.refusal(403, "InvalidSignatureException", "the signature does not match")
        return await super().answer(request)

    def chat(self, request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
        system = [{"role": "system", "content": _text(body["system"])}] if "system" in body else []
        turns = [message for turn in body["messages"] for message in _messages(turn)]
        specs = [tool["toolSpec"] for tool in body.get("toolConfig", {}).get("tools", []) if "toolSpec" in tool]
        tools = [(spec["name"], spec.get("description", ""), spec["inputSchema"]["json"]) for spec in specs]
        return {"model": request.match_info["model"], "messages": [*system, *turns], **offered(tools), **_form(body)}

    def whole(self, said: str, read: int, written: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "x"}}},
            {"text": said},
        ]
        return converse(*content, read=read, written=written)

    def calling(self, name: str, arguments: dict[str, Any], read: int, written: int) -> dict[str, Any]:
        thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": SEAL}}}
        call = {"toolUse": {"toolUseId": f"tooluse-{name}", "name": name, "input": arguments}}
        return converse(thought, call, stop="tool_use", read=read, written=written)

    def pieces(self, said: str, read: int, written: int) -> list[tuple[str, dict[str, Any]]]:
        deltas = [
            ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": piece}, "p": "abc"}) for piece in halves(said)
        ]
        return [
            ("messageStart", {"role": "assistant"}),
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}}),
            ("contentBlockStop", {"contentBlockIndex": 0}),
            *deltas,
            ("contentBlockStop", {"contentBlockIndex": 1}),
            ("messageStop", {"stopReason": "end_turn"}),
            ("metadata", {"usage": usage(read, written), "metrics": {"latencyMs": 5}}),
        ]

    async def stream(self, request: web.Request, events: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/vnd.amazon.eventstream"})
        await response.prepare(request)
        for name, data in events:
            await response.write(event(name, data if isinstance(data, str) else json.dumps(data)))
        return response

    def refusal(self, status: int, label: str, message: str) -> web.Response:
        headers = {"x-amzn-errortype": f"{LABELS.get(label, label)}:http://internal.amazon.com/"}
        headers |= {"retry-after": "0.02"} if status in (429, 503) else {}
        return web.json_response({"message": message}, status=status, headers=headers)

    def listing(self) -> dict[str, Any]:
        return {}  # the models are listed elsewhere


def converse(*content: dict[str, Any], stop: str = "end_turn", read: int = 100, written: int = 10) -> dict[str, Any]:
    """An answer of Converse."""
    message = {"role": "assistant", "content": [*content]}
    return {"output": {"message": message}, "stopReason": stop, "usage": usage(read, written), "metrics": {"latencyMs": 5}}


def usage(read: int, written: int) -> dict[str, Any]:
    """What came from the cache is counted apart from what was read."""
    return {
        "inputTokens": read - CACHED,
        "cacheReadInputTokens": CACHED,
        "cacheWriteInputTokens": 0,
        "outputTokens": written,
        "totalTokens": read + written,
    }


def event(name: str, payload: str) -> bytes:
    """A message of AWS's event streams; one whose name ends in `Exception` is an exception."""
    kind = "exception" if name.endswith("Exception") else "event"
    told = {":message-type": kind, f":{kind}-type": name, ":content-type": "application/json"}
    headers = b"".join(
        struct.pack("!B", len(key)) + key.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for key, value in told.items()
    )
    body = payload.encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    message = prelude + struct.pack("!I", binascii.crc32(prelude)) + headers + body
    return message + struct.pack("!I", binascii.crc32(message))


def signed_rightly(request: web.Request, body: bytes) -> bool:
    """Whether AWS would take the signature, over the path as it was sent."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    given = request.headers.get("Authorization", "")
    if not given.startswith(f"AWS4-HMAC-SHA256 Credential={KEY_ID}/"):
        return False
    names = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers = {name: request.headers[name] for name in names}
    url = f"http://{request.headers['Host']}{request.raw_path}"
    again = AWSRequest(method=request.method, url=url, data=body, headers=headers)
    again.context["timestamp"] = request.headers["X-Amz-Date"]
    signer = SigV4Auth(Credentials(KEY_ID, SECRET), "bedrock", REGION)
    wanted = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
    return given.endswith(f"Signature={wanted}")


def _text(content: list[dict[str, Any]]) -> str:
    return "".join(block["text"] for block in content if "text" in block)


def _messages(turn: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = turn["content"]
    calls = [block["toolUse"] for block in blocks if "toolUse" in block]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return turn_of(
        turn["role"],
        _text(blocks),
        [called(call["toolUseId"], call["name"], call["input"]) for call in calls],
        [(result["toolUseId"], _text(result["content"])) for result in results],
    )


def _form(body: dict[str, Any]) -> dict[str, Any]:
    held = body.get("outputConfig", {}).get("textFormat")
    if held is None:
        return {}
    schema = json.loads(held["structure"]["jsonSchema"]["schema"])
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "held", "schema": schema}}}
