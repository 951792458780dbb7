"""A measurement against a stored baseline, sample by sample: not worse by more than a margin, worse, or neither shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from clients.reports.formatting import counted, score_text, signed
from clients.reports.history.stored_baselines import StoredBaseline, StoredSample
from ratchet._text.shortening import shorten
from ratchet._text.visible import one_line
from ratchet.optimizer import Direction
from workflows.model.spec.judgement import Evidence, Judged, JudgementSpec, Verdict
from workflows.rules.decisions.verdicts import FEWEST_SAMPLES, judge, p_text
from workflows.rules.statistics.comparison import compare

SAMPLES_NAMED: Final = 10
LONGEST_REASON: Final = 160

Outcome = Literal["not_worse", "worse", "undecided"]


@dataclass(frozen=True, slots=True)
class SampleChange:
    """One sample with what it reached then and now."""

    name: str
    before: StoredSample
    after: StoredSample

    @property
    def words(self) -> str:
        """`s3 1.00 → 0.00, broken: cites does not hold`"""
        turn = {(True, False): ", broken", (False, True): ", fixed"}.get((self.before.passed, self.after.passed), "")
        why = f": {shorten(one_line(self.after.why), LONGEST_REASON)}" if self.after.why and not self.after.passed else ""
        return f"{one_line(self.name)} {score_text(self.before.score)} → {score_text(self.after.score)}{turn}{why}"


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """What comparing a measurement with a stored baseline found."""

    outcome: Outcome
    evidence: Evidence
    judged: Judged
    judgement: JudgementSpec
    direction: Direction
    worse: tuple[SampleChange, ...]
    better: tuple[SampleChange, ...]
    changed_factors: tuple[str, ...] = ()
    not_compared: int = 0
    """Samples that are new, gone, or say something else than they did."""

    @property
    def headline(self) -> str:
        """`worse: 0.95 → 0.75, difference -0.2, 95% CI -0.38…-0.03, on 20 samples; margin 0.05`"""
        found = self.evidence
        told = {"not_worse": "not worse", "worse": "worse", "undecided": "undecided"}[self.outcome]
        if self.judged.verdict is Verdict.BETTER:
            told = "better"
        if found.refused is not None:
            return f"{told}: {found.refused}"
        sign = 1.0 if self.direction is Direction.MAXIMIZE else -1.0
        low, high = sorted((sign * found.low, sign * found.high))
        return (
            f"{told}: {score_text(found.reference_mean)} → {score_text(found.mean)}, difference {signed(sign * found.effect)}, "
            f"{found.confidence:.0%} CI {signed(low)}…{signed(high)}, p {p_text(self.judged.adjusted_p)}, "
            f"on {counted(found.n, 'sample')}; margin {found.margin:g}"
        )

    @property
    def lines(self) -> list[str]:
        """The headline, then the samples by name."""
        told = [self.headline]
        for changes, noun in ((self.worse, "got worse"), (self.better, "got better")):
            if changes:
                told.append(f"{counted(len(changes), 'sample')} {noun}:")
                told += [f"  {change.words}" for change in changes[:SAMPLES_NAMED]]
                told += [f"  … {len(changes) - SAMPLES_NAMED} more"] if len(changes) > SAMPLES_NAMED else []
        if self.outcome == "undecided":
            told.append(enough_words(self.evidence, self.judgement))
        if self.changed_factors:
            told.append(f"changed factors: {', '.join(self.changed_factors)}")
        if self.not_compared:
            told.append(f"{counted(self.not_compared, 'sample')} not compared: new, gone, or with another content than then")
        return told


def compared(
    baseline: StoredBaseline,
    samples: Mapping[str, StoredSample],
    judgement: JudgementSpec,
    configuration: Mapping[str, object] | None = None,
) -> BaselineComparison:
    """Compare what was measured with what is stored, over the samples that both answered and that say the same in both."""
    common = [name for name, sample in samples.items() if _is_same(baseline.samples.get(name), sample)]
    before, after = [baseline.samples[name] for name in common], [samples[name] for name in common]
    evidence = _evidence(before, after, judgement, baseline.direction)
    [judged] = judge([evidence], judgement)
    sign = 1.0 if baseline.direction is Direction.MAXIMIZE else -1.0
    changes = [SampleChange(name, one, other) for name, one, other in zip(common, before, after, strict=True)]
    gains = {change.name: sign * (change.after.score - change.before.score) for change in changes}
    by_gain = sorted(changes, key=lambda change: gains[change.name])
    factors = {} if configuration is None else configuration
    return BaselineComparison(
        outcome=_outcome(judged),
        evidence=evidence,
        judged=judged,
        judgement=judgement,
        direction=baseline.direction,
        worse=tuple(change for change in by_gain if gains[change.name] < 0),
        better=tuple(change for change in reversed(by_gain) if gains[change.name] > 0),
        changed_factors=tuple(name for name, value in factors.items() if baseline.factor_suit.get(name) != value),
        not_compared=len({*baseline.samples, *samples}) - len(common),
    )


def rule_of(judgement: JudgementSpec, margin: float) -> JudgementSpec:
    """The rule by which a stored baseline is compared with: the product's own paired non-inferiority test."""
    told = {
        "rule": "non_inferiority",
        "test": "paired",
        "margin": margin,
        "must_pass": None,
        "constraints": [],
        "objectives": [],
    }
    return judgement.model_copy(update=told)


def unshowable(baseline: StoredBaseline, names: Sequence[str], judgement: JudgementSpec) -> str | None:
    """Why so many samples could not show that nothing got worse, even if none did; None where they could."""
    same = [baseline.samples[name] for name in names if name in baseline.samples]
    evidence = _evidence(same, same, judgement, baseline.direction)
    [judged] = judge([evidence], judgement)
    return None if _outcome(judged) == "not_worse" else enough_words(evidence, judgement)


def unshowable_with(samples: int, judgement: JudgementSpec) -> str | None:
    """The same before there is any baseline, for scores between 0 and 1."""
    evidence = _evidence_if_all_pass(samples, judgement)
    return enough_words(evidence, judgement) if evidence.p_not_worse > judgement.alpha else None


def enough_words(evidence: Evidence, judgement: JudgementSpec) -> str:
    """What it would take to show it."""
    alpha, margin = judgement.alpha, judgement.margin
    if not 0 < margin < 1:
        return "give a margin between 0 and 1, in units of the score"
    needed = max(math.ceil(math.log(alpha) / math.log(1 - margin)), FEWEST_SAMPLES)
    while _evidence_if_all_pass(needed, judgement).p_not_worse > alpha:
        needed += 1
    if evidence.n >= needed:
        return "so many samples show neither that it is worse, nor that it is not: give more samples, or a larger margin"
    smallest = -_evidence_if_all_pass(max(evidence.n, FEWEST_SAMPLES), judgement).bound
    return (
        f"{counted(evidence.n, 'sample')} cannot show that less than {margin:g} was lost, even if none got worse: "
        f"give {needed} or more, or a margin of {math.ceil(smallest * 100) / 100:g}"
    )


def _evidence_if_all_pass(samples: int, judgement: JudgementSpec) -> Evidence:
    passed = [StoredSample(score=1.0, passed=True)] * samples
    return _evidence(passed, passed, judgement, Direction.MAXIMIZE)


def _is_same(stored: StoredSample | None, measured: StoredSample) -> bool:
    return stored is not None and (not stored.content or not measured.content or stored.content == measured.content)


def _evidence(
    before: Sequence[StoredSample], after: Sequence[StoredSample], judgement: JudgementSpec, direction: Direction
) -> Evidence:
    """What says the same several times counts once."""
    clusters = [sample.content or str(place) for place, sample in enumerate(after)]
    return compare(
        [sample.score for sample in before],
        [sample.score for sample in after],
        spec=judgement,
        direction=direction,
        reference_id="the stored baseline",
        clusters=clusters,
    )


def _outcome(judged: Judged) -> Outcome:
    if judged.verdict in (Verdict.BETTER, Verdict.NOT_WORSE):
        return "not_worse"
    return "worse" if judged.verdict is Verdict.WORSE else "undecided"
