"""Every view and every chart of a finished run, by pointer and by keyboard; what people and models wrote is text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from store.write.access.teams import Teams
from store.write.limits.team_budgets import TeamBudgets
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.page_browser import Opens, keep_picture, wrong_on_paper
from tests.support.seeded_runs import enlarge
from workflows.model.run.amounts import NOTHING, Amount

MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>{{input}} <b>bold</b> \u202edesrever'


@pytest.fixture(scope="session")
async def varied(engines: Engines) -> str:
    """A run with several parents, trials stopped early and failed, and rejected proposals."""
    proposer = {"kind": "python", "ref": "plugged:wild_proposer"}
    await engines.run(hill_spec(name="varied", stop={"max_rounds": 4, "no_improvement": 0}), run_id="varied")
    await engines.run(hill_spec(name="wild", optimizer={"name": "refine", "proposer": proposer}), run_id="wild-page")
    await enlarge(engines.database, "varied", 90)
    async with engines.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO rejections (run_id, round, proposed_index, reason_code, message, config_hash, parent_candidate_ids)"
            " SELECT 'varied', round, 20 + proposed_index, reason_code, message, config_hash, ARRAY["
            "(SELECT baseline_candidate_id FROM runs WHERE run_id = 'varied')] FROM rejections WHERE run_id = 'wild-page'"
        )
    return "varied"


async def status_text(page: Page) -> str:
    return await page.locator("#app > .unseen").inner_text()


async def test_the_score_chart_shows_every_trial_and_is_walked_with_the_arrow_keys(open_page: Opens, varied: str) -> None:
    page = await open_page(f"runs/{varied}")
    chart = page.get_by_role("application", name="Score over rounds")
    await expect(chart.get_by_role("img")).to_have_attribute(
        "aria-label",
        "Score over rounds, in the search: 95 trials in 9 rounds; baseline 0.3143, best 0.9084. "
        "The trials are listed under Trials.",
    )
    assert await wrong_on_paper(page, "run") == []
    legend = page.locator(".of-scores .legend")
    for kind in ("baseline", "became the best", "measured, not kept", "stopped early", "failed", "best so far", "95% interval"):
        await expect(legend).to_contain_text(kind)
    await chart.focus()
    await chart.press("Home")
    await expect(page.locator(".of-scores .tip")).to_contain_text("Round 0 · baseline")
    await chart.press("ArrowRight")
    assert "round 1: score 0.3442, became the best, better" in await status_text(page)
    await chart.press("Enter")
    await expect(page.get_by_role("heading", name="Candidate #1 r1-85d764d3")).to_be_visible()


TRIED = """
async ({ values, width }) => {
  const { mount } = await import("/page/detail/factors.js");
  const place = document.createElement("section");
  place.className = "card";
  place.style.width = `${width}px`;
  document.getElementById("main").replaceChildren(place);
  const factors = ["param:temperature", "param:reasoning_effort"];
  const candidates = values.map((row, number) => ({ candidate_id: `c${number}`, score: 0.5 + number / 9, values: row }));
  const run = { id: "r", isOver: true, searching: candidates.map(({ score }) => ({ objective_score: score })) };
  const api = { get: async () => ({ factors, candidates, importances: null }), ofRun() {} };
  mount(place, { run, api, subscribe: () => () => {} });
  for (let frame = 0; frame < 9; frame++) await new Promise(requestAnimationFrame);
  const names = [...place.querySelectorAll("text.tried-label")].filter((text) => text.querySelector("title"));
  const box = place.getBoundingClientRect();
  return {
    shown: !place.hidden,
    told: place.innerText,
    names: names.map((text) => text.firstChild.textContent),
    inside: names.every((text) => {
      const { left, right } = text.getBoundingClientRect();
      return left >= box.left && right <= box.right;
    }),
  };
}
"""


@pytest.mark.parametrize(
    ("values", "width", "names"),
    [
        ([[0.5, "low"], [0.5, "low"]], 800, []),
        ([[0.5, "low"]], 800, []),
        ([[0.5, "low"], [0.7, "low"]], 800, ["param:temperature", "score"]),
        ([[0.5, "low"], [0.7, "high"]], 800, ["param:temperature", "param:reasoning_effort", "score"]),
        ([[0.5, "low"], [0.7, "high"]], 330, ["temperature", "reasoning_e…", "score"]),
    ],
)
async def test_only_values_that_varied_are_shown_as_tried(
    functions: Page, values: list[list[Any]], width: int, names: list[str]
) -> None:
    found = await functions.evaluate(TRIED, {"values": values, "width": width})
    assert (found["names"], found["inside"], found["shown"]) == (names, True, bool(names))
    assert ("only a search over values works that out" in found["told"]) == bool(names)


async def test_the_lineage_has_several_parents_and_tells_what_became_of_each(open_page: Opens, varied: str) -> None:
    page = await open_page(f"runs/{varied}/lineage")
    graph = page.get_by_role("application", name="Lineage")
    summary = page.locator(".run-body .small").first
    for told in ("1 baseline", "measured, not kept", "stopped early", "failed", "rejected unmeasured", "with several parents"):
        await expect(summary).to_contain_text(told)
    await expect(graph.locator("path.edge-way").first).to_be_attached()
    await keep_picture(page, "lineage")
    await page.get_by_role("button", name="Go to the best").click()
    assert "score 0.9084, became the best" in await status_text(page)
    here = await status_text(page)
    await graph.press("ArrowLeft")
    assert await status_text(page) != here
    await graph.press("Home")
    assert "baseline" in await status_text(page)
    await page.get_by_label("rejected proposals").uncheck()
    await expect(summary).not_to_contain_text("rejected unmeasured")
    for _ in range(6):
        await page.get_by_role("button", name="Zoom in").click(force=True)
    await expect(page.get_by_role("button", name="Zoom in")).to_be_disabled()


async def test_trials_are_sorted_and_filtered_and_the_address_keeps_it(open_page: Opens, varied: str) -> None:
    page = await open_page(f"runs/{varied}/trials")
    table = page.get_by_role("table", name="Trials")
    await expect(table).to_have_attribute("aria-rowcount", "96")
    assert await table.get_by_role("row").count() < 60
    await page.emulate_media(media="print")
    await expect(table.get_by_role("row")).to_have_count(96)
    assert await wrong_on_paper(page, "trials") == []
    await page.get_by_role("button", name="Score").click()
    await expect(page.get_by_role("columnheader", name="Score")).to_have_attribute("aria-sort", "descending")
    await expect(table.get_by_role("row").nth(1)).to_contain_text("0.9084")
    await page.get_by_label("What became of it").select_option("stopped early")
    await expect(page.locator(".told")).to_contain_text("of 95 trials")
    await expect(table.get_by_role("row").nth(1)).to_contain_text("stopped early")
    await page.get_by_label("Search").fill("no such thing")
    await expect(page.locator(".told")).to_have_text("0 of 95 trials")
    await page.get_by_label("Search").fill("r5-")
    await page.wait_for_url("**search=r5-**kind=stopped**sort=score.down")
    address = page.url
    await page.goto("about:blank")
    await page.goto(address)
    await expect(page.get_by_label("Search")).to_have_value("r5-")
    await expect(page.get_by_role("columnheader", name="Score")).to_have_attribute("aria-sort", "descending")
    await page.get_by_role("table").get_by_role("link").first.click()
    await expect(page.get_by_role("heading", name="Candidate #")).to_be_visible()


async def test_what_is_left_of_a_teams_month_is_shown_with_the_runs(open_page: Opens, engines: Engines) -> None:
    await Teams(engines.database).create("paged", [], "a test")
    budgets = TeamBudgets(engines.database)
    await budgets.set("paged", Amount(samples=50, cost=10.0), "a test")
    async with engines.database.connection() as connection:
        await connection.execute(
            "INSERT INTO team_months (team, month, spent_cost, spent_samples)"
            " VALUES ('paged', date_trunc('month', now() AT TIME ZONE 'UTC'), 9.75, 20) ON CONFLICT DO NOTHING"
        )
    page = await open_page("runs")
    shown = page.locator(".months")
    await expect(shown).to_contain_text(re.compile(r"paged in 20\d\d-\d\d: 9\.75 spent, 0\.25 of 10\.00 left"))
    await expect(shown).to_contain_text("20 spent, 30 of 50 calls left")
    await budgets.set("paged", NOTHING, "a test")


async def test_rejections_are_listed_with_their_reasons(open_page: Opens, varied: str) -> None:
    page = await open_page(f"runs/{varied}/rejections")
    await expect(page.get_by_role("table", name="Rejected proposals").get_by_role("row").nth(1)).to_contain_text("out of range")
    await page.get_by_label("Reason").select_option("out_of_range")
    await expect(page.get_by_text("Out of range: a value is outside of its range.")).to_be_visible()
    await page.get_by_label("Search").fill("nothing like it")
    await expect(page.locator(".told")).to_contain_text("0 of")
    quiet = await open_page("runs/wild-page/trials")
    await quiet.get_by_role("link", name="Rejections").click()
    await expect(quiet.get_by_role("table", name="Rejected proposals")).to_be_visible()


async def test_the_log_tells_decisions_and_trials_in_words(open_page: Opens, varied: str) -> None:
    page = await open_page(f"runs/{varied}/log")
    await expect(page.get_by_role("log")).to_contain_text("Round 4: r4-")
    await expect(page.get_by_role("log")).to_contain_text("beats")
    await page.get_by_label("beginnings and ends of trials").check()
    await expect(page.get_by_role("log")).to_contain_text("Measuring r1-")


async def test_prompts_with_markup_and_scripts_are_shown_as_text_everywhere(open_page: Opens, engines: Engines) -> None:
    spec = hill_spec(
        name="marked-up",
        configuration={
            "x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10},
            "prompt": {"value": MARKUP, "change": "text"},
        },
        dataset={"items": [{"id": f"s{n}", "input": f"{MARKUP} {n}", "expected": MARKUP} for n in range(8)], "splits": "none"},
        stop={"max_rounds": 2, "no_improvement": 0},
    )
    await engines.run(spec, run_id="marked-up <script>window.hacked=1")
    async with engines.database.transaction() as connection:
        await connection.execute("UPDATE runs SET name = $1, message = $1 WHERE name = 'marked-up'", MARKUP)
        await connection.execute("UPDATE candidates SET rationale = $1 WHERE run_id LIKE 'marked-up%'", MARKUP)
        await connection.execute(
            "UPDATE events SET payload = payload || jsonb_build_object('message', $1::text) WHERE run_id LIKE 'marked-up%'",
            MARKUP,
        )
        best = await connection.fetchval("SELECT best_candidate_id FROM runs WHERE run_id LIKE 'marked-up%'")
    run = "runs/marked-up%20%3Cscript%3Ewindow.hacked%3D1"
    page = await open_page("runs?search=marked-up")
    await expect(page.get_by_role("link", name="<img src=x")).to_be_visible()
    for place, shown in {
        "": "What the best changes",
        "/trials": "r2-",
        "/lineage": "1 baseline",
        "/rejections": "Nothing was rejected",
        "/budget": "since the start",
        "/log": "<b>bold</b> <U+202E>desrever",
        "/spec": "<img src=x onerror",
        "/compare": "Compared with",
        f"/candidates/{best}?tab=changes": "<script>window.hacked=1</script>",
        f"/candidates/{best}?tab=samples": "<script>window.hacked=1</script>",
        f"/candidates/{best}?tab=slices": "Slices",
        f"/candidates/{best}?tab=judgement": "better than",
    }.items():
        await page.evaluate("(place) => { location.hash = `#/${place}` }", run + place)
        await expect(page.get_by_role("heading", level=1)).to_contain_text("<b>bold</b>")
        await expect(page.locator(".run-body")).to_contain_text(shown)
    assert await page.evaluate("window.hacked") is None
    assert "\u202e" not in await page.locator("#app").inner_text()
    assert await page.locator("#app img, #app script, #app b").count() == 0


async def test_no_page_of_the_server_may_run_what_it_did_not_send(open_page: Opens) -> None:
    page = await open_page(may_complain=True)
    refused = await page.evaluate(
        """async () => {
            const refused = [];
            document.addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective));
            for (const attempt of [
                () => (document.body.innerHTML = '<p>markup</p>'),
                () => document.body.setAttribute('style', 'color: red'),
                () => fetch('https://example.com/').catch(() => {}),
                () => eval('1'),
            ]) {
                try { attempt(); } catch {}
                await new Promise((resolve) => setTimeout(resolve, 20));
            }
            return refused;
        }"""
    )
    assert refused[:3] == ["require-trusted-types-for", "style-src-attr", "connect-src"]
    assert len(refused) >= 4  # and `eval`
