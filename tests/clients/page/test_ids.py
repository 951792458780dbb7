"""A run's id is whatever its starter chose: over HTTP and on the page it is addressed percent-encoded, slashes and all."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec, split_items
from tests.support.page_browser import Opens

ID = "team a/2026/50% off?#é\\..+&=;:@"


@pytest.fixture(scope="session")
async def named(engines: Engines) -> str:
    """A finished run whose id has every character that means something in an address."""
    await engines.run(hill_spec(name="named", dataset=split_items()), run_id=ID)
    return quote(ID, safe="")


async def test_every_path_of_a_run_takes_its_id_encoded(http: httpx.AsyncClient, named: str) -> None:
    run = (await http.get(f"/optimizations/{named}")).raise_for_status().json()
    assert run["optimization_id"] == ID
    best = quote(run["best_candidate_id"], safe="")
    for path in ("trials", "outline", "rounds", "graph", "slices", "history", "log", f"trials/{best}", f"candidates/{best}"):
        answer = await http.get(f"/optimizations/{named}/{path}")
        assert answer.status_code == 200, (path, answer.text)
    pause = await http.post(f"/optimizations/{named}/pause")
    assert (pause.status_code, ID in pause.json()["error"]["message"]) == (409, True)
    of = [ID, f"{ID}/{run['baseline_candidate_id']}"]
    [compared] = (await http.get("/comparison", params={"of": of})).raise_for_status().json()["compared"]
    assert (compared["optimization_id"], compared["candidate_id"]) == (ID, run["baseline_candidate_id"])
    async with http.stream("GET", f"/optimizations/{named}/events", headers={"Last-Event-ID": "0"}) as events:
        assert events.status_code == 200
        assert await anext(events.aiter_lines())


async def test_an_encoded_slash_separates_nothing_and_a_bare_one_does(http: httpx.AsyncClient, named: str) -> None:
    bare = quote(ID, safe="/")
    assert bare != named
    assert (await http.get(f"/optimizations/{bare}")).status_code == 404
    unknown = await http.get("/optimizations/no%2Fsuch")
    assert (unknown.status_code, "no run 'no/such'" in unknown.json()["error"]["message"]) == (404, True)
    elsewhere = await http.get(f"/optimizations%2F{named}/nowhere")
    assert (elsewhere.status_code, "/optimizations%2Fteam" in elsewhere.json()["error"]["message"]) == (404, True)
    literal = await http.get("/optimizations/no%252Fsuch")
    assert "no run 'no%2Fsuch'" in literal.json()["error"]["message"]


async def test_the_page_shows_such_a_run_and_its_candidates(open_page: Opens, named: str) -> None:
    page = await open_page("runs?search=team")
    await page.get_by_role("link", name="named", exact=True).click()
    await page.get_by_role("link", name="Trials").click()
    await page.locator(".virtual").get_by_role("link").first.click()
    await page.get_by_role("heading", name="The baseline").wait_for()
    assert f"runs/{named}/candidates/" in page.url
