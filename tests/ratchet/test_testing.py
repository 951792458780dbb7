"""A probabilistic assertion: what it shows, that it stops early, and what it cannot decide."""

from __future__ import annotations

from math import comb
from pathlib import Path
from typing import Any

import pytest

from ratchet import Sample, Score
from ratchet.testing import NoStoredBaseline, Undecided, not_worse, passes


class Target:
    """Answers every sample but those it is to fail on."""

    def __init__(self, *wrong: int) -> None:
        self.wrong, self.calls = wrong, 0

    def __call__(self, sample: Sample) -> str:
        self.calls += 1
        return "no" if sample.input in self.wrong else "yes"


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"s{n}", "input": n, "expected": "yes"} for n in range(count)]


def test_it_is_shown_by_as_many_samples_as_it_takes_and_no_more() -> None:
    target = Target()
    shown = passes(target, rows(100), at_least=0.9)
    assert bool(shown)
    needed = next(k for k in range(101) if sum(comb(100, n) * 0.9**n * 0.1 ** (100 - n) for n in range(k, 101)) <= 0.05)
    assert (target.calls, shown.passed) == (needed, needed), "what is left could not change it"


def test_too_few_that_pass_end_it_early_and_name_what_failed() -> None:
    target = Target(*range(40))
    shown = passes(target, rows(100), at_least=0.9)
    assert not shown
    assert target.calls < 30
    told = repr(shown).splitlines()
    assert told[0].endswith("samples passed: less than 0.9, with 0.95 confidence")
    assert told[1].strip() == "s0: answered 'no', expected 'yes'"
    assert told[-1].strip() == f"… {target.calls - 5} more"


def test_so_few_samples_that_they_could_never_show_it_are_told_before_any_call() -> None:
    target = Target()
    with pytest.raises(Undecided, match=r"20 samples cannot show at least 0\.9 .*: give 29 or more"):
        passes(target, rows(20), at_least=0.9)
    assert target.calls == 0
    assert passes(target, rows(29), at_least=0.9)


class Table(list[str]):
    """As iteration sees a DataFrame: the names of its columns."""

    columns = ("input", "expected")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("rows.jsonl", "data: is a str; .* read the file first"),
        (Path("rows.jsonl"), "read the file first"),
        ({"input": 1}, "data: is a dict; give rows"),
        (Table(Table.columns), r'a table gives them by to_dict\("records"\)'),
        (7, "data: is a int; give rows"),
    ],
)
def test_what_is_no_rows_is_refused_before_any_call(data: Any, told: str, tmp_path: Path) -> None:
    target = Target()
    with pytest.raises(TypeError, match=told):
        passes(target, data)
    with pytest.raises(TypeError, match=told):
        not_worse(target, data, baseline=tmp_path / "baseline.yaml", renew=True)
    assert target.calls == 0


def test_what_is_neither_shown_nor_disproved_is_neither_true_nor_false() -> None:
    target = Target(*range(10))
    with pytest.raises(Undecided, match=r"s0: answered 'no', expected 'yes'") as undecided:
        passes(target, rows(100), at_least=0.9)
    assert target.calls < 100
    assert "96 pass, and less when at most 84 do" in str(undecided.value) or "95 pass" in str(undecided.value)


@pytest.mark.parametrize(("share", "wrongly"), [(0.9, True), (0.89, False)])
def test_it_errs_no_more_often_than_it_may(share: float, wrongly: bool) -> None:
    """Over all that 60 samples can come to, weighed by how likely each is."""
    erred = 0.0
    for failures in range(61):
        try:
            shown: bool | None = bool(passes(Target(*range(failures)), rows(60), at_least=0.9))
        except Undecided:
            shown = None
        likely = comb(60, failures) * (1 - share) ** failures * share ** (60 - failures)
        erred += likely * (shown is (not wrongly) if share < 0.9 else shown is False)
    assert erred <= 0.05


async def test_async_targets_scorers_and_what_raises_also_within_a_running_loop() -> None:
    async def target(configuration: Any, sample: Sample, context: Any) -> Any:
        if sample.input % 2:
            raise LookupError("odd")
        return configuration["k"]

    def large(output: Any, sample: Sample) -> list[Score]:
        return [Score("large", float(output.value > 1), reason="too small")]

    shown = passes(target, range(60), at_least=0.7, scorer=large, configuration={"k": 2})
    assert "2: raised LookupError: odd" in repr(shown)
    with pytest.raises(TypeError, match="a target takes"):
        passes(lambda: 1, range(60))  # type: ignore[arg-type]
    assert passes(lambda sample: 1, range(60), scorer=lambda output, sample: True)
    small = passes(lambda configuration, sample: 1, range(60), scorer=large, configuration={})
    assert "1: too small" in repr(small)


def test_what_lost_no_more_than_a_margin_against_its_stored_baseline_is_not_worse(tmp_path: Path) -> None:
    kept = tmp_path / "baseline.yaml"
    with pytest.raises(NoStoredBaseline, match=r"baseline\.yaml: there is no stored baseline; pytest --ratchet-renew"):
        not_worse(Target(), rows(60), baseline=kept)
    target = Target(1, 2)
    stored = not_worse(target, rows(60), baseline=kept, renew=True)
    assert (bool(stored), target.calls, kept.exists()) == (True, 60, True)
    assert not_worse(Target(1, 2), rows(60), baseline=kept, margin=0.06)
    worse = not_worse(Target(1, *range(10, 30)), rows(60), baseline=kept)
    assert not worse
    assert worse.effect == pytest.approx(-19 / 60)
    assert (len(worse.worse), worse.better) == (20, ("s2",))
    assert "s10 1.00 → 0.00, broken: answered 'no', expected 'yes'" in repr(worse)


def test_what_cannot_be_shown_against_a_baseline_is_told_before_any_call(tmp_path: Path) -> None:
    kept = tmp_path / "baseline.yaml"
    not_worse(Target(), rows(20), baseline=kept, renew=True)
    target = Target()
    with pytest.raises(Undecided, match=r"20 samples cannot show that less than 0\.05 was lost"):
        not_worse(target, rows(20), baseline=kept)
    assert target.calls == 0
    with pytest.raises(Undecided, match="1 sample got worse"):
        not_worse(Target(3), rows(20), baseline=kept, margin=0.16)
    assert not_worse(Target(), rows(20), baseline=kept, margin=0.16)


def test_a_stored_baseline_is_found_beside_the_test_by_its_name(tmp_path: Path) -> None:
    code = compile("found = not_worse(target, rows, baseline='agent', renew=True)", str(tmp_path / "test_it.py"), "exec")
    names: dict[str, Any] = {"not_worse": not_worse, "target": Target(), "rows": rows(3)}
    exec(code, names)
    assert (tmp_path / "experiments/specs/agent.yaml").exists()
    assert str(names["found"]).startswith("stored as the baseline")
