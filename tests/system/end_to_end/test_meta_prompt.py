"""`meta_prompt` in whole runs: better prompts from the best so far, with their lineage, paid for once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clients.demo.model_server import SimulatedModel
from clients.reports.load import facts_of
from clients.reports.text.boxes import Verbosity, box
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.rewriting_runs import CANDIDATES, ROUNDS, spec


async def _rows(engines: Engines, run_id: str, query: str) -> list[Any]:
    async with engines.database.connection() as connection:
        return list(await connection.fetch(query, run_id))


async def test_prompts_get_better_and_every_candidate_says_what_it_was_written_from(
    engines: Engines, server: SimulatedModel
) -> None:
    result = await engines.run(spec(server.base_url, name="meta-prompt"))
    run_id = result["optimization_id"]
    assert (result["rounds"], result["stop_reason"]) == (ROUNDS, "max_rounds")
    assert result["best_score"] > result["baseline_score"] + 0.1
    assert set(result["changes"]) <= {"prompt", "manners"}
    candidates = await _rows(engines, run_id, "SELECT * FROM candidates WHERE run_id = $1 AND round > 0 ORDER BY round, index")
    names = {
        row["candidate_id"] for row in await _rows(engines, run_id, "SELECT candidate_id FROM candidates WHERE run_id = $1")
    }
    assert candidates
    for row in candidates:
        extra = json.loads(row["extra"])
        assert (extra["origin"], extra["operators"]) == ("rewrite", ["meta_prompt", "model"])
        assert 1 <= len(extra["hall_of_fame_ref"]) <= 3
        assert {*extra["hall_of_fame_ref"], *row["parent_candidate_ids"]} <= names
    rounds = await _rows(engines, run_id, "SELECT extra FROM rounds WHERE run_id = $1 AND round > 0 ORDER BY round")
    halls = [json.loads(row["extra"])["selection_meta"]["hall_of_fame"] for row in rounds]
    assert [hall[0][1] for hall in halls] == sorted(hall[0][1] for hall in halls)
    assert halls[-1][0] == [result["best_candidate_id"], result["best_score"]]


async def test_every_answer_is_counted_once_and_two_texts_take_one_call(engines: Engines, server: SimulatedModel) -> None:
    result = await engines.run(spec(server.base_url, name="counted", budget={"cost": 10.0}))
    run_id = result["optimization_id"]
    answers = await _rows(engines, run_id, "SELECT round, index, tokens, cost FROM model_answers WHERE run_id = $1")
    outcomes = await _rows(engines, run_id, "SELECT tokens, cost FROM outcomes WHERE run_id = $1")
    assert server.calls == len(answers) + len(outcomes)
    assert len({(row["round"], row["index"]) for row in answers}) == ROUNDS * CANDIDATES
    assert result["spend"]["tokens"] == sum(row["tokens"] for row in [*answers, *outcomes])
    assert result["spend"]["cost"] == pytest.approx(sum(row["cost"] for row in [*answers, *outcomes]))
    assert server.stats()["repeated"] == 0


async def test_a_round_whose_answers_all_fail_is_lost_and_shown_and_the_run_goes_on(
    engines: Engines, server: SimulatedModel
) -> None:
    """The key of the proposer's endpoint is wrong: nothing that is tried again."""
    away = {"kind": "model", "model": "no-such-model", "base_url": f"{server.base_url}/nowhere"}
    optimizer = {"name": "meta_prompt", "proposer": away, "candidates_per_round": 2}
    result = await engines.run(spec(server.base_url, name="lost-rounds", optimizer=optimizer, prices={}))
    assert (result["status"], result["stop_reason"]) == ("completed", "proposal_failure")
    assert result["message"].startswith("Mutation failed: LLM mutation failed: ")
    rounds = await _rows(
        engines, result["optimization_id"], "SELECT round, extra FROM rounds WHERE run_id = $1 AND round > 0 ORDER BY round"
    )
    assert [row["round"] for row in rounds] == [1, 2]
    assert all("LLM mutation failed" in json.loads(row["extra"])["proposal_failure"] for row in rounds)
    assert result["best_score"] == result["baseline_score"]
    report = await StoreReader(engines.database).runs.report(result["optimization_id"])
    assert report is not None
    assert "Lost rounds:      2 without a proposal; the last: LLM" in box(facts_of(report), Verbosity.SUMMARY)


async def test_the_same_spec_writes_the_same_and_continue_as_new_changes_nothing(
    engines: Engines, server: SimulatedModel
) -> None:
    whole = await engines.run(spec(server.base_url, name="whole-rewriting"))
    cut = await engines.run(
        spec(server.base_url, name="cut-rewriting", execution={"concurrent_samples": 8, "max_rounds_per_execution": 1})
    )
    for same in ("best_candidate_id", "best_config_hash", "counts", "spend", "rounds", "message"):
        assert cut[same] == whole[same]


async def test_a_template_of_the_specs_own_replaces_the_request(engines: Engines, server: SimulatedModel) -> None:
    template = "Known so far:\n{{hall_of_fame}}\n\n{{texts}}\n\n{{feedback}}\n{{limits}}\n{{form}}"
    proposer = {"kind": "model", "model": "simulated-reflector", "base_url": server.base_url, "template": template}
    optimizer = {"name": "meta_prompt", "proposer": proposer, "candidates_per_round": 2}
    result = await engines.run(spec(server.base_url, name="own-words", optimizer=optimizer))
    assert result["best_score"] > result["baseline_score"]
