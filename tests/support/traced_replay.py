"""Replay recorded histories as a traced worker would: `python -m tests.support.traced_replay NAME …`.

It is a process of its own, since OpenTelemetry has one tracer for all of a process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from activities.observation_settings import ObservationSettings
from clients.temporal import ratchet_plugin
from clients.traces import TRACING
from tests.support.replaying import HISTORIES
from workflows.optimization import OptimizationWorkflow
from workflows.trial import TrialWorkflow


async def replay(names: list[str]) -> None:
    TRACING.begin(ObservationSettings(otlp_endpoint="http://127.0.0.1:9", otlp_protocol="http/protobuf"))
    assert TRACING.is_on
    replayer = Replayer(workflows=[OptimizationWorkflow, TrialWorkflow], plugins=[ratchet_plugin(), *TRACING.plugins()])
    for name in names:
        document = json.loads((HISTORIES / f"{name}.json").read_text())
        await replayer.replay_workflow(WorkflowHistory.from_json(document["workflow_id"], document["history"]))


if __name__ == "__main__":
    asyncio.run(replay(sys.argv[1:]))
    gc.collect()
