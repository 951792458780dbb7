"""Pareto fronts by sample: who is the best on each, who of them is needed, and how often each is on one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from workflows.rules.reflection.measured_answers import MeasuredAnswers, MeasuredCandidate

MOST_TOLD = 20
"""Members of a front that are told in the history."""


def measured_in_full(evidence: MeasuredAnswers) -> list[MeasuredCandidate]:
    """Who may be a parent by the published algorithm, in the order of arrival."""
    return [known for known in evidence.candidates if known.full]


def fronts_of(pool: Sequence[MeasuredCandidate], evidence: MeasuredAnswers) -> list[frozenset[str]]:
    """For every sample that candidates are scored on: those that do best on it."""
    best: dict[int, tuple[float, list[str]]] = {}
    for known in pool:
        for (split, place), score in known.means.items():
            if split is not evidence.search:
                continue
            leading = best.get(place)
            if leading is None or score > leading[0]:
                best[place] = (score, [known.candidate_id])
            elif score == leading[0]:
                leading[1].append(known.candidate_id)
    return [frozenset(names) for _, (_, names) in sorted(best.items())]


def survivors(fronts: Sequence[frozenset[str]], means: Mapping[str, float]) -> dict[str, int]:
    """Candidates that cannot be left out without losing a front, and on how many each is.

    From the lowest mean up, a candidate goes when every front it is on has somebody else left.
    """
    order = sorted({name for front in fronts for name in front}, key=lambda name: (means[name], name))
    left = set(order)
    removed = True
    while removed:
        removed = False
        for name in order:
            if name in left and all(len(front & left) > 1 for front in fronts if name in front):
                left.discard(name)
                removed = True
                break
    counted = Counter(name for front in fronts for name in front if name in left)
    return {name: counted[name] for name in order if name in left}


def pruned_fronts(evidence: MeasuredAnswers) -> dict[str, int]:
    """Who may be drawn as a parent, with their weights."""
    pool = measured_in_full(evidence)
    means = {known.candidate_id: evidence.score(known) for known in pool}
    return survivors(fronts_of(pool, evidence), means)


def drawn_by_fronts(weights: Mapping[str, int], random: Random) -> str:
    """One of them, as likely as it is on fronts."""
    return random.choices(list(weights), list(weights.values()))[0]


def told_front(weights: Mapping[str, int]) -> dict[str, int]:
    """What the history tells of a front: its members by the number of samples on which they lead."""
    return dict(sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:MOST_TOLD])
