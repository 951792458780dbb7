"""Who turns the pages of a comparison waits for its statistics once, and what changed is judged anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ratchet.optimizer import Direction
from store.read.samples import comparisons
from store.read.samples.comparisons import Contrast, KeptVerdicts
from store.read.samples.sample_pairs import MeasuredTrial, SampleInTrial, SamplePair

TRIAL = MeasuredTrial(
    *("run", "r0-1", "baseline", "completed", "validation", "c1", "target", "scorer"),
    first_replicate=0,
    replicates=1,
    part="",
    score=0.5,
    judgement={"alpha": 0.05},
    direction=Direction.MAXIMIZE,
    seed=7,
)


def read(gain: float = 0.25, samples: int = 12) -> Contrast:
    """A comparison as it comes from the store: equal every time, and never the same objects."""
    pairs = []
    for position in range(samples):
        one = SampleInTrial(position, f"h{position}", 1.0, position / samples, 1, position % 2, cluster=position)
        assert one.mean is not None
        pairs.append(SamplePair(one, replace(one, mean=min(1.0, one.mean + gain))))
    return Contrast(replace(TRIAL), replace(TRIAL, candidate_id="r1-1", purpose="candidate"), pairs)


def test_the_same_comparison_is_judged_once() -> None:
    verdicts = KeptVerdicts()
    first = verdicts.of(read())
    assert first is not None
    assert verdicts.of(read()) is first
    assert first == read().judged()


def test_what_a_verdict_is_found_from_makes_it_another_one() -> None:
    verdicts, known = KeptVerdicts(), read()
    first = verdicts.of(known)
    for changed in (
        read(gain=0.0),
        read(samples=11),
        replace(known, candidate=replace(known.candidate, seed=8)),
        replace(known, candidate=replace(known.candidate, judgement={"alpha": 0.01})),
        replace(known, candidate=replace(known.candidate, direction=Direction.MINIMIZE)),
    ):
        assert verdicts.of(changed) is not first
        assert verdicts.of(changed) == changed.judged()


def test_no_more_than_a_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "MOST_VERDICTS", 2)
    verdicts = KeptVerdicts()
    first, second = verdicts.of(read(samples=8)), verdicts.of(read(samples=9))
    assert verdicts.of(read(samples=8)) is first
    verdicts.of(read(samples=10))
    assert verdicts.of(read(samples=8)) is first
    assert verdicts.of(read(samples=9)) is not second
