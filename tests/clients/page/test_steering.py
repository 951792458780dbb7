"""What the buttons do to a real run, what is asked first, and how a refusal is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Page, expect

from tests.support.engines import Engines
from tests.support.hill_specs import gated_spec
from tests.support.http_api import TOKEN, until
from tests.support.page_browser import Opens, keep_picture
from tests.support.release_runs import CONFIGURATION, tried_prompt


async def click(page: Page, name: str) -> None:
    await page.get_by_role("button", name=name, exact=True).click()


async def confirm(page: Page, name: str, told: str) -> None:
    """Say yes in the open dialog; what the run answered is shown."""
    await page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.locator(".notices")).to_contain_text(told)


async def started(http: httpx.AsyncClient, gate: Path, name: str) -> str:
    spec = gated_spec(gate, name=name, stop={"max_rounds": 9, "no_improvement": 0})
    run_id: str = (await http.post("/optimizations", json=spec)).json()["optimization_id"]
    await until(http, run_id, "running")
    return run_id


async def test_a_run_is_paused_adjusted_resumed_and_stopped_from_the_page(
    open_page: Opens, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    page = await open_page(f"runs/{await started(http, gate, 'steered')}", may_complain=True)
    pill = page.locator(".pill.status")

    await click(page, "Pause")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("button", name="Pause", exact=True)).to_be_focused()
    await page.keyboard.press("Enter")
    await keep_picture(page, "pause")
    await confirm(page, "Pause", "pausing: trials in flight finish, then the run rests")
    gate.touch()
    await expect(pill).to_have_text("paused")
    gate.unlink()

    await click(page, "Adjust…")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Adjust").click()
    await expect(dialog.get_by_role("alert")).to_have_text("Nothing is changed yet: give at least one other value.")
    await dialog.get_by_label("Rounds at most").fill("many")
    await dialog.get_by_role("button", name="Adjust").click()
    await expect(dialog.get_by_role("alert")).to_have_text("Rounds at most: many is no number.")
    await dialog.get_by_label("Rounds at most").fill("7")
    await dialog.get_by_label("Time budget").fill("tomorrow")
    await dialog.get_by_role("button", name="Adjust").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("write seconds or text such as 90s, 15m, 2h")
    await keep_picture(page, "adjust")
    await dialog.get_by_label("Time budget").fill("2h")
    await confirm(page, "Adjust", "adjusted")
    await expect(page.get_by_role("group", name="Progress")).to_contain_text("of 7")
    await expect(page.get_by_role("group", name="Time")).to_contain_text("2h allowed")

    await click(page, "Go on")
    await confirm(page, "Go on", "going on")
    await expect(pill).to_have_text("running")
    await click(page, "Stop early")
    await page.get_by_role("dialog").get_by_label("Why").fill("good enough for today")
    await confirm(page, "Stop early", "asked to stop early")
    gate.touch()
    await expect(pill).to_have_text("completed")
    await expect(page.locator(".of-verdicts")).to_contain_text("stopped early")
    await expect(page.locator(".of-verdicts")).to_contain_text("good enough for today")
    await expect(page.get_by_role("button", name="Stop early")).to_have_count(0)


async def test_a_run_is_cancelled_and_a_wish_that_comes_too_late_is_told_why(
    open_page: Opens, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    run_id = await started(http, tmp_path / "gate", "cut-off")
    page = await open_page(f"runs/{run_id}", may_complain=True)
    late = await open_page(f"runs/{run_id}", may_complain=True)
    await click(late, "Stop early")
    await click(page, "Cancel")
    await confirm(page, "Cancel the run", "asked to cancel")
    await expect(page.locator(".pill.status")).to_have_text("cancelled")
    await until(http, run_id, "cancelled")
    dialog = late.get_by_role("dialog")
    await dialog.get_by_role("button", name="Stop early").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("cancelled already, so nothing can be asked of it")


async def test_a_release_that_waits_is_approved_by_name(
    open_page: Opens, engines: Engines, spec: Callable[..., dict[str, Any]]
) -> None:
    async with tried_prompt(engines, spec()) as prompt:
        await prompt.ask(await prompt.tried(x=700), approval=True, approvers=["bea"])
        page = await open_page(f"runs/{prompt.run_id}", may_complain=True)
        panel = page.locator(".release").first
        await expect(panel).to_contain_text("waits for approval")
        await expect(panel).to_contain_text("May approve: bea")
        await keep_picture(page, "approval")
        await click(page, "Approve…")
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Approve and release").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("Your name")
        await dialog.get_by_label("Your name").fill("mallory")
        await dialog.get_by_role("button", name="Approve and release").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("approve was refused")
        await dialog.get_by_label("Your name").fill("bea")
        await dialog.get_by_label("Comment").fill("looks right")
        await confirm(page, "Approve and release", "Release released")
        await expect(panel).to_contain_text("Released by bea: looks right")

    async with tried_prompt(engines, spec()) as other:
        await other.ask(await other.tried(x=800), approval=True)
        await page.evaluate("(id) => { location.hash = `#/runs/${id}` }", other.run_id)
        await click(page, "Reject…")
        await expect(page.get_by_role("dialog").get_by_label("Your name")).to_have_value("bea")
        await confirm(page, "Reject", "Release rejected")
        await expect(panel).to_contain_text("Rejected by bea")


async def test_a_winner_is_released_as_a_canary_and_then_in_earnest(
    open_page: Opens, engines: Engines, http: httpx.AsyncClient, spec: Callable[..., dict[str, Any]]
) -> None:
    result = await engines.run(spec(name="a-winner", configuration=CONFIGURATION, stop={"max_rounds": 12, "no_improvement": 0}))
    run_id = result["optimization_id"]
    page = await open_page(f"runs/{run_id}", may_complain=True)
    await click(page, "As a canary…")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Your name").fill("bea")
    await dialog.get_by_role("button", name="Release as a canary").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Prompt: say something here")
    await dialog.get_by_label("Prompt").fill("page/winner")
    await confirm(page, "Release as a canary", "page/winner: canary released, version 1.0.1")
    tags = (await http.get("/prompts/page%2Fwinner")).json()["tags"]
    assert {tag["tag"]: tag["version"] for tag in tags} == {"canary": "1.0.1", "stable": "1.0.0"}
    await click(page, "Release…")
    await dialog.get_by_label("Prompt").fill("page/winner")
    await dialog.get_by_label("Your name").fill("bea")
    await confirm(page, "Release", "page/winner: stable released")
    releases = (await http.get(f"/optimizations/{run_id}/releases")).json()
    assert [(one["kind"], one["status"], one["asked_by"]) for one in releases] == [
        ("promote", "released", "bea"),
        ("canary", "released", "bea"),
    ]
    await expect(page.locator(".release")).to_have_count(2)


async def test_a_server_with_a_token_asks_for_it_and_the_page_does_not_keep_it(open_page: Opens, guarded_url: str) -> None:
    page = await open_page(base=guarded_url, may_complain=True)
    dialog = page.get_by_role("dialog", name="This server asks for its token")
    await dialog.get_by_label("Token").fill("not the token")
    await dialog.get_by_role("button", name="Sign in").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("no token of this server")
    await dialog.get_by_label("Token").fill(TOKEN)
    await dialog.get_by_role("button", name="Sign in").click()
    await expect(dialog).to_have_count(0)
    await expect(page.locator("[data-state=live]")).to_be_visible()
    await page.reload()
    await expect(page.locator("[data-state=live]")).to_be_visible()
    kept = await page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    assert TOKEN not in kept
