"""Candidates that were measured on some samples only, in a real browser: nodes of the lineage, and trials of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from playwright.async_api import Page, expect

from tests.support.engines import Engines
from tests.support.optimizer_in_parts import in_parts, spec
from tests.support.page_browser import Opens, keep_picture


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
    assert await accessible(page) == []
