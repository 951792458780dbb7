"""A worker that stood still while another took over its work comes back, and pays for nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from clients.embedded.stack import embedded_stack
from clients.temporal import connect
from tests.support.aimed_kills import Calls, until
from tests.support.killed_runs import spec
from tests.support.worker_processes import WorkerProcess, repeated

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif("RATCHET_KILL_SEEDS" not in os.environ, reason="it waits for heartbeats to time out: make test-kills"),
]


async def test_a_worker_that_was_stopped_repeats_no_call_when_it_comes_back(tmp_path: Path) -> None:
    log = Calls(tmp_path / "a" / "calls")
    (tmp_path / "a").mkdir()
    given = {**spec(3), "stop": {"max_rounds": 1, "no_improvement": 0}, "execution": {"concurrent_samples": 4}}
    async with embedded_stack(tmp_path / "home", ui=False) as stack:
        client = await connect(stack.temporal_address)
        stopped = WorkerProcess(stack, tmp_path / "a" / "calls")
        other = WorkerProcess(stack, tmp_path / "a" / "calls")
        await stopped.start()
        handle = await client.start_workflow("OptimizationWorkflow", given, id="stopped", task_queue="optimization")
        await until(lambda: log.begun >= 20 and log.open.total() >= 3)
        assert stopped._process is not None
        stopped._process.send_signal(signal.SIGSTOP)
        await other.start()
        try:
            async with asyncio.timeout(150):
                result = await handle.result()
            begun, extra = log.begun, repeated(tmp_path / "a" / "calls")
        finally:
            stopped._process.send_signal(signal.SIGCONT)
            await stopped.kill(signal.SIGTERM)
            await other.kill(signal.SIGTERM)
    assert log.begun == begun, "calls were made for an attempt that nobody waits for"
    assert extra <= 4
    assert result["lost"]["samples"] == extra
    assert "blocks its event loop" not in (tmp_path / "a" / "calls.log").read_text()
