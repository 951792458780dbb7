"""Connecting to Temporal, and the one plugin that client, worker, replayer and tests share."""

from __future__ import annotations

import dataclasses
from typing import Any

import pydantic
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from clients.payloads import DATA_CONVERTER

DEFAULT_ADDRESS = "127.0.0.1:7233"
TASK_QUEUE = "optimization"

PASSED_THROUGH = (
    # Our own vocabulary and rules are pure; importing them anew for every workflow would cost 20 ms of CPU each time.
    "workflows.model",
    "workflows.rules",
    "workflows.contracts",
    "workflows.policies",
    "ratchet",
    # Pure libraries those are made of.
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


def _sandboxed(runner: WorkflowRunner | None) -> WorkflowRunner:
    if not isinstance(runner, SandboxedWorkflowRunner):
        return runner or SandboxedWorkflowRunner()
    return dataclasses.replace(runner, restrictions=runner.restrictions.with_passthrough_modules(*PASSED_THROUGH))


def ratchet_plugin() -> SimplePlugin:
    """Converter, sandbox and failure types, the same for everybody who touches a Ratchet workflow."""
    return SimplePlugin(
        "ratchet",
        data_converter=DATA_CONVERTER,
        workflow_runner=_sandboxed,
        workflow_failure_exception_types=[pydantic.ValidationError, ExceptionGroup],
    )


async def connect(address: str | None = None, namespace: str | None = None) -> Client:
    """A client for the server named by the arguments, else by Temporal's own environment variables and profiles."""
    config: dict[str, Any] = dict(ClientConfig.load_client_connect_config())
    if address is not None:
        config["target_host"] = address
    if namespace is not None:
        config["namespace"] = namespace
    config.setdefault("target_host", DEFAULT_ADDRESS)
    return await Client.connect(**config, plugins=[ratchet_plugin()])
