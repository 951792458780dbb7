"""A server of the page with its worker and two runs, as a person starts them, and what was shown of it to those who watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from temporalio.client import WorkflowFailureError
from temporalio.service import RPCError

from clients.demo import Rule, SimulatedModel, simulated_model
from clients.embedded.stack import StackAddresses
from clients.temporal import connect
from tests.support.command_bench import Bench
from tests.support.event_streams import reading
from tests.support.graded_runs import graded
from tests.support.otlp_collector import Collector, collecting
from tests.support.scrapes import Scrape, free_ports, scraped
from worker import schedule_cleanup

KEY = "sk-observed-7f3a"
COLLECTOR_KEY = "collector-key-91c2"
PROMPT = "heliotrope"
"""A word in the prompt, which no trace may repeat."""

ANSWER = "sorry, a refund"
"""What a model answers; nor this."""

PATH = "/v1/private/optimizations"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
"""The trace of whoever asks over HTTP."""


@dataclass
class Observed:
    """What came of it."""

    collector: Collector
    run_id: str
    failed_run_id: str
    worker: Scrape
    server: Scrape
    lines: list[dict[str, Any]]
    """The worker's log."""
    said: str
    """What the server told whoever started it."""
    wanted_port: int
    shown_at: dict[str, str]
    """Where the metrics of server and worker were shown."""


@dataclass
class ObservedBench(Bench):
    """Commands that are told of a collector, and to show their metrics."""

    also: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        return super().environment() | self.also


@asynccontextmanager
async def observed_runs(stack: StackAddresses, folder: Path) -> AsyncIterator[Observed]:
    """Serve, run, look, and let go."""
    async with collecting() as collector, simulated_model() as model:
        port = free_ports(10)
        bench = ObservedBench(folder, stack.home, also=_environment(collector, model, port))
        worker_log, logged = stack.home / "logs" / "worker.log", 0
        if worker_log.exists():
            logged = worker_log.stat().st_size
        client = await connect(stack.temporal_address)
        await schedule_cleanup(client, "optimization")  # so that the worker's own attempt is one that fails
        serving = bench.attached("serve", "--port", "0", "--json")
        try:
            said, facts = await asyncio.to_thread(_read_facts, serving)
            shown_at = {"server": f"http://127.0.0.1:{port}/metrics"}
            shown_at["worker"] = await _told_by_worker(worker_log, logged)
            await _make_a_workflow_task_fail(client)
            run_id = await _run_by_command(bench, model, facts)
            failed = await _run_over_http(model, facts)
            await collector.until(lambda: len(collector.named("RunWorkflow:OptimizationWorkflow")) == 2)
            worker, server = [await asyncio.to_thread(scraped, shown_at[name]) for name in ("worker", "server")]
            lines = [json.loads(line) for line in worker_log.read_bytes()[logged:].decode().splitlines()]
            yield Observed(collector, run_id, failed, worker, server, lines, said, port, shown_at)
        finally:
            serving.send_signal(2)
            await asyncio.to_thread(serving.ending)


def _environment(collector: Collector, model: SimulatedModel, port: int) -> dict[str, str]:
    return {
        "RATCHET_METRICS": f"127.0.0.1:{port}",
        "RATCHET_RATE_LIMITS": json.dumps({"simulated-echo": {"requests_per_minute": 60_000}}),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-collector-key={COLLECTOR_KEY}",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_API_KEY": KEY,
    }


def _read_facts(serving: Any) -> tuple[str, dict[str, Any]]:
    said = ""
    for line in serving.stdout:
        if line.startswith("{"):
            told = line
            while not _is_json(told):
                told += next(serving.stdout)
            return said, json.loads(told)
        said += line
    raise AssertionError(f"it never served: {said}")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


async def _told_by_worker(log: Path, logged: int) -> str:
    async with asyncio.timeout(60):
        while True:
            lines = log.read_bytes()[logged:].splitlines() if log.exists() else []
            for line in lines:
                if b'"metrics"' in line:
                    return str(json.loads(line)["metrics"])
            await asyncio.sleep(0.05)


async def _make_a_workflow_task_fail(client: Any) -> None:
    """A workflow that no worker knows: its tasks fail until somebody ends it."""
    handle = await client.start_workflow("NobodyKnowsIt", id="nobody-knows-it", task_queue="optimization")
    async with asyncio.timeout(60):
        while True:
            described = await handle.describe()
            if described.raw_description.pending_workflow_task.attempt > 1:
                break
            await asyncio.sleep(0.05)
    await handle.terminate()
    try:
        await handle.result()
    except (WorkflowFailureError, RPCError):
        return


async def _run_by_command(bench: ObservedBench, model: SimulatedModel, facts: dict[str, Any]) -> str:
    """A run whose endpoint has too much to do at first, with a budget that ends it. Somebody follows it on the page."""
    model.simulate(Rule(status=429, times=1))
    spec = graded(model, name="observed", stop={"max_rounds": 2, "no_improvement": 0}, budget={"cost": 1, "samples": 10})
    spec["target"]["messages"].insert(0, {"role": "system", "content": f"The word is {PROMPT}."})
    (bench.directory / "spec.yaml").write_text(yaml.safe_dump(spec))
    started = await asyncio.to_thread(bench.facts, "run", "spec.yaml", "--detach", "--yes")
    run_id = str(started["run_id"])
    async with reading(facts["url"], f"{PATH}/{run_id}/events", Authorization=f"Bearer {_token(facts)}") as stream:
        await stream.until("run_finished")
    return run_id


async def _run_over_http(model: SimulatedModel, facts: dict[str, Any]) -> str:
    """A run of a model that there is not, started by somebody who is traced already."""
    spec = graded(model, name="failing", budget={"samples": 100})
    spec["target"]["model"] = "nobody"
    headers = {"Authorization": f"Bearer {_token(facts)}", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    async with httpx.AsyncClient(base_url=facts["url"], headers=headers) as http:
        answer = await http.post(PATH, json=spec)
        assert answer.status_code == 201, answer.text
        run_id = str(answer.json()["optimization_id"])
        async with asyncio.timeout(60):
            while (await http.get(f"{PATH}/{run_id}")).json().get("status") != "failed":
                await asyncio.sleep(0.05)
    return run_id


def _token(facts: dict[str, Any]) -> str:
    return Path(facts["token_file"]).read_text().strip()
