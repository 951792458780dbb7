"""The page is for everybody: axe-core finds nothing in light and dark, the keyboard reaches all, and a phone is wide enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page, expect

from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec, split_items
from tests.support.http_api import TOKEN
from tests.support.page_browser import Opens, keep_picture
from tests.support.page_edges import BEYOND
from tests.support.seeded_runs import enlarge

PLACES = {
    "runs": ("runs", "table.runs tbody tr"),
    "overview": ("runs/shown", ".of-scores .mark-kept"),
    "trials": ("runs/shown/trials", ".virtual tbody a"),
    "lineage": ("runs/shown/lineage", ".graph path"),
    "rejections": ("runs/shown/rejections", ".run-body"),
    "log": ("runs/shown/log", ".log li"),
    "spec": ("runs/shown/spec", "pre"),
}
"""Where one can be, and what is there then; test_detail.py looks at candidates, budgets and comparisons."""


@pytest.fixture(scope="session")
async def shown(engines: Engines) -> None:
    """A run with a confirmation and a population."""
    stop = {"max_rounds": 6, "no_improvement": 0}
    await engines.run(hill_spec(name="shown", dataset=split_items(), stop=stop, budget={"cost": 0.5}), run_id="shown")
    await enlarge(engines.database, "shown", 60)


async def go(page: Page, name: str) -> None:
    place, sign = PLACES[name]
    await page.evaluate("(place) => { location.hash = `#/${place}` }", place)
    await page.locator(sign).first.wait_for(state="attached")


async def test_axe_finds_nothing_wrong_in_any_view(
    open_page: Opens, accessible: Callable[[Page], Awaitable[list[str]]], shown: None
) -> None:
    page = await open_page()
    found = {}
    for name in PLACES:
        await go(page, name)
        await keep_picture(page, name)
        found[name] = await accessible(page)
    listed = "\n".join(f"{name}: {one}" for name, wrong in found.items() for one in wrong)
    assert not listed, listed


async def test_every_view_fits_a_phone(open_page: Opens, shown: None) -> None:
    page = await open_page(width=360, height=740)
    for name in PLACES:
        await go(page, name)
        await keep_picture(page, f"{name}-phone")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, name
        assert await page.evaluate(BEYOND) == [], name


async def test_the_keyboard_alone_reaches_a_trial_from_the_list_of_runs(open_page: Opens, shown: None) -> None:
    page = await open_page("runs?search=shown")
    await expect(page.get_by_role("link", name="shown", exact=True)).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for target in ("shown", "Trials 67", "r0-"):
        await tab_to(page, target)
        await page.keyboard.press("Enter")
        if target.startswith("Trials"):
            await expect(page.get_by_role("link", name=target)).to_be_focused()
    await expect(page.get_by_role("heading", name="The baseline r0-")).to_be_visible()


async def tab_to(page: Page, name: str) -> None:
    for _ in range(40):
        await page.keyboard.press("Tab")
        if (await page.evaluate("document.activeElement.innerText ?? ''")).replace("\n", " ").startswith(name):
            return
    raise AssertionError(f"{name} cannot be reached")


async def test_light_or_dark_can_be_chosen_and_stays(open_page: Opens) -> None:
    page = await open_page(scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(background)
    button = page.get_by_role("button", name="Colours:")
    await button.click()
    await button.click()
    await expect(button).to_contain_text("Colours: dark")
    dark = await page.evaluate(background)
    assert dark != light
    await page.reload()
    assert await page.evaluate(background) == dark


async def test_the_link_of_the_server_shows_the_runs_and_no_token(open_page: Opens, shown: None, guarded_url: str) -> None:
    page = await open_page(base=guarded_url, may_complain=True)
    await expect(page.get_by_role("heading", name="This server asks for its token")).to_be_visible()
    await page.goto(f"{guarded_url}/?token={TOKEN}")
    await expect(page.get_by_role("link", name="shown", exact=True)).to_be_visible()
    assert await page.evaluate("location.search") == ""
