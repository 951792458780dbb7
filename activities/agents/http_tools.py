"""HTTP endpoints as tools: behind the same lists, gates and patience as HTTP targets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import aiohttp

from activities.agents import OutcomeUnknown, ToolCall, ToolDefinition, ToolFailed, described
from activities.endpoints.endpoint_policy import KEY_REFUSED, fault_of_connection, fault_of_status, origin_of
from activities.endpoints.retry_policy import patiently
from activities.observation.call_observation import CallFacts
from activities.settings import HTTP_TOKEN
from activities.targets.answers import usable_value
from activities.targets.faults import CandidateFault, Refused, TookTooLong, Unreachable
from activities.targets.http import ABSENT, SAMPLE, HttpEndpoints, value_at, what_it_said, whole_body
from ratchet import experiment_headers
from ratchet._text.placeholders import Filling, as_text
from ratchet.experiment import SAFE_IN_HEADERS
from workflows.model.failures import shorten
from workflows.model.spec.targets.agent_tools import HttpTool

if TYPE_CHECKING:
    from activities.targets import TargetTools

KEY_HEADER = "Idempotency-Key"
IN_THE_QUERY = ("GET", "DELETE")


class CalledHttp:
    """Calls one endpoint with the arguments of the model."""

    def __init__(self, tool: HttpTool, endpoints: HttpEndpoints) -> None:
        self._tool = tool
        self._endpoints = endpoints

    @classmethod
    def of(cls, tool: Any, tools: TargetTools, *, isolate: bool) -> Self:
        """Make it for a tool of a spec."""
        assert tools.http is not None
        return cls(tool, tools.http)

    async def definitions(self, filling: Filling) -> Sequence[ToolDefinition]:
        return [described(self._tool, filling)]

    async def call(self, call: ToolCall) -> Any:
        tool = self._tool
        headers = {
            **tool.headers,
            **experiment_headers(call.experiment),
            SAMPLE: quote(call.sample.id, safe=SAFE_IN_HEADERS),
            **self._endpoints.credentials(tool.url, tool.auth, f"tool {tool.name}"),
            "Accept": "application/json",
        }
        if call.key is not None:
            headers[KEY_HEADER] = call.key
        gate = self._endpoints.gates.at(origin_of(tool.url), tool.url)
        try:
            return await patiently(gate, lambda: self._once(call, headers), self._endpoints.patience, call.context)
        except TookTooLong as error:
            raise ToolFailed(str(error)) from None
        except CandidateFault as error:  # the endpoint answered that the request is none
            raise ToolFailed(str(error)) from None

    async def _once(self, call: ToolCall, headers: Mapping[str, str]) -> Any:
        await call.context.beginning.permit()
        facts = CallFacts("tool", call.context.caller.run_id, address=self._tool.url)
        with self._endpoints.observation.of(facts) as seen:
            try:
                return await self._answered(call, {**headers, **seen.headers})
            except (TookTooLong, Unreachable) as error:
                if call.never_repeated and error.billed != "no":
                    raise OutcomeUnknown(str(error)) from error
                raise

    async def _answered(self, call: ToolCall, headers: Mapping[str, str]) -> Any:
        tool, sent = self._tool, _sent(self._tool.method, call.arguments)
        request = self._endpoints.session.request(tool.method, tool.url, headers=headers, allow_redirects=False, **sent)
        try:
            async with asyncio.timeout(call.timeout), request as response:
                text = await whole_body(response, tool.url)
        except TimeoutError:
            raise TookTooLong(f"took longer than {call.timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise fault_of_connection(error, place=tool.url) from error
        status = response.status
        if not 200 <= status < 300:
            said = what_it_said(text, headers)
            advice = f"check the tool's url and auth, and {HTTP_TOKEN} in the worker's environment"
            fault = fault_of_status(
                status, said, response.headers, place=tool.url, advice=advice, candidate=f"tool {tool.name}"
            )
            if isinstance(fault, Refused) and 400 <= status < 500 and status not in KEY_REFUSED:
                raise ToolFailed(f"HTTP {status}: {said}")  # such as that there is no order of this number
            raise fault
        return self._read(text)

    def _read(self, text: bytes) -> Any:
        try:
            reply = json.loads(text) if text else None
        except (ValueError, RecursionError):
            reply = text.decode("utf-8", "replace")
        value = reply if self._tool.output is None else value_at(reply, self._tool.output)
        if value is ABSENT:
            raise ToolFailed(shorten(f"the response has no {self._tool.output}: {what_it_said(text, {})}"))
        return usable_value(value)


def _sent(method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as a query or as a body."""
    if method in IN_THE_QUERY:
        return {"params": [(name, as_text(value)) for name, value in arguments.items() if value is not None]}
    return {"json": dict(arguments)}
