"""`evolve` in whole runs: failures of training samples lead to mutations, and only what is significantly better is kept."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.prompts import open_store
from ratchet.prompts.policy import policy_template, recent_mutations
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.optimizer_specs import EVOLVING, RISK
from tests.support.run_views import failure_of


async def _rows(engines: Engines, run_id: str, query: str) -> list[Any]:
    async with engines.database.connection() as connection:
        return list(await connection.fetch(query, run_id))


async def test_failures_lead_to_a_better_version_step_by_step_and_it_is_confirmed_once(engines: Engines) -> None:
    result = await engines.run(EVOLVING)
    assert (result["status"], result["stop_reason"]) == ("completed", "convergence")
    assert result["message"].startswith("No mutation was significantly better than r2-")
    assert result["best_configuration"] == {"health_threshold": 0.5, "risk_tolerance": 0.5, "unit": "points"}
    assert result["rounds"] == 3
    confirmation = result["confirmation"]
    assert confirmation["judged"]["verdict"] == "better"
    assert confirmation["winner_score"] > confirmation["baseline_score"]
    kept = await _rows(
        engines,
        result["optimization_id"],
        "SELECT c.rationale, c.extra ->> 'because' AS because, t.judged ->> 'verdict' AS verdict"
        " FROM trials t JOIN candidates c USING (run_id, candidate_id)"
        " WHERE t.run_id = $1 AND t.purpose = 'candidate' AND (t.judged ->> 'kept')::bool ORDER BY t.round",
    )
    assert [tuple(row) for row in kept] == [
        ("Adjusted health_threshold: 0.300 → 0.400 (increase, Δ=0.100)", "injury 6 > 2", "better"),
        ("Adjusted health_threshold: 0.400 → 0.500 (increase, Δ=0.100)", "injury 4 > 2", "better"),
    ]


async def test_every_version_is_explored_once_on_the_training_samples_and_that_is_paid_for(engines: Engines) -> None:
    result = await engines.run({**EVOLVING, "name": "explored"})
    trials = await _rows(
        engines,
        result["optimization_id"],
        "SELECT purpose, split, total, round FROM trials WHERE run_id = $1 ORDER BY started_at, trial_id",
    )
    explored = [(row["split"], row["total"]) for row in trials if row["purpose"] == "exploration"]
    assert explored == [("train", 15)] * 3
    assert {(row["split"], row["total"]) for row in trials if row["purpose"] == "candidate"} == {("validation", 30)}
    paid = 15 * 3 + 30 * (1 + result["counts"]["completed"] - 1) + 2 * 15
    assert result["spend"]["samples"] == paid
    assert result["spend"]["trials"] == len(trials)
    assert result["counts"]["completed"] == sum(1 for row in trials if row["purpose"] in ("baseline", "candidate"))


async def test_what_only_looks_better_is_not_kept(engines: Engines) -> None:
    """A step that helps, but so little that ten samples cannot tell it from luck."""
    narrow = {
        **EVOLVING,
        "name": "narrow",
        "judgement": {"alpha": 0.0125},
        "dataset": {**EVOLVING["dataset"], "items": EVOLVING["dataset"]["items"][:20]},
    }
    timid = {"kind": "threshold", "factor": "health_threshold", "delta": 0.01}
    narrow["optimizer"] = {**EVOLVING["optimizer"], "table": [{"failure": "injury", "more_than": 0, "mutation": timid}]}
    result = await engines.run(narrow)
    assert result["stop_reason"] == "convergence"
    assert result["best_score"] == result["baseline_score"]
    assert result["changes"] == {}
    [row] = await _rows(
        engines,
        result["optimization_id"],
        "SELECT t.score, t.judged ->> 'explanation' AS told FROM trials t JOIN candidates c USING (run_id, candidate_id)"
        " WHERE t.run_id = $1 AND c.extra ->> 'because' LIKE 'injury%'",
    )
    assert row["score"] > result["baseline_score"]
    assert "judgement.accept asks for the verdict better" in row["told"]


async def test_a_mutation_that_changes_nothing_is_a_rejection_and_costs_nothing(engines: Engines) -> None:
    at_the_end = {**EVOLVING, "name": "careful"}
    at_the_end["configuration"] = {**EVOLVING["configuration"], "risk_tolerance": {"value": 1.0, **RISK}}
    result = await engines.run(at_the_end)
    rejections = await _rows(
        engines, result["optimization_id"], "SELECT DISTINCT reason_code FROM rejections WHERE run_id = $1 AND round = 1"
    )
    assert [row["reason_code"] for row in rejections] == ["no_change"]


async def test_the_same_spec_evolves_the_same_way_and_continue_as_new_changes_nothing(engines: Engines) -> None:
    whole = await engines.run({**EVOLVING, "name": "whole-evolution"})
    cut = await engines.run({**EVOLVING, "name": "cut-evolution", "execution": {"max_rounds_per_execution": 1}})
    for same in ("best_candidate_id", "best_config_hash", "counts", "spend", "rounds", "message"):
        assert cut[same] == whole[same]


@pytest.mark.parametrize(
    ("classifier", "told"),
    [
        ("failures_that_raise", "plug-in plugged:failures_that_raise raised RuntimeError: no idea what went wrong"),
        (
            "failures_that_are_no_counts",
            "counted_failures: failure classifier plugged:failures_that_are_no_counts returned a list; "
            "return a mapping of counts by kind of failure",
        ),
    ],
)
async def test_a_classifier_that_fails_ends_the_run_with_its_reason_and_keeps_the_best(
    engines: Engines, classifier: str, told: str
) -> None:
    broken = {**EVOLVING, "name": "unclassified", "optimizer": {**EVOLVING["optimizer"], "classifier": f"plugged:{classifier}"}}
    result = await engines.run(broken)
    assert (result["status"], result["stop_reason"]) == ("completed", "proposal_failure")
    assert told in result["message"]
    assert result["best_score"] == result["baseline_score"]


async def test_too_few_samples_are_refused_before_anything_is_paid(engines: Engines) -> None:
    few = {**EVOLVING, "name": "few", "dataset": {**EVOLVING["dataset"], "items": EVOLVING["dataset"]["items"][:8]}}
    failure = await failure_of(await engines.start(few))
    assert failure.type == "InvalidRequest"
    assert "dataset.splits.validation: has 4 samples, with which no candidate can ever pass" in failure.message


async def test_a_budget_of_samples_counts_explorations(engines: Engines) -> None:
    result = await engines.run({**EVOLVING, "name": "frugal", "budget": {"samples": 200}})
    assert result["stop_reason"] == "sample_budget"
    assert result["spend"]["samples"] <= 200


async def test_the_policy_of_a_stored_prompt_evolves_and_its_new_version_is_named_after_mutations(
    engines: Engines,
) -> None:
    prompt = policy_template(
        "games/dungeon",
        task="You lead a party through a dungeon.",
        rules=["Never waste a potion"],
        skills={"explore": "Look around", "flee": "Run"},
        parameters={
            "health_threshold": {"type": "number", "value": 0.3, "min": 0, "max": 1},
            "risk_tolerance": {"type": "number", "value": 0.5, "min": 0, "max": 1},
            "skill_priority": {"type": "order", "value": ["explore", "flee"]},
        },
    )
    stored = {name: part for name, part in EVOLVING.items() if name != "configuration"}
    target = {"kind": "python", "ref": "plugged:dungeon_by_its_prompt"}
    spec = {**stored, "name": "policy", "prompt": prompt.name, "target": target, "release": {"mode": "automatic"}}
    async with await open_store(engines.addresses.database_url) as store:
        await store.seed(prompt)
        result = await engines.run(spec)
        released = (await store.resolve(prompt.name, tag="stable")).state
        steps = await recent_mutations(store, released)
    assert result["changes"] == {"param:health_threshold": {"before": 0.3, "after": 0.5}}
    assert released.change.why == (
        "Adjusted health_threshold: 0.300 → 0.400 (increase, Δ=0.100); "
        "Adjusted health_threshold: 0.400 → 0.500 (increase, Δ=0.100)"
    )
    assert steps == [f"v1.0.0 → v1.0.1: {released.change.why}"]
    [logged] = await StoreReader(engines.database).releases.listed(prompt=prompt.name)
    assert (logged.status, logged.version, logged.reason) == ("released", "1.0.1", released.change.why)
    [row] = await _rows(
        engines,
        result["optimization_id"],
        "SELECT output ->> 'prompt' AS prompt FROM outcomes o JOIN runs r USING (run_id)"
        " WHERE run_id = $1 AND o.config_hash = (r.result ->> 'best_config_hash') LIMIT 1",
    )
    assert '"health_threshold": 0.5,' in row["prompt"]
    assert row["prompt"].startswith("TASK DEFINITION\nYou lead a party through a dungeon.")
