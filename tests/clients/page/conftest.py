"""A real browser before the real page, over the session's stack."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.support.engines import Engines
from tests.support.page_browser import PATIENCE_MS, Opens
from tests.support.word_runs import word_spec

expect.set_options(timeout=PATIENCE_MS)


BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is Chromium without windows: a third cheaper than one that draws windows which nobody sees."""


def chromium() -> str | None:
    """Where a browser is: `CHROMIUM`, or what the machine has."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip("there is no Chromium on this machine; install one, or name it with CHROMIUM=/path/to/it")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        # Without a graphics card, drawing in software costs less than the software that plays one.
        options = [*sandbox, "--disable-dev-shm-usage", "--disable-gpu"]
        found = await playwright.chromium.launch(executable_path=path, args=options)
        yield found
        await found.close()


@pytest.fixture
async def open_page(browser: Browser, url: str) -> AsyncIterator[Opens]:
    """Opens the page at a place, such as `runs/seen/trials`. Whatever its console complains of fails the test."""
    contexts: list[BrowserContext] = []
    throttles: list[str] = []

    async def open_at(
        place: str = "",
        *,
        base: str = url,
        scheme: Any = "light",
        width: int = 1280,
        height: int = 900,
        may_complain: bool = False,
    ) -> Page:
        context = await browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = await context.new_page()
        if not may_complain:
            page.on("console", lambda said: throttles.append(said.text) if said.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: throttles.append(str(error)))
        await page.goto(f"{base}/#/{place}")
        return page

    yield open_at
    for context in contexts:
        await context.close()
    assert throttles == []


@pytest.fixture(scope="session")
async def functions(browser: Browser, url: str) -> AsyncIterator[Page]:
    """A page for tests that show nothing: they only call what its modules export."""
    page = await browser.new_page()
    await page.goto(url)
    yield page
    await page.close()


@pytest.fixture
def accessible() -> Callable[[Page], Awaitable[list[str]]]:
    """What axe-core finds wrong with what is shown now, in light colours and in dark ones, which change only contrasts."""

    async def violations(page: Page) -> list[str]:
        found = []
        for scheme, rules in (("dark", {"runOnly": ["color-contrast"]}), ("light", {})):
            await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            results = await Axe().run(page, options=rules)
            found += [(scheme, wrong) for wrong in results.response["violations"]]
        return [
            f"{scheme}: {wrong['id']}: {node['html'][:200]} {node['failureSummary']}"
            for scheme, wrong in found
            for node in wrong["nodes"]
        ]

    return violations


@pytest.fixture(scope="session")
async def words(engines: Engines) -> str:
    await engines.run(word_spec(), run_id="words")
    return "words"


@pytest.fixture(scope="session")
async def other_words(engines: Engines) -> str:
    await engines.run(word_spec(stop={"max_rounds": 1}), run_id="other-words")
    return "other-words"
