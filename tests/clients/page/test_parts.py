"""Candidates that were measured on some samples only, in a real browser: nodes of the lineage, and trials of their own."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from playwright.async_api import Page, expect

from tests.support.engines import Engines
from tests.support.optimizer_in_parts import in_parts, spec
from tests.support.page_browser import Opens, keep_picture

WORDS = """
async () => {
  const { partsWords } = await import("/page/views/log_words.js");
  const ended = { part: "a", round: 2, objective_score: 0.5, finished_at: "2027-01-01T00:00:00Z" };
  const trials = [ended, { part: "b", round: 2 }, { part: "", round: 3 }];
  return [partsWords({ trials }, 2), partsWords({ trials }, 3)];
}
"""


async def test_what_was_measured_in_part_is_told_apart(
    engines: Engines, open_page: Opens, accessible: Callable[[Page], Awaitable[list[str]]]
) -> None:
    with in_parts():
        result = await engines.run(spec(name="seen-in-parts", stop={"max_rounds": 2, "no_improvement": 0}))
    run_id = result["optimization_id"]
    page = await open_page(f"runs/{run_id}/lineage")
    summary = page.locator(".run-body .small").first
    await expect(summary).to_contain_text("6 measured in part")
    await expect(page.get_by_role("application", name="Lineage").locator("path.mark-part").first).to_be_attached()
    await expect(page.locator(".legend")).to_contain_text("measured in part")
    assert await accessible(page) == []
    await keep_picture(page, "lineage-in-parts")
    page = await open_page(f"runs/{run_id}/trials?purpose=exploration")
    await expect(page.get_by_text("4 of 20 samples").first).to_be_visible()
    figure = page.get_by_role("group", name="Trials", exact=True)
    await expect(figure).to_contain_text(re.compile(r"^Trials3 and 12 of some samples"))
    assert await accessible(page) == []
    page = await open_page(f"runs/{run_id}/log")
    told = re.compile(r"^Round 2: 6 trials of some samples, from [\d:]+ to [\d:]+, with scores")
    await expect(page.get_by_role("log").get_by_text(told)).to_be_visible()
    words = await page.evaluate(WORDS)
    assert words == ["Round 2: 1 trial of some samples, with scores of 0.50 to 0.50", None]
    assert await accessible(page) == []
