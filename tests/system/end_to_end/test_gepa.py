"""`reflect` and `gepa` in whole runs on the real engines: parts, leaders, lineage, and models that rewrite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clients import demo
from clients.demo.model_server import simulated_model
from clients.reports.history.entries import get_entries
from clients.reports.load import facts_of
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.optimizer_specs import PUBLISHED, REFLECTING
from tests.support.plugins.ruled import OPENING, TONE, rules_of

TWO_TEXTS = {"system": {"value": OPENING, "change": "text"}, "tone": {"value": TONE, "change": "text"}}


async def _rows(engines: Engines, run_id: str, query: str) -> list[Any]:
    async with engines.database.connection() as connection:
        return [tuple(row) for row in await connection.fetch(query, run_id)]


@pytest.mark.parametrize("optimizer", [REFLECTING["optimizer"], PUBLISHED], ids=["reflect", "gepa"])
async def test_a_run_learns_within_its_budget_and_tells_where_candidates_come_from(
    engines: Engines, optimizer: dict[str, Any]
) -> None:
    result = await engines.run({**REFLECTING, "optimizer": optimizer})
    assert result["status"] == "completed"
    assert result["best_score"] > result["baseline_score"]
    assert rules_of([result["best_configuration"]["prompt"]])
    run_id = result["optimization_id"]
    [(calls,)] = await _rows(engines, run_id, "SELECT count(*) FROM outcomes WHERE run_id = $1")
    assert calls == result["spend"]["samples"] <= 300
    candidates = await _rows(
        engines,
        run_id,
        "SELECT candidate_id, parent_candidate_ids, extra ->> 'origin' FROM candidates WHERE run_id = $1 AND round > 0",
    )
    known = {name for name, *_ in await _rows(engines, run_id, "SELECT candidate_id FROM candidates WHERE run_id = $1")}
    for _, parents, origin in candidates:
        assert parents
        assert set(parents) <= known
        assert origin in {"reflection", "recombination"}
    in_full = await _rows(
        engines,
        run_id,
        "SELECT round FROM trials WHERE run_id = $1 AND purpose = 'candidate' AND status = 'completed' ORDER BY round",
    )
    assert [number for (number,) in in_full] == [*range(1, len(in_full) + 1)], "one in full ends a round"
    cut_off = result["rounds"] - len(in_full)
    assert cut_off == 0 or (cut_off, result["stop_reason"]) == (1, "sample_budget"), "but the last may end with the budget"
    assert len(candidates) > result["rounds"]
    report = await StoreReader(engines.database).runs.report(run_id)
    assert report is not None
    entries = get_entries(facts_of(report))
    assert sum(len(entry["trials"]) for entry in entries) == result["spend"]["trials"], "trials of parts are trials"
    noted = [entry["extra"] for entry in entries[1:] if "selection_meta" in entry["extra"]]
    assert noted
    assert all(extra["selection_meta"]["survivors"] for extra in noted)
    assert all(member.keys() >= {"id", "metrics"} for extra in noted for member in extra["pareto_front"])


async def test_texts_of_two_candidates_are_merged_where_the_published_algorithm_does_so(engines: Engines) -> None:
    merging = {**PUBLISHED, "merges": 5, "candidates_per_round": 2}
    spec = {**REFLECTING, "configuration": TWO_TEXTS, "optimizer": merging, "budget": {"samples": 900}}
    result = await engines.run(spec)
    assert result["status"] == "completed"
    merged = await _rows(
        engines,
        result["optimization_id"],
        "SELECT parent_candidate_ids FROM candidates WHERE run_id = $1 AND extra ->> 'origin' = 'merge'",
    )
    assert merged
    assert all(len(parents) == 2 for (parents,) in merged)


async def test_a_run_goes_on_over_continue_as_new_as_if_nothing_had_been(engines: Engines) -> None:
    once = await engines.run({**REFLECTING, "reuse": "never"})
    parted = await engines.run({**REFLECTING, "reuse": "never", "execution": {"max_rounds_per_execution": 2}})
    for name in ("best_candidate_id", "best_score", "rounds", "spend", "best_configuration"):
        assert parted[name] == once[name]


async def test_a_model_rewrites_a_prompt_and_an_outage_of_it_is_told(engines: Engines) -> None:
    lines = (Path(demo.__file__).parent / "example" / "tickets.jsonl").read_text().splitlines()
    tickets = [json.loads(line) for line in lines]
    async with simulated_model() as server:
        spec = {
            "name": "triage-by-reflection",
            "configuration": {
                "system_prompt": {"value": "You are a support assistant. Sort the ticket.", "change": "text"},
                "model": "simulated-triage-small",
                "seed": 7,
            },
            "target": {
                "kind": "chat",
                "base_url": server.base_url,
                "messages": [
                    {"role": "system", "content": "{{factors.system_prompt}}"},
                    {"role": "user", "content": "{{input.ticket}}"},
                ],
            },
            "dataset": {
                "items": tickets,
                "splits": {"train": 0.3, "validation": 0.5, "test": 0.2},
            },
            "scorers": [{"kind": "exact", "name": "label"}],
            "objective": "label",
            "optimizer": {
                "name": "reflect",
                "proposer": {"kind": "model", "model": "simulated-reflector", "base_url": server.base_url},
            },
            "budget": {"samples": 600},
            "seed": 7,
        }
        result = await engines.run(spec)
        assert result["status"] == "completed"
        assert result["best_score"] > result["baseline_score"] + 0.2
        nobody = {"kind": "model", "model": "no-such-model", "base_url": server.base_url}
        silent = await engines.run({**spec, "name": "silent", "optimizer": {"name": "reflect", "proposer": nobody}})
    assert (silent["stop_reason"], silent["best_candidate_id"][:3]) == ("proposal_failure", "r0-")
    assert "no-such-model" in silent["message"]
