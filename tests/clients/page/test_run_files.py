"""A run's spec as it was written, and the run as files: copied and downloaded from the page."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
from playwright.async_api import Page, expect

from ratchet._formats.yaml_text import yaml_text
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.html_reports import HtmlReport
from tests.support.page_browser import Opens, keep_picture
from tests.support.page_edges import BEYOND
from tests.support.word_runs import word_spec

LARGEST_FIRST_LOOK = 250 * 1024
"""Bytes of modules and styles, as they are: nothing is built or packed."""


async def test_the_spec_is_copied_and_the_report_downloaded(
    open_page: Opens, words: str, http: httpx.AsyncClient, accessible: Callable[[Page], Awaitable[list[str]]], tmp_path: Path
) -> None:
    page = await open_page(f"runs/{words}/spec", width=1024)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    spec = (await http.get(f"/optimizations/{words}/spec")).json()["text"]
    await expect(page.get_by_label("Spec as YAML")).to_contain_text('kind: "python"')
    await page.get_by_role("button", name="Copy the spec").click()
    assert await page.evaluate("navigator.clipboard.readText()") == spec
    await keep_picture(page, "spec-1024")
    assert await accessible(page) == []
    async with page.expect_download() as kept:
        await page.get_by_role("link", name="Report, one HTML file").click()
    assert (await kept.value).suggested_filename == f"report-{words}.html"
    report = HtmlReport((await (await kept.value).path()).read_text())
    assert (report.data["run_id"], f"/optimizations/{words}" in report.data["answers"]) == (words, True)

    answers = {
        form: await http.get(f"/optimizations/{words}/report", params={"format": form}) for form in ("json", "csv", "yaml")
    }
    assert all("attachment" in one.headers["content-disposition"] for one in answers.values())
    assert json.loads(answers["json"].text)["run_id"] == words and words in answers["yaml"].text
    assert {row["optimization_id"] for row in csv.DictReader(io.StringIO(answers["csv"].text))} == {words}
    markdown = (await http.get(f"/optimizations/{words}/report", params={"format": "markdown"})).text
    assert markdown.startswith("## ") and words in markdown
    assert (await http.get("/optimizations/nowhere/report")).status_code == 404


async def test_the_spec_is_shown_as_its_author_wrote_it_and_as_it_was_run(
    open_page: Opens, engines: Engines, http: httpx.AsyncClient
) -> None:
    written = "# <b>why</b>\nname: commented\n"
    handle = await engines.client.start_workflow(
        "OptimizationWorkflow",
        word_spec(stop={"max_rounds": 1}),
        id="commented",
        task_queue="optimization",
        memo={"ratchet": {"written": written}},
    )
    await handle.result()
    page = await open_page("runs/commented/spec")
    await expect(page.get_by_label("Spec as its author wrote it")).to_have_text(written)
    await page.get_by_text("As it was run").click()
    await expect(page.get_by_label("Spec as it was run")).to_contain_text('kind: "python"')
    report = HtmlReport((await http.get("/optimizations/commented/report")).text)
    assert report.data["answers"]["/optimizations/commented/spec"]["written"] == written


async def test_several_runs_are_kept_as_one_file_and_as_a_folder_from_the_list_and_from_a_comparison(
    open_page: Opens,
    words: str,
    other_words: str,
    http: httpx.AsyncClient,
    accessible: Callable[[Page], Awaitable[list[str]]],
) -> None:
    page = await open_page("runs?search=words", width=390, height=844)
    await page.get_by_role("button", name="Report…").click()
    dialog = page.get_by_role("dialog", name="A report to send")
    boxes = dialog.get_by_role("group", name="Runs").get_by_role("checkbox")
    await expect(boxes.first).to_be_checked()
    for box in await boxes.all():
        await box.set_checked(False)
    await dialog.get_by_role("button", name="Download").click()
    await expect(dialog.get_by_role("alert")).to_have_text("Tick a run.")
    for run_id in (words, other_words):
        await dialog.locator(f"input[value={run_id}]").check()
    await expect(dialog.get_by_role("status")).to_contain_text("2 of")
    await expect(dialog.get_by_role("alert")).to_have_count(0)
    await dialog.get_by_role("radio", name="A ZIP").check()
    await keep_picture(page, "report-question-390")
    assert await accessible(page) == []
    assert await page.evaluate(BEYOND) == []
    async with page.expect_download() as kept:
        await dialog.get_by_role("button", name="Download").click()
    await expect(dialog).to_have_count(0)
    download = await kept.value
    assert download.suggested_filename.endswith("-and-1-more.zip")
    with zipfile.ZipFile(await download.path()) as packed:
        assert sorted(packed.namelist()) == ["index.html", f"run-{other_words}.html", f"run-{words}.html"]
        [pair] = HtmlReport(packed.read("index.html").decode()).data["pairs"]
    assert set(pair["of"]) == {words, other_words}

    page = await open_page(f"runs/{words}/compare?with={other_words}")
    await page.get_by_role("button", name="Report…").click()
    assert await accessible(page) == []
    async with page.expect_download() as kept:
        await page.get_by_role("button", name="Download").click()
    assert (await kept.value).suggested_filename == f"report-{other_words}-and-1-more.html"
    data = HtmlReport((await (await kept.value).path()).read_text()).data
    assert [pair["of"] for pair in data["pairs"]] == [[other_words, words]]
    spec = (await http.get(f"/optimizations/{words}/spec")).json()
    assert data["answers"][f"/optimizations/{words}/spec"] == spec
    assert (await http.get("/report", params={"of": "nowhere"})).status_code == 404
    assert (await http.get("/report", params=[("of", f"run-{n}") for n in range(21)])).status_code == 422


async def test_again_leads_to_the_same_samples_or_says_that_it_does_not(
    open_page: Opens, engines: Engines, http: httpx.AsyncClient
) -> None:
    samples = [{"id": f"s{number}", "input": number} for number in range(4)]
    first = (await http.post("/datasets", json={"name": "moving", "items": samples})).json()
    for name, dataset, written in (
        ("by-path", {"id": first["dataset_id"]}, {"path": "beside/the/spec.jsonl"}),
        ("by-name", {"name": "moving"}, {"name": "moving"}),
    ):
        spec = hill_spec(name=name, stop={"max_rounds": 1}, dataset=dataset)
        text = f"# why?\n{yaml_text(spec | {'dataset': written})}"
        handle = await engines.client.start_workflow(
            "OptimizationWorkflow", spec, id=name, task_queue="optimization", memo={"ratchet": {"written": text}}
        )
        await handle.result()
    page = await open_page("new?again=by-name")
    editor, notices = page.get_by_label("Spec", exact=True), page.locator(".notices")
    await expect(editor).to_have_value(re.compile("the spec of by-name\n\n# why[?]"))
    await expect(page.locator(".check-state")).to_contain_text("Ready to start")
    await expect(notices).to_be_empty()
    await http.post("/datasets", json={"name": "moving", "items": samples[1:]})
    await page.reload()
    await expect(notices).to_contain_text("It leads to other samples now than by-name had")
    await expect(notices).to_contain_text(first["dataset_id"])
    await expect(editor).to_have_value(re.compile("# why[?]"))
    await page.evaluate("location.hash = '#/new?again=by-path'")
    await expect(notices).to_contain_text("names files that this server may not read")
    await expect(editor).to_have_value(re.compile(f"the spec of by-path\n\n[^#]*{first['dataset_id']}"))
    await expect(page.locator(".check-state")).to_contain_text("Ready to start")


async def test_what_a_first_look_at_a_run_loads_is_small(open_page: Opens, words: str) -> None:
    page = await open_page(f"runs/{words}")
    await expect(page.get_by_role("heading", name="Score over rounds")).to_be_visible()
    entries = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/page/'))"
    assert await page.evaluate(f"{entries}.length") > 30
    size = await page.evaluate(f"{entries}.reduce((sum, one) => sum + one.decodedBodySize, 0)")
    assert 100_000 < size < LARGEST_FIRST_LOOK
