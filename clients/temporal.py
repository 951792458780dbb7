"""Connecting to Temporal, and the one plugin that client, worker, replayer and tests share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from temporalio.client import Client
from temporalio.common import HeaderCodecBehavior
from temporalio.envconfig import ClientConfig

from clients.own_modules import own_module
from clients.settings import encryption_keys
from clients.temporal_payloads import data_converter
from clients.traces import TRACING

if TYPE_CHECKING:
    from temporalio.converter import DataConverter
    from temporalio.plugin import SimplePlugin
    from temporalio.worker import WorkflowRunner

DEFAULT_ADDRESS = "127.0.0.1:7233"

LIBRARIES = (
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "jsonschema",
    "jsonschema_specifications",
    "referencing",
    "rpds",
    "attrs",
    "attr",
)
"""Pure libraries that our vocabulary is made of."""

PASSED_THROUGH = (own_module("workflows"), "ratchet", *LIBRARIES)
"""Importing our own modules anew for every workflow costs 20 ms of CPU and more each time. That they are deterministic is
proven where it costs nothing: tests/system/replay runs every path in a sandbox that passes none of them through."""

FAILURES: tuple[type[Exception], ...] = (
    ValueError,  # pydantic's ValidationError among them
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ExceptionGroup,
)
"""What ends a workflow that raises it. Temporal would try again for ever, in the hope for better code. Not among them is what
Temporal itself raises, of a history that is another code's: that waits for its code."""


def own_converter() -> DataConverter:
    """Return the converter by which Ratchet's payloads are written and read, wherever that happens; with the keys that the
    environment names, they are encrypted."""
    return data_converter(encryption_keys())


def ratchet_plugin(passed_through: Sequence[str] = PASSED_THROUGH) -> SimplePlugin:
    """Converter, sandbox and failure types, the same for everybody who touches a Ratchet workflow."""
    # Here, so that who only asks need not load what serves.
    from temporalio.plugin import SimplePlugin

    return SimplePlugin(
        "ratchet",
        data_converter=own_converter(),
        workflow_runner=_own_sandbox(passed_through),
        workflow_failure_exception_types=list(FAILURES),
    )


def sandbox_passing(modules: Sequence[str]) -> Callable[[WorkflowRunner | None], WorkflowRunner]:
    """Return what makes a worker's sandbox pass modules through; a worker without a sandbox stays without."""
    from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

    def sandboxed(runner: WorkflowRunner | None) -> WorkflowRunner:
        if not isinstance(runner, SandboxedWorkflowRunner):
            return runner or SandboxedWorkflowRunner()
        return dataclasses.replace(runner, restrictions=runner.restrictions.with_passthrough_modules(*modules))

    return sandboxed


def _own_sandbox(modules: Sequence[str]) -> Callable[[WorkflowRunner | None], WorkflowRunner]:
    """The same for our own workers, whose converter needs no context."""
    from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

    from clients.sandbox import ContextFreeSandbox

    def sandboxed(runner: WorkflowRunner | None) -> WorkflowRunner:
        made = sandbox_passing(modules)(runner)
        return ContextFreeSandbox(made.restrictions, made.runner_class) if isinstance(made, SandboxedWorkflowRunner) else made

    return sandboxed


async def connect(address: str | None = None, *, serves: bool = True) -> Client:
    """Return a client for the server at the address, else for the one that Temporal's own environment variables and profiles
    name: their keys are for that one alone.

    One that `serves` may be given to workers; one that only asks loads less.
    """
    config: dict[str, Any] = dict(ClientConfig.load_client_connect_config()) if address is None else {"target_host": address}
    config.setdefault("target_host", DEFAULT_ADDRESS)
    config["header_codec_behavior"] = HeaderCodecBehavior.CODEC
    if serves:
        return await Client.connect(**config, plugins=[ratchet_plugin(), *TRACING.plugins()])
    return await Client.connect(**config, data_converter=own_converter(), plugins=TRACING.plugins())
