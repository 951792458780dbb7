"""The trials table by slice: what stands in a column is what the server says of the trial, in sight, sorted, and on a phone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, Route, expect

from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.page_browser import Opens, keep_picture
from tests.support.seeded_runs import enlarge

ITEMS = [
    {
        "id": f"s{n}",
        "input": {"n": n, "language": ("de", "en", "fr")[n % 3]},
        "tags": ["<i>even</i>" if n % 2 == 0 else "odd", *(f"tag-{part:02d}" for part in range(14) if n % (part + 2) == 0)],
    }
    for n in range(24)
]
DATASET = {"items": ITEMS, "splits": {"validation": 0.5, "test": 0.5}, "slices": ["tags", "input.language"]}
COINS = {
    "configuration": {"skill": {"value": 0.4, "change": "structured", "type": "number", "min": 0, "max": 1}},
    "target": {"kind": "python", "ref": "plugged:coin"},
    "optimizer": {"name": "none", "configurations": [{"skill": part / 10} for part in (1, 3, 6, 8, 9)]},
}
ROWS = ".virtual tr[data-row]"
Accessible = Callable[[Page], Awaitable[list[str]]]


@pytest.fixture(scope="session")
async def by_slice(engines: Engines) -> str:
    await engines.run(hill_spec(name="by-slice", dataset=DATASET, **COINS), run_id="by-slice")
    return "by-slice"


async def scores(http: httpx.AsyncClient, run: str, field: str) -> dict[str, dict[str, float | None]]:
    """By the candidate that searched, what it scored on each slice."""
    answer = await http.get(f"/optimizations/{run}/slices/scores", params={"field": field})
    told = answer.json()
    return {
        trial["candidate_id"]: dict(zip(told["slices"], trial["scores"], strict=True))
        for trial in told["trials"]
        if trial["purpose"] in ("baseline", "candidate")
    }


async def read_columns(page: Page) -> dict[str, dict[str, str]]:
    """The table as it is seen: by candidate, what stands in each column."""
    headings = [text.rstrip(" ↑↓") for text in await page.locator(".virtual thead th").all_inner_texts()]
    found: dict[str, dict[str, str]] = {}
    for row in await page.locator(ROWS).all():
        cells = dict(zip(headings, await row.locator("td").all_inner_texts(), strict=True))
        found[cells["Candidate"]] = cells
    return found


async def all_read(page: Page, slices: int) -> None:
    """The columns are there, and no cell of theirs waits for its score."""
    await expect(page.locator("thead th[title]")).to_have_count(slices)
    await expect(page.locator(ROWS).get_by_text("…")).to_have_count(0)


def as_shown(score: float | None) -> str:
    return "" if score is None else f"{score:.4f}"


async def test_every_trial_shows_what_it_scored_on_each_slice(open_page: Opens, http: httpx.AsyncClient, by_slice: str) -> None:
    page = await open_page(f"runs/{by_slice}/trials")
    picker = page.get_by_label("Scores by slice")
    await expect(picker.locator("option")).to_have_text(["not shown", "by tag", "by input.language"])
    await picker.select_option("input.language")
    await expect(page.get_by_role("columnheader", name="fr")).to_have_attribute("title", "input.language=fr: 4 samples")
    await all_read(page, 3)
    stored = await scores(http, by_slice, "input.language")
    assert len({score for one in stored.values() for score in one.values()}) > 3
    baseline = (await http.get(f"/optimizations/{by_slice}")).json()["baseline_candidate_id"]
    seen = await read_columns(page)
    assert seen.keys() == stored.keys()
    for candidate, of_slices in stored.items():
        for name, score in of_slices.items():
            shown, before = seen[candidate][name.removeprefix("input.language=")], stored[baseline][name]
            assert score is not None
            assert before is not None
            told = (" ↑, better" if score > before else " ↓, worse") + " than the baseline" if score != before else ""
            assert shown.replace("\n", "") == as_shown(score) + told
    await keep_picture(page, "trials-by-slice")
    await picker.select_option("not shown")
    await expect(page.get_by_role("columnheader", name="fr")).to_have_count(0)


async def test_trials_are_sorted_by_a_slice_and_the_address_keeps_it(
    open_page: Opens, http: httpx.AsyncClient, by_slice: str
) -> None:
    page = await open_page(f"runs/{by_slice}/trials?slices=input.language")
    await page.get_by_role("columnheader", name="en").get_by_role("button").click()
    stored = await scores(http, by_slice, "input.language")
    expected = sorted((one["input.language=en"] or 0.0 for one in stored.values()), reverse=True)

    async def are_sorted(column: str) -> None:
        await expect(page.get_by_role("columnheader", name=column)).to_have_attribute("aria-sort", "descending")
        await all_read(page, 3)
        seen = [stored[candidate]["input.language=en"] for candidate in await read_columns(page)]
        assert seen == expected

    await are_sorted("en")
    await page.wait_for_url("**slices=input.language*sort=slice-*.down")
    await page.reload()
    await are_sorted("en")
    await page.get_by_label("Scores by slice").select_option("by tag")
    await expect(page.locator("th[aria-sort=descending]")).to_have_count(0)


async def test_no_more_slices_are_shown_than_fit_and_what_they_are_called_is_text(
    open_page: Opens, by_slice: str, accessible: Accessible
) -> None:
    for scheme in ("light", "dark"):
        page = await open_page(f"runs/{by_slice}/trials?slices=tags", scheme=scheme)
        await expect(page.get_by_role("columnheader", name="<i>even</i>")).to_be_visible()
        await all_read(page, 12)
        await expect(page.locator(".told")).to_contain_text("smaller slices are not shown")
        assert await accessible(page) == []
        await keep_picture(page, f"trials-by-tag-{scheme}")


async def test_slices_are_read_on_a_phone_beside_the_candidates_name(open_page: Opens, by_slice: str) -> None:
    page = await open_page(f"runs/{by_slice}/trials?slices=tags", width=360, height=740)
    await all_read(page, 12)
    last = page.locator("thead th").last
    await last.scroll_into_view_if_needed()
    await expect(last).to_be_in_viewport()
    await expect(page.locator(ROWS).first.get_by_role("link")).to_be_in_viewport()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    await keep_picture(page, "trials-by-tag-phone")


async def test_a_run_of_which_there_is_one_slice_offers_none(open_page: Opens, engines: Engines) -> None:
    same = [{"id": f"s{n}", "input": n, "tags": ["same"]} for n in range(8)]
    spec = hill_spec(name="one-slice", dataset={"items": same, "splits": "none"}, stop={"max_rounds": 1, "no_improvement": 0})
    await engines.run(spec, run_id="one-slice")
    page = await open_page()
    async with page.expect_response("**/slices") as answered:
        await page.evaluate("location.hash = '#/runs/one-slice/trials'")
    assert (await (await answered.value).json())["fields"] == []
    await expect(page.locator(ROWS)).to_have_count(2)
    await expect(page.get_by_label("Scores by slice")).to_be_hidden()


async def test_of_many_trials_those_in_sight_are_asked_for_together(
    open_page: Opens, engines: Engines, http: httpx.AsyncClient
) -> None:
    await engines.run(hill_spec(name="looked-at", dataset=DATASET, **COINS), run_id="looked-at")
    await enlarge(engines.database, "looked-at", 1000)
    asked: list[int] = []
    page = await open_page("runs/looked-at/trials")

    async def noted(route: Route) -> None:
        asked.append(route.request.url.count("candidate="))
        await route.continue_()

    await page.route("**/slices/scores?**", noted)
    await page.get_by_label("Scores by slice").select_option("input.language")
    await all_read(page, 3)
    assert len(asked) == 1
    await page.locator(".virtual").press("End")
    await page.get_by_role("link", name="r51-00999").wait_for()
    await all_read(page, 3)
    assert len(asked) == 2
    assert all(0 < candidates <= 100 for candidates in asked)
    await page.get_by_role("columnheader", name="de").get_by_role("button").click()
    await expect(page.get_by_role("columnheader", name="de")).to_have_attribute("aria-sort", "descending")
    await all_read(page, 3)
    assert asked[2:] == [0]


async def test_scores_that_cannot_be_read_are_told_and_asked_for_again(open_page: Opens, by_slice: str) -> None:
    page = await open_page(may_complain=True)
    broken: list[Any] = []

    async def refuse(route: Route) -> None:
        broken.append(route)
        await route.abort()

    await page.route("**/slices/scores?**", refuse)
    await page.evaluate(f"location.hash = '#/runs/{by_slice}/trials?slices=tags'")
    await expect(page.locator(".told")).to_contain_text("The slices cannot be read")
    await page.unroute("**/slices/scores?**")
    await all_read(page, 12)
    await expect(page.locator(".told")).not_to_contain_text("cannot be read")
