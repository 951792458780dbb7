"""Measure and explore: the same machinery without a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clients.reports.formatting import score_text
from clients.reports.history.entries import report_json
from clients.reports.load import facts_of
from clients.reports.text.boxes import Verbosity, box
from store.read.reader import StoreReader
from tests.support.engines import Engines

Spec = Callable[..., dict[str, Any]]


async def test_one_configuration_is_measured_once(engines: Engines, spec: Spec) -> None:
    result = await engines.run(spec(name="measure", optimizer="none"))
    assert (result["status"], result["stop_reason"], result["message"]) == ("completed", "completed", "Measured")
    assert result["counts"]["completed"] == 1
    assert result["best_score"] == result["baseline_score"]
    report = await StoreReader(engines.database).runs.report(result["optimization_id"])
    assert report is not None
    told = box(facts_of(report), Verbosity.SUMMARY)
    assert "Best value:       the baseline" in told
    assert f"Score:            {score_text(result['best_score'])}  " in told
    assert "Can find:" not in told


async def test_several_configurations_are_compared_with_intervals(engines: Engines, spec: Spec) -> None:
    optimizer = {"name": "none", "configurations": [{"x": 500}, {"x": 700, "unit": "foot"}, {"x": 5}]}
    result = await engines.run(spec(name="explore", optimizer=optimizer))
    assert result["message"] == "All 4 configurations were measured"
    assert result["counts"] == {**result["counts"], "completed": 4, "proposed": 3, "rejected": 0}
    assert result["best_configuration"] == {"x": 700, "unit": "foot"}
    report = await StoreReader(engines.database).runs.report(result["optimization_id"])
    assert report is not None
    facts = facts_of(report)
    rows = report_json(facts)["compared"]
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert rows[0]["difference"]["estimate"] == pytest.approx(result["best_score"] - result["baseline_score"])
    assert [row["difference"] for row in rows if row["iteration"] == 0] == [None]
    text = box(facts, Verbosity.SUMMARY)
    assert "Compared:" in text
    assert "x=700, unit=foot" in text
    rows_of_the_table = text[text.index("Compared:") :].splitlines()[1 : len(rows) + 1]
    assert len({row.index(mark) for row in rows_of_the_table for mark in ("x=", "the baseline") if mark in row}) == 1
    assert "the baseline" in text
