"""Own workers are not asked for the context of a payload; that is right as long as no converter of ours wants to know it."""

from __future__ import annotations

import pytest
from temporalio.converter import WithSerializationContext, WorkflowSerializationContext
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from clients.sandbox import ContextFreeSandbox
from clients.temporal import PASSED_THROUGH, ratchet_plugin
from clients.temporal_payloads import StrictPayloadConverter, data_converter
from ratchet._encryption import EncryptionKeys

CONTEXT = WorkflowSerializationContext(namespace="default", workflow_id="run-1")
KEYS = EncryptionKeys({"first": bytes(32)})


@pytest.mark.parametrize("keys", [None, KEYS])
def test_nothing_that_writes_payloads_wants_to_know_their_context(keys: EncryptionKeys | None) -> None:
    converter = data_converter(keys)
    assert converter.external_storage is None
    assert not isinstance(converter.payload_codec, WithSerializationContext)
    value = {"a": [1, None, "b"]}
    alike = converter.payload_converter.to_payloads([value])
    assert converter.with_context(CONTEXT).payload_converter.to_payloads([value]) == alike
    assert not [one for one in StrictPayloadConverter().converters.values() if isinstance(one, WithSerializationContext)]


def test_workflows_of_own_workers_stay_in_the_sandbox() -> None:
    plugin = ratchet_plugin()
    configured = plugin.configure_worker({"workflow_runner": SandboxedWorkflowRunner()})
    runner = configured["workflow_runner"]
    assert isinstance(runner, ContextFreeSandbox)
    assert set(PASSED_THROUGH) <= runner.restrictions.passthrough_modules
