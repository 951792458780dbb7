"""Stored baselines: read back as they were written, and compared with sample by sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clients.reports.comparisons.baseline_comparisons import BaselineComparison, compared, rule_of, unshowable, unshowable_with
from clients.reports.history.specifications import write_baseline, write_measurements
from clients.reports.history.stored_baselines import NoBaseline, StoredBaseline, StoredSample, read_baseline
from tests.support.report_examples import facts, request
from workflows.model.spec.judgement import JudgementSpec


def samples(scores: dict[str, float]) -> dict[str, StoredSample]:
    return {name: StoredSample(score=score, passed=score >= 0.5, content=f"c{name}") for name, score in scores.items()}


def alike(count: int, failed: int = 0) -> dict[str, StoredSample]:
    return samples({f"s{n}": float(n >= failed) for n in range(count)})


def against(
    stored: dict[str, StoredSample], now: dict[str, StoredSample], margin: float = 0.05, **more: Any
) -> BaselineComparison:
    baseline = StoredBaseline(use_case_id="shop", factor_suit={"model": "a"}, samples=stored, **more)
    return compared(baseline, now, rule_of(JudgementSpec(), margin), {"model": "b"})


def test_a_measurement_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    measured = facts([0.85], spec=request(optimizer={"name": "none"}))
    written = samples({"s1": 1.0, "no": 0.0, "a: b\n# c": 1 / 3}) | {"x" * 1500: StoredSample(score=1, passed=True)}
    [path] = write_measurements(measured, tmp_path, written, name="mine")
    assert path == tmp_path / "specs/mine.yaml"
    assert '  s1: {score: 1.0, passed: true, content: "cs1"}' in path.read_text().splitlines(), "a sample is a line"
    stored = read_baseline(path)
    assert (stored.use_case_id, stored.score, stored.factor_suit) == (measured.use_case, 0.85, request().baseline)
    assert {name: round(one.score, 3) for name, one in stored.samples.items()} == {
        name: round(one.score, 3) for name, one in written.items()
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "there is no stored baseline"), ("- 1", "is no measurement of Ratchet's"), ("a: b: c", ":1: is not valid YAML")],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(NoBaseline, match=r"x\.yaml") as missing:
        read_baseline(tmp_path / "x.yaml")
    assert told in str(missing.value)


def test_as_good_as_before_is_not_worse() -> None:
    found = against(alike(80), alike(80))
    assert (found.outcome, found.worse, found.changed_factors) == ("not_worse", (), ("model",))
    assert found.headline.startswith("not worse: 1.00 → 1.00, difference +0.00, 95% CI ")
    assert against(alike(80, failed=30), alike(80)).headline.startswith("better: 0.625 → 1.00")


def test_a_regression_names_the_samples_that_got_worse() -> None:
    now = alike(80, failed=12)
    now["s3"] = now["s3"].model_copy(update={"why": "cites\nnothing"})
    now["s40"] = now["s40"].model_copy(update={"score": 0.75})
    found = against(alike(80), now)
    assert found.outcome == "worse"
    told = found.lines
    assert told[0].startswith("worse: 1.00 → 0.8469, difference -0.1531, 95% CI -0.")
    assert told[1] == "13 samples got worse:"
    assert told[2] == "  s0 1.00 → 0.00, broken"
    assert told[5].startswith("  s3 1.00 → 0.00, broken: cites") and "\n" not in told[5]
    assert told[12] == "  … 3 more"
    assert told[13] == "changed factors: model"


def test_where_less_is_better_more_is_a_regression() -> None:
    stored, now = samples({f"s{n}": 0.1 for n in range(30)}), samples({f"s{n}": 0.9 for n in range(30)})
    found = against(stored, now, objective="MINIMIZE")
    assert (found.outcome, len(found.worse)) == ("worse", 30)
    assert "difference +0.80" in found.headline


def test_what_is_new_or_says_something_else_is_not_compared() -> None:
    now = alike(62, failed=1)
    now["s0"] = now["s0"].model_copy(update={"content": "another"})
    found = against(alike(60), now | samples({"new": 0.0}))
    assert (found.outcome, found.evidence.n, found.not_compared) == ("not_worse", 59, 4)
    assert found.lines[-1] == "4 samples not compared: new, gone, or with another content than then"


def test_what_says_the_same_several_times_counts_once() -> None:
    copies = {name: one.model_copy(update={"content": "same"}) for name, one in alike(80).items()}
    assert against(copies, copies).outcome == "undecided"


def test_so_few_samples_that_they_could_never_show_it_are_told_with_the_cure() -> None:
    rule = rule_of(JudgementSpec(), 0.05)
    told = unshowable_with(20, rule)
    assert told is not None
    assert told.startswith("20 samples cannot show that less than 0.05 was lost, even if none got worse: give ")
    needed = int(told.partition("give ")[2].partition(" ")[0])
    assert unshowable_with(needed, rule) is None
    margin = float(told.rpartition(" of ")[2])
    assert unshowable_with(20, rule_of(JudgementSpec(), margin)) is None
    assert unshowable(StoredBaseline(use_case_id="x", samples=alike(80)), ["s1"], rule) is not None


def test_files_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("mine: 1\n")
    assert write_baseline(path, {"useCaseId": "x"}, alike(3)) == tmp_path / "x-2.yaml"
    assert path.read_text() == "mine: 1\n"
