"""Candidates measured on some samples only, in whole runs: paid once, told to the optimizer, decided in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clients.reports.load import facts_of
from clients.reports.markdown import markdown
from clients.reports.text.boxes import Verbosity, box
from store.read.reader import StoreReader
from store.write.repositories import Store
from tests.support.activity_targets import height
from tests.support.activity_targets import theirs as activity_of_theirs
from tests.support.engines import Engines
from tests.support.external_runners import running as external_runner
from tests.support.optimizer_in_parts import in_parts, spec
from workflows.model.activities.computation import StoredTrial

ROUNDS, SAMPLES = 4, 20


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with in_parts():
        yield


async def _rows(engines: Engines, run_id: str, query: str) -> list[Any]:
    async with engines.database.connection() as connection:
        return list(await connection.fetch(query, run_id))


async def test_parts_are_paid_for_once_and_the_trial_in_full_pays_for_the_rest(engines: Engines) -> None:
    result = await engines.run(spec())
    run_id = result["optimization_id"]
    assert (result["rounds"], result["stop_reason"]) == (ROUNDS, "max_rounds")
    assert result["best_score"] > result["baseline_score"]
    trials = await _rows(
        engines,
        run_id,
        "SELECT purpose, part, first_sample, samples, paid_samples FROM trials WHERE run_id = $1 ORDER BY round, index",
    )
    assert [(row["purpose"], row["samples"], row["paid_samples"]) for row in trials] == [
        ("baseline", 20, 20),
        *([("exploration", 4, 4)] * 6 + [("candidate", 20, 12)]) * ROUNDS,
    ]
    assert [row["part"] for row in trials[1:8]] == ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5", ""]
    [outcomes] = await _rows(engines, run_id, "SELECT count(*) FROM outcomes WHERE run_id = $1")
    assert result["spend"]["samples"] == outcomes[0] == SAMPLES + ROUNDS * (6 * 4 + 12)
    assert result["spend"]["trials"] == len(trials)
    assert result["counts"] == {
        "proposed": ROUNDS,
        "running": 0,
        "completed": 1 + ROUNDS,
        "failed": 0,
        "rejected": 0,
        "stopped": 0,
    }


async def test_every_candidate_has_its_lineage_and_only_those_in_full_are_decided(engines: Engines) -> None:
    result = await engines.run(spec(name="lineage-of-parts"))
    run_id = result["optimization_id"]
    candidates = await _rows(
        engines, run_id, "SELECT candidate_id, parent_candidate_ids AS parents, round FROM candidates WHERE run_id = $1"
    )
    assert len(candidates) == 1 + 4 * ROUNDS
    names = {row["candidate_id"] for row in candidates}
    assert all(set(row["parents"]) < names and row["candidate_id"] not in row["parents"] for row in candidates)
    rounds = await _rows(engines, run_id, "SELECT record FROM rounds WHERE run_id = $1 ORDER BY round")
    assert len(rounds) == 1 + ROUNDS
    shown = await engines.client.get_workflow_handle(run_id).query("graph")
    assert {node["id"] for node in shown["nodes"]} == names
    assert [node["status"] for node in shown["nodes"]].count("measured in part") == 3 * ROUNDS
    stored = await StoreReader(engines.database).candidates.graph(run_id)
    assert stored is not None
    assert sorted(node.parts for node in stored.nodes) == [0] + [1] * 2 * ROUNDS + [2] * 2 * ROUNDS
    assert {(edge.parent, edge.child) for edge in stored.edges} == {(edge["from"], edge["to"]) for edge in shown["edges"]}


async def test_continuing_as_new_between_the_steps_of_a_round_changes_nothing(engines: Engines) -> None:
    whole = await engines.run(spec(name="whole-in-parts"))
    cut = await engines.run(spec(name="cut-in-parts", execution={"max_rounds_per_execution": 1}))
    for same in ("best_candidate_id", "best_config_hash", "counts", "spend", "rounds", "message"):
        assert cut[same] == whole[same]
    decided = (
        "SELECT candidate_id, purpose, part, round, index, status, score, sample_means FROM trials WHERE run_id = $1"
        " ORDER BY candidate_id, purpose, part"
    )
    assert await _rows(engines, cut["optimization_id"], decided) == await _rows(engines, whole["optimization_id"], decided)


async def test_a_budget_of_samples_is_used_up_but_never_overshot(engines: Engines) -> None:
    result = await engines.run(spec(name="parts-on-a-budget", budget={"samples": 100}))
    assert result["stop_reason"] == "sample_budget"
    assert 80 < result["spend"]["samples"] <= 100


async def test_computations_see_the_parts_by_place_in_the_order_of_the_proposals(engines: Engines) -> None:
    result = await engines.run(spec(name="computed-parts", stop={"max_rounds": 1, "no_improvement": 0}))
    trials: list[StoredTrial] = await Store(engines.database).search_history.trials(result["optimization_id"])
    answered = [[place for place, mean in enumerate(trial.sample_means) if mean is not None] for trial in trials]
    assert answered == [list(range(20)), *[[0, 1, 2, 3]] * 4, *[[4, 5, 6, 7]] * 2, list(range(20))]
    assert [trial.part.first if trial.part else None for trial in trials] == [None, 0, 0, 0, 0, 4, 4, None]
    assert trials[-1].candidate_id in {trial.candidate_id for trial in trials[5:7]}


async def test_reports_say_how_often_candidates_were_measured_in_part(engines: Engines) -> None:
    result = await engines.run(spec(name="reported-parts"))
    report = await StoreReader(engines.database).runs.report(result["optimization_id"])
    assert report is not None
    facts = facts_of(report)
    told = f"{6 * ROUNDS} trials of {4 * ROUNDS} candidates, on 4 of {SAMPLES} samples"
    assert len(facts.iterations) == 1 + ROUNDS
    assert told.removesuffix(" samples") in box(facts, Verbosity.SUMMARY)
    assert told in markdown(facts)


async def test_an_external_runner_is_asked_for_the_samples_of_a_part_alone(engines: Engines) -> None:
    async with external_runner(engines) as (runner, target):
        result = await engines.run(spec(name="parts-outside", target=target))
    assert result["spend"]["samples"] == SAMPLES + ROUNDS * (6 * 4 + 12)
    asked = [len(experiment.request["samples"]) for experiment in runner.experiments.values()]
    assert sorted(asked) == sorted([SAMPLES] + ([4] * 6 + [12]) * ROUNDS)


async def test_an_activity_of_somebody_elses_answers_the_samples_of_a_part_alone(engines: Engines) -> None:
    calls: list[str] = []

    def answer(call: dict[str, Any]) -> Any:
        calls.append(f"{call['configuration']['x']} {call['sample']['id']}")
        return height(call)

    async with activity_of_theirs(engines, answer) as target:
        result = await engines.run(spec(name="parts-elsewhere", target=target))
    assert result["spend"]["samples"] == len(calls) == len(set(calls)) == SAMPLES + ROUNDS * (6 * 4 + 12)


async def test_parts_are_measured_with_one_answer_each_and_the_rest_in_full(engines: Engines) -> None:
    result = await engines.run(spec(name="parts-and-replicates", replicates=3))
    assert result["spend"]["samples"] == SAMPLES * 3 + ROUNDS * (6 * 4 + SAMPLES * 3 - 8)
    [(least, most)] = await _rows(
        engines, result["optimization_id"], "SELECT min(replicate), max(replicate) FROM outcomes WHERE run_id = $1"
    )
    assert (least, most) == (0, 2)


async def test_parts_beside_racing_trials_change_nothing_about_the_race(engines: Engines) -> None:
    result = await engines.run(spec(name="parts-and-racing", judgement={"racing": {"block": 8}}))
    assert result["best_score"] > result["baseline_score"]
    [outcomes] = await _rows(engines, result["optimization_id"], "SELECT count(*) FROM outcomes WHERE run_id = $1")
    assert result["spend"]["samples"] == outcomes[0]
