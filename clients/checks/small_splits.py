"""Splits that are too small for any result: what would be paid for could show nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ratchet.optimizer import Direction
from workflows.model.spec.judgement import JudgementSpec, Verdict
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split
from workflows.rules.decisions.verdicts import judge
from workflows.rules.spec.default_splits import told_of_confirmation

MOST_TRIED = 200
"""Samples. Where so many are not enough, alpha is what is wrong, and no number of samples is worth naming."""


def too_small_splits(request: OptimizationRequest, counting: Mapping[Split, int]) -> Iterator[str]:
    """Splits of which no verdict can be `better`, even where the baseline fails all samples and the candidate passes them."""
    confirmed = "winner is confirmed"
    asked = {Split.TEST: confirmed}
    searched = next((split for split in (Split.VALIDATION, Split.TRAIN, Split.ALL) if counting.get(split)), Split.ALL)
    if request.judgement.accept in ("better", "not_worse"):
        asked[searched] = "candidates are judged"
    elif request.judgement.rule == "improvement" and told_of_confirmation(request, counting.get(Split.TEST, 0)):
        asked[searched] = confirmed
    for split, why in asked.items():
        size = counting.get(split, 0)
        if split is not Split.TEST and request.samples_per_trial is not None:
            size = min(size, request.samples_per_trial)
        if size and not _can_show_a_gain(size, request.judgement):
            least = next((n for n in range(size, MOST_TRIED) if _can_show_a_gain(n, request.judgement)), None)
            needed = "a larger judgement.alpha is needed" if least is None else f"at least {least} are needed"
            where = "dataset" if split is Split.ALL else f"dataset.splits.{split.value}"
            few = f"its {size} samples are" if size > 1 else "one sample is"
            yield f"{where}: {few} too few to show any gain, and by {'them' if size > 1 else 'it'} the {why}; {needed}"


def _can_show_a_gain(samples: int, spec: JudgementSpec) -> bool:
    from workflows.rules.statistics import compare

    found = compare([0.0] * samples, [1.0] * samples, spec=spec, direction=Direction.MAXIMIZE)
    return judge([found], spec)[0].verdict is Verdict.BETTER
