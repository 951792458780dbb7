"""The picture in the README: the example of `make demo`, really run, as the page shows it. `make picture` takes it anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import pytest
import yaml
from playwright.async_api import expect

from clients.demo.model_server import SimulatedModel, simulated_model
from tests.support.engines import Engines
from tests.support.page_browser import ARTIFACTS, Opens

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
