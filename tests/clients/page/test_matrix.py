"""The matrix in a real browser: walked by keyboard, filtered, answers opened; and only the rows in sight exist."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.page_browser import Opens, keep_picture
from tests.support.seeded_samples import widen
from tests.support.word_runs import HOSTILE

SAMPLES = 10_000
MOST_NODES = 4_000
"""Of the whole page, whatever the number of samples."""
Accessible = Callable[[Page], Awaitable[list[str]]]


async def test_the_matrix_is_walked_by_keyboard_filtered_and_its_answers_are_opened(
    open_page: Opens, accessible: Accessible, http: httpx.AsyncClient, words: str, other_words: str
) -> None:
    page = await open_page(f"runs/{words}", width=1440)
    await page.get_by_role("navigation", name="Of this run").get_by_role("link", name="Matrix").click()
    grid = page.get_by_role("grid", name="Samples by candidates")
    await expect(grid.get_by_role("columnheader").nth(1)).to_contain_text("Baseline")
    told = page.locator(".told")
    whole = (await http.get(f"/optimizations/{words}/matrix")).raise_for_status().json()
    await expect(told).to_contain_text(f"{whole['total']} samples × {len(whole['columns'])} candidates")
    await keep_picture(page, "matrix")
    assert await accessible(page) == []

    await page.get_by_label("Show").select_option("broken")
    broken = (await http.get(f"/optimizations/{words}/matrix?only=broken")).raise_for_status().json()
    assert 0 < broken["total"] < whole["total"]
    await expect(told).to_contain_text(f"{broken['total']} of {whole['total']} samples")
    place = next(place for place, cell in enumerate(broken["items"][0]["cells"]) if cell["passes"] is False)
    await grid.focus()
    for _ in range(place):
        await grid.press("ArrowRight")
    await expect(grid.locator("[aria-selected]")).to_contain_text("broken")
    await grid.press("Enter")
    dialog = page.get_by_role("dialog")
    heading = dialog.get_by_role("heading", level=3)
    await expect(heading).to_contain_text(broken["items"][0]["item_id"])
    await expect(dialog.get_by_role("heading", name="Baseline")).to_be_visible()
    await expect(dialog).to_contain_text("did not pass")
    await keep_picture(page, "matrix-answer")
    assert await accessible(page) == []
    shared = page.url
    named = broken["items"][0]
    assert f"item={named['item_id']}&" in shared and "sample=" not in shared
    old = f"runs/{words}/matrix?only=broken&sample={named['position']}&answer={broken['columns'][place]['candidate_id']}"
    await page.keyboard.press("ArrowDown")
    await expect(heading).to_contain_text(broken["items"][1]["item_id"])
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(grid).to_be_focused()

    await grid.press("/")
    search = page.get_by_label("Search")
    await expect(search).to_be_focused()
    await search.fill("no such word")
    await search.press("Enter")
    await expect(page.get_by_text("No sample is like that")).to_be_visible()
    await page.get_by_role("button", name="Show all samples").click()
    await expect(told).to_contain_text(f"{whole['total']} samples ×")
    answered = next(row for row in whole["items"] if row["cells"][1]["excerpt"] not in (None, row["expected"], row["input"]))
    await search.fill(answered["cells"][1]["excerpt"].upper())
    await expect(told).to_contain_text(f"of {whole['total']} samples")
    await expect(grid.get_by_role("row", name=answered["item_id"])).to_be_visible()
    await search.fill("")
    await expect(told).to_contain_text(f"{whole['total']} samples ×")
    slices = (await http.get(f"/optimizations/{words}/slices")).raise_for_status().json()["fields"][0]["slices"]
    await page.get_by_label("Slice").select_option(label=f"{slices[0]['name']} ({slices[0]['samples']})")
    await expect(told).to_contain_text(f"{slices[0]['samples']} of {whole['total']}")
    await page.get_by_role("button", name="Candidates…").click()
    candidates = dialog.get_by_role("group", name="Candidates of this run").get_by_role("checkbox")
    await expect(candidates).to_have_count(len(whole["columns"]))
    await keep_picture(page, "matrix-candidates-choice")
    assert await accessible(page) == []
    for number in range(len(whole["columns"])):
        if number != 1:
            await candidates.nth(number).press("Space")
    await dialog.get_by_role("button", name="Show them").press("Enter")
    await expect(page).to_have_url(re.compile(f"candidates={whole['columns'][1]['candidate_id']}$"))
    await expect(grid.get_by_role("columnheader")).to_have_count(2)

    await page.get_by_role("button", name="Runs…").click()
    await page.get_by_role("checkbox", name=other_words).check()
    await keep_picture(page, "matrix-runs-choice")
    assert await accessible(page) == []
    await page.get_by_role("button", name="Show them").click()
    theirs = grid.get_by_role("columnheader").nth(2)
    await expect(theirs).to_contain_text(f"of {other_words}")
    await grid.press("End")
    await grid.press("Enter")
    await expect(heading).to_contain_text(f"of {other_words}")
    await expect(dialog.get_by_role("heading", name=f"of {other_words}").last).to_be_visible()
    await dialog.get_by_text("What was sent").last.click()
    await expect(dialog).to_contain_text("It was asked by code")
    marks = dialog.get_by_role("group", name=f"Marks of the answer of {other_words}/")
    await marks.get_by_role("button", name="Pin").click()
    await expect(marks.get_by_role("button", name="Pinned")).to_be_visible()
    [pinned] = (await http.get(f"/optimizations/{other_words}/marks")).raise_for_status().json()["items"]
    assert pinned["candidate_id"] and pinned["item_id"] in await heading.inner_text()
    assert "pin" not in [one["kind"] for one in (await http.get(f"/optimizations/{words}/marks")).json()["items"]]
    await keep_picture(page, "matrix-runs-answer")
    assert await accessible(page) == []
    await marks.get_by_role("button", name="Pinned").click()
    await expect(marks.get_by_role("button", name="Pin", exact=True)).to_be_visible()
    await page.keyboard.press("Escape")
    await keep_picture(page, "matrix-runs")

    opened = await open_page(old, width=390)
    await expect(opened.get_by_role("dialog").get_by_role("heading", level=3)).to_contain_text(named["item_id"])
    opened = await open_page(shared.partition("#/")[2], scheme="dark", width=390)
    await expect(opened.get_by_role("dialog")).to_contain_text("did not pass")
    await keep_picture(opened, "matrix-answer-phone")
    await opened.keyboard.press("Escape")
    await keep_picture(opened, "matrix-phone")
    assert await opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await opened.evaluate("window.obeyed") is None
    assert HOSTILE not in await opened.content()


@pytest.fixture(scope="session")
async def wide(engines: Engines) -> str:
    # Data of its own: other runs of these tests would get the samples that are added here.
    own = {"items": [{"id": f"wide-{n}", "input": 1000 + n} for n in range(8)], "splits": "none"}
    await engines.run(hill_spec(name="wide", dataset=own, stop={"max_rounds": 3, "no_improvement": 0}), run_id="wide")
    await widen(engines.database, "wide", SAMPLES)
    return "wide"


async def test_of_ten_thousand_samples_only_those_in_sight_exist_and_the_last_one_can_be_seen(
    open_page: Opens, wide: str
) -> None:
    page = await open_page(f"runs/{wide}/matrix")
    grid = page.get_by_role("grid")
    await expect(grid).to_have_attribute("aria-rowcount", str(SAMPLES + 8 + 1))
    await expect(page.locator(".matrix-cell").first).not_to_be_empty()
    nodes = "document.querySelectorAll('*').length"
    fitting = await grid.evaluate("grid => Math.ceil(grid.clientHeight / 78) + 10")
    for key in ("Control+End", "PageUp", "Control+Home", "PageDown", "Control+End"):
        await grid.press(key)
        assert await page.locator(".matrix-row").count() <= fitting
        assert await page.evaluate(nodes) < MOST_NODES
    await expect(page.get_by_role("rowheader", name=f"seeded-{SAMPLES - 1}")).to_be_visible()
    await grid.press("Enter")
    await expect(page.get_by_role("dialog")).to_contain_text("the target raised")


async def test_an_opened_answer_has_its_marks_and_the_steps_that_its_target_took(
    open_page: Opens, accessible: Accessible, http: httpx.AsyncClient, engines: Engines, words: str
) -> None:
    whole = (await http.get(f"/optimizations/{words}/matrix")).raise_for_status().json()
    candidate, sample = whole["columns"][1]["candidate_id"], whole["items"][0]
    inner = [{"role": "tool", "content": HOSTILE, "latency_ms": 30}, {"content": {"found": 2}}]
    steps = [
        {"name": "draft", "model": "small", "output": "word?", "tokens": 12, "latency_ms": 200.0, "finish_reason": "length"}
    ]
    trace = {"steps": [*steps, {"name": "look up", "calls": inner, "attempt": 2}], "session": "s-1"}
    async with engines.database.transaction() as connection:
        await connection.execute(
            "UPDATE answers a SET trace = $1 FROM candidates c, suite_samples drawn WHERE c.run_id = $2 AND c.candidate_id = $3"
            " AND drawn.run_id = $2 AND drawn.position = $4 AND drawn.split = $5 AND a.run_id = $2 AND a.config_hash ="
            " c.config_hash AND a.item_hash = drawn.item_hash",
            *(json.dumps(trace), words, candidate, sample["position"], whole["split"]),
        )
    page = await open_page(f"runs/{words}/matrix?sample={sample['position']}&answer={candidate}")
    dialog = page.get_by_role("dialog").first
    await dialog.get_by_text("Trace: 2 steps").click()
    taken = dialog.locator(".trace-steps").first.locator(":scope > li")
    await expect(taken).to_have_count(2)
    await expect(taken.first).to_contain_text("draft small · 12 tokens · 200 ms · length")
    await expect(taken.nth(1).locator(".trace-steps > li")).to_have_count(2)
    await expect(taken.nth(1)).to_contain_text(HOSTILE)
    await expect(taken.nth(1)).to_contain_text('"attempt": 2')
    await expect(dialog.get_by_role("group", name="More").last).to_contain_text("s-1")
    group = dialog.get_by_role("group", name=f"Marks of the answer of {candidate} to {sample['item_id']}")
    await group.get_by_role("button", name="+ Tag").click()
    await page.get_by_role("dialog").last.get_by_label("Tag").fill("seen-in-matrix")
    await page.get_by_role("dialog").last.get_by_role("button", name="Add").click()
    await expect(group).to_contain_text("seen-in-matrix")
    await keep_picture(page, "matrix-trace")
    assert await accessible(page) == []
    await page.set_viewport_size({"width": 390, "height": 844})
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await page.evaluate("window.obeyed") is None
    marked = (await http.get(f"/optimizations/{words}/marks")).json()["items"]
    assert [one["item_id"] for one in marked if one["text"] == "seen-in-matrix"] == [sample["item_id"]]
    await group.get_by_role("button", name="Remove the tag seen-in-matrix").click()
    await expect(group).not_to_contain_text("seen-in-matrix")
