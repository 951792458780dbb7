"""The image's own steps, run here: what they make serves the demo, as a user without rights on a root that is read-only."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from clients.demo import simulated_model
from clients.embedded.stack import StackAddresses
from clients.temporal import connect
from tests.support.worker_processes import WorkerProcess, until
from tests.system.deploy import fresh_root
from tests.system.deploy.reading import ROOT

TOKEN = "a token of this test"
RIGHTS = """
import json, os
found = {"user": os.getuid(), "groups": os.getgroups()}
for line in open("/proc/self/status"):
    name, _, value = line.partition(":")
    if name in ("CapEff", "CapBnd", "NoNewPrivs"):
        found[name] = int(value, 16)
for folder in ("/", "/data", "/opt/ratchet", "/tmp"):
    try:
        open(os.path.join(folder, "written"), "w").close()
        found[folder] = "written"
    except OSError as error:
        found[folder] = error.strerror
print(json.dumps(found))
"""
EXPECTED_RIGHTS = {
    "user": 10001,
    "groups": [],
    "CapEff": 0,
    "CapBnd": 0,
    "NoNewPrivs": 1,
    **dict.fromkeys(("/", "/data", "/opt/ratchet"), "Read-only file system"),
    "/tmp": "written",
}


class Container:
    """What runs in an image, by the first process of its namespace."""

    def __init__(self, image: fresh_root.Image, told: Mapping[str, str], running: asyncio.subprocess.Process) -> None:
        self._image, self._told, self.running = image, told, running

    @property
    def first(self) -> int:
        return int(psutil.Process(self.running.pid).children()[0].pid)

    async def execute(self, *words: str) -> tuple[int, str]:
        """Run a command beside it, to its end."""
        command = self._image.command_inside(self.first, words, self._told)
        beside = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = await beside.communicate()
        return int(beside.returncode or 0), said.decode()

    async def stop(self) -> int:
        """End it as an engine does; returns the exit code."""
        psutil.Process(self.first).send_signal(signal.SIGTERM)
        async with asyncio.timeout(40):
            return await self.running.wait()


@asynccontextmanager
async def started(image: fresh_root.Image, log: Path, told: Mapping[str, str], *words: str) -> AsyncIterator[Container]:
    with log.open("wb") as complaints:
        running = await asyncio.create_subprocess_exec(*image.command(words, told), stdout=subprocess.PIPE, stderr=complaints)
    try:
        yield Container(image, told, running)
    finally:
        for first in psutil.Process(running.pid).children() if running.returncode is None else ():
            first.kill()  # and with it all that is in its namespace
        await running.wait()


@pytest.mark.skipif(bool(fresh_root.why_not()), reason=f"no fresh root: {fresh_root.why_not()}")
@pytest.mark.timeout(600)
async def test_what_the_images_steps_make_serves_the_demo(unserved_stack: StackAddresses, tmp_path: Path) -> None:
    """The lean image serves the queues, the full one page and API, which is asked for the run."""
    images = await asyncio.to_thread(fresh_root.build, tmp_path, "lean", "full")
    lean, full = images["lean"], images["full"]
    async with simulated_model() as model:
        told = {
            "TEMPORAL_ADDRESS": unserved_stack.temporal_address,
            "DATABASE_URL": unserved_stack.database_url,
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "none-needed",
            "RATCHET_SERVE_TOKEN": TOKEN,
        }
        served = ("ratchet", "serve", "--port", "0", "--json")
        async with (
            started(lean, tmp_path / "worker.log", told, *lean.entrypoint) as worker,
            started(full, tmp_path / "serve.log", told, *served) as serve,
        ):
            async with asyncio.timeout(120):
                while (await worker.execute(*lean.health))[0]:
                    assert worker.running.returncode is None, (tmp_path / "worker.log").read_text()
                assert serve.running.stdout is not None
                facts = json.loads(await serve.running.stdout.readline())
            async with httpx.AsyncClient(base_url=facts["url"], headers={"Authorization": f"Bearer {TOKEN}"}) as asked:
                assert "<!doctype html>" in (await asked.get("/")).text.lower()
                spec = json.loads((ROOT / "examples" / "triage.json").read_text("utf-8"))
                run_id = (await asked.post("/v1/private/optimizations", json=spec)).raise_for_status().json()["optimization_id"]
            client = await connect(unserved_stack.temporal_address)
            async with asyncio.timeout(120):
                result: dict[str, Any] = await client.get_workflow_handle(run_id).result()
            assert (result["status"], result["best_score"] > result["baseline_score"]) == ("completed", True)
            for container in (worker, serve):
                assert json.loads((await container.execute("python", "-c", RIGHTS))[1]) == EXPECTED_RIGHTS
                assert await container.stop() == 0


async def test_a_worker_is_ready_only_while_it_serves(unserved_stack: StackAddresses, tmp_path: Path) -> None:
    told = tmp_path / "health"
    worker = WorkerProcess(unserved_stack, tmp_path / "calls", told={"RATCHET_HEALTH_FILE": str(told)})
    assert await worker.run("--check-health") == 5, "nobody has told anything yet"
    await worker.start()
    await until(lambda: told.exists() and "serving" in told.read_text())
    assert await worker.run("--check-health") == 0
    await worker.kill(signal.SIGTERM)
    assert told.read_text().split() == ["starting", "serving", "draining"]
    assert await worker.run("--check-health") == 5, "servers answer, but this worker takes no work"
