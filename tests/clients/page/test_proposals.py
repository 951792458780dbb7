"""What a run did, in full, in a browser: what its proposer was asked, what was rejected, and what was sent for each answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import httpx
from playwright.async_api import Page, expect

from clients.demo.model_server import simulated_model
from clients.demo.protocol import request_key
from clients.reports.inlined_answers import inlined_answers
from tests.support.engines import Engines
from tests.support.graded_runs import RUBRIC, graded
from tests.support.page_browser import Opens, keep_picture
from tests.support.rewriting_runs import REFLECTOR, spec

RUN, JUDGED = "proposed", "judged"
SHORT = {"prompt": {"value": "Sort the ticket.", "change": "text", "max_length": 120}, "manners": "Be polite."}


async def test_a_run_tells_what_was_asked_answered_rejected_and_sent(
    engines: Engines, open_page: Opens, http: httpx.AsyncClient, accessible: Callable[[Page], Awaitable[list[str]]]
) -> None:
    async with simulated_model() as server:
        proposer = {"kind": "model", "model": REFLECTOR, "base_url": server.base_url, "repairs": 0}
        optimizer = {"name": "refine", "proposer": proposer, "candidates_per_round": 2}
        await engines.run(spec(server.base_url, configuration=SHORT, optimizer=optimizer, stop={"max_rounds": 3}), run_id=RUN)
        await engines.run(graded(server), run_id=JUDGED)
        requests = server.stats()["requests"]
    asked = (await http.get(f"/optimizations/{RUN}/proposals")).raise_for_status().json()
    kept = [place for place in asked["items"] if place["candidate_ids"]]
    out = [place for place in asked["items"] if place["rejected"]]
    assert kept and out, "the run shall have candidates that were let in, and others that were not"

    page = await open_page(f"runs/{RUN}", width=1440)
    await page.get_by_role("navigation", name="Of this run").get_by_role("link", name="Proposals").click()
    await expect(page.get_by_role("heading", name="Round 1, request 1")).to_be_visible()
    first = page.locator(".proposal").first
    await first.get_by_text("Asked: 1 message").click()
    await expect(first.get_by_label("User", exact=True)).to_contain_text("<current_value>\nSort the ticket.")
    await expect(first.get_by_label("Answered", exact=True)).to_contain_text("<new_value>")
    await keep_picture(page, "proposals")
    assert await accessible(page) == []

    await page.goto(page.url.partition("#")[0] + f"#/runs/{RUN}/rejections?at={out[0]['round']}/{out[0]['rejected'][0]}")
    rejected = page.get_by_label("The rejected proposal", exact=True)
    await expect(rejected.locator("ins").first).to_be_visible()
    wanted = "".join(out[0]["values"]["prompt"].split())
    shown = await rejected.locator(".diff ins, .diff .side-after, .diff").first.inner_text()
    assert wanted[:20] in "".join(shown.split())
    await keep_picture(page, "rejected")
    assert await accessible(page) == []

    [candidate, *_] = kept[0]["candidate_ids"]
    phone = await open_page(f"runs/{RUN}/candidates/{candidate}?tab=proposal", width=390, scheme="dark")
    await expect(phone.get_by_label("Answered", exact=True)).to_contain_text("<new_value>")
    assert await phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await keep_picture(phone, "proposal-phone")
    await phone.goto(phone.url.partition("#")[0] + f"#/runs/{RUN}/candidates/{candidate}?tab=samples&sample=0")
    await phone.get_by_text("What was sent").last.click()
    system = phone.get_by_label("System", exact=True)
    await expect(system).to_have_text(f"{kept[0]['values']['prompt']}\nBe polite.")
    await keep_picture(phone, "sent-phone")
    baseline = (await http.get(f"/optimizations/{JUDGED}")).json()["baseline_candidate_id"]
    path = f"/optimizations/{JUDGED}/trials/{baseline}/sent"
    sent = (await http.get(path, params={"sample": "s1"})).raise_for_status().json()
    assert [(one["name"], one["model"], one["exact"]) for one in sent["judges"]] == [("tone", "simulated-judge", True)]
    for one in [*sent["requests"], *sent["judges"]]:
        assert requests[request_key(one["model"], one["messages"])], "these very messages were sent"
    await phone.goto(phone.url.partition("#")[0] + f"#/runs/{JUDGED}/candidates/{baseline}?tab=samples&sample=1")
    await phone.get_by_text("What was sent").last.click()
    await expect(phone.get_by_role("heading", name="Sent to the judge of tone")).to_be_visible()
    await expect(phone.get_by_label("System", exact=True)).to_contain_text(RUBRIC)
    await keep_picture(phone, "judge-phone")
    assert await accessible(phone) == []

    answers = await inlined_answers(engines.database, RUN)
    told = json.loads(answers[f"/optimizations/{RUN}/proposals"])
    assert told["items"][0]["calls"][0]["asked"] == asked["items"][0]["calls"][0]["asked"]
    assert f"/optimizations/{RUN}/rejections/{out[0]['round']}/{out[0]['rejected'][0]}" in answers
