"""Answers that are there already, under other scorers and rules: no target is asked, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clients.runs.answered_run import NotRescored, answered_run
from store.read.reader import StoreReader
from tests.support.activity_targets import Call, height, theirs
from tests.support.engines import Engines
from tests.support.hill_specs import split_items
from workflows.model.spec.request import OptimizationRequest

Spec = Callable[..., dict[str, Any]]
FROM_THE_TOP = {"x": {"value": 700, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}}
DEPTH = {
    "scorers": [{"kind": "python", "name": "depth", "ref": "plugged:height"}],
    "objective": {"metric": "depth", "direction": "minimize"},
}


async def test_a_run_is_judged_anew_by_other_scorers_without_asking_its_target(engines: Engines, spec: Spec) -> None:
    calls: list[str] = []

    def answer(call: Call) -> Any:
        calls.append(call["sample"]["id"])
        return height(call)

    async with theirs(engines, answer) as target:
        optimizer = {"proposer": {"kind": "step"}, "candidates_per_round": 2}
        parts = {"target": target, "optimizer": optimizer, "dataset": split_items(), "configuration": FROM_THE_TOP}
        first = await engines.run(spec(**parts))
        paid = len(calls)
        reader = StoreReader(engines.database)
        source = await answered_run(reader, first["optimization_id"])
        asked = source.scored_by(OptimizationRequest.model_validate(spec(**parts, **DEPTH)))
        second = await engines.run(asked.model_dump(mode="json", by_alias=True))

    assert len(calls) == paid
    assert (second["status"], second["stop_reason"], second["spend"]["samples"]) == ("completed", "completed", 0)
    before, after = [await reader.trials.page(run["optimization_id"]) for run in (first, second)]
    assert before is not None and after is not None
    candidates = [trial for trial in before.items if trial.purpose in ("baseline", "candidate")]
    again = [trial for trial in after.items if trial.purpose in ("baseline", "candidate")]
    assert [(trial.candidate_id, trial.config_hash, trial.score) for trial in again] == [
        (trial.candidate_id, trial.config_hash, trial.score) for trial in candidates
    ]
    lowest = min(candidates, key=lambda trial: trial.score or 0)
    assert (second["best_candidate_id"], second["best_score"]) == (lowest.candidate_id, lowest.score)
    assert first["best_candidate_id"] != lowest.candidate_id, "the rules of the new spec choose another one"
    assert lowest.candidate_id != candidates[0].candidate_id
    how = second["confirmation"]["how"]
    assert how == "cross_fitting", "nobody had asked for answers of this winner to the held-back samples"
    assert second["confirmation"]["judged"]["verdict"] == "better"
    assert again[0].parent_candidate_ids == candidates[0].parent_candidate_ids


async def test_a_spec_that_would_be_answered_otherwise_is_refused_by_name(engines: Engines, spec: Spec) -> None:
    first = await engines.run(spec(stop={"max_rounds": 1}))
    source = await answered_run(StoreReader(engines.database), first["optimization_id"])
    other = OptimizationRequest.model_validate(spec(seed=8, target={"kind": "python", "ref": "plugged:slow_hill"}))
    with pytest.raises(NotRescored, match=r"^target: differs from that of hill-\d+, .*; so do seed, dataset\. Leave all but"):
        source.refuse_other_answers(other, "another")
    with pytest.raises(NotRescored, match="nothing to rescore: unknown never began"):
        await answered_run(StoreReader(engines.database), "unknown")
