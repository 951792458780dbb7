"""From evidence to verdicts: Holm's correction over the candidates of a decision, and what each verdict says in words.

Plain arithmetic, so that workflow code may decide with it; the evidence itself comes from `workflows.rules.statistics`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workflows.model.spec.judgement import Evidence, Judged, JudgementSpec, Verdict

FEWEST_SAMPLES = 4
"""With fewer samples no test can say anything at the usual rates."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: a claim holds at alpha when its adjusted p-value is at most alpha."""
    order = sorted(range(len(p_values)), key=lambda place: (p_values[place], place))
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


class Family(NamedTuple):
    """What else is claimed beside one decision, for which it has to be corrected."""

    share: float = 1.0
    """How much of alpha the decision may use up."""
    chosen_from: int = 1
    """Out of how many trials the reference was chosen for its score: it was lucky, and whoever is as good looks worse."""


ALONE = Family()


class Claims(NamedTuple):
    """The p-values of one comparison, corrected."""

    better: float
    not_worse: float
    worse: float


def judge(candidates: Sequence[Evidence], spec: JudgementSpec, family: Family = ALONE) -> list[Judged]:
    """The verdicts on all candidates of one decision, corrected for their number, in their order.

    Every further objective is a question of its own, and corrected in the same way.
    """
    if spec.correction == "none" and len(candidates) > 1:
        return [judged for evidence in candidates for judged in judge([evidence], spec, family)]
    claims = _corrected(candidates, family)
    names = list(candidates[0].objectives) if candidates else []
    of_objectives = {name: _corrected([evidence.objectives[name] for evidence in candidates], family) for name in names}
    return [
        _judged(evidence, spec, claims[place], {name: of_objectives[name][place] for name in names}, len(candidates), family)
        for place, evidence in enumerate(candidates)
    ]


def _corrected(candidates: Sequence[Evidence], family: Family) -> list[Claims]:
    return [
        Claims(*(min(1.0, p / family.share) for p in (better, not_worse, worse * family.chosen_from)))
        for better, not_worse, worse in zip(
            holm([evidence.p_better for evidence in candidates]),
            holm([evidence.p_not_worse for evidence in candidates]),
            holm([evidence.p_worse for evidence in candidates]),
            strict=True,
        )
    ]


def _judged(
    evidence: Evidence, spec: JudgementSpec, claims: Claims, of_objectives: Mapping[str, Claims], together: int, family: Family
) -> Judged:
    verdict = _verdict(evidence, spec, claims)
    judged = Judged(
        verdict=verdict,
        accepted=_satisfies(evidence, spec, verdict),
        adjusted_p=_p_of(verdict, spec, claims),
        family=together,
        share=family.share,
        evidence=evidence,
        objectives={name: _verdict(other, spec, of_objectives[name]) for name, other in evidence.objectives.items()},
    )
    return judged.model_copy(update={"explanation": explain(judged, spec)})


def _verdict(evidence: Evidence, spec: JudgementSpec, claims: Claims) -> Verdict:
    if evidence.refused is not None:
        return Verdict.INCONCLUSIVE
    if claims.better <= spec.alpha:
        return Verdict.BETTER
    if spec.rule == "strict" and evidence.strict_broken is not None:
        return Verdict.NOT_WORSE if _keeps_all(evidence) else Verdict.WORSE
    if claims.not_worse <= spec.alpha:
        return Verdict.NOT_WORSE
    if claims.worse <= spec.alpha:
        return Verdict.WORSE
    return Verdict.INCONCLUSIVE


def _p_of(verdict: Verdict, spec: JudgementSpec, claims: Claims) -> float:
    """The p-value of what is claimed; of the rule's question where nothing is claimed, or where the strict rule counted."""
    asked = claims.not_worse if spec.rule == "non_inferiority" else claims.better
    if spec.rule == "strict":
        return asked
    own = {Verdict.BETTER: claims.better, Verdict.NOT_WORSE: claims.not_worse, Verdict.WORSE: claims.worse}
    return own.get(verdict, asked)


def _satisfies(evidence: Evidence, spec: JudgementSpec, verdict: Verdict) -> bool:
    if evidence.must_pass_broken or any(not check.holds for check in evidence.constraints):
        return False
    if spec.rule == "strict":
        return evidence.refused is None and _keeps_all(evidence)
    wanted = {Verdict.BETTER} if spec.rule == "improvement" else {Verdict.BETTER, Verdict.NOT_WORSE}
    return verdict in wanted


def _keeps_all(evidence: Evidence) -> bool:
    """A baseline that passes nothing in all its replicates accepts everything, so it is no baseline for the strict rule."""
    return evidence.strict_broken == 0 and bool(evidence.strict_baseline)


def share_of_round(spec: JudgementSpec, number: int, *, rounds: int | None = None) -> float:
    """How much of alpha a round may use up, so that all rounds of a run together keep it however many follow: a half, a sixth,
    a twelfth. Nothing has to be shared where alpha is a round's own, or where the run has one round."""
    return 1.0 if spec.holds_for != "run" or rounds == 1 else 1 / (number * (number + 1))


def smallest_p(test: str, samples: int) -> float:
    """The smallest p-value that so many samples (of each side) can give; above alpha, no candidate can ever pass."""
    if test == "mann_whitney":
        return 1 / math.comb(2 * samples, samples)
    return 0.5**samples


def pareto_front(gains: Mapping[str, Sequence[float]]) -> list[str]:
    """The candidates that no other one beats: as good in every objective, and better in one. In the order given."""
    return [
        name
        for name, own in gains.items()
        if not any(_dominates(other, own) for rival, other in gains.items() if rival != name)
    ]


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and any(a > b for a, b in zip(one, other, strict=True))


_TOLD = {
    Verdict.BETTER: "better than",
    Verdict.NOT_WORSE: "not worse than",
    Verdict.WORSE: "worse than",
    Verdict.INCONCLUSIVE: "neither better nor worse, as far as can be told, than",
}


def explain(judged: Judged, spec: JudgementSpec) -> str:
    """One sentence with the numbers."""
    evidence = judged.evidence
    if evidence.refused is not None:
        return f"nothing can be said against {evidence.reference}: {evidence.refused}"
    families = [f"{judged.family} candidates"] if judged.family > 1 else []
    families += ["all rounds of the run"] if judged.share < 1 else []
    corrected = f", corrected for {' and '.join(families)}" if families else ""
    parts = [
        f"{_TOLD[judged.verdict]} {evidence.reference}: {evidence.reference_mean:.3f} -> {evidence.mean:.3f}, "
        f"gain {evidence.effect:+.3f} [{evidence.low:+.3f}, {evidence.high:+.3f}] on {_counted(evidence)} "
        f"({evidence.better} better, {evidence.worse} worse), p {p_text(judged.adjusted_p)}{corrected} ({evidence.method})"
    ]
    if spec.rule == "non_inferiority":
        parts.append(f"margin {evidence.margin:g}, at least {evidence.bound:+.3f} with {1 - evidence.alpha:.0%} confidence")
    if spec.rule == "strict" and evidence.strict_broken is not None:
        parts.append(_strict_words(evidence))
    if evidence.must_pass_broken:
        parts.append(f"must-pass samples failed: {', '.join(evidence.must_pass_broken)}")
    parts += [
        f"{check.constraint} is not met: {'nothing was measured' if check.value is None else format(check.value, '.4g')}"
        for check in evidence.constraints
        if not check.holds
    ]
    return "; ".join(parts)


def _counted(evidence: Evidence) -> str:
    if not evidence.merged_from:
        return f"{evidence.n} samples"
    return f"{evidence.merged_from} samples that count as {evidence.n}"


def _strict_words(evidence: Evidence) -> str:
    if not evidence.strict_baseline:
        return f"strict rule: no sample passes every replicate of {evidence.reference}, so it accepts nothing"
    words = f"strict rule: {evidence.strict_broken} of {evidence.strict_baseline} samples no longer pass every replicate"
    if evidence.strict_false_rejections is not None:
        words += f" (it rejects {evidence.strict_false_rejections:.0%} of candidates that are exactly as good)"
    return words


def p_text(p: float) -> str:
    """`= 0.0039`"""
    return "< 0.0001" if p < 0.0001 else f"= {p:.2g}"
