"""A run that one command starts is served by whatever stack is up, and every view says what a run really waits for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.embedded.stack import embedded_stack, stack_state
from clients.temporal import connect
from tests.support.command_bench import MINE, Bench, bench_in, ending, read_until


@dataclass
class Served(Bench):
    """A bench with variables of the user's own."""

    variables: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        return super().environment() | self.variables

    def status(self, run_id: str) -> str:
        return str(self.facts("status", run_id)["status"])

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((self.directory / "spec.yaml").read_text())
        return found


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Served]:
    for bench in bench_in(tmp_path, tmp_path / ".ratchet"):
        yield Served(bench.directory, bench.home, bench.started)


def stop(process: Any) -> None:
    process.send_signal(signal.SIGINT)
    assert ending(process)[0] == 0


@pytest.mark.timeout(300)
def test_a_run_that_is_started_and_left_is_taken_up_by_the_dev_that_is_up(alone: Served) -> None:
    dev = alone.attached("dev")
    read_until(dev, "Ctrl-C stops it")
    alone.write("left", stop={"max_rounds": 1})
    left = alone.ratchet("run", "spec.yaml", "--detach")
    assert "the stack that is up here serves it" in left.stdout
    run_id = left.stdout.split("Started ")[1].split()[0]
    alone.until(lambda: alone.status(run_id) == "completed")
    stop(dev)


@pytest.mark.timeout(300)
def test_a_run_whose_command_is_killed_is_taken_up_by_the_dev_that_is_up(alone: Served) -> None:
    dev = alone.attached("dev")
    read_until(dev, "Ctrl-C stops it")
    alone.write("killed", inputs=[{"n": 1, "waits": True}], stop={"max_rounds": 1})
    command = alone.attached("run", "spec.yaml")
    run_id = read_until(command, "Started").split()[-1]
    alone.until(alone.waits_in_round_1)
    os.kill(command.pid, signal.SIGKILL)
    alone.open_gate()
    alone.until(lambda: alone.status(run_id) == "completed")
    stop(dev)


@pytest.mark.timeout(300)
def test_dev_serves_the_plug_ins_that_its_user_allows(alone: Served) -> None:
    alone.variables = {"RATCHET_PLUGINS": "mine", "RATCHET_PLUGIN_PATH": str(alone.directory)}
    alone.write("allowed", stop={"max_rounds": 1})
    dev = alone.attached("dev")
    read_until(dev, "Ctrl-C stops it")
    address = stack_state(alone.home).addresses
    assert address is not None

    async def run() -> dict[str, Any]:
        client = await connect(address.temporal_address)
        result: dict[str, Any] = await client.execute_workflow(
            "OptimizationWorkflow", alone.spec(), id="by-a-client", task_queue="optimization"
        )
        return result

    assert asyncio.run(run())["status"] == "completed"
    stop(dev)


async def start(bench: Served, run_id: str, queue: str) -> None:
    """Start a run as a Temporal client does, on an evaluation queue of its own."""
    async with embedded_stack(bench.home, ui=False) as stack:
        client = await connect(stack.temporal_address)
        spec = bench.spec() | {"execution": {"evaluation_task_queue": queue}}
        await client.start_workflow("OptimizationWorkflow", spec, id=run_id, task_queue="optimization")


def asked(page: str, token: str, path: str) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(f"{page}/v1/private/{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.timeout(300)
def test_every_view_names_the_queue_that_nobody_serves(alone: Served) -> None:
    alone.variables = {"RATCHET_EVALUATION_QUEUES": "q3"}
    alone.write("waiting")
    asyncio.run(start(alone, "waiting", "q3"))
    assert alone.facts("status", "waiting")["waits_for"] == "a worker on task queue 'optimization'"
    dev = alone.attached("dev", "--json")
    assert dev.stdout is not None
    facts = json.loads(dev.stdout.readline())
    page, token = facts["page"], Path(facts["token_file"]).read_text().strip()

    def waits_on_q3() -> bool:
        return alone.facts("status", "waiting").get("waits_for") == "a worker on task queue 'q3'"

    alone.until(waits_on_q3)
    [listed] = alone.facts("list")["runs"]
    assert listed == {"run_id": "waiting", "status": "initialized", "waits_for": "a worker on task queue 'q3'"}
    assert "waiting waits for a worker on task queue 'q3'" in alone.ratchet("list").stdout
    watching = alone.attached("watch", "waiting")
    read_until(watching, "nobody serves task queue 'q3'")
    watching.send_signal(signal.SIGINT)
    ending(watching)
    status, told = asked(page, token, "optimizations")
    assert status == 200
    assert [(run["optimization_id"], run["status"], run["waits_for"]) for run in told["items"]] == [
        ("waiting", "initialized", ["q3"])
    ]
    assert told["total"] == 1
    status, told = asked(page, token, "optimizations/waiting")
    assert (status, told["status"], told["waits_for"]) == (200, "initialized", ["q3"])
    assert "has not begun: it waits for a worker on task queue 'q3'" in told["message"]
    stop(dev)


@pytest.mark.timeout(300)
def test_a_run_that_lost_its_worker_is_not_shown_as_running(alone: Served) -> None:
    alone.write("lost", inputs=[{"n": 1, "waits": True}])
    command = alone.attached("run", "spec.yaml")
    run_id = read_until(command, "Started").split()[-1]
    alone.until(alone.waits_in_round_1)
    command.send_signal(signal.SIGINT)
    ending(command)
    (alone.directory / "mine.py").write_text(MINE + "\n# changed\n")
    dev = alone.attached("dev", "--json")
    assert dev.stdout is not None
    while not (line := dev.stdout.readline()).startswith("{"):
        pass
    facts = json.loads(line)
    page, token = facts["page"], Path(facts["token_file"]).read_text().strip()
    alone.until(lambda: "optimization-evaluation-" in alone.facts("status", run_id).get("waits_for", ""))
    assert "has changed since" in alone.ratchet("status", run_id).stdout
    _, detail = asked(page, token, f"optimizations/{run_id}")
    [queue] = detail["waits_for"]
    assert queue.startswith("optimization-evaluation-")
    _, listed = asked(page, token, "optimizations")
    assert listed["items"][0]["waits_for"] == [queue]
    (alone.directory / "mine.py").write_text(MINE)
    alone.open_gate()
    alone.until(lambda: alone.status(run_id) == "completed")
    stop(dev)
