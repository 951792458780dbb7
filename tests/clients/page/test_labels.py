"""Labels in a real browser: a question is asked, its answers are labelled by keys, and agreement and downloads are there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
from playwright.async_api import Page, expect

from clients.runs.service.servers import Servers
from store.write.labels import Labels
from tests.support.page_browser import Opens, keep_picture
from tests.support.page_edges import BEYOND

HOSTILE = "<img src=x onerror='window.hacked=1'>"


async def test_answers_are_drawn_labelled_by_keys_agreed_on_and_stored(
    open_page: Opens, words: str, http: httpx.AsyncClient, accessible: Callable[[Page], Awaitable[list[str]]], servers: Servers
) -> None:
    page = await open_page(f"runs/{words}")
    await page.get_by_role("navigation", name="Of this run").get_by_role("link", name="Labels").click()
    await page.get_by_role("textbox", name="Question").fill(f"Does it know the word? {HOSTILE}")
    await page.get_by_label("Answered by").select_option("scale")
    await page.get_by_label("The highest means").fill("knows it by heart")
    await page.get_by_label("How many").fill("1")
    await page.get_by_role("button", name="Draw answers").click()
    steps = page.get_by_role("group", name="Does it know the word?").get_by_role("button")
    await expect(steps).to_have_text(["11: worst", "22", "33", "44", "55: knows it by heart"])
    assert await accessible(page) == []
    await page.get_by_role("link", name="All questions").click()
    await page.get_by_role("textbox", name="Question").fill(f"Does it know the word? {HOSTILE}")
    await page.get_by_label("Answered by").select_option("categories")
    await page.get_by_label("Categories, separated by commas").fill("knows, guesses")
    await page.get_by_label("How many").fill("6")
    await page.get_by_label("Seed").fill("3")
    await keep_picture(page, "labels-ask")
    assert await accessible(page) == []
    await page.get_by_role("button", name="Draw answers").click()
    told = page.locator(".told")
    await expect(told).to_have_text("Answer 1 of 6; you have labelled 0")
    question = (await http.get(f"/optimizations/{words}/questions")).json()["items"][-1]
    at = f"/optimizations/{words}/questions/{question['question_id']}"
    drawn = (await http.get(f"{at}/items")).json()["items"]
    await expect(page.locator(".label-sample")).to_contain_text(drawn[0]["item_id"])
    await keep_picture(page, "labels-queue")
    assert await accessible(page) == []

    # What others say is not shown before one has said all oneself, or wants it.
    await Labels(servers.database).say(question["question_id"], 0, "ben", "a test", "knows")
    so_far = page.get_by_role("region", name="Labels so far")
    await page.reload()
    await expect(so_far).to_contain_text("when you have labelled all")
    await expect(so_far).not_to_contain_text("ben")
    await so_far.get_by_role("button", name="Show it now").click()
    await expect(so_far).to_contain_text("By ben alone")
    await page.reload()
    await expect(told).to_have_text("Answer 1 of 6; you have labelled 0")
    await page.keyboard.press("1")
    await expect(told).to_have_text("Answer 2 of 6; you have labelled 1")
    await expect(so_far).not_to_contain_text("ben")
    await page.keyboard.press("ArrowRight")
    await expect(told).to_have_text("Answer 3 of 6; you have labelled 1")
    for place, key in enumerate("2121"):
        await page.keyboard.press(key)
        await expect(told).to_contain_text(f"you have labelled {place + 2}")
    await expect(told).to_contain_text("Answer 2 of 6")  # what was passed over comes again
    await page.get_by_role("button", name="Guesses").click()
    await expect(told).to_have_text("You have labelled all 6")
    await expect(page.get_by_role("button", name="Guesses")).to_have_attribute("aria-pressed", "true")
    await page.keyboard.press("u")
    await expect(told).to_contain_text("you have labelled 5")
    await page.keyboard.press("2")
    await expect(told).to_have_text("You have labelled all 6")
    found = [one["label"] for one in (await http.get(f"{at}/items")).json()["items"]]
    assert found == ["knows", "guesses", "guesses", "knows", "guesses", "knows"]

    # Somebody else differs once.
    for position, label in enumerate(["knows", "guesses", "guesses", "knows", "guesses", "guesses"]):
        await Labels(servers.database).say(question["question_id"], position, "ben", "a test", label)
    await so_far.get_by_role("button", name="Read again").click()
    await expect(so_far).to_contain_text("83% are the same")
    await expect(so_far.get_by_role("row", name="Cohen’s κ")).to_contain_text("0.67")
    columns = "(table) => [...table.rows].map((row) => [...row.cells].slice(1).map((cell) => getComputedStyle(cell).textAlign))"
    assert set(map(tuple, await so_far.get_by_role("table").evaluate(columns))) == {("right",) * 3}
    await keep_picture(page, "labels-agreement")
    assert await accessible(page) == []
    async with page.expect_download() as kept:
        await so_far.get_by_role("link", name="Download CSV").click()
    assert (await (await kept.value).path()).read_text().count(f"{HOSTILE}") == 12
    await so_far.get_by_role("button", name="Store as a dataset…").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("words-labels")
    await page.get_by_role("dialog").get_by_role("button", name="Store").click()
    await so_far.get_by_role("link", name="words-labels@1").click()
    await expect(page.locator("main")).to_contain_text("words-labels")

    small = await open_page(f"runs/{words}/labels/{question['question_id']}?at=0", width=390, height=844, scheme="dark")
    await expect(small.get_by_role("button", name="Knows")).to_have_attribute("aria-pressed", "true")
    assert await small.evaluate(BEYOND) == []
    await keep_picture(small, "labels-phone")
    await small.get_by_role("button", name="Remove…").click()
    await small.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(small.locator(".label-form")).to_be_visible()
    assert (await http.get(at)).status_code == 404
    assert await small.evaluate("window.hacked") is None and await page.evaluate("window.hacked") is None
