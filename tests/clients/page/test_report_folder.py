"""Several runs in one report, as a folder and as one file: opened from there without a network, they are the page."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.support.engines import Engines
from tests.support.html_reports import HtmlReport
from tests.support.page_browser import PATIENCE_MS, keep_picture
from tests.support.page_edges import BEYOND
from tests.support.shells import Shell
from tests.support.word_runs import HOSTILE, word_spec

OTHER = "Words again <b>"
OUTWARD = re.compile(r"""(?:src|href)\s*=\s*["'](?!#)""")


@pytest.fixture(scope="session")
async def words_again(engines: Engines, words: str) -> str:
    await engines.run(word_spec(name="words-again", stop={"max_rounds": 1, "no_improvement": 0}), run_id=OTHER)
    return OTHER


@pytest.fixture
async def open_file(browser: Browser) -> AsyncIterator[Callable[[Path], Awaitable[Page]]]:
    """Opens a file with the network blocked; what it asks for beside files, and what its console says, fails the test."""
    heard: list[str] = []
    context = await browser.new_context(offline=True, reduced_motion="reduce", viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)

    async def refuse(route: Route) -> None:
        heard.append(f"asked for {route.request.url}")
        await route.abort()

    async def open_at(path: Path) -> Page:
        page = await context.new_page()
        await page.route(lambda url: not url.startswith("file:"), refuse)
        page.on("console", lambda said: heard.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: heard.append(str(error)))
        await page.goto(path.as_uri())
        return page

    yield open_at
    await context.close()
    assert heard == []


async def compared(page: Page) -> None:
    """Go through the comparison of both runs."""
    await page.get_by_role("link", name="words and words-again").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"{OTHER}, compared with words")
    await expect(page.locator("table.standings")).to_contain_text("Paid per point")
    await expect(page.get_by_role("list").filter(has_text=OTHER)).to_be_visible()  # the legend of the chart
    await expect(page.get_by_role("region", name="Sample by sample")).to_contain_text("Fixed")


async def test_a_folder_has_the_runs_their_comparisons_and_a_file_for_each(
    open_file: Callable[[Path], Awaitable[Page]],
    words: str,
    words_again: str,
    engines: Engines,
    tmp_path: Path,
    accessible: Callable[[Page], Awaitable[list[str]]],
) -> None:
    at = engines.addresses
    shell = Shell(tmp_path, {"TEMPORAL_ADDRESS": at.temporal_address, "DATABASE_URL": at.database_url})
    done = await shell.ratchet("report", words, words_again, "--folder", "sent", "--verbosity", "full")
    assert done.code == 0, done.errors
    folder = tmp_path / "sent"
    files = {path.name: path.read_text() for path in folder.iterdir()}
    assert len(files) == 3 and {"index.html", "run-words.html"} < set(files)
    assert all(re.fullmatch(r"[\w.-]+", name) for name in files)
    for text in files.values():
        assert "<script src" not in text and not OUTWARD.search(text.partition("<script")[0])
        HtmlReport(text)  # its data is whole: nothing in it ended its element

    page = await open_file(folder / "index.html")
    table = page.get_by_role("table", name="Runs")
    await expect(table.get_by_role("row")).to_have_count(3)
    await expect(table).to_contain_text(OTHER)
    await expect(page.get_by_role("table", name="Comparisons").get_by_role("row")).to_have_count(2)
    await keep_picture(page, "report-folder")
    assert await accessible(page) == []
    await compared(page)
    await page.get_by_role("button", name=re.compile("sample-")).first.click()
    await expect(page.locator(".sample-body").first).to_contain_text("Output")
    await keep_picture(page, "report-folder-comparison")
    assert await accessible(page) == []

    await page.locator("table.standings").get_by_role("link", name=OTHER).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("words-again")
    assert page.url.startswith((folder / "run-").as_uri())
    await page.get_by_role("navigation", name="Of this run").get_by_role("link", name="Spec").click()
    await expect(page.get_by_label("Spec as YAML")).to_contain_text('kind: "python"')
    await expect(page.locator("main")).to_contain_text(HOSTILE)
    await page.get_by_role("navigation", name="Where you are").get_by_role("link", name="Runs").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    await page.set_viewport_size({"width": 390, "height": 844})
    assert await page.evaluate(BEYOND) == []
    assert await page.evaluate("window.obeyed") is None

    # Written again, it is what is new; what is no report is left alone.
    again = await shell.ratchet("report", words, "--folder", "sent", "--json")
    assert (again.code, again.facts["files"]) == (0, ["index.html", "run-words.html"]), again.errors
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    refused = await shell.ratchet("report", words, "--folder", "mine")
    assert (refused.code, "not empty and no report" in refused.errors) == (2, True)


async def test_several_runs_are_one_file(
    open_file: Callable[[Path], Awaitable[Page]], words: str, words_again: str, engines: Engines, tmp_path: Path
) -> None:
    at = engines.addresses
    shell = Shell(tmp_path, {"TEMPORAL_ADDRESS": at.temporal_address, "DATABASE_URL": at.database_url})
    several = ("report", words, words_again)
    refused = await shell.ratchet(*several)
    assert (refused.code, "--format html" in refused.errors) == (2, True)
    done = await shell.ratchet(*several, "--format", "html", "--output", "both.html", "--gate", "score > 2")
    assert done.code == 3, done.errors
    data = HtmlReport((tmp_path / "both.html").read_text()).data
    assert [one["of"] for one in data["pairs"]] == [[words, words_again]] and json.dumps(data["pairs"][0]["verdict"])
    page = await open_file(tmp_path / "both.html")
    await compared(page)
    await page.get_by_role("link", name="Ratchet, all runs").click()
    await page.get_by_role("table", name="Runs").get_by_role("link", name="words-again").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("words-again")
    await expect(page.get_by_role("list", name="Gates")).to_contain_text("gate not met: score > 2")
