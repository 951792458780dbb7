"""The next step of `gepa`, the published algorithm: draw a parent by its fronts, reflect on a minibatch, and pay for all
samples only if the child does strictly better on the minibatch; sometimes merge two candidates that descend from the same one.

An iteration takes up to three steps: the parent on the minibatch, the child on the same samples, the child on all. What the
algorithm is in the middle of comes with the arguments; everything else is in the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, Literal

from pydantic import JsonValue

from ratchet._formats.canonical import derive_seed
from workflows.model.activities.computation import Stored
from workflows.model.activities.reflection_plans import (
    GepaSituation,
    MeasuredPart,
    Rewriting,
    SamplePart,
    ShownPart,
    StepPlan,
    Task,
    UnderWay,
    part_of,
)
from workflows.model.trial import Split
from workflows.rules.reflection.ancestry import Merge, mergeable
from workflows.rules.reflection.measured_answers import MeasuredAnswers, MeasuredCandidate, evidence_of
from workflows.rules.reflection.pareto import drawn_by_fronts, pruned_fronts, told_front

PERFECT: Final = 1.0
"""A minibatch on which every score is this high leaves nothing to reflect on."""

MOST_PERFECT = 50
"""So many perfect minibatches in a row, and there is nothing left to learn from."""


class GepaIteration:
    """One step of the published algorithm."""

    def __init__(self, evidence: MeasuredAnswers, situation: GepaSituation) -> None:
        self.evidence = evidence
        self.situation = situation
        self.known = {known.candidate_id: known for known in evidence.candidates}
        under_way = situation.under_way
        self.number = under_way.iteration
        self.tasks: Sequence[Task] = under_way.tasks
        self.contested = under_way.contested
        self.stage = under_way.stage
        self.found_new = under_way.found_new

    def plan(self) -> StepPlan:
        """What to do now, and what the algorithm is then in the middle of."""
        if self.stage == "parents":
            rewriting = self._rewriting()
            if rewriting is not None:
                return rewriting
            self._over(found_new=False)
        elif self.stage in ("children", "merge"):
            accepted = self._accepted()
            self._over(found_new=bool(accepted) and self.stage == "children")
            if accepted:
                extra = {name: {**self.known[name].extra} for name in accepted}
                return StepPlan(full=tuple(accepted), extra=extra, under_way=self._under_way(None))
        return self._begun()

    def _over(self, *, found_new: bool) -> None:
        self.number += 1
        self.found_new = found_new

    def _begun(self) -> StepPlan:
        """A merge after something new was found, else reflection; minibatches without a failure are passed over."""
        merge = self._merge() if self.found_new else None
        self.found_new = False
        if merge is not None:
            return merge
        for _ in range(MOST_PERFECT):
            self.tasks = self._drawn()
            unmeasured = [task for task in self.tasks if not self._answered(task.parent, task)]
            if unmeasured:
                once = dict.fromkeys(MeasuredPart(candidate_id=task.parent, **dict(_samples(task))) for task in unmeasured)
                return StepPlan(measure=tuple(once), under_way=self._under_way("parents", self.tasks))
            rewriting = self._rewriting()
            if rewriting is not None:
                return rewriting
            self._over(found_new=False)
        return StepPlan()

    def _under_way(
        self,
        stage: Literal["parents", "children", "merge"] | None,
        tasks: Sequence[Task] = (),
        contested: Sequence[SamplePart] = (),
    ) -> UnderWay:
        return UnderWay(
            iteration=self.number,
            stage=stage,
            tasks=tuple(tasks),
            contested=tuple(contested),
            found_new=self.found_new,
        )

    def _random(self, *about: str | int) -> Random:
        return Random(derive_seed(self.situation.run_seed, *about, self.number))

    # -- reflection -------------------------------------------------------------------------------------------------------

    def _drawn(self) -> list[Task]:
        """A parent and a minibatch for each proposal."""
        weights, random = pruned_fronts(self.evidence), self._random("parent")
        return [
            Task(
                parent=drawn_by_fronts(weights, random),
                **dict(self._minibatch(self.number * self.situation.candidates_per_round + place)),
            )
            for place in range(self.situation.candidates_per_round)
        ]

    def _minibatch(self, turn: int) -> SamplePart:
        """Neighbouring samples. Each epoch goes through nearly all of them, cut and ordered in its own way."""
        split = Split.TRAIN if self.situation.train else self.evidence.search
        size = self.situation.train or self.situation.search
        count = min(self.situation.minibatch, size)
        epoch, place = divmod(turn, size // count)
        random = Random(derive_seed(self.situation.run_seed, "epoch", epoch))
        offset = random.randrange(size % count + 1)
        order = random.sample(range(size // count), size // count)
        return part_of(split, offset + order[place] * count, count)

    def _rewriting(self) -> StepPlan | None:
        """The parents that failed somewhere are rewritten."""
        failing = [task for task in self.tasks if min(self._scores(task.parent, task)) < PERFECT]
        if not failing:
            return None
        rewrite = tuple(
            Rewriting(
                base=task.parent,
                parents=(task.parent,),
                components=self._components(self.known[task.parent], place),
                reflect=True,
                shown=(self._shown(task),),
                parts=(_samples(task),),
                told={"iteration": self.number, "place": place},
            )
            for place, task in enumerate(failing)
        )
        return StepPlan(rewrite=rewrite, under_way=self._under_way("children", failing))

    def _shown(self, task: Task) -> ShownPart:
        return ShownPart(candidate_id=task.parent, limit=self.situation.minibatch, **dict(_samples(task)))

    def _components(self, parent: MeasuredCandidate, place: int) -> tuple[str, ...]:
        """All, or the one after that of the parent's newest child."""
        factors = self.situation.factors
        if not self.situation.one_at_a_time:
            return factors
        turns = sum(
            1
            for known in self.evidence.candidates
            if known.extra.get("origin") == "reflection" and known.parents[:1] == (parent.candidate_id,)
        )
        beside = sum(1 for task in self.tasks[:place] if task.parent == parent.candidate_id)
        return (factors[(turns + beside) % len(factors)],)

    # -- acceptance -------------------------------------------------------------------------------------------------------

    def _accepted(self) -> list[str]:
        """Children that did better than what they are made of, on the same samples."""
        children = [known for known in self.evidence.candidates if known.extra.get("iteration") == self.number]
        accepted = [known.candidate_id for known in children if not known.full and self._is_better(known)]
        return list(dict.fromkeys(accepted))

    def _is_better(self, child: MeasuredCandidate) -> bool:
        if self.stage == "merge":
            parts = self.contested
            mine = sum(sum(self._scores(child.candidate_id, part)) for part in parts)
            return all(mine >= sum(sum(self._scores(parent, part)) for part in parts) for parent in child.parents[:2])
        place = child.extra.get("place")
        task = self.tasks[place] if isinstance(place, int) and place < len(self.tasks) else None
        if task is None or not self._answered(child.candidate_id, task):
            return False
        both = [place for place in self._places(task) if place in self.known[task.parent].means]
        return sum(child.means[place] for place in both) > sum(self.known[task.parent].means[place] for place in both)

    def _places(self, part: SamplePart) -> list[tuple[Split, int]]:
        split = Split.TRAIN if part.split == "train" and self.situation.train else self.evidence.search
        return [(split, place) for place in range(part.first, part.first + part.count)]

    def _answered(self, candidate: str, part: SamplePart) -> bool:
        known = self.known.get(candidate)
        return known is not None and all(place in known.means for place in self._places(part))

    def _scores(self, candidate: str, part: SamplePart) -> list[float]:
        """Samples that have no answer count for nothing, on either side."""
        means = self.known[candidate].means
        return [means[place] for place in self._places(part) if place in means] or [PERFECT]

    # -- merging ----------------------------------------------------------------------------------------------------------

    def _merge(self) -> StepPlan | None:
        done = sum(1 for known in self.evidence.candidates if known.extra.get("origin") == "merge" and known.full)
        if done >= self.situation.merges:
            return None
        survivors = list(pruned_fronts(self.evidence))
        random = self._random("merge")
        found = mergeable(self.evidence, [self.known[name] for name in survivors], self.situation.factors, random)
        if found is None:
            return None
        parts = [part_of(self.evidence.search, place, 1) for place in self._contested(found, random)]
        asked = Rewriting(
            base=found.one.candidate_id,
            parents=(found.one.candidate_id, found.other.candidate_id),
            values={**found.values},
            components=tuple(found.values),
            reflect=False,
            origin="merge",
            parts=tuple(parts),
            told={"iteration": self.number, "ancestor": found.ancestor.candidate_id},
        )
        return StepPlan(rewrite=(asked,), under_way=self._under_way("merge", contested=parts))

    def _contested(self, merge: Merge, random: Random) -> list[int]:
        """Five samples: two on which one is better, two on which the other is, one on which neither is; at random if few."""
        places = range(self.situation.search)
        search, one, other = self.evidence.search, merge.one.means, merge.other.means
        gains = {place: one.get((search, place), 0.0) - other.get((search, place), 0.0) for place in places}
        chosen: list[int] = []
        for wanted, these in (
            (2, [place for place in places if gains[place] > 0]),
            (2, [place for place in places if gains[place] < 0]),
            (1, [place for place in places if gains[place] == 0]),
        ):
            chosen += random.sample(these, min(wanted, len(these)))
        rest = [place for place in places if place not in chosen]
        return sorted([*chosen, *random.sample(rest, min(5 - len(chosen), len(rest)))])


def _samples(task: Task) -> SamplePart:
    return SamplePart(split=task.split, first=task.first, count=task.count)


def published_step(stored: Stored, arguments: Mapping[str, JsonValue]) -> JsonValue:
    """The plan of one step; see `GepaSituation` for the arguments."""
    situation = GepaSituation.model_validate(arguments)
    evidence = evidence_of(stored.trials, situation.sign)
    told = {"answers": evidence.answers, "fronts": told_front(pruned_fronts(evidence))}
    plan = GepaIteration(evidence, situation).plan().model_copy(update=told)
    found: JsonValue = plan.model_dump(mode="json", exclude_defaults=True)
    return found
