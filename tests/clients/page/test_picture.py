"""Pictures of the page: the one in the README by `make picture`, and every main screen by `make pictures`, from real runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import yaml
from playwright.async_api import Page, Request, expect
from temporalio.client import WorkflowFailureError

from clients.demo.model_server import SimulatedModel, simulated_model
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.page_browser import ARTIFACTS, Opens
from tests.support.release_runs import tried_prompt

EXAMPLE = files("clients.demo") / "example"


@pytest.fixture
async def model() -> AsyncIterator[SimulatedModel]:
    async with simulated_model() as running:
        yield running


def example(model: SimulatedModel) -> dict[str, Any]:
    """The demo's spec, with four candidates a round, against this simulated model."""
    spec: dict[str, Any] = yaml.safe_load((EXAMPLE / "spec.yaml").read_text(encoding="utf-8"))
    lines = (EXAMPLE / "tickets.jsonl").read_text(encoding="utf-8").splitlines()
    spec["dataset"] = {"items": [yaml.safe_load(line) for line in lines if line.strip()], "splits": spec["dataset"]["splits"]}
    spec["target"]["base_url"] = spec["optimizer"]["proposer"]["base_url"] = model.base_url
    spec["optimizer"]["candidates_per_round"] = 4
    spec["stop"] = {"max_rounds": 12, "no_improvement": 6, "score": 0.99}
    return spec


async def test_the_demo_is_shown_with_its_scores_its_verdict_and_what_the_best_changes(
    open_page: Opens, engines: Engines, model: SimulatedModel
) -> None:
    await engines.run(example(model), run_id="support-triage-de9d6793b3")
    page = await open_page("runs/support-triage-de9d6793b3", width=1280, height=940)
    await expect(page.locator(".of-scores .legend")).to_contain_text("95% interval over samples")
    await expect(page.locator(".of-verdicts")).to_contain_text("on 24 held-back samples")
    await expect(page.locator(".of-changes")).to_contain_text("system_prompt")
    await expect(page.locator(".of-decisions li").first).to_be_visible()
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=ARTIFACTS / "demo.png", animations="disabled")
    if wanted := os.environ.get("RATCHET_PICTURE"):
        shutil.copy(ARTIFACTS / "demo.png", wanted)


DEMO, SEARCHED, BROKEN = "support-triage-de9d6793b3", "oven-search", "broken-baseline"
SCREENS = {
    "runs": "",
    "new-run": "new",
    "again": f"new?again={DEMO}",
    "overview": f"runs/{DEMO}",
    "search": f"runs/{SEARCHED}",
    "failed-run": f"runs/{BROKEN}",
    "trials": f"runs/{DEMO}/trials",
    "matrix": f"runs/{DEMO}/matrix",
    "matrix-runs": f"runs/{DEMO}/matrix?runs=again,again/baseline&candidates=BEST",
    "lineage": f"runs/{DEMO}/lineage",
    "proposals": f"runs/{DEMO}/proposals?round=2",
    "rejections": f"runs/{DEMO}/rejections",
    "budget": f"runs/{DEMO}/budget",
    "compare": f"runs/{DEMO}/compare?with=again",
    "log": f"runs/{DEMO}/log",
    "spec": f"runs/{DEMO}/spec",
    "candidate": f"runs/{DEMO}/candidates/BEST",
    "samples": f"runs/{DEMO}/candidates/BEST?tab=samples&sample=0",
    "judgement": f"runs/{DEMO}/candidates/BEST?tab=judgement",
    "labels": f"runs/{DEMO}/labels",
    "question": f"runs/{DEMO}/labels/QUESTION",
    "datasets": "datasets",
    "prompts": "prompts",
    "prompt": "prompts/PROMPT?tab=versions",
}
SHOWN = {
    *("runs", "again", "overview", "search", "matrix-runs", "question", "proposals", "samples", "lineage", "compare", "spec"),
    *("datasets", "prompt"),
}
KEPT_IN_DOCS = {(1024, "light"): {name: name for name in SHOWN}, (390, "dark"): {"overview": "overview-phone"}}
"""What the pictures of a size are called that docs/page.md has."""
SIZES = ((1024, "light"), (390, "dark"), (1440, "light"), (390, "light"), (1024, "dark"), (1440, "dark"))


def requests_of(page: Page) -> set[Request]:
    """What the page waits for; event streams never end."""
    asked: set[Request] = set()
    page.on("request", lambda request: None if request.url.endswith("/events") else asked.add(request))
    page.on("requestfinished", lambda request: asked.discard(request))
    page.on("requestfailed", lambda request: asked.discard(request))
    return asked


async def until_read(page: Page, asked: set[Request]) -> None:
    """Until everything that was asked for is there, and what that leads to."""
    quiet = 0
    while quiet < 3:
        await page.evaluate("new Promise(done => setTimeout(() => requestAnimationFrame(done), 100))")
        quiet = 0 if asked else quiet + 1


@pytest.mark.timeout(1800)
@pytest.mark.skipif("RATCHET_PICTURES" not in os.environ, reason="it takes minutes: `make pictures` asks for it")
async def test_every_screen_at_every_size_fits_and_is_accessible(
    open_page: Opens,
    engines: Engines,
    http: httpx.AsyncClient,
    model: SimulatedModel,
    accessible: Callable[[Page], Awaitable[list[str]]],
) -> None:
    best = str((await engines.run(example(model), run_id=DEMO))["best_candidate_id"])
    await engines.run({**example(model), "stop": {"max_rounds": 2}}, run_id="again")
    numbers: dict[str, Any] = {
        name: {"value": 20 + n, "change": "structured", "type": "integer", "min": 0, "max": 100} for n, name in enumerate("xyz")
    }
    kind = {"value": "metre", "change": "structured", "type": "choice", "choices": ["metre", "yard", "foot"]}
    search = hill_spec(
        configuration={**numbers, "unit": kind}, optimizer={"name": "search"}, stop={"max_rounds": 20, "no_improvement": 0}
    )
    await engines.run(search, run_id=SEARCHED)
    with pytest.raises(WorkflowFailureError):
        await engines.run(hill_spec(target={"kind": "python", "ref": "plugged:raises"}), run_id=BROKEN)
    to_people = {"kind": "right_or_wrong", "words": "Is this the team that should have it?", "seed": 3, "count": 12}
    question = (await http.post(f"/optimizations/{DEMO}/questions", json=to_people)).raise_for_status().json()
    async with tried_prompt(engines, hill_spec(name="summit")) as prompt:
        await prompt.released(system="Climb higher.")
    docs = Path(os.environ["RATCHET_PICTURES"])
    folder = ARTIFACTS / "screens"
    folder.mkdir(parents=True, exist_ok=True)
    docs.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    for width, scheme in SIZES:
        page = await open_page("", width=width, scheme=scheme, height=900)
        asked = requests_of(page)
        for name, place in SCREENS.items():
            at = place.replace("BEST", best).replace("PROMPT", quote(prompt.name, safe=""))
            at = at.replace("QUESTION", str(question["question_id"]))
            await page.goto(f"{page.url.partition('#')[0]}#/{at}")
            await expect(page.locator("main").get_by_role("heading").first).to_be_attached()
            await expect(page.locator(".skeleton, [aria-busy=true]")).to_have_count(0)
            await until_read(page, asked)
            await page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", animations="disabled", full_page=True)
            if kept := KEPT_IN_DOCS.get((width, scheme), {}).get(name):
                await page.screenshot(path=docs / f"{kept}.jpg", type="jpeg", quality=55, animations="disabled")
            if not await page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
                wrong.append(f"{name} at {width}: wider than the screen")
            if (width, scheme) == (1440, "light"):
                wrong += [f"{name}: {found}" for found in await accessible(page)]
    assert wrong == []
