"""Runs are started from the page: a spec is pasted, mended and priced, its data uploaded; then it is watched and retried."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
from playwright.async_api import Page, expect

from clients.runs.service.servers import Servers
from ratchet._formats.yaml_text import yaml_text
from store.read.access.access_tokens import Role
from tests.support.access_tokens import made_token
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.http_api import until
from tests.support.page_browser import Opens, keep_picture
from tests.support.page_edges import BEYOND

IN_THE_MIDDLE = """
() => {
  const buttons = [...document.querySelectorAll(".empty .buttons > *")];
  const [first, last] = buttons.map((button) => button.getBoundingClientRect());
  const card = document.querySelector(".empty").getBoundingClientRect();
  return Math.abs(first.left + last.right - card.left - card.right) < 2;
}
"""
DANGLING = """
() => [...document.querySelectorAll(".facts li")].filter((fact) => {
  const list = document.querySelector(".facts").getBoundingClientRect(), { left } = fact.getBoundingClientRect();
  const dot = left + parseFloat(getComputedStyle(fact, "::before").left);
  const opensLine = fact.getClientRects()[0].left <= list.left;
  return opensLine && dot + 6 > list.left;
}).length
"""
"""Dots between facts that stand at the beginning of a line."""
HOSTILE = "<img src=x onerror='window.hacked=1'>"


DROPPED = """(text) => {
    const dropped = new DataTransfer();
    dropped.items.add(new File([text], "numbers.csv"));
    return dropped;
}"""


async def paste(page: Page, text: str) -> None:
    await page.get_by_label("Spec", exact=True).fill(text)


async def test_a_spec_is_pasted_mended_priced_started_and_watched(
    open_page: Opens, http: httpx.AsyncClient, accessible: Callable[[Page], Awaitable[list[str]]], tmp_path: Path
) -> None:
    page = await open_page()
    await page.get_by_role("link", name="New run", exact=True).first.click()
    editor = page.get_by_label("Spec", exact=True)
    # What only the workers refuse is told where the run would have been, and leads back to what was written.
    refused = "# why?\n" + yaml_text(hill_spec(name="refused", target={"kind": "python", "ref": "unlisted:thing"}))
    await paste(page, refused)
    await page.get_by_role("button", name="Start…").click()
    await page.get_by_role("dialog", name="Start refused?").get_by_role("button", name="Start", exact=True).click()
    for _ in range(2):
        await expect(page.get_by_role("heading", level=1, name="This run was refused")).to_be_visible()
        await expect(page.get_by_role("alert")).to_contain_text("unlisted")
        assert await accessible(page) == []
        assert await page.evaluate(IN_THE_MIDDLE)
        await keep_picture(page, "refused-run")
        await page.reload()
    change = page.get_by_role("link", name="Change the spec")
    await change.click()
    await expect(editor).to_have_value(refused)
    await page.evaluate("sessionStorage.clear()")
    await page.go_back()
    await change.click()
    await expect(editor).to_have_value(re.compile("the spec of refused-.*\n\n# why[?]\n"))

    spec = hill_spec(name="from-the-page", target={"kind": "python", "ref": "plugged:hill", "at_most": {"cost": 0.5}})
    right = yaml_text(spec).replace("value: 10", f"value: 10  # {HOSTILE}")
    await paste(page, right.replace("metric:", "metrik:"))
    line = 1 + next(number for number, text in enumerate(right.split("\n")) if "metric:" in text)
    finding = page.get_by_role("list", name="Findings").get_by_role("listitem").first
    await expect(finding).to_contain_text("metrik")
    await expect(page.get_by_role("button", name="Start…")).to_be_disabled()
    await expect(page.locator(".editor-mark[data-kind=error]").first).to_contain_text("metrik")
    assert await accessible(page) == []
    await keep_picture(page, "new-run-finding")

    # Mended at its line, with the name that the schema offers.
    await page.get_by_role("button", name=f"Line {line}").first.click()
    await expect(editor).to_be_focused()
    chosen = "(area) => area.value.slice(area.selectionStart, area.selectionEnd)"
    assert "metrik: " in await editor.evaluate(chosen)
    await page.keyboard.type("  met")
    offered = page.get_by_role("listbox", name="What may be written here").get_by_role("option", name="metric")
    await expect(offered).to_be_visible()
    await keep_picture(page, "new-run-completion")
    assert await accessible(page) == []
    await page.keyboard.press("Enter")
    await page.keyboard.type("height")
    assert "  metric: height\n" in await editor.input_value()
    await expect(page.locator(".check-state")).to_contain_text("Ready to start")
    await expect(page.locator(".plan")).to_contain_text("at worst")
    await expect(page.locator(".plan")).to_contain_text("This makes at most")

    # Its data is uploaded, and named by the spec from then on.
    table = tmp_path / "numbers.csv"
    table.write_text("Way up?,n,label,note\n" + "".join(f'"a\nb",{n},up,"said, {HOSTILE}"\n' for n in range(9)) + "c,9,up\n")
    await page.get_by_text("Files may be dropped anywhere on this page").dispatch_event(
        "drop",
        {"dataTransfer": await page.evaluate_handle(DROPPED, table.read_text())},
    )
    dialog = page.get_by_role("dialog", name="Upload a dataset")
    await expect(dialog.locator(".notice")).to_have_text(
        "Line 20 has 3 of 4 cells: what is missing stays empty. Missing here: note."
    )
    await expect(dialog.get_by_label("Name", exact=True)).to_have_value("numbers")
    assert await dialog.get_by_label("Way up?: called").input_value() == "way_up"
    await expect(dialog.get_by_role("table")).to_contain_text("way_up")
    await dialog.get_by_label("Way up?: called").fill("n")
    await expect(dialog.get_by_role("alert")).to_contain_text("Way up? and n would both be called n")
    await dialog.get_by_label("Way up?: called").fill("way")
    await expect(dialog.get_by_role("table")).to_contain_text('"way"')
    await expect(dialog.get_by_label("label", exact=True)).to_have_value("expected")
    await dialog.get_by_label("note", exact=True).select_option("none")
    await expect(dialog.get_by_role("table")).not_to_contain_text("said")
    await keep_picture(page, "new-run-upload")
    assert await accessible(page) == []
    await dialog.get_by_role("button", name="Store 10 samples").click()
    await expect(page.locator(".notices")).to_contain_text("Stored as numbers@1: 10 samples")
    assert 'name: "numbers@1"\n  splits: "none"\n' in await editor.input_value()
    await expect(page.locator(".plan")).to_contain_text("10 samples")
    await keep_picture(page, "new-run")
    for width in (1024, 390):
        await page.set_viewport_size({"width": width, "height": 844})
        assert await page.evaluate(BEYOND) == []
        await keep_picture(page, f"new-run-{width}")
    await page.emulate_media(color_scheme="dark")
    await keep_picture(page, "new-run-dark-390")
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 1280, "height": 900})

    # What it may cost is agreed to, then it runs.
    await page.get_by_role("button", name="Start…").click()
    dialog = page.get_by_role("dialog", name="Start from-the-page?")
    await expect(dialog).to_contain_text("This makes at most")
    await expect(dialog).to_contain_text("at worst")
    await keep_picture(page, "new-run-start")
    assert await accessible(page) == []
    await dialog.get_by_role("button", name="Start, and pay for it").click()
    await expect(page.locator(".pill.status")).to_have_text("completed")
    assert await page.evaluate("sessionStorage.length") == 0  # the run has its spec, so no draft is kept
    run_id = page.url.rpartition("/")[2]
    run = await until(http, run_id, "completed")
    assert run["dataset_count"] == 10
    await expect(page.locator(".facts")).to_contain_text("10 samples of numbers@1")
    written = (await http.get(f"/optimizations/{run_id}/spec")).json()["written"]
    assert HOSTILE in written and 'name: "numbers@1"' in written

    # Again, with what was changed; the same spec is not paid twice without a word, and what failed is retried alone.
    await page.get_by_role("link", name="Again, with…").click()
    await expect(editor).to_have_value(re.compile(f"the spec of {run_id}"))
    await expect(editor).to_have_value(re.compile(re.escape(HOSTILE)))  # with the comments of its author
    await expect(page.locator(".plan")).to_contain_text("This spec ran before")
    await page.get_by_role("button", name="Start…").click()
    await expect(page.get_by_role("dialog", name="Run it again?")).to_contain_text("paid for again")
    await page.keyboard.press("Escape")
    await page.evaluate("(id) => { location.hash = `#/runs/${id}` }", run_id)
    await expect(page.get_by_role("group", name="Trials")).to_contain_text("none failed, none rejected")
    await expect(page.get_by_role("link", name="Again, with…")).to_be_visible()
    await expect(page.get_by_role("button", name="Retry what failed…")).to_have_count(0)
    assert (await http.post(f"/optimizations/{run_id}/retry")).status_code == 201
    again = await until(http, f"{run_id}-2", "completed")
    assert (again["spec"]["retry_of"], again["spend"]["samples"]) == (run_id, 0)
    assert await page.evaluate("window.hacked") is None


async def test_who_may_only_read_is_told_so_and_a_template_is_a_spec_that_can_be_run(
    open_page: Opens, guarded_url: str, servers: Servers
) -> None:
    page = await open_page("new?template=chat")
    await expect(page.locator(".check-state")).to_contain_text("Ready to start")
    await expect(page.locator(".plan")).to_contain_text("20 samples")
    secret = await made_token(servers.database, "only-looks", Role.READ)
    page = await open_page("new?template=chat", base=guarded_url, may_complain=True)
    await page.get_by_role("dialog").get_by_label("Token").fill(secret)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator(".check-state")).to_contain_text("Your token, only-looks, may read")
    await expect(page.get_by_role("button", name="Start…")).to_be_disabled()
    refused = await page.evaluate(
        "(body) => fetch('/v1/private/spec/check', {method: 'POST', headers: {'Content-Type': 'application/json'}, body})"
        ".then((answer) => answer.status)",
        json.dumps({"text": "name: x"}),
    )
    assert refused == 403


async def test_what_failed_is_said_and_offered_for_a_retry_to_whoever_may_and_where_it_can_be(
    open_page: Opens, http: httpx.AsyncClient, guarded_url: str, servers: Servers, engines: Engines, tmp_path: Path
) -> None:
    (broken := tmp_path / "broken").touch()
    spec = hill_spec(name="half-broken", target={"kind": "python", "ref": "plugged:raises_while_a_file_is_there"})
    spec |= {"configuration": spec["configuration"] | {"broken": str(broken)}, "stop": {"max_rounds": 1}}
    failing = (await http.post("/optimizations", json=spec)).json()["optimization_id"]
    await until(http, failing, "completed")
    broken.unlink()
    reader = await open_page(f"runs/{failing}", base=guarded_url, may_complain=True)
    await reader.get_by_role("dialog").get_by_label("Token").fill(await made_token(servers.database, "only-reads", Role.READ))
    await reader.get_by_role("button", name="Sign in").click()
    page = await open_page(f"runs/{failing}")
    retry = page.get_by_role("button", name="Retry what failed…")
    for one in (reader, page):
        await expect(one.get_by_role("group", name="Trials")).to_contain_text("6 answers missing")
        await expect(one.get_by_role("link", name="Again, with…")).to_be_visible()
    await expect(retry).to_be_enabled()
    await expect(reader.get_by_role("button", name="Retry what failed…")).to_have_count(0)

    await retry.click()
    await expect(page.get_by_role("dialog")).to_contain_text("6 answers failed.")
    await page.get_by_role("dialog").get_by_role("button", name="Retry", exact=True).click()
    await page.wait_for_url(f"**/runs/{failing}-2")
    await expect(page.locator(".facts")).to_contain_text(f"retries {failing}")
    await expect(page.get_by_role("group", name="Trials")).to_contain_text("none failed")
    assert (await until(http, f"{failing}-2", "completed"))["spend"]["samples"] == 6
    await expect(retry).to_have_count(0)
    for width in (390, 1024, 1280):
        await page.set_viewport_size({"width": width, "height": 844})
        assert await page.evaluate(BEYOND) == []
        assert await page.evaluate("document.querySelectorAll('.facts li').length") == 4
        assert await page.evaluate(DANGLING) == 0
        await keep_picture(page, f"retried-{width}")

    async with engines.database.transaction() as connection:
        queue = '"optimization-evaluation-00000000beef"'
        changed = f"UPDATE runs SET spec = jsonb_set(spec, '{{execution,evaluation_task_queue}}', '{queue}') WHERE run_id = $1"
        await connection.execute(changed, failing)
    await page.locator(".facts").get_by_role("link", name=failing).click()
    await expect(retry).to_be_disabled()
    await expect(retry).to_contain_text(f"It needs its plug-ins: retry it where they are, by ratchet retry {failing}")
    assert (await http.post(f"/optimizations/{failing}/retry")).status_code == 409
