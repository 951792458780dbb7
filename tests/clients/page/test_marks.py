"""What people say of runs, candidates and answers: made, found by the search, shown in reports; decisions stay as they were."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from playwright.async_api import Page, expect

from clients.reports.history.entries import report_json
from clients.reports.load import facts_of
from clients.runs.service.servers import Servers
from store.read.access.access_tokens import Role
from tests.support.access_tokens import holding, made_token
from tests.support.page_browser import Opens, keep_picture
from tests.support.page_edges import BEYOND

HOSTILE = "<img src=x onerror='window.hacked=1'>"


async def say(page: Page, group: str, button: str, label: str, text: str, confirm: str) -> None:
    await page.get_by_role("group", name=group).get_by_role("button", name=button).click()
    await page.get_by_role("dialog").get_by_label(label).fill(text)
    await page.get_by_role("dialog").get_by_role("button", name=confirm).click()
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_runs_candidates_and_answers_are_marked_and_found_again(
    open_page: Opens, words: str, http: httpx.AsyncClient, accessible: Callable[[Page], Awaitable[list[str]]], servers: Servers
) -> None:
    before = (await http.get(f"/optimizations/{words}/history")).json()
    page = await open_page(f"runs/{words}")
    run = page.get_by_role("group", name="Marks of the run")
    await run.get_by_role("button", name="Pin").click()
    await expect(run.get_by_role("button", name="Pinned")).to_be_focused()
    await say(page, "Marks of the run", "+ Tag", "Tag", f"to-release {HOSTILE}", "Add")
    await say(page, "Marks of the run", "+ Note", "Note", f"The judge was kind.\n{HOSTILE}", "Keep")
    await expect(run.get_by_role("list", name="Notes on the run")).to_contain_text("The judge was kind.")
    await run.get_by_role("button", name="Change").click()
    await page.get_by_role("dialog").get_by_label("Note").fill("The judge was far too kind.")
    await page.get_by_role("dialog").get_by_role("button", name="Keep").click()
    await expect(run).to_contain_text("far too kind")
    await expect(run).to_contain_text("anybody, just now, changed")
    await keep_picture(page, "marks-run")
    assert await accessible(page) == []

    # An answer, side by side with that of the baseline.
    best = (await http.get(f"/optimizations/{words}")).json()["best_candidate_id"]
    await page.goto(f"{page.url.partition('#')[0]}#/runs/{words}/candidates/{best}?tab=samples&sample=0")
    await say(page, f"Marks of candidate {best}", "+ Tag", "Tag", "favourite", "Add")
    answer = f"Marks of the answer of {best} to sample-"
    await say(page, answer, "+ Note", "Note", "Right, and for the right reason.", "Keep")
    await expect(page.get_by_role("group", name=answer)).to_contain_text("right reason")
    await keep_picture(page, "marks-answer")
    assert await accessible(page) == []

    # The keys find it from elsewhere.
    await page.goto(f"{page.url.partition('#')[0]}#/runs?pinned=true")
    await expect(page.get_by_role("table", name="Runs")).to_contain_text("to-release <img")
    rows = page.get_by_role("table", name="Runs").get_by_role("row")
    assert (
        await rows.filter(has_text="pinned").count() == await rows.count() - 1
    )  # all but the head; others may have pinned, too
    await page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search runs, prompts, datasets, candidates, tags and notes")
    await expect(field).to_be_focused()
    await field.fill("RIGHT REASON")
    option = page.get_by_role("option", name="Note Right, and for the right reason.")
    await expect(option).to_have_attribute("aria-selected", "true")
    assert await accessible(page) == []
    await page.keyboard.press("Enter")
    opened = page.get_by_role("dialog").get_by_role("group", name=answer)
    await expect(opened).to_contain_text("right reason")
    assert (await accessible(page), await page.locator("dialog[open]").count()) == ([], 1)
    await page.keyboard.press("Escape")
    found = (await http.get("/search", params={"q": "words"})).json()["items"]
    stored = next(one["text"] for one in found if one["kind"] == "dataset")
    await page.keyboard.press("Control+k")
    await field.fill("WORDS")
    await page.get_by_role("option", name=f"Dataset {stored}").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text(stored)
    await page.keyboard.press("Control+k")
    await field.fill("to-rel")
    await expect(page.get_by_role("option", name="Tag to-release")).to_be_visible()
    await keep_picture(page, "search")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.emulate_media(color_scheme="dark")
    await keep_picture(page, "search-dark-390")
    assert await page.evaluate(BEYOND) == []
    await field.fill(best[:7])
    option = page.get_by_role("option", name=f"Candidate {best} {words}", exact=True)
    await expect(option).to_be_visible()
    while await option.get_attribute("aria-selected") != "true":  # runs of other tests may have the same candidate
        await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("group", name=f"Marks of candidate {best}")).to_contain_text("favourite")
    assert await page.evaluate(BEYOND) == []
    await keep_picture(page, "marks-dark-390")

    # The report has it, and no decision is another one.
    report = await servers.reader.runs.report(words)
    assert report is not None
    told: dict[str, Any] = report_json(facts_of(report))
    assert [mark["kind"] for mark in told["marks"]] == ["pin", "tag", "note", "tag", "note"]
    assert told["marks"][2]["text"] == "The judge was far too kind." and told["marks"][2]["who"] == "anybody"
    assert (await http.get(f"/optimizations/{words}/history")).json() == before
    assert await page.evaluate("window.hacked") is None


async def test_a_note_is_its_authors_and_a_reader_marks_nothing(guarded_url: str, servers: Servers, words: str) -> None:
    at = f"/optimizations/{words}/marks"
    async with holding(guarded_url, await made_token(servers.database, "ann", Role.RUN)) as ann:
        note = (await ann.post(at, json={"kind": "note", "text": "mine"})).json()
        assert (note["who"], note["through"]) == ("ann", "HTTP, by the token 'ann'")
        tags = [(await ann.post(at, json={"kind": "tag", "text": " twice "})).json() for _ in range(2)]
        assert tags[0] == tags[1] and tags[0]["text"] == "twice"
        for wrong, field in (
            ({"kind": "tag"}, "text"),
            ({"kind": "pin", "text": "x"}, "text"),
            ({"kind": "tag", "text": "x" * 61}, "text"),
            ({"kind": "pin", "item_id": "sample-01"}, "item_id"),
        ):
            refused = await ann.post(at, json=wrong)
            assert (refused.status_code, field in refused.json()["error"]["message"]) == (422, True)
        nowhere = await ann.post(at, json={"kind": "pin", "candidate_id": "r9-none"})
        assert (nowhere.status_code, nowhere.json()["error"]["field"]) == (404, "candidate_id")
    async with holding(guarded_url, await made_token(servers.database, "ben", Role.RUN)) as ben:
        refused = await ben.put(f"{at}/{note['number']}", json={"text": "his"})
        assert (refused.status_code, "ann wrote this note" in refused.json()["error"]["message"]) == (403, True)
        assert (await ben.delete(f"{at}/{note['number']}")).status_code == 403
        assert (await ben.delete(f"{at}/{tags[0]['number']}")).status_code == 204
        assert (await ben.delete(f"{at}/{tags[0]['number']}")).status_code == 404
    async with holding(guarded_url, await made_token(servers.database, "reads", Role.READ)) as reader:
        assert (await reader.post(at, json={"kind": "pin"})).status_code == 403
        found = (await reader.get("/search", params={"q": "mine"})).json()["items"]
        assert [(one["kind"], one["who"]) for one in found] == [("note", "ann")]
