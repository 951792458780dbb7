"""Statistics hold nobody up: they run, and are loaded, outside of the event loop, and no transaction waits for them."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import workflows.rules.statistics
from clients.reports.comparisons import side_by_side
from store.connection import Database
from tests.support.engines import Engines

ROOT = Path(__file__).parents[3]
PATIENCE = 20.0


class Held:
    """Statistics that only end when the event loop lets them: on the loop itself they would never."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self._real = real
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.threads: list[threading.Thread] = []
        self.let_go: list[bool] = []

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.threads.append(threading.current_thread())
        self.begun.set()
        self.let_go.append(self.go_on.wait(PATIENCE))
        return self._real(*given, **named)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    made = Held(workflows.rules.statistics.compare)
    monkeypatch.setattr(workflows.rules.statistics, "compare", made)
    return made


async def meanwhile(database: Database, held: Held, http: httpx.AsyncClient) -> None:
    """While statistics are at work the server answers, and keeps no transaction open for them."""
    async with asyncio.timeout(PATIENCE):
        while not held.begun.is_set():
            await asyncio.sleep(0.01)
        assert (await http.get("/optimizations")).status_code == 200
        async with database.connection() as connection:
            open_for_it = (
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND pid <> pg_backend_pid()"
            )
            while await connection.fetchval(open_for_it):
                await asyncio.sleep(0.01)
    held.go_on.set()


@pytest.mark.parametrize("path", ["/optimizations/seen/comparison?candidate={best}", "/comparison?of=seen&of=seen/{baseline}"])
async def test_nothing_waits_for_a_comparison(
    engines: Engines, http: httpx.AsyncClient, finished: str, held: Held, path: str
) -> None:
    run = (await http.get(f"/optimizations/{finished}")).json()
    asking = asyncio.create_task(http.get(path.format(best=run["best_candidate_id"], baseline=run["baseline_candidate_id"])))
    await meanwhile(engines.database, held, http)
    answered = await asking
    assert answered.status_code == 200, answered.text
    assert held.let_go == [True] and held.threads[0] is not threading.main_thread()


async def test_ten_candidates_are_judged_once_each(http: httpx.AsyncClient, finished: str, held: Held) -> None:
    held.go_on.set()
    trials = (await http.get(f"/optimizations/{finished}/trials")).json()["items"]
    names = [f"{finished}/{trial['candidate_id']}" for trial in trials if trial["purpose"] in ("baseline", "candidate")]
    answered = await http.get("/comparison", params={"of": names})
    assert answered.status_code == 200, answered.text
    assert len(held.threads) == len(names) - 1
    told = answered.json()["compared"]
    assert all(one["judged"] is not None for one in told)
    assert {len(one["samples"]["fixed"]) <= side_by_side.SAMPLES_NAMED for one in told} == {True}


@pytest.fixture
async def served_alone(engines: Engines, finished: str, http: httpx.AsyncClient) -> dict[str, Any]:
    run = (await http.get(f"/optimizations/{finished}")).json()
    at = engines.addresses
    paths = [
        f"/optimizations/{finished}/comparison?candidate={run['best_candidate_id']}",
        f"/comparison?of={finished}&of={finished}/{run['baseline_candidate_id']}",
        f"/optimizations/{finished}/history",
        f"/optimizations/{finished}/outline",
        f"/optimizations/{finished}/replay",
    ]
    arguments = (at.temporal_address, at.namespace, at.database_url, *paths)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.imported_modules", *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


async def test_libraries_of_statistics_are_not_loaded_by_the_event_loop(served_alone: dict[str, Any]) -> None:
    assert served_alone["answered"] == [200] * 5
    assert served_alone["loaded"].get("scipy") == "elsewhere", served_alone
    assert "event loop" not in served_alone["loaded"].values(), served_alone
