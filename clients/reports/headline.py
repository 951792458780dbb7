"""What a run comes to: the figure that every report, the page, the API and the gates lead with, worked out and worded once.

A search's own score is the best of many, and so flattering. It stands beside, named as that of the search; what leads is what
was confirmed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clients.reports.comparisons.score_differences import VERDICTS, ScoreDifference, difference_of, interval_text
from clients.reports.formatting import counted, signed, telling_apart
from ratchet._frozen import Payload
from ratchet.optimizer import Direction
from workflows.model.run.run_result import Confirmation
from workflows.model.spec.judgement import Judged, Verdict
from workflows.rules.decisions.sentences import NOTHING_HOLDS
from workflows.rules.decisions.verdicts import p_text

if TYPE_CHECKING:  # a list of runs need not load what reports are made of
    from clients.reports.facts import RunFacts
    from store.read.rows.run_rows import RunSummary

NO_DIFFERENCE: Final = 1e-9
"""What two ways of adding the same scores may differ by."""

WHERE: Final = {
    "test_split": "on {} held-back {}",
    "fresh_answers": "with fresh answers to the {} {} of the search",
    "cross_fitting": "by cross-fitting over the {} {} of the search",
}


class Outcome(StrEnum):
    """What a run comes to, in one word."""

    OPEN = "open"
    """It goes on: nothing is claimed yet."""
    NOTHING = "nothing"
    """Not even the baseline was measured."""
    MEASURED = "measured"
    """The baseline was measured, and nothing was proposed."""
    BETTER = "better"
    """The winner is better, confirmed."""
    NOT_WORSE = "not_worse"
    """The winner is not worse, confirmed, which is what its rule asks for."""
    UNPROVEN = "unproven"
    """The search's winner does not hold: the result is the baseline."""
    BASELINE = "baseline"
    """Nothing was better than the baseline, not even in the search."""
    UNCONFIRMED = "unconfirmed"
    """The result is as the search saw it, because nothing was to be confirmed."""


class SearchFigures(Payload):
    """What the search itself saw."""

    baseline_score: float | None = None
    best_score: float | None = None
    """Of the best of many, and so optimistic."""
    best_candidate_id: str | None = None
    words: str = ""


class Headline(Payload):
    """What a run comes to. Scores, difference, interval and p-value are those of the confirmation."""

    outcome: Outcome
    words: str
    """One sentence with the figures."""
    brief: str = ""
    """The same in a column of a list: `+0.12, better`."""
    why: str = ""
    """Where the search's winner does not hold: what the confirmation showed of it, or why there was none."""
    holds: bool = False
    """The result is better than the baseline, or shorter and not worse, as its rule asks."""
    score: float | None = None
    """Of the result: the winner's where it holds, else the baseline's. None where only the search has one."""
    baseline_score: float | None = None
    """Of the baseline, on the same answers."""
    verdict: Verdict | None = None
    """On the search's winner, against the baseline."""
    difference: float | None = None
    """From the baseline to the search's winner, as it is: negative is what a run that minimizes hopes for."""
    low: float | None = None
    high: float | None = None
    """The ends of its interval."""
    confidence: float | None = None
    p_value: float | None = None
    """Of the verdict."""
    samples: int | None = None
    """That were compared."""
    how: str | None = None
    """`test_split`, `fresh_answers` or `cross_fitting`."""
    caution: str = ""
    """Who has seen the held-back samples before, where somebody has."""
    in_search: SearchFigures = SearchFigures()

    @property
    def beside(self) -> list[tuple[str, str]]:
        """What belongs beside it, each text with its name."""
        searched = self.outcome in (Outcome.BETTER, Outcome.NOT_WORSE, Outcome.UNPROVEN)
        rows = [
            ("Unproven", self.in_search.best_candidate_id or "" if self.outcome is Outcome.UNPROVEN else ""),
            ("Confirmation", self.why),
            ("In the search", self.in_search.words if searched else ""),
            ("Caution", self.caution),
        ]
        return [(name, text) for name, text in rows if text]


NOT_MEASURED: Final = Headline(outcome=Outcome.OPEN, words="Nothing is measured yet")
"""Of a run that has not begun."""


class _Scored(NamedTuple):
    candidate_id: str
    score: float


class _Stand(NamedTuple):
    """What a headline is made from, wherever it was read."""

    direction: Direction
    is_over: bool
    proposed: int
    baseline: _Scored | None
    best: _Scored | None
    confirmation: Confirmation | None
    unproven: _Scored | None
    why_unproven: str


def headline_of(facts: RunFacts) -> Headline:
    """The headline of a run as reports see it."""
    from clients.reports.facts import best_iteration, first_success

    baseline, best, result = first_success(facts), best_iteration(facts), facts.result
    unproven = result.unproven if result else None
    return _headline(
        _Stand(
            facts.direction,
            facts.is_over,
            facts.counts.proposed,
            _scored(baseline.candidate_id, baseline.score) if baseline else None,
            _scored(best.candidate_id, best.score) if best else None,
            result.confirmation if result else None,
            _scored(unproven.candidate_id, unproven.score) if unproven else None,
            unproven.why if unproven else "",
        )
    )


def headline_of_row(row: RunSummary) -> Headline:
    """The headline of a run as lists and the API read it."""
    unproven = row.unproven
    return _headline(
        _Stand(
            Direction(row.direction),
            row.finished_at is not None,
            row.counts.proposed,
            _scored(row.baseline_candidate_id, row.baseline_score),
            _scored(row.best_candidate_id, row.best_score),
            row.confirmation,
            _scored(unproven.candidate_id, unproven.score) if unproven else None,
            unproven.why if unproven else "",
        )
    )


def _scored(candidate_id: str | None, score: float | None) -> _Scored | None:
    return None if candidate_id is None or score is None else _Scored(candidate_id, score)


def _headline(run: _Stand) -> Headline:
    found = Headline(outcome=Outcome.OPEN, words="")
    if run.confirmation is not None:
        found = _of_confirmation(run.confirmation, run.direction)
    found = found.model_copy(update={"in_search": _in_search(run)})
    outcome, words, figures = _outcome(run, found)
    told = found.model_copy(update={"outcome": outcome, "words": words[:1].upper() + words[1:], **figures})
    return told.model_copy(update={"brief": _brief(told)})


def _outcome(run: _Stand, found: Headline) -> tuple[Outcome, str, dict[str, Any]]:
    """What the run comes to, the sentence, and the figures that are not just those of the confirmation."""
    search, confirmation, baseline = found.in_search, run.confirmation, run.baseline
    if not run.is_over:
        told = f"in the search so far: {search.words}; nothing is confirmed yet" if search.words else NOT_MEASURED.words
        return Outcome.OPEN, told, {}
    if baseline is None:
        return Outcome.NOTHING, "nothing was measured", {}
    stays = confirmation.baseline_score if confirmation and confirmation.baseline_score is not None else baseline.score
    as_it_stays = {"score": stays, "baseline_score": stays}
    if run.unproven is not None:
        return Outcome.UNPROVEN, NOTHING_HOLDS, {**as_it_stays, "why": found.words or run.why_unproven}
    if confirmation is not None and confirmation.holds and found.verdict is not None:
        outcome = Outcome.BETTER if found.verdict is Verdict.BETTER else Outcome.NOT_WORSE
        return outcome, found.words, {"holds": True, "score": confirmation.winner_score}
    if run.best is None or run.best.candidate_id == baseline.candidate_id:
        what = f"{telling_apart(stays)[0]}, the baseline"
        if run.proposed:
            return Outcome.BASELINE, f"no improvement was found: {what}, stays", as_it_stays
        return Outcome.MEASURED, f"{what}; nothing else was measured", as_it_stays
    why = found.words or "nothing was to be confirmed"
    return Outcome.UNCONFIRMED, f"not confirmed, in the search {search.words}", {"why": why, "baseline_score": None}


def _brief(found: Headline) -> str:
    searched = found.in_search
    match found.outcome:
        case Outcome.BETTER | Outcome.NOT_WORSE if found.verdict is not None and found.difference is not None:
            return f"{signed(found.difference)}, {VERDICTS[found.verdict]}"
        case Outcome.UNPROVEN:
            return "nothing holds"
        case Outcome.BASELINE:
            return "no improvement"
        case Outcome.MEASURED if found.score is not None:
            return telling_apart(found.score)[0]
        case Outcome.OPEN | Outcome.UNCONFIRMED if searched.best_score is not None and searched.baseline_score is not None:
            return f"{' → '.join(telling_apart(*{searched.baseline_score: 0, searched.best_score: 0}))} in search"
    return ""


def _of_confirmation(confirmation: Confirmation, direction: Direction) -> Headline:
    """The figures of a confirmation, and what it showed of the search's winner in words."""
    known = {"how": confirmation.how, "caution": _caution(confirmation), "baseline_score": confirmation.baseline_score}
    judged = confirmation.judged
    if judged is None or confirmation.baseline_score is None or confirmation.winner_score is None:
        return Headline(outcome=Outcome.OPEN, words=_why_no_verdict(confirmation), **known)
    difference = difference_of(judged.evidence, direction)
    return Headline(
        outcome=Outcome.OPEN,
        words=_judged_text(confirmation, judged, difference),
        verdict=judged.verdict,
        difference=difference.estimate,
        low=difference.low,
        high=difference.high,
        confidence=difference.confidence,
        p_value=None if judged.evidence.refused is not None else judged.adjusted_p,
        samples=judged.evidence.n,
        **known,
    )


def _why_no_verdict(confirmation: Confirmation) -> str:
    if confirmation.refused is not None:
        return confirmation.refused
    measured = [
        f"{name} {telling_apart(score)[0]}"
        for name, score in (("baseline", confirmation.baseline_score), ("winner", confirmation.winner_score))
        if score is not None
    ]
    return f"not measured in full ({', '.join(measured) or 'no trial completed'})"


def _judged_text(confirmation: Confirmation, judged: Judged, difference: ScoreDifference) -> str:
    """`better: 0.81 → 0.93, +0.12 (95% CI +0.03…+0.21, p = 0.004), on 40 held-back samples`"""
    evidence = judged.evidence
    scores = (score for score in (confirmation.baseline_score, confirmation.winner_score) if score is not None)
    margin = f" (margin {evidence.margin:g})" if judged.verdict is Verdict.NOT_WORSE else ""
    p = f", p {p_text(judged.adjusted_p)}" if evidence.refused is None else ""
    one_sided = " one-sided" if judged.verdict is Verdict.BETTER and evidence.low < 0 else ""  # the interval has two sides
    where = WHERE[confirmation.how].format(*counted(evidence.merged_from or evidence.n, "sample").split())
    merged = f", which count as {evidence.n:,}" if evidence.merged_from else ""
    apart = f"{signed(difference.estimate)} ({interval_text(difference)}{p}{one_sided})"
    told = f"{VERDICTS[judged.verdict]}{margin}: {' → '.join(telling_apart(*scores))}, {apart}, {where}{merged}"
    failed = [f"must-pass samples failed: {', '.join(evidence.must_pass_broken)}"] if evidence.must_pass_broken else []
    failed += [f"{check.constraint} is not met" for check in evidence.constraints if not check.holds]
    return "; ".join([told, *failed])


def _in_search(run: _Stand) -> SearchFigures:
    """`0.48 → 0.97, r7-1a2b3c4d; a gain 0.06 larger than the confirmed one`"""
    baseline, best, confirmation = run.baseline, run.unproven or run.best, run.confirmation
    if baseline is None:
        return SearchFigures()
    if best is None or best.candidate_id == baseline.candidate_id:
        best, told = baseline, f"{telling_apart(baseline.score)[0]}, the baseline"
    else:
        told = f"{' → '.join(telling_apart(baseline.score, best.score))}, {best.candidate_id}"
        if confirmation is not None and confirmation.optimism is not None:
            told += f"; {_against_the_confirmed(confirmation.optimism)}"
    return SearchFigures(baseline_score=baseline.score, best_score=best.score, best_candidate_id=best.candidate_id, words=told)


def _against_the_confirmed(optimism: float) -> str:
    if abs(optimism) < NO_DIFFERENCE:
        return "the same gain as the confirmed one"
    return f"a gain {signed(abs(optimism))[1:]} {'larger' if optimism > 0 else 'smaller'} than the confirmed one"


def _caution(confirmation: Confirmation) -> str:
    """Who has seen the held-back samples before, where somebody has, and what to do about it."""
    readers, searched = confirmation.readers, confirmation.searched
    told = []
    if readers:
        told.append(f"{readers:,} other run{' was' if readers == 1 else 's were'} confirmed on these samples before")
    if searched:
        told.append(f"other runs searched on {searched:,} of these samples")
    return f"{'; '.join(told)}. The more a split is looked at, the less it proves: hold back others" if told else ""
