"""Merging by ancestry: two candidates that descend from the same one, put together text by text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ratchet._formats.canonical import canonical_json
from workflows.rules.reflection.measured_answers import MeasuredAnswers, MeasuredCandidate

TRIES = 100
"""Pairs that are looked at before giving up."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Two candidates, what both descend from, and what is changed in the first."""

    one: MeasuredCandidate
    other: MeasuredCandidate
    ancestor: MeasuredCandidate
    values: Mapping[str, Any]


def mergeable(
    evidence: MeasuredAnswers, survivors: Sequence[MeasuredCandidate], factors: Sequence[str], random: Random
) -> Merge | None:
    """A pair neither of which descends from the other, whose common ancestor was no better than either, and that changed
    different texts; None when none is found that was not tried before."""
    known = {each.candidate_id: each for each in evidence.candidates}
    tried = {
        (*each.parents[:2], each.extra.get("ancestor")) for each in evidence.candidates if each.extra.get("origin") == "merge"
    }
    if len(survivors) < 2:
        return None
    for _ in range(TRIES):
        one, other = random.sample(list(survivors), 2)
        above_one, above_other = ancestors(one, known), ancestors(other, known)
        if one.candidate_id in above_other or other.candidate_id in above_one:
            continue
        common = [
            known[name]
            for name in sorted(above_one & above_other)
            if known[name].full
            and evidence.score(known[name]) <= min(evidence.score(one), evidence.score(other))
            and (one.candidate_id, other.candidate_id, name) not in tried
            and _differently_changed(known[name], one, other, factors)
        ]
        if not common:
            continue
        weights = [max(evidence.score(each), 1e-9) for each in common]
        ancestor = random.choices(common, weights)[0]
        values = _merged(ancestor, one, other, factors, evidence, random)
        wanted = canonical_json({**one.configuration, **values})
        if all(canonical_json(each.configuration) != wanted for each in evidence.candidates):
            return Merge(one, other, ancestor, values)
    return None


def ancestors(known: MeasuredCandidate, by_id: Mapping[str, MeasuredCandidate]) -> set[str]:
    """Everybody it descends from."""
    found: set[str] = set()
    waiting = [*known.parents]
    while waiting:
        name = waiting.pop()
        if name in by_id and name not in found:
            found.add(name)
            waiting += by_id[name].parents
    return found


def _differently_changed(
    ancestor: MeasuredCandidate, one: MeasuredCandidate, other: MeasuredCandidate, factors: Sequence[str]
) -> bool:
    """Whether some text was changed on exactly one side."""
    return any(_same(ancestor, one, factor) != _same(ancestor, other, factor) for factor in factors)


def _same(one: MeasuredCandidate, other: MeasuredCandidate, factor: str) -> bool:
    return canonical_json(one.configuration[factor]) == canonical_json(other.configuration[factor])


def _merged(
    ancestor: MeasuredCandidate,
    one: MeasuredCandidate,
    other: MeasuredCandidate,
    factors: Sequence[str],
    evidence: MeasuredAnswers,
    random: Random,
) -> dict[str, Any]:
    """What becomes different in the first: what only the other changed, and of what both changed what the better one has."""
    ahead = evidence.score(other) - evidence.score(one) or random.choice([-1.0, 1.0])
    taken = [
        factor
        for factor in factors
        if not _same(one, other, factor)
        and (_same(ancestor, one, factor) or (not _same(ancestor, other, factor) and ahead > 0))
    ]
    return {factor: other.configuration[factor] for factor in taken}
