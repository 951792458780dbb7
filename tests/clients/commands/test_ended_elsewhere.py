"""Commands on a home without a worker: whichever comes first tells that a run was terminated in Temporal."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from clients.embedded.stack import embedded_stack
from clients.runs.lookup import known_run, spec_as_written
from clients.runs.service.servers import reach_servers
from clients.temporal import connect
from tests.support.command_bench import Bench, ending, read_until


async def terminated(home: Path, run_id: str) -> None:
    async with embedded_stack(home, ui=False) as stack:
        client = await connect(stack.temporal_address)
        await client.get_workflow_handle(run_id).terminate(reason="not wanted")


async def as_written(home: Path, run_id: str) -> str | None:
    async with reach_servers(home) as servers:
        return await spec_as_written(await known_run(servers, run_id))


async def test_commands_tell_at_once_that_a_run_was_terminated(bench: Bench) -> None:
    bench.write("unwanted", inputs=[{"n": 1, "waits": True}])
    process = bench.attached("run", "spec.yaml")
    run_id = read_until(process, "Started").split()[-1]
    bench.until(bench.waits_in_round_1)
    process.send_signal(signal.SIGINT)
    ending(process)
    await terminated(bench.home, run_id)

    assert {run["run_id"]: run["status"] for run in bench.facts("list")["runs"]}[run_id] == "terminated"
    status = bench.ratchet("status", run_id).stdout
    assert "terminated" in status and "terminated in Temporal: not wanted" in status and "In flight" not in status
    report = bench.ratchet("report", run_id).stdout
    assert "TERMINATED" in report and "not wanted" in report
    assert bench.ratchet("watch", run_id).returncode == 1

    assert json.loads(bench.ratchet("export", run_id, "--format", "history-json").stdout)["status"] == "terminated"
    gone_through = bench.ratchet("replay", run_id)
    assert gone_through.returncode == 0 and "no difference" in gone_through.stdout, gone_through.stdout + gone_through.stderr
    bench.open_gate()
    retried = bench.facts("retry", run_id)
    assert retried["status"] == "completed"
    assert await as_written(bench.home, retried["run_id"]) == (bench.directory / "spec.yaml").read_text()
    assert bench.facts("delete", run_id, "--yes")["deleted"]
