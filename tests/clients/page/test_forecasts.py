"""What is left of the budgets, and what is foretold; and how fast the details of very large runs are drawn."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.support.hill_specs import gated_spec
from tests.support.http_api import until
from tests.support.page_browser import Opens, keep_picture
from tests.support.page_edges import BEYOND

AT_MOST = 100.0
"""Milliseconds."""

FORECAST = """
async ({detail, rounds, trials, isOver, now, readAt}) => {
  const { budgetsOf, forecast, secondsLeft } = await import("/page/detail/budgets.js");
  const run = { detail, rounds, trials, isOver, readAt };
  const left = secondsLeft(run, now);
  const told = budgetsOf(run, now).map((budget) => [
    budget.name, { used: budget.used, points: budget.points, told: forecast(budget, run, left) },
  ]);
  return { left, ...Object.fromEntries(told) };
}
"""
START = 1_800_000_000
"""In seconds; a round takes ten, and costs 0.1."""


def stand(*, limit: float, status: str = "running", left: float | None = 150, now: int = 50) -> dict[str, Any]:
    def at(second: float) -> str:
        return datetime.fromtimestamp(START + second, UTC).isoformat()

    def spent(round_index: int) -> dict[str, float]:
        return {"cost": 0.1 * round_index, "tokens": 100 * round_index, "samples": 8 * round_index, "trials": round_index}

    return {
        "detail": {
            "started_at": at(0),
            "updated_at": at(50),
            "finished_at": at(50) if status == "completed" else None,
            "status": status,
            "spend": spent(5),
            "budget": {"cost": limit, "wall_time": 600},
            "seconds_left": left,
        },
        "rounds": [{"round_index": n, "timestamp": at(10 * n), "spend": spent(n)} for n in range(6)],
        "trials": [],
        "isOver": status == "completed",
        "now": (START + now) * 1000,
        "readAt": (START + 50) * 1000,
    }


@pytest.mark.parametrize(
    ("given", "left", "told"),
    [
        ({"limit": 1.0, "left": 50}, 50, "used up in about 50s, before all else"),
        ({"limit": 10.0}, 150, "about 2.00 by then"),
        ({"limit": 0.0}, 150, "about 2.00 by then"),
        ({"limit": 0.0, "left": None}, None, "36.00 an hour"),
        ({"limit": 1.0, "left": None, "status": "paused"}, None, ""),
        ({"limit": 1.0, "left": None, "status": "completed"}, None, ""),
        ({"limit": 1.0, "now": 55}, 145, None),
    ],
)
async def test_a_forecast_goes_on_at_the_rate_of_so_far_for_as_long_as_the_server_says(
    functions: Page, given: dict[str, Any], left: float | None, told: str | None
) -> None:
    found = await functions.evaluate(FORECAST, stand(**given))
    assert found["left"] == (None if left is None else pytest.approx(left))
    if told is not None:
        assert found["cost"]["told"] == told
    assert found["wall_time"]["used"] == pytest.approx(given.get("now", 50))


async def test_what_was_spent_between_two_rounds_was_spent_as_its_trials_ended(functions: Page) -> None:
    given = stand(limit=1.0, status="completed")
    begun, *_ = given["rounds"]
    rewritten = {"timestamp": given["rounds"][1]["timestamp"], "spend": given["detail"]["spend"], "stopped": True}
    paid = {"paid_cost": 0.1, "paid_tokens": 80, "paid_samples": 10}
    ends = [datetime.fromtimestamp(START + second, UTC).isoformat() for second in (40, 20, 30)]
    trials = [{"finished_at": at, **paid} for at in ends] + [{"finished_at": None, **paid}]
    found = await functions.evaluate(FORECAST, given | {"rounds": [begun, rewritten], "trials": trials})

    def curve(*points: tuple[float, float]) -> list[Any]:
        return [pytest.approx(list(point)) for point in points]

    assert found["samples"]["points"] == curve((0, 0), (0, 0), (20, 40 / 3), (30, 80 / 3), (40, 40), (50, 40))
    assert found["cost"]["points"][2] == pytest.approx([20, 0.5 / 3])  # with a third of what proposers took
    assert found["trials"]["points"][-2:] == curve((40, 5), (50, 5))


OVERLAPPING = """
() => {
  const texts = [...document.querySelectorAll(".burn-plot text")];
  const places = texts.map((text) => text.getBoundingClientRect());
  const apart = (one, other) => one.right <= other.left || other.right <= one.left
    || one.bottom <= other.top || other.bottom <= one.top;
  const found = [];
  texts.forEach((text, first) => texts.slice(0, first).forEach((other, second) => {
    if (!apart(places[first], places[second])) found.push([text.textContent, other.textContent]);
  }));
  return found;
}
"""
"""Texts of the chart that stand on each other."""
DRAWN_AS_WIDE = """
() => {
  const chart = document.querySelector(".burn-plot svg");
  return Math.abs(chart.clientWidth - chart.viewBox.baseVal.width) < 2;
}
"""


async def no_names_overlap(page: Page) -> None:
    for width in (1280, 390):
        await page.set_viewport_size({"width": width, "height": 900})
        await expect(page.locator(".burn-plot .burn-name")).to_have_count(4)
        await page.wait_for_function(DRAWN_AS_WIDE)
        assert await page.evaluate(OVERLAPPING) == []
        assert await page.evaluate(BEYOND) == []
        await keep_picture(page, f"budget-{width}")
    await page.set_viewport_size({"width": 1280, "height": 900})


async def test_the_budget_is_followed_without_a_reload(open_page: Opens, http: httpx.AsyncClient, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    budget = {"samples": 100, "tokens": 100_000, "cost": 100.0, "wall_time": "9d"}
    spec = gated_spec(gate, name="burning", budget=budget, stop={"max_rounds": 2, "no_improvement": 0})
    run_id = (await http.post("/optimizations", json=spec)).json()["optimization_id"]
    await until(http, run_id, "running")
    page = await open_page(f"runs/{run_id}/budget")
    calls = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Calls"))
    await expect(calls).to_contain_text("100%")
    await expect(page.locator(".burn-plot").get_by_text("now")).to_be_visible()
    await no_names_overlap(page)
    gate.touch()
    await until(http, run_id, "completed")
    spend = (await http.get(f"/optimizations/{run_id}")).json()["spend"]
    await expect(calls).to_contain_text(str(spend["samples"]))
    await expect(page.get_by_role("img", name="What is left of each budget over time: Cost")).to_be_visible()
    await expect(page.locator(".pill.status")).to_have_text("completed")
    await no_names_overlap(page)


async def test_a_candidate_in_flight_is_followed_to_its_end(open_page: Opens, http: httpx.AsyncClient, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    spec = gated_spec(gate, name="flying", stop={"max_rounds": 1, "no_improvement": 0})
    run_id = (await http.post("/optimizations", json=spec)).json()["optimization_id"]
    await until(http, run_id, "running")
    async with asyncio.timeout(30):
        while not (in_flight := (await http.get(f"/optimizations/{run_id}")).json()["in_flight"]["trials"]):
            await asyncio.sleep(0.05)
    candidate = in_flight[0]["candidate_id"]
    page = await open_page(f"runs/{run_id}/candidates/{candidate}?tab=judgement")
    await expect(page.locator(".candidate-head")).to_contain_text("Running")
    gate.touch()
    await expect(page.locator(".candidate-head")).to_contain_text("Completed")
    await expect(page.locator(".candidate-head dd").first).to_contain_text("0.")


MATRIX = """
async (count) => {
  const { samplesView } = await import("/page/detail/samples.js");
  const kinds = ["both", "fixed", "broken", "neither", "missing"];
  const turns = Array.from({ length: count }, (_, place) => kinds[(place * 7) % 5]);
  const counts = Object.fromEntries(kinds.map((kind) => [kind, count / 5]));
  const found = { turns, counts, total: count, judged: null, items: [] };
  const place = document.getElementById("main");
  let answer;
  const asked = new Promise((resolve) => (answer = () => resolve(found)));
  const names = { before: "A", after: "B" }, options = new URLSearchParams();
  samplesView(place, { ask: () => asked, names, options, go() {}, announce() {} });
  const begun = performance.now();
  answer();
  while (!place.querySelector(".strip path")) await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}
"""
FRONT = """
async (count) => {
  const { mount } = await import("/page/detail/pareto.js");
  const searching = Array.from({ length: count }, (_, n) => ({
    candidate_id: `c${n}`, gains: { score: Math.sin(n), cost: Math.cos(n * n) },
  }));
  const front = searching.slice(0, 30).map(({ candidate_id, gains }) => ({ candidate_id, gains, verdicts: {} }));
  const detail = { objective_name: "score", baseline_candidate_id: "c0" };
  const run = { id: "r", searching, rounds: [{ pareto_front: front }], detail };
  const place = document.getElementById("main");
  let listener;
  mount(place, { run, subscribe: (heard) => ((listener = heard), () => {}), navigate() {}, announce() {} });
  while (!place.querySelector(".dots")) await new Promise(requestAnimationFrame);
  const begun = performance.now();
  listener(new Set(["trials"]));
  await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}
"""


@pytest.mark.parametrize("drawing", [MATRIX, FRONT], ids=["samples", "front"])
async def test_ten_thousand_are_drawn_within_a_tenth_of_a_second(open_page: Opens, drawing: str) -> None:
    page = await open_page("")
    taken = [await page.evaluate(drawing, 10_000) for _ in range(4)]
    assert min(taken) < AT_MOST, taken
