"""Endpoints that fail now and then change no score; one that fails for good ends its trial early, and says what it met."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from activities.settings import HTTP_URLS
from clients.demo.model_server import SimulatedModel, simulated_model
from clients.reports.history.entries import report_json
from clients.reports.history.write import history_of
from clients.reports.html import html
from clients.reports.load import facts_of
from clients.reports.markdown import markdown
from clients.reports.text.boxes import Verbosity, box
from clients.reports.text.summary import status_text
from store.read.reader import StoreReader
from store.read.rows.report_rows import RunReport
from tests.support.allowed import allow
from tests.support.engines import Engines
from tests.support.html_reports import HtmlReport
from tests.support.impatient_worker import QUICK, impatient_worker
from tests.support.rewriting_runs import TICKETS, TRIAGE

PROMPTS = (
    "Sort the ticket.",
    "Sort the ticket into billing, bug, outage, account, feature_request, security, shipping or other.",
    "Answer with one label and nothing else: billing, bug, outage, account, feature_request, security, shipping or other.",
)
FAULTS: tuple[dict[str, Any], ...] = (
    {"status": 429},
    {"status": 500},
    {"stall": True},
    {"status": 502},
    {"disconnect": True},
)
"""Together they hit the share of calls that a test names."""


@pytest_asyncio.fixture(scope="module")
async def queue(engines: Engines) -> AsyncIterator[str]:
    async with impatient_worker(engines, "bad-endpoints-evaluation") as task_queue:
        yield task_queue


def tickets(count: int) -> list[dict[str, Any]]:
    """The example's tickets, over and over, each with a number of its own."""
    stored = [json.loads(line) for line in TICKETS.read_text(encoding="utf-8").splitlines()]
    return [
        {
            "id": f"s{n}",
            "input": {"ticket": f"{stored[n % len(stored)]['input']['ticket']} Case {n}:"},
            "expected": stored[n % len(stored)]["expected"],
        }
        for n in range(count)
    ]


def chat(server: SimulatedModel) -> dict[str, Any]:
    messages = [{"role": "system", "content": "{{factors.prompt}}"}, {"role": "user", "content": "{{input.ticket}}"}]
    return {
        "kind": "chat",
        "model": TRIAGE,
        "base_url": server.base_url,
        "messages": messages,
        "parameters": {"seed": 5, "temperature": "{{factors.temperature}}"},
    }


def http(server: SimulatedModel) -> dict[str, Any]:
    """The same model, as any JSON endpoint."""
    asked = chat(server)
    allow(HTTP_URLS, server.base_url)
    return {
        "kind": "http",
        "url": f"{server.base_url}/chat/completions",
        "body": {"model": TRIAGE, "messages": asked["messages"], **asked["parameters"]},
        "response": {"output": "choices.0.message.content", "tokens": "usage.total_tokens"},
    }


def spec(target: dict[str, Any], queue: str, samples: int, **more: Any) -> dict[str, Any]:
    return {
        "name": "bad-endpoints",
        "configuration": {
            "prompt": {"value": PROMPTS[0], "change": "structured", "type": "choice", "choices": list(PROMPTS)},
            "temperature": 0.2,
        },
        "target": target,
        "dataset": {"items": tickets(samples), "splits": "none"},
        "scorers": [{"kind": "exact", "name": "label"}],
        "objective": {"metric": "label"},
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
        "stop": {"max_rounds": 2, "no_improvement": 0},
        "execution": {"evaluation_task_queue": queue, "concurrent_samples": 16, "sample_timeout": "1s"},
        "seed": 7,
        **more,
    }


async def report_of(engines: Engines, run_id: str) -> RunReport:
    report = await StoreReader(engines.database).runs.report(run_id)
    assert report is not None
    return report


async def failure_of(engines: Engines, sent: dict[str, Any]) -> tuple[ApplicationError, RunReport]:
    handle = await engines.start(sent)
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    return failed.value.cause, await report_of(engines, handle.id)


@dataclass(frozen=True)
class Measured:
    """What a run found out, without what differs from run to run."""

    trials: list[tuple[str, float | None, float | None, tuple[float | None, ...] | None]]
    errors: list[dict[str, int]]
    best: dict[str, Any]
    failed_calls: int


async def measured(engines: Engines, queue: str, kind: Callable[[SimulatedModel], dict[str, Any]], share: float) -> Measured:
    faults = [{**fault, "probability": share / len(FAULTS), "seed": n} for n, fault in enumerate(FAULTS)] if share else []
    async with simulated_model(rules=[*faults]) as server:
        result = await engines.run(spec(kind(server), queue, 50))
        failed_calls = server.calls - server.stats()["by_status"].get("200", 0)
    trials = (await report_of(engines, result["optimization_id"])).trials
    return Measured(
        [(trial.config_hash, trial.score, trial.coverage, trial.sample_means) for trial in trials],
        [trial.summary.errors for trial in trials],
        result["best_configuration"],
        failed_calls,
    )


@pytest.mark.parametrize("kind", [chat, http])
async def test_calls_that_fail_now_and_then_change_no_score(
    engines: Engines, queue: str, kind: Callable[[SimulatedModel], dict[str, Any]]
) -> None:
    well, some, many = await asyncio.gather(*(measured(engines, queue, kind, share) for share in (0.0, 0.02, 0.2)))
    assert len(well.trials) == 3 and len({score for _, score, _, _ in well.trials}) > 1
    assert well.failed_calls == 0 < many.failed_calls
    assert well.trials == some.trials == many.trials
    assert well.best == some.best == many.best
    assert well.errors == many.errors == [{}, {}, {}]


@pytest.mark.parametrize("kind", [chat, http])
async def test_a_target_that_is_down_fails_the_baseline_early_and_says_what_it_met(
    engines: Engines, queue: str, kind: Callable[[SimulatedModel], dict[str, Any]]
) -> None:
    async with simulated_model(rules=[{"status": 500, "message": "under maintenance"}]) as server:
        error, report = await failure_of(engines, spec(kind(server), queue, 300))
        calls = server.calls
    assert error.type == "baseline_failed"
    for part in ("gave up on the target", "http 500 ×", "under maintenance", "0 of 300 samples have an answer, 0.0%"):
        assert part in error.message
    assert calls <= (5 + 2 * 16) * QUICK.attempts < 300 * QUICK.attempts / 2
    (baseline,) = report.trials
    assert (baseline.status, baseline.coverage) == ("failed", 0.0)
    assert baseline.summary.errors["http 500"] > 5


async def test_a_target_that_breaks_down_later_costs_the_run_three_short_trials(engines: Engines, queue: str) -> None:
    async with simulated_model(rules=[{"disconnect": True, "after": 300}]) as server:
        temperature = {"value": 0.2, "change": "structured", "type": "number", "min": 0, "max": 1}
        configuration = {"prompt": PROMPTS[0], "temperature": temperature}
        sent = spec(chat(server), queue, 300, configuration=configuration, stop={"max_rounds": 20})
        error, report = await failure_of(engines, sent)
        calls = server.calls
    assert error.type == "too_many_failures"
    assert [trial.status for trial in report.trials] == ["completed", "failed", "failed", "failed"]
    assert all("gave up on the target" in (trial.error or "") for trial in report.trials[1:])
    assert all(set(trial.summary.errors) == {"connection"} for trial in report.trials[1:])
    assert calls <= 300 + 3 * (5 + 2 * 16) * QUICK.attempts


async def test_what_went_wrong_is_counted_and_shown_everywhere(engines: Engines, queue: str) -> None:
    rules = [{"status": 500, "contains": "Case 7:"}, {"status": 422, "contains": "Case 8:"}]
    async with simulated_model(rules=[*rules, {"lie": "null_content", "contains": "Case 9:"}]) as server:
        result = await engines.run(spec(chat(server), queue, 50, stop={"max_rounds": 1}))
    errors = {"empty answer": 1, "http 422": 1, "http 500": 1}
    report = await report_of(engines, result["optimization_id"])
    assert [(trial.coverage, trial.summary.errors) for trial in report.trials] == [(0.98, errors)] * 2
    facts = facts_of(report)
    twice = {kind: 2 * count for kind, count in errors.items()}
    assert report_json(facts)["errors"] == twice
    assert [entry["trials"][0]["extra"]["errors"] for entry in report_json(facts)["rounds"]] == [errors] * 2
    assert "Errors:       empty answer × 2, http 422 × 2, http 500 × 2; coverage 98.0% at least" in status_text(
        facts, datetime.now(UTC)
    )
    assert report_json(facts)["least_coverage"] == 0.98
    told = "empty answer × 2, http 422 × 2, http 500 × 2; coverage 98.0% at least"
    for boxed in (box(facts, Verbosity.FULL), box(facts, Verbosity.SUMMARY)):
        assert f"Errors: {told}" in " ".join(boxed.replace("║", "").split())
    assert "Errors:" not in box(facts, Verbosity.MINIMAL)
    assert f"| **Errors** | {told} |" in markdown(facts)
    assert HtmlReport(html(facts, {})).figures["Errors"] == told
    assert history_of(facts).iterations[0].statistics.errors == errors
    async with engines.database.connection() as connection:
        seen = await connection.fetchval("SELECT errors FROM trial_overview WHERE run_id = $1 LIMIT 1", facts.run_id)
    assert '"http 500": 1' in seen
