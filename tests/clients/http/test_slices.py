"""Many trials by slice: what the store adds up for a table is what the single answers say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import fmean
from typing import Any

import httpx
import pytest

from store.connection import Connection, Database
from store.read.samples import slice_scores
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec

WEIGHTS = (1.0, 3.0, 0.5)
ITEMS: list[dict[str, Any]] = [
    {
        "id": f"s{n}",
        "input": {"n": n, "language": "en" if n % 3 else "de"},
        "weight": WEIGHTS[n % 3],
        "tags": ["even" if n % 2 == 0 else "odd", *(["first"] if n < 4 else [])],
    }
    for n in range(12)
]
DATASET = {"items": ITEMS, "splits": {"validation": 0.5, "test": 0.5}, "slices": ["tags", "input.language", "input.nowhere"]}
COINS = {
    "configuration": {"skill": {"value": 0.4, "change": "structured", "type": "number", "min": 0, "max": 1}},
    "target": {"kind": "python", "ref": "plugged:coin"},
    "optimizer": {"name": "none", "configurations": [{"skill": 0.1}, {"skill": 0.6}, {"skill": 0.9}]},
    "replicates": 2,
}


@pytest.fixture(scope="session")
async def sliced(engines: Engines) -> str:
    """A run whose samples have weights, tags, languages, and answers that differ from each other."""
    await engines.run(hill_spec(name="sliced", dataset=DATASET, **COINS), run_id="sliced")
    return "sliced"


async def read(http: httpx.AsyncClient, path: str, status: int = 200) -> Any:
    answer = await http.get(f"/optimizations{path}")
    assert answer.status_code == status, answer.text
    return answer.json()


async def expected(http: httpx.AsyncClient, trial: dict[str, Any], field: str) -> dict[str, float]:
    """The weighted mean over the samples of each slice of the means over their replicates, by hand."""
    path = f"/sliced/trials/{trial['candidate_id']}/items?purpose={trial['purpose']}&limit=1000"
    heights: dict[str, list[float]] = defaultdict(list)
    for item in (await read(http, path))["items"]:
        heights[item["item_id"]].append(item["scores"]["height"])
    sums: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for item in ITEMS:
        if item["id"] in heights:
            values = item["tags"] if field == "tags" else [f"input.language={item['input']['language']}"]
            for value in values:
                weight, total = sums[value]
                sums[value] = weight + item["weight"], total + item["weight"] * fmean(heights[item["id"]])
    return {value: total / weight for value, (weight, total) in sums.items()}


async def test_every_trial_of_a_run_has_the_scores_that_its_answers_give_it(http: httpx.AsyncClient, sliced: str) -> None:
    offered = await read(http, f"/{sliced}/slices")
    assert [one["field"] for one in offered["fields"]] == ["tags", "input.language"]
    assert (offered["measure"], offered["all_at_once"]) == ("objective", True)
    trials = (await read(http, f"/{sliced}/trials"))["items"]
    assert {trial["purpose"] for trial in trials} == {"baseline", "candidate", "confirmation"}
    different: set[float] = set()
    for field in offered["fields"]:
        told = await read(http, f"/{sliced}/slices/scores?field={field['field']}")
        assert told["slices"] == [part["name"] for part in field["slices"]]
        found = {(one["candidate_id"], one["purpose"]): one["scores"] for one in told["trials"]}
        assert len(found) == len(trials)
        for trial in trials:
            by_hand = await expected(http, trial, field["field"])
            scores = dict(zip(told["slices"], found[trial["candidate_id"], trial["purpose"]], strict=True))
            assert {name: score for name, score in scores.items() if score is not None} == pytest.approx(
                {name: score for name, score in by_hand.items() if name in scores}
            )
            different |= {score for score in scores.values() if score is not None}
    assert len(different) > 6


async def test_the_table_and_a_candidates_view_agree(http: httpx.AsyncClient, sliced: str) -> None:
    best = (await read(http, f"/{sliced}"))["best_candidate_id"]
    told = await read(http, f"/{sliced}/slices/scores?field=tags&candidate={best}")
    assert {one["candidate_id"] for one in told["trials"]} == {best}
    for trial in told["trials"]:
        view = await read(http, f"/{sliced}/trials/{best}/slices?field=tags&purpose={trial['purpose']}")
        seen = {part["name"]: part["objective_score"] for part in view["slices"]}
        scores = dict(zip(told["slices"], trial["scores"], strict=True))
        assert scores == pytest.approx({name: seen.get(name) for name in scores})


async def test_a_run_without_slices_offers_none(http: httpx.AsyncClient, engines: Engines) -> None:
    one_tag = [{"id": f"s{n}", "input": n, "tags": ["same"]} for n in range(8)]
    spec = hill_spec(name="whole", dataset={"items": one_tag, "splits": "none"}, stop={"max_rounds": 1, "no_improvement": 0})
    await engines.run(spec, run_id="whole")
    assert (await read(http, "/whole/slices"))["fields"] == []
    told = await read(http, "/whole/slices/scores?field=input.nowhere")
    assert told["slices"] == []
    assert [one["scores"] for one in told["trials"]] == [[], []]


async def test_more_than_one_answer_should_add_up_is_asked_for_by_candidate(
    http: httpx.AsyncClient, sliced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = (await read(http, f"/{sliced}"))["best_candidate_id"]
    monkeypatch.setattr(slice_scores, "MOST_VALUES", 10)
    assert (await read(http, f"/{sliced}/slices"))["all_at_once"] is False
    refused = (await read(http, f"/{sliced}/slices/scores?field=tags", 409))["error"]
    assert (refused["field"], "name the candidates" in refused["message"]) == ("candidate", True)
    assert (await read(http, f"/{sliced}/slices/scores?field=tags&candidate={best}"))["trials"]
    assert (await read(http, f"/{sliced}/slices/scores?field=id", 422))["error"]["field"] == "field"


class WithinChange(Database):
    """A database as it would be if a change were committed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        yield self._connection


@pytest.mark.parametrize(("mean", "weight"), [(1e308, 1.0), (5e-324, 1e-300), (-1e308, 1e300)])
async def test_scores_and_weights_as_large_and_as_small_as_they_come_are_added_up(
    engines: Engines, sliced: str, mean: float, weight: float
) -> None:
    async with engines.database.connection() as connection:
        change = connection.transaction()
        await change.start()
        try:
            given = "SET sample_means = array_fill($2::float8, ARRAY[6]) WHERE run_id = $1 AND purpose = 'candidate'"
            await connection.execute(f"UPDATE trials {given}", sliced, mean)
            dataset = "dataset_id = (SELECT dataset_id FROM runs WHERE run_id = $1) AND 'odd' = ANY(tags)"
            await connection.execute(f"UPDATE samples SET weight = $2 WHERE {dataset}", sliced, weight)
            found = await slice_scores.SliceScoreReader(WithinChange(connection)).scores(sliced, "tags", None)
        finally:
            await change.rollback()
    assert found is not None
    scores = {score for one in found.trials if one.purpose == "candidate" for score in one.scores if score is not None}
    assert scores
    assert all(score == pytest.approx(mean, abs=1e-200) for score in scores)
