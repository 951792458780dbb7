"""Copies of a content under several ids, and groups: in a run they are in one split, and count once in every comparison."""

from __future__ import annotations

import json
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from clients.reports.html import html
from clients.reports.load import facts_of
from clients.reports.markdown import markdown
from clients.reports.text.boxes import Verbosity, box
from store.read.reader import StoreReader
from tests.support.coin_runs import coins, trials_of
from tests.support.engines import Engines
from tests.support.html_reports import HtmlReport
from tests.support.replaying import nothing_differs

CONTENTS, COPIES = 20, 6
COPIED = [{"id": f"s{n}", "input": n % CONTENTS, "tags": [f"customer:{n % 5}"]} for n in range(CONTENTS * COPIES)]


async def splits_of(engines: Engines, run_id: str) -> dict[str, list[Any]]:
    """The contents of every split, in the order of its samples."""
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT d.split, s.input FROM suite_samples d JOIN suites USING (run_id, split)"
            " JOIN samples s ON s.dataset_id = suites.dataset_id AND s.item_hash = d.item_hash"
            " WHERE d.run_id = $1 ORDER BY d.split, d.position",
            run_id,
        )
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["split"], []).append(json.loads(row["input"]))
    return found


async def test_a_content_is_in_one_split_and_counts_once_in_search_confirmation_comparison_and_replay(engines: Engines) -> None:
    spec = coins(0.9, dataset={"items": COPIED, "splits": {"validation": 0.5, "test": 0.5}}, judgement={})
    result = await engines.run(spec)
    run_id = result["optimization_id"]
    splits = await splits_of(engines, run_id)
    assert {name: (len(found), len(set(found))) for name, found in splits.items()} == {"validation": (60, 10), "test": (60, 10)}
    assert not set(splits["validation"]) & set(splits["test"])

    [searched] = (await trials_of(engines, run_id)).values()
    assert json.loads(searched["evidence"])[0]["n"] == 10
    confirmed = result["confirmation"]["judged"]["evidence"]
    assert (confirmed["n"], confirmed["merged_from"]) == (10, 60)
    assert "on 60 samples that count as 10" in result["confirmation"]["judged"]["explanation"]

    run = await StoreReader(engines.database).runs.load(run_id)
    assert run is not None and run.baseline_candidate_id is not None
    assert (run.dataset_count, run.dataset_merged) == (120, 100)
    confirmations = [
        (run_id, candidate_id, "confirmation") for candidate_id in (run.baseline_candidate_id, result["best_candidate_id"])
    ]
    compared = await StoreReader(engines.database).comparisons.load(confirmations[0], confirmations[1])
    assert compared is not None
    assert compared.judged is not None
    assert (compared.judged.evidence.n, compared.judged.evidence.merged_from) == (10, 60)
    assert sum(compared.counts.values()) == 60  # every answer is still shown

    report = await StoreReader(engines.database).runs.report(run_id)
    assert report is not None
    assert {drawn.split.value: len(set(drawn.same_as.values())) for drawn in facts_of(report).splits} == {
        "validation": 10,
        "test": 10,
    }
    shown = facts_of(report)
    for text in (box(shown, Verbosity.FULL), markdown(shown), HtmlReport(html(shown, {})).figures["Counted"]):
        assert "60 validation samples count as 10" in " ".join(text.replace("║", " ").split())
    await nothing_differs(engines.database, run_id)


@pytest.mark.parametrize(
    "dataset",
    [
        {"items": COPIED, "group_by": "tags.customer", "splits": "none"},
        {"items": COPIED, "splits": {"validation": 1.0, "group_by": "tags.customer"}},
    ],
)
async def test_groups_count_once_with_splits_and_without(engines: Engines, dataset: dict[str, Any]) -> None:
    result = await engines.run(coins(0.9, dataset=dataset, judgement={}))
    [searched] = (await trials_of(engines, result["optimization_id"])).values()
    evidence = json.loads(searched["evidence"])[0]
    assert (evidence["n"], evidence["merged_from"]) == (5, 120)


async def test_a_race_looks_at_whole_clusters_and_expects_as_many_as_there_are(engines: Engines) -> None:
    spec = coins(0.05, 0.95, dataset={"items": COPIED, "splits": "none"}, judgement={"racing": {"block": 16}})
    result = await engines.run(spec)
    run_id = result["optimization_id"]
    [asked] = (await splits_of(engines, run_id)).values()
    assert [len(set(asked[start : start + COPIES])) for start in range(0, len(asked), COPIES)] == [1] * CONTENTS
    for row in (await trials_of(engines, run_id)).values():
        for number, look in enumerate(json.loads(row["looks"]), start=1):
            assert (look["samples"], look["planned"]) == (16 * number // COPIES, CONTENTS)
    await nothing_differs(engines.database, run_id)


async def test_a_field_that_groups_nothing_fails_the_run_before_anything_is_paid(engines: Engines) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await engines.run(coins(0.9, dataset={"items": COPIED, "group_by": "input.qestion", "splits": "none"}))
    assert "dataset.group_by: no sample has 'input.qestion'" in str(failed.value.cause)
