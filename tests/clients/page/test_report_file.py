"""The HTML report in a real browser: opened from a file, without a network, it is the page."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, Page, Route, expect
from temporalio.client import WorkflowFailureError

from activities.datasets import ingest
from activities.datasets.file_folders import LocalFolder
from activities.preparing.factor_files import keep_factor_files, with_factor_files
from clients.demo.model_server import simulated_model
from clients.demo.models import ECHO
from clients.reports.gates import meets
from clients.reports.html import html
from clients.reports.inlined_answers import inlined_answers
from clients.reports.load import facts_of
from store.read.reader import StoreReader
from store.write.retention.legal_holds import HoldRequest, LegalHolds
from store.write.retention.removals import Removals
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.page_browser import PATIENCE_MS, keep_picture
from tests.support.pictures import png
from tests.support.word_runs import HOSTILE
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.retention_policy import DueRemoval

Accessible = Callable[[Page], Awaitable[list[str]]]
OpensReport = Callable[..., Awaitable[Page]]


async def report_of(engines: Engines, run_id: str, goes_on: bool = False, **options: Any) -> str:
    """The report of a run; as it would be if it still went on, too."""
    report = await StoreReader(engines.database).runs.report(run_id)
    assert report is not None
    facts = facts_of(report)
    answers = await inlined_answers(engines.database, run_id, **options)
    if goes_on:
        open_run = {"status": "running", "execution": "unknown", "finished_at": None, "stop_reason": None}
        answers[f"/optimizations/{run_id}"] = json.dumps(json.loads(answers[f"/optimizations/{run_id}"]) | open_run)
    return html(facts, answers, [meets("trials >= 1", facts), meets("score > 2", facts)])


@pytest.fixture
async def open_report(browser: Browser, engines: Engines, tmp_path: Path) -> AsyncIterator[OpensReport]:
    """Writes a run's report to a file and opens that with the network blocked. Whatever the page asks for, and whatever its
    console complains of, fails the test."""
    heard: list[str] = []
    context = await browser.new_context(offline=True, reduced_motion="reduce", viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)

    async def refuse(route: Route) -> None:
        heard.append(f"asked for {route.request.url}")
        await route.abort()

    async def open_at(run_id: str, place: str = "", **options: Any) -> Page:
        path = tmp_path / "report.html"
        path.write_text(await report_of(engines, run_id, **options), encoding="utf-8")
        page = await context.new_page()
        await page.route(lambda url: not url.startswith("file:"), refuse)
        page.on("console", lambda said: heard.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: heard.append(str(error)))
        await page.goto(f"{path.as_uri()}{f'#/runs/{run_id}/{place}' if place else ''}")
        return page

    yield open_at
    await context.close()
    assert heard == []


async def answer(http: httpx.AsyncClient, path: str) -> Any:
    return (await http.get(f"/optimizations/{path}")).raise_for_status().json()


async def winner(http: httpx.AsyncClient, run_id: str) -> str:
    """The search's best candidate, whether it holds or not."""
    found: str = (await answer(http, run_id))["headline"]["in_search"]["best_candidate_id"]
    return found


async def obeyed(page: Page) -> bool:
    """Whether any of the markup in the texts was taken for markup."""
    taken = "window.obeyed === true || document.querySelector('#app script, #app img, #app b') !== null"
    return bool(await page.evaluate(taken))


async def test_the_overview_shows_scores_figures_gates_and_what_the_best_changes(
    open_report: OpensReport, http: httpx.AsyncClient, accessible: Accessible, words: str
) -> None:
    page = await open_report(words)
    await expect(page.get_by_role("heading", level=1)).to_have_text("words")
    drawn = (await answer(http, f"{words}/outline"))["trials"]
    bars = [one for one in drawn if one["purpose"] in ("baseline", "candidate") and one["low"] < one["high"]]
    shown = await page.locator("svg .interval").first.get_attribute("d")
    assert shown is not None and shown.count("M") == len(bars) > 1
    best = await answer(http, f"{words}/candidates/{await winner(http, words)}")
    added = [part["text"] for change in best["baseline"]["changes"] for part in change["segments"] if part["kind"] == "added"]
    await expect(page.locator(".best-changes ins").first).to_contain_text(added[0].strip().splitlines()[0])
    gates = page.get_by_role("list", name="Gates").get_by_role("listitem")
    await expect(gates).to_contain_text(["✓ gate met: trials >= 1", "✗ gate not met: score > 2"])
    await expect(page.locator(".of-figures dl")).to_contain_text("95% CI")
    await expect(page.locator(".of-verdicts .leads")).to_have_text((await answer(http, words))["headline"]["words"])
    await expect(page.locator(".connection")).to_contain_text("Report of ")
    assert await page.get_by_role("button", name="Cancel").count() == 0
    assert await page.get_by_role("link", name="Runs").count() == 0
    assert not await obeyed(page)
    assert await accessible(page) == []
    await keep_picture(page, "report-overview")


async def test_the_first_look_shows_three_answers_and_what_is_probably_wrong(
    engines: Engines, open_report: OpensReport, accessible: Accessible
) -> None:
    items = {"items": [{"id": f"s{n}", "input": {"text": f"{n} <b>bold</b>"}, "expected": "never"} for n in range(6)]}
    result = await engines.run(hill_spec(dataset=items, scorers=[{"kind": "exact", "name": "height"}], stop={"max_rounds": 1}))
    page = await open_report(result["optimization_id"])
    look = page.locator(".of-look")
    await expect(look.locator(".notice").first).to_contain_text("None of the 6 answers passes")
    await look.locator("summary").click()
    await expect(look.locator(".answer")).to_have_count(3)
    await expect(look).to_contain_text("<b>bold</b>")
    assert await accessible(page) == []


async def test_what_a_policy_removed_and_what_keeps_the_rest_is_told_first(
    engines: Engines, open_report: OpensReport, accessible: Accessible
) -> None:
    result = await engines.run(hill_spec(name="removed", stop={"max_rounds": 1}))
    run_id = result["optimization_id"]
    await Removals(engines.database).carry_out(DueRemoval(run_id, "texts", "texts=30d", 0, 0))
    await LegalHolds(engines.database).set(run_id, HoldRequest("<b>case 7</b>", "ann", "ann (uid 1) on desk"))
    page = await open_report(run_id)
    told = page.locator(".of-removed .notice")
    await expect(told.first).to_contain_text("by the policy texts=30d; scores, verdicts and decisions stay.")
    await expect(told.last).to_contain_text("Held: <b>case 7</b>, by ann since")
    assert await accessible(page) == []
    async with engines.database.connection() as connection:
        tried = await connection.fetchval("SELECT candidate_id FROM candidates WHERE run_id = $1 AND round = 1", run_id)
    page = await open_report(run_id, f"candidates/{tried}?tab=samples", in_full=True)
    await page.locator(".sample-head").first.click()
    await expect(page.get_by_text("Its text was removed by a policy.").first).to_be_visible()


async def test_every_view_of_the_page_is_in_the_file(
    open_report: OpensReport, http: httpx.AsyncClient, accessible: Accessible, words: str
) -> None:
    best = await winner(http, words)
    page = await open_report(words, "trials")
    rows = page.get_by_role("table", name="Trials").get_by_role("row")
    searched = [
        one for one in (await answer(http, f"{words}/outline"))["trials"] if one["purpose"] in ("baseline", "candidate")
    ]
    await expect(rows).to_have_count(len(searched) + 1)
    await page.get_by_label("Scores by slice").select_option("tags")
    await expect(page.get_by_role("columnheader", name="odd")).to_be_visible()
    await page.get_by_role("link", name="Lineage").click()
    await expect(page.get_by_role("application", name="Lineage").locator("path.mark-kept").first).to_be_attached()
    for tab in ("Rejections", "Budget", "Log", "Spec"):
        await page.get_by_role("link", name=tab, exact=False).first.click()
        await expect(page.locator(".run-body")).not_to_be_empty()
        assert await accessible(page) == []
    await page.goto(f"{page.url.split('#')[0]}#/runs/{words}/candidates/{best}")
    await expect(page.locator(".diff ins").first).to_be_visible()
    await page.get_by_role("link", name="Samples", exact=True).click()
    counts = (await answer(http, f"{words}/comparison?candidate={best}&limit=1"))["counts"]
    await expect(page.get_by_role("button", name=f"Fixed: {counts['fixed']} samples")).to_be_visible()
    await expect(page.get_by_text("What was asked and answered is not in this report")).to_be_visible()
    await page.get_by_role("link", name="Slices", exact=True).click()
    await expect(page.get_by_role("group", name="Scores by slice")).to_contain_text("<i>even</i>")
    await page.get_by_role("link", name="Judgement").click()
    await expect(page.get_by_text("interval").first).to_be_visible()
    assert not await obeyed(page)


async def test_a_full_report_has_the_answers_too_which_are_chosen_and_turned_over_without_a_server(
    open_report: OpensReport, http: httpx.AsyncClient, words: str
) -> None:
    best = await winner(http, words)
    page = await open_report(words, f"candidates/{best}?tab=samples", in_full=True)
    compared = await answer(http, f"{words}/comparison?candidate={best}&limit=200")
    await expect(page.locator(".sample")).to_have_count(20)
    await expect(page.get_by_text(f"All {compared['total']} samples")).to_be_visible()
    await page.get_by_role("button", name="Next").click()
    await expect(page.locator(".sample-id").first).to_have_text(compared["items"][20]["item_id"])
    await page.get_by_role("button", name="Fixed:").click()
    await expect(page.locator(".sample[data-turn=fixed]")).to_have_count(min(compared["counts"]["fixed"], 20))
    await page.locator(".sample-head").first.click()
    await expect(page.locator(".answer").first).to_be_visible()
    assert not await obeyed(page)


async def test_pictures_of_samples_reach_the_model_and_are_shown(
    engines: Engines, open_report: OpensReport, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """The simulated model says which pictures it was sent: as long as it may say enough."""
    digests = [sha256(png(shade)).hexdigest() for shade in range(4)]
    items = [
        {"id": f"p{n}", "input": {"picture": {"$file": f"{n}.dat"}}, "expected": f"[image/png {digest[:8]}]"}
        for n, digest in enumerate(digests)
    ]
    for shade in range(4):
        (tmp_path / f"{shade}.dat").write_bytes(png(shade))
    (tmp_path / "pictures.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    stored = await ingest(engines.database, tmp_path / "pictures.jsonl")
    async with simulated_model() as server:
        target = {"kind": "chat", "model": ECHO, "base_url": server.base_url}
        limit = {"value": 1, "change": "structured", "type": "integer", "min": 1, "max": 81, "step": 40}
        handle = await engines.start(
            hill_spec(
                configuration={"max_tokens": limit},
                target={**target, "messages": [{"role": "user", "content": "{{input.picture}}"}]},
                dataset={"id": stored.dataset_id, "splits": "none"},
                scorers=[{"kind": "exact"}],
                objective={"metric": "exact"},
                stop={"max_rounds": 1},
            ),
            run_id="pictures",
        )
        result = await handle.result()
    assert (result["baseline_score"], result["best_score"]) == (0.0, 1.0)
    history = [event.SerializeToString() async for event in handle.fetch_history_events()]
    assert b64encode(png(0)) not in b"".join(history) and digests[0].encode() not in b"".join(history)

    page = await open_report("pictures", f"candidates/{await winner(http, 'pictures')}?tab=samples", in_full=True)
    await page.locator(".sample-head").first.click()
    picture = page.get_by_role("img", name="Input picture")
    await expect(picture).to_be_visible()
    assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 8
    served = await http.get(f"/files/{digests[0]}")
    assert (served.content, served.headers["content-type"]) == (png(0), "image/png")
    assert served.headers["x-content-type-options"] == "nosniff"
    assert (await http.get(f"/files/{'0' * 64}")).status_code == 404


async def test_a_choice_among_pictures_is_sent_and_shown(
    engines: Engines, open_report: OpensReport, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    for shade in (51, 52):
        (tmp_path / f"{shade}.png").write_bytes(png(shade))
    files = [{"$file": "51.png"}, {"$file": "52.png"}]
    digest = sha256(png(52)).hexdigest()
    async with simulated_model() as server:
        written = hill_spec(
            configuration={"style": {"value": files[0], "change": "structured", "type": "choice", "choices": files}},
            target={
                "kind": "chat",
                "model": ECHO,
                "base_url": server.base_url,
                "parameters": {"max_tokens": 99},
                "messages": [{"role": "user", "content": "{{factors.style}}"}],
            },
            dataset={"items": [{"input": n, "expected": f"[image/png {digest[:8]}]"} for n in range(4)], "splits": "none"},
            scorers=[{"kind": "exact"}],
            objective={"metric": "exact"},
            optimizer={"name": "search"},
            stop={"max_rounds": 2},
        )
        taken = with_factor_files(OptimizationRequest.model_validate(written), LocalFolder(tmp_path))
        await keep_factor_files(engines.database, "styles", taken.files)
        handle = await engines.start(taken.request.model_dump(mode="json", by_alias=True), run_id="styles")
        result = await handle.result()
    assert (result["baseline_score"], result["best_score"]) == (0.0, 1.0)
    assert result["best_configuration"]["style"]["$file"] == f"sha256:{digest}"
    history = [event.SerializeToString() async for event in handle.fetch_history_events()]
    assert b64encode(png(52)) not in b"".join(history)

    page = await open_report("styles", f"candidates/{await winner(http, 'styles')}", in_full=True)
    for name in ("style of the baseline", "style of this candidate"):
        picture = page.get_by_role("img", name=name, exact=True)
        await expect(picture).to_be_visible()
        assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 8
    assert (await http.get(f"/files/{digest}")).content == png(52)


async def test_what_a_report_leaves_out_is_said(open_report: OpensReport, words: str) -> None:
    page = await open_report(words, "candidates/r9-none")
    await expect(page.get_by_text("It was not measured yet.")).to_be_visible()
    await expect(page.get_by_text("This report does not have that.")).to_be_visible()


async def test_a_run_that_goes_on_is_shown_as_it_was_and_cannot_be_steered(open_report: OpensReport, words: str) -> None:
    page = await open_report(words, goes_on=True)
    await expect(page.locator(".status")).to_have_text("running")
    await expect(page.locator(".connection")).to_contain_text("Report of ")
    for name in ("Pause", "Stop early", "Cancel", "Adjust…", "Try now"):
        assert await page.get_by_role("button", name=name).filter(visible=True).count() == 0


async def test_a_run_without_any_score_can_be_opened(engines: Engines, open_report: OpensReport) -> None:
    with pytest.raises(WorkflowFailureError):
        await engines.run(hill_spec(name="scoreless", target={"kind": "python", "ref": "plugged:raises"}), run_id="scoreless")
    page = await open_report("scoreless")
    await expect(page.locator(".of-figures")).to_contain_text("no answer to")
    for empty in ("scores", "changes", "tried"):
        await expect(page.locator(f".of-{empty}")).to_be_hidden()


async def test_the_texts_of_a_run_stay_data_in_the_file(engines: Engines, words: str) -> None:
    document = await report_of(engines, words, in_full=True)
    assert HOSTILE not in document
    assert document.lower().count("</script") == 2
    assert document.count("<b onclick") == 0
