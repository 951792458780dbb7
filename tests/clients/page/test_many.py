"""Ten thousand trials: what somebody does is on the screen within a tenth of a second."""

from __future__ import annotations

import math

import pytest
from playwright.async_api import Page

from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.page_browser import Opens, keep_picture
from tests.support.seeded_runs import enlarge

TRIALS = 10_000
AT_MOST = 100.0
"""Milliseconds from the event to the frame that shows what it did, in the page's own clock."""

ATTEMPTS = 6

MEASURED = """async ([act, times]) => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const attempt = new Function('turn', act);
    const taken = [];
    for (let turn = 0; turn < times; turn++) {
        await frame();
        const begun = performance.now();
        attempt(turn);
        await frame();
        await frame();
        await new Promise((resolve) => setTimeout(resolve));
        taken.push(performance.now() - begun);
    }
    return taken;
}"""


def filled(selector: str, odd: str, even: str, event: str) -> str:
    """Give a field one value or the other."""
    return (
        f"const field = document.querySelector('{selector}'); field.value = turn % 2 ? '{odd}' : '{even}';"
        f"field.dispatchEvent(new Event('{event}'))"
    )


def pressed(selector: str, odd: str, even: str) -> str:
    """Press one key or the other."""
    event = f"new KeyboardEvent('keydown', {{key: turn % 2 ? '{odd}' : '{even}'}})"
    return f"document.querySelector('{selector}').dispatchEvent({event})"


SORT = "[...document.querySelectorAll('th button')].find((found) => found.textContent.startsWith('Score')).click()"
SORT_BY_SLICE = "document.querySelector(`[data-column=slice-${turn % 2}]`).click()"
SCROLL = "document.querySelector('.virtual').scrollTop = (turn + 1) * 61234 % 400000"
HOVER = (
    "const chart = document.querySelector('.of-scores .plot'), box = chart.getBoundingClientRect();"
    "chart.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + 200 + 40 * turn, clientY: box.top + 150}))"
)
ZOOM = "document.querySelector(`[aria-label='Zoom ${turn % 2 ? 'in' : 'out'}']`).click()"
PAN = "document.querySelector('.graph-scroll').scrollLeft = (turn + 1) * 1733 % 9000"

INTERACTIONS = {
    "trials": {
        "type into the search": filled("#trial-search", "r30", "", "input"),
        "choose a kind": filled("#trial-kind", "kept", "", "change"),
        "sort": SORT,
        "scroll": SCROLL,
    },
    "": {
        "point at the chart": HOVER,
        "walk the chart": pressed(".of-scores .plot", "ArrowRight", "ArrowLeft"),
        "show fewer rounds": filled("#score-span", "0", "100", "change"),
    },
    "lineage": {"zoom": ZOOM, "walk": pressed(".graph-scroll", "ArrowLeft", "End"), "scroll": PAN},
    "trials?slices=tags": {"scroll": SCROLL, "sort by a slice": SORT_BY_SLICE},
}
SIGNS = {
    "trials": ".virtual tbody a",
    "trials?slices=tags": "[data-column=slice-1]",
    "": ".of-scores svg path",
    "lineage": ".graph path",
}


@pytest.fixture(scope="session")
async def many(engines: Engines) -> str:
    items = [{"id": f"s{n}", "input": n, "tags": ["odd" if n % 2 else "even"]} for n in range(8)]
    await engines.run(
        hill_spec(name="many", dataset={"items": items, "splits": "none"}, stop={"max_rounds": 2, "no_improvement": 0}),
        run_id="many",
    )
    await enlarge(engines.database, "many", TRIALS)
    return "many"


async def best_of(page: Page, act: str) -> float:
    """The slower of its two forms. The machine does other things as well: the best of a few is what the page itself needs."""
    odd, even = math.inf, math.inf
    for _ in range(ATTEMPTS):
        taken = await page.evaluate(MEASURED, [act, 8])
        even, odd = min(even, *taken[0::2]), min(odd, *taken[1::2])
        if max(odd, even) <= AT_MOST:
            break
    return max(odd, even)


async def test_ten_thousand_trials_stay_fluid(open_page: Opens, many: str) -> None:
    page = await open_page(f"runs/{many}")
    taken = {}
    for part, interactions in INTERACTIONS.items():
        await page.evaluate("(place) => { location.hash = place }", f"#/runs/{many}/{part}")
        await page.locator(SIGNS[part]).first.wait_for(state="attached")
        await keep_picture(page, f"many-{part.partition('?')[0] or 'overview'}")
        for name, act in interactions.items():
            taken[f"{part or 'overview'}: {name}"] = await best_of(page, act)
    for part in SIGNS:
        taken[f"go to {part or 'overview'}"] = await best_of(
            page, f"location.hash = turn % 2 ? '#/runs/{many}/spec' : '#/runs/{many}/{part}'"
        )
    print("\n".join(f"{name:32}{time:7.1f} ms" for name, time in taken.items()))
    assert {name: time for name, time in taken.items() if time > AT_MOST} == {}


async def test_only_the_rows_in_sight_exist_and_the_last_one_can_be_seen(open_page: Opens, many: str) -> None:
    page = await open_page(f"runs/{many}/trials")
    table = page.get_by_role("table", name="Trials")
    await page.locator(SIGNS["trials"]).first.wait_for()
    assert await table.get_attribute("aria-rowcount") == str(TRIALS + 4)
    assert await table.get_by_role("row").count() < 60
    await page.locator(".virtual").press("End")
    await page.get_by_role("link", name="r502-09999").wait_for()
    assert await page.locator("tr[data-row]").last.get_attribute("aria-rowindex") == str(TRIALS + 4)
