"""The next step of `reflect`, from everything that was measured so far.

Effects are drawn from what is believed of them (Thompson sampling). A draw says which candidate to start from, which lines to
leave out and which to carry over from others, and a reflector rewrites the result. Towards the end of a round or of the budget,
who may be the best is measured again instead; and then the leader is measured in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from pydantic import JsonValue

from ratchet._formats.canonical import canonical_json
from workflows.model.activities.computation import Stored
from workflows.model.activities.reflection_plans import (
    MeasuredPart,
    ReflectSituation,
    Rewriting,
    SamplePart,
    ShownPart,
    StepPlan,
    part_of,
)
from workflows.rules.reflection.line_effects import Array, Model, Prior, fit
from workflows.rules.reflection.measured_answers import MeasuredAnswers, MeasuredCandidate, evidence_of
from workflows.rules.reflection.pareto import pruned_fronts, told_front
from workflows.rules.reflection.recombination import Composed, composed

NEWEST_SHOWN = 3
"""Of so many of the newest candidates a reflector sees failures, beside those of what it rewrites."""

LARGEST_TEXTS = 40_000
"""Characters of recombined texts that fit into one answer."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was chosen by measurement, on other worlds than those reported."""

    prior: Prior = field(default_factory=Prior)
    lead: float = 1.0
    """By how many standard deviations a leader must be ahead of the best to be worth measuring in full."""
    last_lead: float = 0.25
    """The same at the end of a budget, when there is nothing else to spend it on."""
    verifying: float = 0.12
    """The share of a budget that is spent on making sure of the leader, at its end."""


class Planner:
    """One step."""

    def __init__(self, evidence: MeasuredAnswers, situation: ReflectSituation, tuning: Tuning) -> None:
        self.evidence = evidence
        self.situation = situation
        self.tuning = tuning
        self.model: Model = fit(evidence, tuning.prior)
        self.values: Array = self.model.values()
        self.random = np.random.default_rng(situation.seed)
        self.room_for_texts = LARGEST_TEXTS

    def plan(self) -> StepPlan:
        """What to do now: rewrite, measure again, measure in full, let the round end without that, or nothing any more."""
        answers = self.evidence.answers
        best, leader = self._standing()
        places = self._places(leader)
        if not places or self._round_is_over(leader):
            sure = self.tuning.lead if places else self.tuning.last_lead
            if leader is not None and self.model.lead(leader, best) > sure:
                known = self.evidence.candidates[leader]
                return StepPlan(answers=answers, full=(known.candidate_id,), extra={known.candidate_id: {**known.extra}})
            if not places:
                return StepPlan(answers=answers)
            if self.situation.calls_left is None:
                return StepPlan(answers=answers, rests=True)
        if not self._is_ending(leader):
            return StepPlan(answers=answers, rewrite=self._exploring(places))
        rewrite, measure = self._verifying(places)
        return StepPlan(answers=answers, rewrite=rewrite, measure=measure)

    # -- when -------------------------------------------------------------------------------------------------------------

    def _standing(self) -> tuple[int, int | None]:
        """The best of those measured in full, and the best of the others that still may be."""
        order = [int(at) for at in np.argsort(-self.values, kind="stable")]
        left = self.situation.calls_left
        full = [at for at in order if self.evidence.candidates[at].full]
        others = (at for at in order if not self.evidence.candidates[at].full)
        return full[0], next((at for at in others if left is None or self._missing(at) <= left), None)

    def _missing(self, leader: int | None) -> int:
        """Calls that measuring it in full takes."""
        answered = self.evidence.candidates[leader].answered(self.evidence.search) if leader is not None else 0
        return self.situation.search * self.situation.replicates - answered

    def _places(self, leader: int | None) -> int:
        """How many candidates can be measured side by side, so that the leader still can be in full."""
        situation, fitting = self.situation, self.situation.candidates_per_round
        if situation.calls_left is not None:
            fitting = min(fitting, (situation.calls_left - self._missing(leader)) // situation.minibatch)
        if situation.trials_left is not None:
            fitting = min(fitting, situation.trials_left - 1)
        return max(fitting, 0)

    def _round_is_over(self, leader: int | None) -> bool:
        """After its steps; but what is measured in full last is measured when the budget ends."""
        left = self.situation.calls_left
        is_last = left is not None and left < 2 * self._missing(leader)
        return self.situation.steps >= self.situation.steps_per_round and not is_last

    def _is_ending(self, leader: int | None) -> bool:
        situation = self.situation
        if situation.calls_left is None:
            return situation.steps >= situation.steps_per_round - 1
        kept = max(
            self.tuning.verifying * (self.evidence.answers + situation.calls_left),
            situation.candidates_per_round * situation.minibatch,
        )
        return situation.calls_left < self._missing(leader) + kept

    # -- what -------------------------------------------------------------------------------------------------------------

    def _exploring(self, places: int) -> tuple[Rewriting, ...]:
        """New candidates: each starts from a draw of its own."""
        rewrite: list[Rewriting] = []
        for place in range(places):
            effects, worth = self.model.drawn(self.random)
            made = composed(self.model, int(np.argmax(worth)), effects, self.situation.factors)
            rewrite.append(self._rewriting(made, self._fresh_part(), self._shown(made.base), place))
        return tuple(rewrite)

    def _verifying(self, places: int) -> tuple[tuple[Rewriting, ...], tuple[MeasuredPart, ...]]:
        """Those who may be the best once more, and what is best by all that is known, put together."""
        measure: dict[str, MeasuredPart] = {}
        rewrite: list[Rewriting] = []
        made = composed(
            self.model, int(np.argmax(self.values)), self.model.mean, self.situation.factors, self.situation.brevity
        )
        if made.values and not self._is_known(made):
            rewrite.append(self._rewriting(made, self._fresh_part(), (), 0))
        for _ in range(places - len(rewrite)):
            _, worth = self.model.drawn(self.random)
            known = self.evidence.candidates[int(np.argmax(worth))]
            part = self._part(known)
            if part is not None:
                measured = MeasuredPart(candidate_id=known.candidate_id, **dict(part))
                measure.setdefault(known.candidate_id, measured)
        return tuple(rewrite), tuple(measure.values())

    def _is_known(self, made: Composed) -> bool:
        wanted = canonical_json({**made.base.configuration, **made.values})
        return any(canonical_json(known.configuration) == wanted for known in self.evidence.candidates)

    def _rewriting(self, made: Composed, part: SamplePart, shown: tuple[ShownPart, ...], place: int) -> Rewriting:
        size = sum(len(text) for text in made.values.values())
        fits = size <= self.room_for_texts
        self.room_for_texts -= size if fits else 0
        return Rewriting(
            base=made.base.candidate_id,
            parents=(made.base.candidate_id, *(made.donors if fits else ())),
            values={**made.values} if fits else {},
            components=self._components(place),
            reflect=bool(shown),
            shown=shown,
            parts=(part,),
        )

    def _components(self, place: int) -> tuple[str, ...]:
        """What may be rewritten: everything, or one text after the other."""
        factors = self.situation.factors
        if self.situation.one_at_a_time:
            return (factors[(self.situation.generation * self.situation.candidates_per_round + place) % len(factors)],)
        return factors

    # -- on which samples -------------------------------------------------------------------------------------------------

    def _fresh_part(self) -> SamplePart:
        part = self._part(None)
        assert part is not None
        return part

    def _part(self, known: MeasuredCandidate | None) -> SamplePart | None:
        """Samples that a candidate did not answer yet, as many as a step measures; None when there are none left."""
        count = self.situation.minibatch
        free = {
            split: [
                (first, min(count, size - first))
                for first in range(0, size, count)
                if known is None or any((split, place) not in known.means for place in range(first, min(first + count, size)))
            ]
            for split, size in self.situation.sizes(self.evidence.search).items()
        }
        open_splits = [split for split, blocks in free.items() if blocks]
        if not open_splits:
            return None
        split = open_splits[int(self.random.integers(len(open_splits)))]
        return part_of(split, *free[split][int(self.random.integers(len(free[split])))])

    def _shown(self, base: MeasuredCandidate) -> tuple[ShownPart, ...]:
        """Whose samples the reflector reads about: those of what it rewrites, and of the newest candidates."""
        newest = [known for known in self.evidence.candidates[-NEWEST_SHOWN:] if known is not base]
        return tuple(
            ShownPart(candidate_id=known.candidate_id, **dict(self._answered_part(known))) for known in (base, *newest)
        )

    def _answered_part(self, known: MeasuredCandidate) -> SamplePart:
        """Some neighbouring samples that a candidate answered; other ones each time, where it answered many."""
        split, first, last = known.parts[int(self.random.integers(len(known.parts)))]
        window = 2 * self.situation.minibatch
        if last - first > window:
            first = int(self.random.integers(first, last - window + 1))
        return part_of(split, first, min(last - first, window))


def next_step(stored: Stored, arguments: Mapping[str, JsonValue]) -> JsonValue:
    """The plan of one step; see `ReflectSituation` for the arguments."""
    situation = ReflectSituation.model_validate(arguments)
    evidence = evidence_of(stored.trials, situation.sign)
    plan = Planner(evidence, situation, Tuning()).plan()
    plan = plan.model_copy(update={"fronts": told_front(pruned_fronts(evidence))})
    found: JsonValue = plan.model_dump(mode="json", exclude_defaults=True)
    return found
