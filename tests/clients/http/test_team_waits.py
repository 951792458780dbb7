"""A run that waits for its team's month: told over HTTP and by commands, and no longer once it goes on."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import httpx

from store.write.access.teams import Teams
from tests.support.engines import Engines
from tests.support.forked_commands import ROOT, run_forked
from tests.support.hill_specs import hill_spec
from tests.support.patience import PATIENCE_SECONDS
from tests.support.taken_months import taken_month


async def test_a_run_that_waits_for_its_teams_month_says_so(http: httpx.AsyncClient, engines: Engines, tmp_path: Path) -> None:
    servers = {"TEMPORAL_ADDRESS": engines.addresses.temporal_address, "DATABASE_URL": engines.addresses.database_url}
    environment = {**os.environ, **servers, "PYTHONPATH": str(ROOT)}

    async def told(*arguments: str) -> str:
        ended = await asyncio.to_thread(run_forked, arguments, tmp_path, environment, PATIENCE_SECONDS)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.decode()

    async def read(path: str = "/of-waiters") -> dict[str, Any]:
        answer = await http.get(f"/optimizations{path}")
        found: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
        return found

    await Teams(engines.database).create("waiters", [], "a test")
    await Teams(engines.database).claim_run("of-waiters", "waiters")
    async with taken_month(engines.database, "waiters", samples=500):
        handle = await engines.start(hill_spec(name="patient-waiter"), run_id="of-waiters")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (month := (await read()).get("waits_for_team")):
                await asyncio.sleep(0.05)
        assert (month["team"], month["resource"], month["limit"], month["left"]) == ("waiters", "samples", 500, 0)
        [listed] = (await read("?search=patient-waiter"))["items"]
        assert listed["waits_for_team"]["team"] == "waiters" and listed["waits_for"] == []
        words = f"the month {month['month']} of team waiters, which has 0 of 500 calls left beside what other runs hold"
        assert f"It waits for {words}." in await told("status", "of-waiters")
        assert json.loads(await told("status", "of-waiters", "--json"))["waits_for"] == words
        shown = await told("list", "--limit", "500")
        assert f"of-waiters waits for {words}" in " ".join(shown.split())
    assert (await handle.result())["status"] == "completed"
    assert (await read())["waits_for_team"] is None
