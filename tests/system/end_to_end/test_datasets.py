"""Runs over datasets of every origin, through the real servers: files, plug-ins, names, strata, slices, and many samples."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from activities.datasets import ingest
from clients.reports.history.entries import report_json
from clients.reports.history.files import history_text
from clients.reports.load import facts_of
from clients.reports.text.boxes import Verbosity, box
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.replaying import nothing_differs

Spec = Callable[..., dict[str, Any]]
LARGE = 20_000


def language_items(count: int = 40) -> list[dict[str, Any]]:
    """Every fourth one in French, which the hill knows nothing of."""
    return [
        {"id": f"s{n}", "input": {"n": n, "language": "fr" if n % 4 == 0 else "en"}, "tags": ["odd"] if n % 2 else []}
        for n in range(count)
    ]


async def test_a_run_over_what_a_plug_in_gives(engines: Engines, spec: Spec) -> None:
    run_id = "given-by-a-plug-in"
    result = await engines.run(spec(dataset={"ref": "plugged:given_items"}), run_id=run_id)
    reader = StoreReader(engines.database)
    detail = await reader.runs.load(run_id)
    assert result["status"] == "completed" and detail is not None
    assert detail.dataset_count == 8
    # The same content is stored once: who came first, of all that share these engines, named it.
    assert detail.dataset_name == "plugged:given_items" or detail.dataset_name.endswith(" (inline)")
    inline = await engines.run(spec(), run_id="the-same-inline")
    assert result["best_score"] == inline["best_score"]


def split_items() -> dict[str, list[dict[str, Any]]]:
    """Three test samples say what is in train, and one what is in validation."""
    numbers = {"train": range(6), "validation": range(6, 26), "test": [*range(26, 46), 0, 1, 2, 25]}
    return {split: [{"id": f"{split}-{n}", "input": n} for n in found] for split, found in numbers.items()}


@pytest.mark.parametrize("source", ["items", "ref"])
async def test_splits_that_are_given_are_searched_and_confirmed_on_and_a_leak_is_left_out_and_told(
    engines: Engines, spec: Spec, source: str
) -> None:
    given: dict[str, Any] = {"items": split_items()} if source == "items" else {"ref": "plugged:split_items"}
    result = await engines.run(spec(dataset=given, judgement={}), run_id=f"split-by-{source}")
    async with engines.database.connection() as connection:
        drawn = await connection.fetch(
            "SELECT split, array_agg(s.item_id) AS ids FROM suite_samples JOIN suites USING (run_id, split)"
            " JOIN samples s USING (dataset_id, item_hash) WHERE run_id = $1 GROUP BY split",
            f"split-by-{source}",
        )
    items = split_items() | {"test": split_items()["test"][:20]}
    assert {row["split"]: set(row["ids"]) for row in drawn} == {
        split: {item["id"] for item in found} for split, found in items.items()
    }
    assert result["best_score"] > result["baseline_score"]
    assert result["confirmation"]["judged"]["evidence"]["n"] == 20
    report = await StoreReader(engines.database).runs.report(f"split-by-{source}")
    assert report is not None
    shown = " ".join(box(facts_of(report), Verbosity.FULL).replace("║", " ").split())
    assert "4 test samples are left out, as the same content is in train or validation, too: test-0, test-1, test-2" in shown
    await nothing_differs(engines.database, f"split-by-{source}")


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            {"items": {"train": [1, 2], "test": [2]}},
            "dataset.items: test has no sample of its own: what its 1 samples say is in train",
        ),
        (
            {"ref": "plugged:split_items", "splits": {"validation": 1}},
            "dataset.splits: the samples name their splits themselves",
        ),
        ({"ref": "plugged:no_items"}, "dataset.ref: plug-in plugged:no_items raised ValueError: nothing to give"),
        ({"ref": "plugged:missing"}, "module plugged has no 'missing'"),
        ({"name": "never-added"}, "dataset.name: 'never-added' is not in the store"),
        ({"items": [{"input": 1}], "splits": {"validation": 1, "stratify_by": "input.x"}}, "no sample has 'input.x'"),
    ],
)
async def test_a_dataset_that_is_not_there_ends_the_run_with_the_reason(
    engines: Engines, spec: Spec, dataset: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorkflowFailureError) as caught:
        await engines.run(spec(dataset=dataset))
    assert message in str(caught.value.cause)


async def test_every_value_is_in_every_split_and_the_report_says_what_each_scored(engines: Engines, spec: Spec) -> None:
    run_id = "by-language"
    dataset = {
        "items": language_items(),
        "splits": {"validation": 0.5, "test": 0.5, "stratify_by": "input.language"},
        "slices": ["input.language", "tags"],
    }
    await engines.run(spec(dataset=dataset, target={"kind": "python", "ref": "plugged:english_hill"}), run_id=run_id)
    reader = StoreReader(engines.database)
    async with engines.database.connection() as connection:
        drawn = await connection.fetch(
            "SELECT split, s.input ->> 'language' AS language FROM suite_samples JOIN suites USING (run_id, split)"
            " JOIN samples s USING (dataset_id, item_hash) WHERE run_id = $1",
            run_id,
        )
    assert Counter((row["split"], row["language"]) for row in drawn) == {
        ("validation", "en"): 15,
        ("validation", "fr"): 5,
        ("test", "en"): 15,
        ("test", "fr"): 5,
    }
    found = await reader.slices.of_run(run_id)
    assert found is not None and found.split == "test"
    english, french, odd = found.slices
    assert (english.name, english.samples) == ("input.language=en", 15)
    assert (french.name, french.samples, french.baseline, french.best) == ("input.language=fr", 5, 0.0, 0.0)
    assert english.best is not None and english.baseline is not None and english.best > english.baseline > 0
    assert odd.name == "odd"
    other = await reader.slices.of_run(run_id, ["expected"])
    assert other is not None and [part.name for part in other.slices] == ["expected=null"]
    await _reports_show(reader, run_id)


async def _reports_show(reader: StoreReader, run_id: str) -> None:
    report = await reader.runs.report(run_id)
    assert report is not None
    facts = facts_of(report).model_copy(update={"slices": await reader.slices.of_run(run_id)})
    full = box(facts, Verbosity.FULL)
    assert "║  Slices of the test samples:" in full
    assert re.search(r"║    input\.language=fr \(5\) +0\.00 → 0\.00 +║", full)
    assert "║  Slices of the test samples:" in box(facts)
    assert [part["name"] for part in report_json(facts)["slices"]["slices"]] == [
        "input.language=en",
        "input.language=fr",
        "odd",
    ]
    assert '\nslices:\n  split: "test"\n' in history_text(facts)


async def test_a_run_over_many_samples_hands_around_none_of_them(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text("\n".join(json.dumps({"id": f"s{n}", "input": f"sample {n}"}) for n in range(LARGE)))
    stored = await ingest(engines.database, file)
    handle = await engines.start(
        spec(
            dataset={"name": "many.jsonl", "splits": "none"},
            stop={"max_rounds": 0},
            optimizer={"proposer": {"kind": "noop"}},
            budget={"trials": 1},
            execution={"concurrent_samples": 256},
        ),
        run_id="many-samples",
    )
    result = await handle.result()
    assert result["counts"]["completed"] == 1, result
    async with engines.database.connection() as connection:
        answered = await connection.fetchval("SELECT count(*) FROM outcomes WHERE run_id = 'many-samples'")
    assert answered == LARGE == stored.count
    assert sum([len(event.SerializeToString()) async for event in handle.fetch_history_events()]) < 64_000
    trial = engines.client.get_workflow_handle(result_trial(result))
    largest = max([len(event.SerializeToString()) async for event in trial.fetch_history_events()])
    assert largest < 16_000


def result_trial(result: dict[str, Any]) -> str:
    return f"{result['optimization_id']}/r0/{result['best_config_hash'][:8]}"
