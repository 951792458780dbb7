"""HTTP targets: a JSON endpoint behind the worker's gates, with its request and its response described in the spec."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote

import aiohttp

from activities.budget.metering import at_most, metered
from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_protocol import is_page
from activities.endpoints.endpoint_policy import (
    KeyMissing,
    NotListed,
    OperatorLists,
    fault_of_connection,
    fault_of_status,
    origin_of,
)
from activities.endpoints.gate import Gate, Gates
from activities.endpoints.retry_policy import Patience, patiently
from activities.observation.call_observation import UNOBSERVED, CallFacts, CallObservation
from activities.secret_texts import without_secrets
from activities.settings import HTTP_TOKEN
from activities.targets import TargetTools
from activities.targets.answers import output_from
from activities.targets.attached_files import with_data_urls
from activities.targets.faults import (
    BROKEN_ANSWER,
    CandidateFault,
    Fault,
    NotSent,
    Refused,
    TookTooLong,
    Unreachable,
)
from ratchet import ExperimentContext, Output, Sample, experiment_headers
from ratchet._text.placeholders import Filling, Unfillable
from ratchet.experiment import SAFE_IN_HEADERS
from store.read.sample_files import FileReader
from workflows.model.failures import described, shorten
from workflows.model.spec.targets.http import HttpResponse, HttpTarget
from workflows.model.suite import EvaluationSuite

CONNECT_TIMEOUT = 10.0
LARGEST_RESPONSE = 16 * 1024 * 1024
OVERLAY = "X-Ratchet-Overlay"
SAMPLE = "X-Ratchet-Sample"

ABSENT = object()


class HttpEndpoints:
    """The worker's one session, and what its operator says of where it may go."""

    def __init__(
        self, gates: Gates, patience: Patience, lists: OperatorLists, observation: CallObservation = UNOBSERVED
    ) -> None:
        self.gates = gates
        self.observation = observation
        self.patience = patience
        self._lists = lists
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # The run's own limits decide what is in flight, so the session must not add one; nor may it keep cookies, by
            # which the answer to one sample could depend on another's.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def credentials(self, url: str, auth: str, place: str = "target") -> dict[str, str]:
        """The header with the worker's token, for origins that its operator named. Others are not even called: a spec must
        not be able to make a worker call anything in its network. `place` is the field of the spec that says so."""
        try:
            if auth == "none":
                self._lists.refuse_http(url, with_token=False)
                return {}
            token = self._lists.http_token(url)
        except NotListed as error:
            raise Refused(f"{place}.url: {error}", kind="unknown origin") from None
        except KeyMissing as error:
            raise Refused(f"{place}.auth is {auth}, but {error}", kind="no token") from None
        return {"Authorization": f"Bearer {token}"} if auth == "bearer" else {"X-API-Key": token}


class HttpAnswers:
    """Answers samples with an HTTP endpoint."""

    def __init__(
        self, target: HttpTarget, endpoints: HttpEndpoints, *, timeout: float, files: FileReader | None = None
    ) -> None:
        self._target = target
        self._endpoints = endpoints
        self._timeout = timeout
        self._files = files

    @classmethod
    def of(cls, suite: EvaluationSuite, tools: TargetTools, *, isolate: bool) -> Self:
        """Make it for a suite."""
        assert tools.http is not None
        target: Any = suite.target
        return cls(target, tools.http, timeout=suite.sample_timeout.total_seconds(), files=tools.files)

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output:
        target = self._target
        credentials = self._endpoints.credentials(target.url, target.auth)
        shown, given = await with_data_urls(self._files, configuration, sample.input)
        try:
            filling = Filling(shown, given)
            url = _url(target.url, filling)
            headers = {name: _header(filling.text(text)) for name, text in target.headers.items()}
            body = None if target.method == "GET" else filling.json(target.body)
        except Unfillable as error:
            raise NotSent(str(error)) from None
        headers |= {
            **experiment_headers(experiment),
            SAMPLE: quote(sample.id, safe=SAFE_IN_HEADERS),
            **credentials,
            "Accept": "application/json",
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        gate = self._endpoints.gates.at(origin_of(target.url), target.url)
        return await patiently(
            gate, lambda: self._paid_for(gate, url, data, headers, context), self._endpoints.patience, context
        )

    async def _paid_for(
        self, gate: Gate, url: str, data: bytes | None, headers: Mapping[str, str], context: CallContext
    ) -> Output:
        async with metered(context, at_most(context.meter, self._target.at_most)) as call:
            call.begins()
            facts = CallFacts("http", context.caller.run_id, address=self._target.url)
            with self._endpoints.observation.of(facts) as seen:
                output = await self._once(url, data, {**headers, **seen.headers})
                seen.took(output.tokens, output.cost)
            call.took(output.tokens, output.cost)
            gate.took(context.caller, output.tokens)
            return output

    async def _once(self, url: str, data: bytes | None, headers: Mapping[str, str]) -> Output:
        started = time.perf_counter()
        request = self._endpoints.session.request(self._target.method, url, data=data, headers=headers, allow_redirects=False)
        try:
            async with asyncio.timeout(self._timeout), request as response:
                text = await whole_body(response, self._target.url)
        except TimeoutError:
            raise TookTooLong(f"took longer than the sample timeout of {self._timeout:g} s") from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise CandidateFault(
                shorten(f"the request cannot be sent: {error}", 300), kind="placeholder", billed="no"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise fault_of_connection(error, place=self._target.url) from error
        self._refuse_status(response, text, headers)
        latency_ms = (time.perf_counter() - started) * 1000
        try:
            return self._understood(text, response, latency_ms)
        except Fault:
            raise
        except Exception as error:  # nobody can list what strangers may send
            why = f"the answer cannot be understood: reading it raised {described(error)}"
            raise CandidateFault(shorten(why), latency_ms=latency_ms, kind=BROKEN_ANSWER, billed="yes") from error

    def _refuse_status(self, response: aiohttp.ClientResponse, text: bytes, sent: Mapping[str, str]) -> None:
        if not 200 <= response.status < 300:
            raise fault_of_status(
                response.status,
                what_it_said(text, sent),
                response.headers,
                place=self._target.url,
                advice=f"check target.url and target.auth, and {HTTP_TOKEN} in the worker's environment",
                candidate="the endpoint",
            )

    def _understood(self, text: bytes, response: aiohttp.ClientResponse, latency_ms: float) -> Output:
        try:
            reply = json.loads(text)
        except (ValueError, RecursionError):
            why = shorten(f"{self._target.url} answered something that is not JSON: {text[:80].decode('utf-8', 'replace')!r}")
            if is_page(response.headers.get("Content-Type", "")):
                raise Unreachable(why, kind=BROKEN_ANSWER) from None
            raise CandidateFault(why, latency_ms=latency_ms, kind=BROKEN_ANSWER, billed="yes") from None
        where, overlay = self._target.response, response.headers.get(OVERLAY)
        spent = _spent(where, reply, latency_ms)
        fault = None if where.error is None else value_at(reply, where.error)
        value = reply if where.output is None else value_at(reply, where.output)
        if fault not in (None, ABSENT, "", False):
            why, kind = f"target failed: {fault if isinstance(fault, str) else json.dumps(fault)}", "target failed"
        elif value is ABSENT or value is None:
            why, kind = _nothing_at(where.output, text), "no output"
        else:
            echoed = overlay if where.overlay_hash is None else value_at(reply, where.overlay_hash)
            return output_from(
                Output(
                    value=value,
                    tokens=spent.tokens,
                    cost=spent.cost,
                    latency_ms=spent.latency_ms,
                    trace=None if where.trace is None else _present(value_at(reply, where.trace)),
                    overlay_hash=_present(echoed),
                    scores=None if where.scores is None else _present(value_at(reply, where.scores)),
                )
            )
        raise CandidateFault(
            shorten(why), tokens=spent.tokens, cost=spent.cost, latency_ms=spent.latency_ms, kind=kind, billed="yes"
        )


def _spent(where: HttpResponse, reply: Any, latency_ms: float) -> Output:
    """What the call took, as far as the response says so."""
    bill = {name: value_at(reply, path) for name, path in _bill(where) if path is not None}
    known = {name: value for name, value in bill.items() if value not in (None, ABSENT)}
    try:
        return output_from(Output(value="", **{"latency_ms": latency_ms, **known}))
    except CandidateFault as fault:
        paths = " or ".join(f"target.response.{name}" for name in known)
        raise CandidateFault(
            f"{fault}, or correct {paths}", tokens=fault.tokens, cost=fault.cost, kind=fault.kind, billed="yes"
        ) from None


def _nothing_at(path: str | None, text: bytes) -> str:
    found = f"the response has no {path or 'content'}: {what_it_said(text, {})}"
    return found if path is None else f"{found}; if it never has, correct target.response.output"


def _bill(where: HttpResponse) -> tuple[tuple[str, str | None], ...]:
    return (("tokens", where.tokens), ("cost", where.cost), ("latency_ms", where.latency_ms))


def _present(value: Any) -> Any:
    return None if value is ABSENT else value


def value_at(reply: Any, path: str) -> Any:
    """Find what is at the end of a path such as `choices.0.text`."""
    value = reply
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return ABSENT
    return value


def _url(template: str, filling: Filling) -> str:
    """What is substituted is quoted, so that it cannot change where the request goes."""
    scheme, _, rest = template.partition("://")
    parts = rest.split("{{")
    filled = parts[0]
    for part in parts[1:]:
        name, _, behind = part.partition("}}")
        value = filling.text(f"{{{{{name}}}}}")
        if value in {".", ".."}:
            raise CandidateFault(
                f"target.url: {{{{{name}}}}} is {value!r}, which would lead elsewhere", kind="placeholder", billed="no"
            )
        filled += quote(value, safe="") + behind
    return f"{scheme}://{filled}"


def _header(text: str) -> str:
    if not text.isprintable():
        raise CandidateFault(
            "a header would have line breaks or control characters; take them out", kind="placeholder", billed="no"
        )
    return text


async def whole_body(response: aiohttp.ClientResponse, url: str) -> bytes:
    """Read a response, up to what is kept of one."""
    text = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        text += chunk
        if len(text) > LARGEST_RESPONSE:
            raise CandidateFault(f"output is unusable: {url} answered more than {LARGEST_RESPONSE:,} bytes", billed="yes")
    return bytes(text)


def what_it_said(text: bytes, sent: Mapping[str, str]) -> str:
    """What the endpoint said, without the token, which some endpoints quote."""
    tokens = (sent.get(name, "").removeprefix("Bearer ") for name in ("Authorization", "X-API-Key"))
    said = without_secrets(text[:4000].decode("utf-8", "replace"), *tokens)
    return shorten(" ".join(said.split()), 300)
