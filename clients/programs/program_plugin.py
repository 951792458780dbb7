"""What makes a Temporal program of somebody else's able to run, steer and read optimizations: one line in its client."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    DefaultPayloadConverter,
)
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker

from clients.own_modules import own_module
from clients.programs.run_requests import REQUESTS
from clients.search_attribute_registration import register_search_attributes
from clients.temporal import PASSED_THROUGH, own_converter, sandbox_passing
from clients.temporal_payloads import EncodedFailureConverter


class RatchetPlugin(SimplePlugin):
    """A plug-in for `Client.connect`, which hands it on to the workers of that client.

    It gives the client a data converter that reads pydantic models, and Ratchet's own codec where payloads are encrypted; it
    lets `ratchet.temporal` through the workflow sandbox, so that importing it costs once per process; it serves what workflows
    query and update runs by; and it registers Ratchet's search attributes when a worker starts. Nothing of it changes what
    becomes of the program's own workflows.
    """

    def __init__(self, *, search_attributes: bool = True) -> None:
        """Without `search_attributes` none are registered, for programs that may not."""
        super().__init__(
            "ratchet-program",
            data_converter=joined_converter,
            activities=_with_requests,
            workflow_runner=sandbox_passing((*PASSED_THROUGH, own_module("clients.programs"))),
        )
        self._registers = search_attributes

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Register search attributes, then serve."""
        if self._registers:
            await register_search_attributes(worker.client)
        await super().run_worker(worker, next)


def joined_converter(own: DataConverter | None) -> DataConverter:
    """Return the program's own converter with what Ratchet's payloads need. Raises ValueError where that cannot be."""
    given = own or DataConverter.default
    reads = given.payload_converter_class
    if reads is DefaultPayloadConverter:
        reads = PydanticPayloadConverter
    if not issubclass(reads, PydanticPayloadConverter):
        raise ValueError(
            f"RatchetPlugin: the client's payload converter is {reads.__name__}, which does not read pydantic models, as the "
            "results of runs are; derive it from temporalio.contrib.pydantic.PydanticPayloadConverter"
        )
    ours = own_converter()
    codec, fails = given.payload_codec or ours.payload_codec, given.failure_converter_class
    encrypted = given.payload_codec is None and ours.failure_converter_class is EncodedFailureConverter
    if encrypted and fails is DefaultFailureConverter:
        fails = DefaultFailureConverterWithEncodedAttributes
    if (reads, codec, fails) == (given.payload_converter_class, given.payload_codec, given.failure_converter_class):
        return given
    return dataclasses.replace(given, payload_converter_class=reads, payload_codec=codec, failure_converter_class=fails)


def _with_requests(own: Sequence[Callable[..., Any]] | None) -> Sequence[Callable[..., Any]]:
    """Once only: the SDK applies a plug-in twice that is given to a client and to its worker."""
    served = list(own or ())
    return [*served, *(request for request in REQUESTS if request not in served)]
