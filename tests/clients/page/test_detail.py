"""What a candidate changes, fixed and broke, in a real browser, on a run whose texts are full of markup."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from clients.reports.comparisons.diff import segments
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.page_browser import Opens, wrong_on_paper
from tests.support.page_browser import keep_picture as keep_what_is_shown
from tests.support.word_runs import HOSTILE, word_spec

TABS = ("changes", "samples", "slices", "judgement")
Accessible = Callable[[Page], Awaitable[list[str]]]


async def read(http: httpx.AsyncClient, path: str) -> Any:
    return (await http.get(f"/optimizations{path}")).raise_for_status().json()


async def keep_picture(page: Page, name: str) -> None:
    """From the top, where the page's head belongs."""
    await page.evaluate("window.scrollTo(0, 0)")
    await keep_what_is_shown(page, name)


async def best_of(http: httpx.AsyncClient, run_id: str) -> str:
    best: str = (await read(http, f"/{run_id}"))["headline"]["in_search"]["best_candidate_id"]
    return best


async def obeyed(page: Page) -> bool:
    """Whether any of the markup in the texts was taken for markup."""
    return bool(
        await page.evaluate("window.obeyed === true || document.querySelector('#app script, #app img, #app b') !== null")
    )


async def test_a_candidate_shows_word_by_word_what_it_changes_of_the_baseline_and_of_its_parent(
    open_page: Opens, http: httpx.AsyncClient, words: str
) -> None:
    best = await best_of(http, words)
    page = await open_page(f"runs/{words}/candidates/{best}")
    removed, added = page.locator(".diff del"), page.locator(".diff ins")
    baseline = (await read(http, f"/{words}/candidates/{best}"))["baseline"]
    parts = [part for change in baseline["changes"] for part in change["segments"]]
    await expect(added).to_have_count(sum(part["kind"] == "added" for part in parts))
    for kind, shown in (("removed", removed), ("added", added)):
        told = await shown.evaluate_all("marks => marks.map((mark) => mark.lastChild.textContent)")
        assert told == [part["text"] for part in parts if part["kind"] == kind]
    unchanged = page.get_by_role("button", name="unchanged lines")
    await unchanged.first.click()
    await expect(page.get_by_text(HOSTILE).first).to_be_visible()
    await page.get_by_label("Compared with").select_option(label=(await parent_option(page)))
    assert "against=" in page.url
    parents = (await read(http, f"/{words}/candidates/{best}"))["parents"]
    count = sum(part["kind"] == "added" for change in parents[0]["changes"] for part in change["segments"])
    await expect(added).to_have_count(count)
    assert not await obeyed(page)
    await keep_picture(page, "detail-changes")


async def parent_option(page: Page) -> str:
    options = await page.get_by_label("Compared with").locator("option").all_inner_texts()
    return next(option for option in options if option.startswith("parent"))


ROWS = """
async (segments) => {
  const { rowsOf } = await import("/page/detail/diff.js");
  const side = (row, leftOut) => row.pieces.filter(({kind}) => kind !== leftOut).map(({text}) => text).join("");
  return rowsOf(segments).map((row) => [side(row, "added"), side(row, "removed")]);
}
"""


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("a\nb\nc", "a\nc", [("a\n", "a\n"), ("b\n", ""), ("c", "c")]),
        ("a\nb", "a\nb\nc\nd", [("a\n", "a\n"), ("b", "b"), ("", "c\nd")]),
        ("a one b\nc", "a two b\nc", [("a one b\n", "a two b\n"), ("c", "c")]),
        ("a b", "a\nx b", [("a b", "a\nx b")]),
        ("", "x\ny", [("", "x\ny")]),
    ],
)
async def test_lines_that_belong_together_stand_beside_each_other(
    functions: Page, before: str, after: str, rows: list[tuple[str, str]]
) -> None:
    pieces = [segment.model_dump() for segment in segments(before, after)]
    assert [tuple(row) for row in await functions.evaluate(ROWS, pieces)] == rows


async def test_texts_stand_side_by_side_where_there_is_room_and_as_one_text_elsewhere(
    open_page: Opens, http: httpx.AsyncClient, words: str
) -> None:
    place = f"runs/{words}/candidates/{await best_of(http, words)}"
    wide, narrow = await open_page(place), await open_page(place, width=360, height=740)
    await expect(wide.locator(".diff.split")).to_be_visible()
    await expect(narrow.locator(".diff.unified")).to_be_visible()
    await wide.get_by_label("Shown").select_option("unified")
    await expect(wide.locator(".diff.unified")).to_be_visible()


async def test_the_matrix_counts_what_was_fixed_and_broken_and_shows_both_outputs(
    open_page: Opens, http: httpx.AsyncClient, words: str
) -> None:
    best = await best_of(http, words)
    compared = await read(http, f"/{words}/comparison?candidate={best}&limit=1")
    assert compared["counts"]["fixed"] > 0
    assert compared["counts"]["broken"] > 0
    page = await open_page(f"runs/{words}/candidates/{best}?tab=samples")
    names = {"fixed": "Fixed", "broken": "Broken", "both": "Both pass", "neither": "Neither"}
    for turn, name in names.items():
        await expect(page.get_by_role("button", name=f"{name}: {compared['counts'][turn]} samples")).to_be_visible()
    await page.get_by_role("button", name="Broken: ").click()
    await expect(page.locator(".sample")).to_have_count(compared["counts"]["broken"])
    await page.locator(".sample-head").first.focus()
    await page.keyboard.press("Enter")
    body = page.locator(".sample-body").first
    word = (await read(http, f"/{words}/comparison?candidate={best}&only=broken&limit=1"))["items"][0]["expected"]
    await expect(body.locator(".asked")).to_contain_text(word)
    before, after = body.locator(".side").nth(0), body.locator(".side").nth(1)
    await expect(before).to_contain_text("passed")
    await expect(after).to_contain_text(f"<img src=x onerror='window.obeyed = true'> What is {word}?")
    await expect(after).to_contain_text("expected")
    await expect(page.locator(".sample-head").first).to_have_attribute("aria-expanded", "true")
    assert not await obeyed(page)
    await keep_picture(page, "detail-samples")
    await page.get_by_role("button", name="Broken: ").click()
    await expect(page.get_by_role("heading", name=f"All {compared['total']} samples")).to_be_visible()


async def test_samples_come_in_pages_and_a_square_leads_to_its_sample(
    open_page: Opens, http: httpx.AsyncClient, words: str
) -> None:
    best = await best_of(http, words)
    items = (await read(http, f"/{words}/comparison?candidate={best}&limit=100"))["items"]
    page = await open_page(f"runs/{words}/candidates/{best}?tab=samples")
    ids = page.locator(".sample-id")
    await expect(ids).to_have_text([item["item_id"] for item in items[:20]])
    await page.get_by_role("button", name="Next").click()
    await expect(ids).to_have_text([item["item_id"] for item in items[20:40]])
    await expect(page.get_by_text(f"Page 2 of {-(-len(items) // 20)}", exact=True)).to_be_visible()
    await page.locator(".strip svg").click(position={"x": 22 * 9 + 3, "y": 3})
    await expect(page.locator(".sample-head[aria-expanded=true] .sample-id")).to_have_text(items[22]["item_id"])
    await page.get_by_text("2 turns, 1 call of tools").first.click()
    [call] = items[22]["baseline_answers"][0]["trace"]["turns"][0]["calls"]
    turns = page.locator("details.turns").first
    await expect(turns.locator("li")).to_have_count(3)
    await expect(turns.locator("li li pre")).to_have_text(call["result"])
    assert not await obeyed(page)
    await page.locator("select[name=purpose]").select_option("confirmation")
    confirmed = await read(http, f"/{words}/comparison?candidate={best}&purpose=confirmation&limit=1")
    await expect(page.get_by_role("heading", name=f"All {confirmed['total']} samples")).to_be_visible()


async def test_slices_are_by_tag_and_by_any_field(open_page: Opens, http: httpx.AsyncClient, words: str) -> None:
    best = await best_of(http, words)
    page = await open_page(f"runs/{words}/candidates/{best}?tab=slices", may_complain=True)
    rows = page.locator("table.slices tbody tr")
    await expect(rows).to_have_count(2)
    await expect(page.get_by_role("rowheader", name="<i>even</i>")).to_be_visible()
    await page.get_by_label("Slice by").fill("input.language")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("rowheader", name="input.language=de")).to_be_visible()
    await page.get_by_label("Slice by").fill("nonsense")
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_role("alert")).to_contain_text("field")


async def test_a_candidate_whose_answers_failed_says_how_many_and_of_what(
    open_page: Opens, http: httpx.AsyncClient, engines: Engines
) -> None:
    spec = word_spec(
        name="raising",
        configuration={"x": 10},
        target={"kind": "python", "ref": "plugged:raises_above"},
        optimizer={"name": "none", "configurations": [{"x": 990}]},
        judgement={},
    )
    await engines.run(spec, run_id="raising")
    outlined = (await read(http, "/raising/outline"))["trials"]
    failing = next(trial for trial in outlined if trial["errors"])
    assert failing["errors"] == {"raised RuntimeError": 42}
    page = await open_page(f"runs/raising/candidates/{failing['candidate_id']}")
    await expect(page.get_by_text("raised RuntimeError × 42")).to_be_visible()


async def test_the_judgement_tells_the_decision_and_its_numbers(open_page: Opens, http: httpx.AsyncClient, words: str) -> None:
    best = await best_of(http, words)
    trial = await read(http, f"/{words}/trials/{best}")
    page = await open_page(f"runs/{words}/candidates/{best}?tab=judgement")
    await expect(page.get_by_text(trial["judged"]["explanation"])).to_be_visible()
    await expect(page.get_by_role("heading", name="Against the baseline")).to_be_visible()
    await expect(page.locator(".evidence")).to_have_count(len(trial["evidence"]))
    await page.get_by_role("link", name="the baseline").first.click()
    await expect(page.get_by_role("heading", name="The baseline")).to_be_visible()


async def test_the_front_lists_whom_no_other_beats_and_the_chart_leads_to_them(
    open_page: Opens, http: httpx.AsyncClient, words: str
) -> None:
    front = (await read(http, f"/{words}/rounds"))["items"][-1]["pareto_front"]
    page = await open_page(f"runs/{words}")
    card = page.locator("section.card", has=page.get_by_role("heading", name="Objectives against each other"))
    await expect(card.locator("tbody tr")).to_have_count(len(front))
    await expect(card.locator(".front-dots")).to_have_count(1)
    link = card.get_by_role("link", name=front[-1]["candidate_id"])
    await link.click()
    await expect(page.get_by_role("heading", level=2, name=front[-1]["candidate_id"])).to_be_visible()


async def test_two_runs_stand_beside_each_other(
    open_page: Opens, http: httpx.AsyncClient, words: str, other_words: str
) -> None:
    page = await open_page(f"runs/{words}/compare")
    await page.get_by_label("Compared with").select_option(value=other_words)
    told = (await http.get("/comparison", params=[("of", other_words), ("of", words)])).json()
    await expect(page.get_by_text(told["compared"][0]["judged"]["explanation"])).to_be_visible()
    table = page.locator("table.standings")
    await expect(table).to_contain_text(told["reference"]["candidate_id"])
    await expect(table).to_contain_text("Paid per point")
    await expect(page.locator(".paid-plot svg")).to_be_visible()
    await expect(page.locator(".compared .diff ins").first).to_be_visible()
    counts = told["compared"][0]["counts"]
    await page.get_by_role("button", name=f"Fixed: {counts['fixed']} samples").click()
    await expect(page.locator(".sample")).to_have_count(counts["fixed"])
    assert not await obeyed(page)
    await keep_picture(page, "compare")
    assert await wrong_on_paper(page, "compare") == []


async def test_runs_with_long_ids_fit_a_phone_where_they_are_offered_for_comparison(
    open_page: Opens, engines: Engines, words: str
) -> None:
    await engines.run(hill_spec(name="long", stop={"max_rounds": 1}), run_id=f"long-{'x' * 100}")
    page = await open_page(f"runs/{words}/compare", width=360, height=740)
    await expect(page.get_by_label("Compared with")).to_contain_text("long-xxx")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


async def test_every_view_of_details_is_accessible_and_fits_a_phone(
    open_page: Opens, http: httpx.AsyncClient, words: str, other_words: str, accessible: Accessible
) -> None:
    best = await best_of(http, words)
    places = [f"runs/{words}/candidates/{best}?tab={tab}" for tab in TABS]
    places += [f"runs/{words}/budget", f"runs/{words}/compare?with={other_words}"]
    for place in places:
        page = await open_page(place, width=360, height=740)
        await expect(page.locator(".run-body").locator("h2, h3, table, .diff").first).to_be_visible()
        if "samples" in place:
            await page.locator(".sample-head").first.click()
        await expect(page.locator("[aria-busy]")).to_have_count(0)
        assert await accessible(page) == [], place
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, place
        await keep_picture(page, f"phone-{place.rpartition('/')[2].rpartition('=')[2]}")


async def test_a_part_that_cannot_be_read_says_so_and_is_read_again(
    open_page: Opens, http: httpx.AsyncClient, words: str
) -> None:
    best = await best_of(http, words)
    page = await open_page(f"runs/{words}/candidates/{best}?tab=samples", may_complain=True)
    await expect(page.locator(".sample").first).to_be_visible()
    await page.route("**/comparison?*", lambda route: route.abort())
    await page.get_by_role("button", name="Fixed: ").click()
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await page.unroute("**/comparison?*")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator(".sample").first).to_be_visible()
