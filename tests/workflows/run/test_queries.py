"""What queries answer: totals of everything, the newest hundred, plain JSON."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.support.spec_building import NOW, measured_state, play, proposal, result, state
from workflows.model.run.query_answers import Progress
from workflows.run import queries
from workflows.run.round_records import round_record


def test_progress_is_whole_before_anything_is_measured() -> None:
    answer = queries.progress(state(), NOW)
    assert (answer.status, answer.phase, answer.round) == ("initialized", "preparing", 0)
    assert (answer.best_score, answer.baseline_score, answer.best_candidate_id) == (None, None, None)
    assert (answer.trials_per_hour, answer.seconds_left, answer.executions) == (0.0, None, 1)
    assert Progress.model_validate_json(answer.model_dump_json()) == answer


def test_progress_tells_where_the_run_stands() -> None:
    run = measured_state(0.5, stop={"max_rounds": 10, "no_improvement": 4}, budget={"cost": 1, "wall_time": "1h"})
    assert run.prepared is not None
    run.prepared = run.prepared.model_copy(update={"versions": {"ratchet": "0.1"}})
    play(run, 0.7, None)
    answer = queries.progress(run, NOW + timedelta(minutes=6))
    assert (answer.round, answer.best_score, answer.baseline_score, answer.direction) == (2, 0.7, 0.5, "maximize")
    assert answer.best_candidate_id == run.history[1].candidate_id
    assert answer.counts.model_dump() == {
        "proposed": 2,
        "running": 0,
        "completed": 2,
        "failed": 1,
        "rejected": 0,
        "stopped": 0,
    }
    assert answer.spend.trials == 3
    assert answer.budget == {"cost": 1.0, "tokens": 0, "samples": 0, "trials": 0, "wall_time": 3600.0}
    assert (answer.elapsed_seconds, answer.trials_per_hour) == (360.0, 30.0)
    assert answer.versions == {"ratchet": "0.1"}
    nearness = {rule.rule: rule.nearness for rule in answer.stop_rules}
    assert nearness == {
        "failed trials": pytest.approx(1 / 3),
        "rounds": 0.2,
        "no improvement": 0.25,
        "wall time": 0.1,
        "cost": pytest.approx(0.3),
        "no new proposals": 0.0,
    }


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"stop": {"max_rounds": 8}}, 360 / 3 * 6),
        ({"stop": {"max_rounds": 8}, "budget": {"wall_time": 400}}, 40.0),
        ({"stop": {"max_rounds": 1}}, 0.0),
        ({"stop": {"max_rounds": 0}, "budget": {"wall_time": 300}}, 0.0),
        ({"stop": {"max_rounds": 0}}, None),
        ({"stop": {"max_rounds": 8}, "budget": {"trials": 5, "tokens": 10**9}}, 360 / 3 * 2),
    ],
)
def test_time_left_ends_with_the_rounds_or_the_first_budget_and_is_never_negative(
    changes: dict[str, Any], seconds: float | None
) -> None:
    run = measured_state(**changes)
    play(run, 0.6, 0.6)
    assert queries.progress(run, NOW + timedelta(minutes=6)).seconds_left == seconds


def test_lists_give_totals_and_the_newest_hundred() -> None:
    run = measured_state(stop={"max_rounds": 0, "no_improvement": 0})
    for _ in range(120):
        play(run, 0.6)
        run.admit([proposal(7.0)])
    trials, rounds, rejections = queries.trials(run), queries.history(run), queries.rejections(run)
    assert (trials.total, trials.shown, len(trials.items)) == (121, 100, 100)
    assert (rounds.total, rounds.shown) == (121, 100)
    assert (rejections.total, rejections.shown) == (120, 100)
    assert trials.items[-1]["candidate_id"] == run.history[-1].candidate_id
    assert rounds.items[-1]["round"] == 120
    assert all("the whole is in the store" in answer.note for answer in (trials, rounds, rejections))
    for answer in (trials, rounds, rejections):
        assert json.loads(json.dumps(answer.model_dump())) == json.loads(answer.model_dump_json())


def test_history_does_not_repeat_rejections() -> None:
    run = measured_state()
    candidates, rejected = run.admit([proposal(7.0)])
    round_record(run, candidates, rejected, run.record_round(candidates, []), NOW)
    assert "rejections" not in queries.history(run).items[-1]
    [item] = queries.rejections(run).items
    assert (item["reason_code"], item["proposed_index"], item["round"]) == ("out_of_range", 0, 1)


def test_before_the_baseline_every_list_is_empty() -> None:
    run = state()
    for answer in (queries.trials(run), queries.history(run), queries.rejections(run)):
        assert (answer.total, answer.shown, answer.items) == (0, 0, ())
    assert queries.graph(run).nodes == ()


def test_the_graph_has_an_edge_for_every_parent_and_marks_the_best() -> None:
    run = measured_state(0.5)
    parents, _ = run.admit([proposal(0.1), proposal(0.2)])
    run.record_round(parents, [result(parents[0], 0.9), result(parents[1], None, "failed")])
    ids = tuple(parent.candidate_id for parent in parents)
    [child], _ = run.admit([proposal(0.3, parent_candidate_ids=ids)])
    run.record_round([child], [result(child, 0.6)])
    graph = queries.graph(run)
    assert [node["id"] for node in graph.nodes] == [run.history[0].candidate_id, *ids, child.candidate_id]
    assert graph.edges == tuple({"from": parent, "to": child.candidate_id} for parent in ids)
    assert [node["id"] for node in graph.nodes if node["best"]] == [ids[0]]
    assert graph.nodes[2]["status"] == "failed"
    assert graph.total == 4


def test_the_details_are_a_table_that_nothing_breaks_out_of() -> None:
    run = measured_state(0.5)
    play(run, 0.75)
    run.phase = "stopped: a|b\n\n# <b>injected</b> | c"
    lines = queries.details(run, NOW).splitlines()
    assert len(lines) == 8
    assert lines[2].startswith("| Status | initialized: stopped: a\\|b # ")
    assert lines[2].endswith(" \\| c |")
    assert lines[4] == f"| Best in the search | 0.7500 ({run.history[-1].candidate_id}) |"
    assert lines[5] == "| Baseline | 0.5000 |"
    assert lines[6] == "| Spend | 0.2000, 200 tokens, 20 samples |"
    assert "none yet" in queries.details(state(), NOW)
