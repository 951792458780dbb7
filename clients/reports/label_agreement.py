"""How far the people who labelled a question agree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal

from ratchet._frozen import Payload
from store.read.labels import LabelQuestion

ORDERED = "scale"


class Kappa(Payload):
    """How far people agree beyond chance: 1 is always, 0 as often as by chance."""

    method: Literal["cohen", "fleiss", "krippendorff"]
    """Cohen's of two people, Fleiss' of more: of what all of them labelled. Krippendorff's alpha of what two or more labelled.
    Steps of a scale differ by their square."""
    value: float | None
    """Null where all said the same of everything: then nothing can be told."""
    low: float | None
    """Where its interval of 95 % begins: a bootstrap over answers. Null where there are too few."""
    high: float | None
    items: int
    """Answers that it is about."""
    people: int


class LabelCount(Payload):
    """How often something was said."""

    label: str
    times: int


class LabelAgreement(Payload):
    """What people said of a question's answers, and how far they agree."""

    question_id: int
    people: tuple[str, ...]
    counts: tuple[LabelCount, ...]
    shared: int
    """Answers that two or more labelled."""
    same: float | None
    """Of the pairs of labels that these have, how many are the same; null where there are none."""
    kappas: tuple[Kappa, ...]


def agreement_of(question: LabelQuestion, said: Sequence[tuple[int, str, str]]) -> LabelAgreement:
    """Work out agreement; it computes, so call it in a thread. `said` is position, who and label."""
    from workflows.rules.statistics.agreement import agreement

    places = {label: place for place, label in enumerate(question.categories)}
    people = sorted({who for _, who, _ in said})
    columns = {who: place for place, who in enumerate(people)}
    table: dict[int, list[int | None]] = {}
    for position, who, label in said:
        if label in places:
            table.setdefault(position, [None] * len(people))[columns[who]] = places[label]
    rows = [table[position] for position in sorted(table)]
    pairs = [one == other for row in rows for one, other in combinations([one for one in row if one is not None], 2)]
    found = agreement(rows, len(places), ordered=question.kind == ORDERED, seed=question.seed)
    return LabelAgreement(
        question_id=question.question_id,
        people=tuple(people),
        counts=tuple(LabelCount(label=label, times=sum(one == label for _, _, one in said)) for label in question.categories),
        shared=sum(sum(one is not None for one in row) >= 2 for row in rows),
        same=sum(pairs) / len(pairs) if pairs else None,
        kappas=tuple(Kappa(**_told(one)) for one in found),
    )


def _told(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Kappa.model_fields}
