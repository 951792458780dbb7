"""A run that no worker has taken up: in the list from the start, and no error when it is opened."""

from __future__ import annotations

import re
from datetime import timedelta

from playwright.async_api import expect

from activities.settings import Settings
from store.write.access.teams import Teams
from tests.support.allowed import OPERATOR
from tests.support.engines import PLUGINS, Engines
from tests.support.hill_specs import hill_spec
from tests.support.page_browser import Opens
from tests.support.taken_months import taken_month
from worker import serving

QUEUE = "optimization-evaluation-00000000beef"


async def test_a_run_that_waits_for_its_worker_is_shown_as_such_until_it_begins(engines: Engines, open_page: Opens) -> None:
    spec = hill_spec(name="patient", execution={"evaluation_task_queue": QUEUE})
    handle = await engines.start(spec, run_id="not-begun")
    page = await open_page()
    row = page.locator("table.runs tr", has_text="not-begun")
    await expect(row).to_contain_text("no worker")
    await expect(row).to_contain_text(f"waits for a worker on task queue {QUEUE}")
    await expect(row).to_contain_text("patient")
    opened = await open_page("runs/not-begun")
    await expect(opened.locator("#main")).to_contain_text("has not begun: it waits for a worker on task queue")
    await expect(opened.locator("#main")).not_to_contain_text("cannot be shown")
    settings = Settings(
        engines.addresses.database_url,
        operator=OPERATOR,
        role="evaluation",
        evaluation_task_queue=QUEUE,
        plugins="plugged",
        plugin_path=PLUGINS,
        grace=timedelta(seconds=1),
    )
    async with serving(engines.client, settings):
        await expect(opened.locator("h1")).to_have_text("patient")
        await handle.result()
        await expect(row).to_contain_text("completed")
        await expect(row).not_to_contain_text("no worker")


async def test_a_run_that_waits_for_its_teams_month_says_so_in_the_list_and_on_its_own_page(
    engines: Engines, open_page: Opens
) -> None:
    await Teams(engines.database).create("shown", [], "a test")
    await Teams(engines.database).claim_run("of-shown", "shown")
    async with taken_month(engines.database, "shown", samples=500):
        handle = await engines.start(hill_spec(name="patient-crew"), run_id="of-shown")
        row = (await open_page()).locator("table.runs tr", has_text="patient-crew")
        await expect(row).to_contain_text("no budget")
        await expect(row).to_contain_text(re.compile(r"waits for the month 20\d\d-\d\d of team shown: 0 of 500 calls left"))
        opened = await open_page("runs/of-shown")
        await expect(opened.locator("#main")).to_contain_text("of team shown: 0 of 500 calls left")
    assert (await handle.result())["status"] == "completed"
    await expect(row).not_to_contain_text("no budget")
