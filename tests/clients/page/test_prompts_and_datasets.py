"""Prompts and datasets in a real browser: looked through, compared, rendered with a sample, rolled back, approved."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from playwright.async_api import Page, expect

from activities.datasets import InlineItems, ingest
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.page_browser import Opens, keep_picture, wrong_on_paper
from tests.support.release_runs import tried_prompt
from workflows.model.spec.dataset import Item

HOSTILE = "<img src=x onerror='window.obeyed = true'>"
Accessible = Callable[[Page], Awaitable[list[str]]]


async def go(page: Page, tab: str) -> None:
    await page.locator(".tabs").get_by_role("link", name=tab, exact=True).click()


BROKEN = """(words) => [...document.querySelectorAll("table td")].flatMap((cell) => {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    const broken = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(node);
        if (words.includes(node.data) && range.getClientRects().length > 1) broken.push(node.data);
    }
    return broken;
})"""
"""Words of tables that stand on two lines."""


async def downloaded(page: Page) -> list[dict[str, Any]]:
    async with page.expect_download() as kept:
        await page.get_by_role("link", name="Download JSONL").click()
    return [json.loads(line) for line in (await (await kept.value).path()).read_text().splitlines()]


async def test_a_prompt_is_looked_through_compared_rendered_and_moved(
    open_page: Opens, accessible: Accessible, engines: Engines
) -> None:
    async with tried_prompt(engines, hill_spec(name="library")) as prompt:
        await prompt.ask(await prompt.tried(x=900), approval=True, reason="looks steep")
        await prompt.released(system=f"Climb higher. {HOSTILE}")
        page = await open_page("prompts")
        await page.get_by_label("Search").fill(prompt.name)
        await expect(page.locator(".told")).to_have_text("1 prompt")
        await expect(page.get_by_text("1 to approve")).to_be_visible()
        await page.get_by_role("link", name=prompt.name).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(prompt.name)
        await expect(page.get_by_role("group", name="system")).to_have_text(f"Climb higher. {HOSTILE}")
        await keep_picture(page, "prompt")
        assert await accessible(page) == []

        await go(page, "Versions and tags")
        versions = page.get_by_role("region", name="Versions")
        await expect(versions.get_by_role("row")).to_have_count(3)
        await keep_picture(page, "prompt-versions")
        assert await accessible(page) == []
        await page.get_by_role("button", name="History").click()
        await expect(page.get_by_role("region", name="History of stable").get_by_role("row")).to_have_count(3)
        await versions.get_by_role("link", name="What changed").last.click()
        await expect(page.locator(".diff ins").first).to_contain_text("higher")
        await expect(page.get_by_text("minor change")).to_be_visible()
        assert await accessible(page) == []
        await page.evaluate("location.hash = location.hash.replace(/after=[^&]*/, 'after=9.9.9')")
        await expect(page.get_by_role("alert")).to_have_text("This prompt has no tag or version 9.9.9. Choose another one.")
        await expect(page.get_by_label("After")).to_have_value("9.9.9")

        await go(page, "Render")
        await page.get_by_label("Input, as JSON").fill("not JSON")
        await page.get_by_role("button", name="Render").click()
        await expect(page.get_by_role("alert").filter(has_text="not JSON")).to_be_visible()
        await page.get_by_label("With a sample of").select_option(index=1)
        await expect(page.get_by_role("group", name="Rendered text")).to_contain_text("Climb higher.")

        await go(page, "Versions and tags")
        await versions.get_by_role("button", name="Roll back to it…").first.click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Your name").fill("bea")
        await dialog.get_by_label("Why").fill("too high")
        await dialog.get_by_role("button", name="Roll back").click()
        await expect(page.locator(".notice")).to_contain_text("stable rolled back to version 1.0.0")
        await expect(versions.get_by_role("button", name="Move forward to it…")).to_have_count(1)
        await expect(versions.get_by_role("button", name="Roll back to it…")).to_have_count(0)
        assert (await prompt.stable()).configuration["section:system"] == "Climb high."
        assert (await prompt.log())[-1].asked_by == "bea"

        await go(page, "Releases")
        await page.get_by_role("button", name="Reject…").click()
        await dialog.get_by_label("Your name").fill("bea")
        await dialog.get_by_role("button", name="Reject").click()
        await expect(page.get_by_role("region", name="Releases")).to_contain_text("rejected")
        await go(page, "Runs")
        await expect(page.get_by_role("link", name="library")).to_be_visible()
        assert await page.evaluate("window.obeyed") is None

        narrow = await open_page(f"prompts/{prompt.name.replace('/', '%2F')}", scheme="dark", width=390)
        await expect(narrow.get_by_role("group", name="system")).to_contain_text("Climb high.")
        await keep_picture(narrow, "prompt-phone")
        assert await wrong_on_paper(narrow, "prompt") == []
        assert await narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await go(narrow, "Versions and tags")
        await expect(narrow.get_by_role("region", name="Versions")).to_be_visible()
        await keep_picture(narrow, "prompt-versions-phone")
        assert await narrow.evaluate(BROKEN, ["stable", "bea", "ann", "1.0.0"]) == []


async def test_a_dataset_is_looked_through_and_compared(open_page: Opens, accessible: Accessible, engines: Engines) -> None:
    items = [
        {"id": f"s{n}", "input": {"text": f"Question {n} {HOSTILE}"}, "tags": ["odd" if n % 2 else "even"]} for n in range(60)
    ]
    for some in (items[:40], [*items[2:], {"id": "copy", "input": items[5]["input"]}]):
        await ingest(engines.database, InlineItems([Item.model_validate(item) for item in some], name="questions"))
    page = await open_page("runs")
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Datasets").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Datasets")
    await page.get_by_label("Search").fill("questions")
    await expect(page.locator(".told")).to_have_text("2 datasets")
    await keep_picture(page, "datasets")
    await page.get_by_role("button", name="Upload a dataset…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("A file of samples").set_input_files(
        {"name": "own.jsonl", "mimeType": "text/plain", "buffer": b'{"input": 1}\n'}
    )
    await dialog.get_by_role("button", name="Store 1 sample").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("own@1")
    await page.go_back()
    await page.get_by_role("link", name="questions@2").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("questions@2")
    samples = page.locator(".sample")
    await expect(samples).to_have_count(50)
    await page.get_by_role("button", name="Show more").click()
    await expect(samples).to_have_count(59)
    await page.get_by_label("Tag").select_option(label="odd (29)")
    await expect(page.locator(".told")).to_have_text("29 of 59 samples")
    await page.get_by_label("Search").fill("question 31")
    await expect(samples).to_have_count(1)
    await samples.get_by_role("button").click()
    await expect(page.get_by_role("group", name="Input")).to_contain_text("Question 31 <img")
    await keep_picture(page, "dataset")
    assert await accessible(page) == []

    await go(page, "Versions")
    await expect(page.get_by_text("21 added, 2 removed, 0 changed")).to_be_visible()
    await keep_picture(page, "dataset-versions")
    lines = await downloaded(page)
    assert [line["id"] for line in lines] == [f"s{n}" for n in range(2, 60)] + ["copy"] and lines[0] == items[2]
    lines[0] |= {"expected": f"now {HOSTILE}", "tags": ["even", "new"]}
    for told in ("1 changed", "These are the same samples: they are questions@3."):
        await page.get_by_role("button", name="New version…").click()
        await dialog.get_by_label("A file of samples").set_input_files(
            {
                "name": "any.jsonl",
                "mimeType": "text/plain",
                "buffer": "".join(f"{json.dumps(line)}\n" for line in lines).encode(),
            }
        )
        await expect(dialog.get_by_label("Name", exact=True)).to_have_value("questions")
        await dialog.get_by_role("button", name="Store 59 samples").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("questions@3")
        await expect(page.locator("main")).to_contain_text(told)
    assert await downloaded(page) == lines
    await expect(page.get_by_text("0 added, 0 removed, 1 changed")).to_be_visible()
    changed = page.locator(".changed-samples").get_by_role("listitem")
    await expect(changed).to_contain_text("s2")
    await expect(changed).to_contain_text(f"expected was nothing → is now now {HOSTILE}")
    await expect(changed).to_contain_text("tags was even → is now even, new")
    await keep_picture(page, "dataset-changed")
    assert await accessible(page) == []
    await page.get_by_role("link", name="New run with this").click()
    await expect(page.get_by_label("Spec", exact=True)).to_have_value(re.compile('\\n  name: "questions@3"\\n'))
    await expect(page.locator(".notices")).to_contain_text("The spec names questions@3 now.")
    await page.go_back()
    await go(page, "Copies")
    await expect(page.get_by_text("1 group of samples")).to_be_visible()
    await go(page, "Splits and slices")
    await expect(page.get_by_role("region", name="Tags")).to_contain_text("29 (49%)")
    assert await accessible(page) == []
    await go(page, "Runs")
    await expect(page.get_by_text("No run has used it yet")).to_be_visible()
    assert await page.evaluate("window.obeyed") is None
    for place, list_of in (
        ("datasets/nowhere", "All datasets"),
        ("prompts/no%2Fwhere", "All prompts"),
        ("runs/nowhere", "All runs"),
    ):
        unknown = await open_page(place, may_complain=True)
        await expect(unknown.get_by_role("alert")).to_contain_text("there is no")
        await expect(unknown.get_by_role("link", name=list_of, exact=True)).to_be_visible()
        await expect(unknown.locator("main")).not_to_contain_text("/v1/")
    narrow = await open_page(page.url.partition("#/")[2].partition("?")[0], scheme="dark", width=390)
    await expect(narrow.locator(".sample")).to_have_count(50)
    await keep_picture(narrow, "dataset-phone")
    assert await narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
