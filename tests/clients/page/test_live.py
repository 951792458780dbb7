"""The page stays true while a run goes on: live, over a lost stream, by polling, and when the server is away."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
from playwright.async_api import Page, Route, expect

from clients.http.access.security import Trust
from clients.http.app import serving_http
from clients.runs.service.servers import Servers
from store.events import EVENTS_CHANNEL
from tests.support.engines import Engines
from tests.support.hill_specs import gated_spec, hill_spec
from tests.support.http_api import until
from tests.support.page_browser import Opens, keep_picture


async def start(http: httpx.AsyncClient, gate: Path, name: str, rounds: int = 3) -> str:
    spec = gated_spec(gate, name=name, stop={"max_rounds": rounds, "no_improvement": 0})
    run_id: str = (await http.post("/optimizations", json=spec)).json()["optimization_id"]
    await until(http, run_id, "running")
    return run_id


async def never_reloaded(page: Page) -> bool:
    return bool(await page.evaluate("window.stayed === true"))


WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver((seen) => {
  const place = ({ node, previousRect, currentRect }) =>
    `${node?.parentElement?.closest("[class]")?.className}: ${previousRect.y} to ${currentRect.y}`;
  for (const one of seen.getEntries()) {
    if (!one.hadRecentInput) window.shifts.push([one.value, one.sources.map(place)]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
MOST_SHIFTED = 0.05
"""As browsers sum up what moves while nobody touches the page."""


async def decisions(page: Page) -> list[str]:
    return await page.locator(".log .words").all_inner_texts()


async def happens(engines: Engines, run_id: str) -> int:
    """Something that the stream tells, and its event's id."""
    told = '{"status": "running", "before": "paused"}'
    async with engines.database.transaction() as connection:
        await connection.execute("SELECT pg_notify($1, $2)", EVENTS_CHANNEL, run_id)
        stored = await connection.fetchval(
            "INSERT INTO events (run_id, event_key, type, payload) VALUES ($1, 'told', 'run_status_changed', $2) RETURNING id",
            run_id,
            told,
        )
    return int(stored)


async def test_a_run_appears_in_the_list_and_is_followed_to_its_end_without_a_reload(
    open_page: Opens, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    page = await open_page("runs?search=followed")
    await page.evaluate("window.stayed = true")
    await page.evaluate(WATCH_SHIFTS)
    await expect(page.get_by_text("No run is like that")).to_be_visible()
    gate = tmp_path / "gate"
    run_id = await start(http, gate, "followed")
    row = page.get_by_role("row").filter(has_text=run_id)
    await expect(row.get_by_text("running")).to_be_visible()
    await row.get_by_role("link", name="followed", exact=True).click()
    await expect(page.get_by_role("heading", level=1, name="followed")).to_be_visible()
    await expect(page.locator("[data-state=live]")).to_be_visible()
    await expect(page.get_by_text("1 in flight: 0 of 8 answers")).to_be_visible()
    await expect(page.locator(".of-scores path.mark-running")).to_have_count(2)  # in the chart and its legend
    gate.touch()
    await expect(page.get_by_text("Run completed: Reached the limit of 3 rounds")).to_be_visible()
    await expect(page.locator(".of-scores").get_by_role("img", name="4 trials in 3 rounds")).to_be_visible()
    assert next(line for line in await decisions(page) if line.startswith("Round ")).startswith("Round 3: r3-")
    await expect(page.get_by_role("button", name="Pause")).to_be_hidden()
    shifts = await page.evaluate("window.shifts")
    assert sum(value for value, _ in shifts) < MOST_SHIFTED, shifts
    await page.get_by_role("link", name="Ratchet, all runs").click()
    await expect(row.get_by_text("completed")).to_be_visible()
    assert await never_reloaded(page)


async def test_a_server_that_goes_away_is_told_and_what_was_missed_arrives_once(
    open_page: Opens, http: httpx.AsyncClient, servers: Servers, engines: Engines, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = await start(http, gate, "missed")
    async with serving_http(servers, Trust.of("127.0.0.1", None), "optimization", port=0) as address:
        page = await open_page(f"runs/{run_id}/log", base=address.url, may_complain=True)
        await page.evaluate("window.stayed = true")
        await expect(page.locator("[data-state=live]")).to_be_visible()
        await expect(page.locator(".log")).to_contain_text("Started")
        newest = await happens(engines, run_id)
        await expect(page.locator(".log")).to_contain_text("Going on")
    await expect(page.locator("[data-state=lost]")).to_contain_text("Not connected · as of")
    await keep_picture(page, "not-connected")
    gate.touch()
    await until(http, run_id, "completed")
    assert not any(line.startswith("Round") for line in await decisions(page))
    asked: list[str] = []
    page.on(
        "request", lambda request: asked.append(request.headers.get("last-event-id", "")) if "/events" in request.url else None
    )
    async with serving_http(servers, Trust.of("127.0.0.1", None), "optimization", port=address.port):
        await page.get_by_role("button", name="Try now").click()
        await expect(page.locator(".log")).to_contain_text("Run completed")
        told = [line.split(":")[0] for line in await decisions(page)]
        assert told == ["Run completed", "Round 3", "Round 2", "Round 1", "Round 0", "Going on", "Started", "Run created"]
        assert int(asked[-1]) == newest  # resumed after the last event it had
    assert await never_reloaded(page)


async def test_without_a_stream_the_page_polls_and_says_so(open_page: Opens, http: httpx.AsyncClient, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run_id = await start(http, gate, "polled")
    page = await open_page("runs?search=nothing", may_complain=True)
    cut = 0

    async def refuse(route: Route) -> None:
        nonlocal cut
        cut += 1
        await route.abort()

    await page.route("**/events", refuse)
    await page.goto(f"{page.url.split('#')[0]}#/runs/{run_id}")
    await expect(page.locator("[data-state=polling]")).to_contain_text("Polling every 5 s")
    await keep_picture(page, "polling")
    gate.touch()
    await until(http, run_id, "completed")
    await expect(page.get_by_text("Run completed: Reached the limit of 3 rounds")).to_be_visible()
    assert cut >= 2
    await page.unroute("**/events", refuse)
    await page.get_by_role("button", name="Try now").click()
    await expect(page.locator("[data-state=live]")).to_have_count(1)


async def test_a_run_that_is_not_there_says_so_and_can_be_asked_for_again(open_page: Opens, http: httpx.AsyncClient) -> None:
    page = await open_page("runs/later-than-the-page", may_complain=True)
    await expect(page.get_by_role("alert")).to_contain_text("there is no run 'later-than-the-page'")
    spec = hill_spec(name="later", stop={"max_rounds": 1})
    run_id = (await http.post("/optimizations", json=spec)).json()["optimization_id"]
    await until(http, run_id, "completed")
    async with asyncio.timeout(10):
        await page.evaluate("(id) => { location.hash = `#/runs/${id}` }", run_id)
    await expect(page.get_by_role("heading", level=1, name="later")).to_be_visible()


async def test_a_tab_that_nobody_sees_gives_its_connection_back_and_catches_up_when_it_is_seen(
    open_page: Opens, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = await start(http, gate, "unseen")
    page = await open_page(may_complain=True)
    await page.clock.install()
    await page.goto(f"{page.url.split('#')[0]}?unseen#/runs/{run_id}")
    await expect(page.locator("[data-state=live]")).to_be_visible()
    await page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.hidden, configurable: true});"
        "window.hidden = true; document.dispatchEvent(new Event('visibilitychange'))"
    )
    await page.clock.fast_forward(61_000)
    await expect(page.locator("[data-state=resting]")).to_be_visible()
    gate.touch()
    await until(http, run_id, "completed")
    await page.evaluate("window.hidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.get_by_text("Run completed: Reached the limit of 3 rounds")).to_be_visible()
    await expect(page).to_have_title(re.compile("· completed · unseen$"))
