"""The published algorithm: draw a parent by its fronts, reflect on a minibatch, and pay for all samples only if the child does
strictly better on the minibatch; sometimes merge two candidates that descend from the same one.

An iteration takes up to three steps: the parent on the minibatch, the child on the same samples, the child on all. What the
algorithm is in the middle of comes with the arguments; everything else is in the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from pydantic import JsonValue

from ratchet._canonical import canonical_json, derive_seed
from workflows.model.activities.computation import Stored
from workflows.model.trial import Split
from workflows.rules.reflection.ancestry import Merge, mergeable
from workflows.rules.reflection.measured_answers import Evidence, Known, evidence_of
from workflows.rules.reflection.pareto import drawn_by_fronts, pruned_fronts, told_front
from workflows.rules.reflection.situation import Situation, as_part, situation_of

PERFECT: Final = 1.0
"""A minibatch on which every score is this high leaves nothing to reflect on."""

MOST_PERFECT = 50
"""So many perfect minibatches in a row, and there is nothing left to learn from."""

Task = Mapping[str, Any]


class Iteration:
    """One step of the published algorithm."""

    def __init__(self, evidence: Evidence, situation: Situation) -> None:
        self.evidence = evidence
        self.situation = situation
        self.known = {known.candidate_id: known for known in evidence.candidates}
        under_way: dict[str, Any] = dict(situation.under_way)
        self.number: int = under_way.get("iteration", 0)
        self.tasks: Sequence[Task] = under_way.get("tasks", ())
        self.stage: str | None = under_way.get("stage")
        self.found_new: bool = under_way.get("found_new", False)

    def plan(self) -> dict[str, JsonValue]:
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
                extra: dict[str, JsonValue] = {name: {**self.known[name].extra} for name in accepted}
                return {"full": [*accepted], "extra": extra, "under_way": self._under_way(None, ())}
        return self._begun()

    def _over(self, *, found_new: bool) -> None:
        self.number += 1
        self.found_new = found_new

    def _begun(self) -> dict[str, JsonValue]:
        """A merge after something new was found, else reflection; minibatches without a failure are passed over."""
        merge = self._merge() if self.found_new else None
        self.found_new = False
        if merge is not None:
            return merge
        for _ in range(MOST_PERFECT):
            self.tasks = self._drawn()
            unmeasured = [task for task in self.tasks if not self._answered(task["parent"], task)]
            if unmeasured:
                once: dict[str, JsonValue] = {
                    canonical_json({**task}): {"candidate_id": task["parent"], **_samples(task)} for task in unmeasured
                }
                return {"measure": list(once.values()), "under_way": self._under_way("parents", self.tasks)}
            rewriting = self._rewriting()
            if rewriting is not None:
                return rewriting
            self._over(found_new=False)
        return {}

    def _under_way(self, stage: str | None, tasks: Sequence[Task]) -> JsonValue:
        return {"iteration": self.number, "stage": stage, "tasks": [{**task} for task in tasks], "found_new": self.found_new}

    def _random(self, *about: str | int) -> Random:
        return Random(derive_seed(self.situation.run_seed, *about, self.number))

    # -- reflection -------------------------------------------------------------------------------------------------------

    def _drawn(self) -> list[Task]:
        """A parent and a minibatch for each proposal."""
        weights, random = pruned_fronts(self.evidence), self._random("parent")
        return [
            {"parent": drawn_by_fronts(weights, random), **self._minibatch(self.number * self.situation.beside + place)}
            for place in range(self.situation.beside)
        ]

    def _minibatch(self, turn: int) -> dict[str, JsonValue]:
        """Neighbouring samples. Each epoch goes through nearly all of them, cut and ordered in its own way."""
        split = Split.TRAIN if self.situation.train else self.evidence.search
        size = self.situation.train or self.situation.search
        count = min(self.situation.minibatch, size)
        epoch, place = divmod(turn, size // count)
        random = Random(derive_seed(self.situation.run_seed, "epoch", epoch))
        offset = random.randrange(size % count + 1)
        order = random.sample(range(size // count), size // count)
        return as_part(split, offset + order[place] * count, count)

    def _rewriting(self) -> dict[str, JsonValue] | None:
        """The parents that failed somewhere are rewritten."""
        failing = [task for task in self.tasks if min(self._scores(task["parent"], task)) < PERFECT]
        if not failing:
            return None
        front: dict[str, JsonValue] = {**told_front(pruned_fronts(self.evidence))}
        told: dict[str, JsonValue] = {"iteration": self.number, "selection": {"pareto_front": front}}
        rewrite: list[JsonValue] = [
            {
                "base": task["parent"],
                "parents": [task["parent"]],
                "values": {},
                "components": self._components(self.known[task["parent"]], place),
                "reflect": True,
                "shown": [{"candidate_id": task["parent"], **_samples(task), "limit": self.situation.minibatch}],
                "parts": [_samples(task)],
                "told": {**told, "place": place},
            }
            for place, task in enumerate(failing)
        ]
        return {"rewrite": rewrite, "under_way": self._under_way("children", failing)}

    def _components(self, parent: Known, place: int) -> list[JsonValue]:
        """All, or the one after that of the parent's newest child."""
        factors = self.situation.factors
        if not self.situation.one_at_a_time:
            return [*factors]
        turns = sum(
            1
            for known in self.evidence.candidates
            if known.extra.get("origin") == "reflection" and known.parents[:1] == (parent.candidate_id,)
        )
        beside = sum(1 for task in self.tasks[:place] if task["parent"] == parent.candidate_id)
        return [factors[(turns + beside) % len(factors)]]

    # -- acceptance -------------------------------------------------------------------------------------------------------

    def _accepted(self) -> list[str]:
        """Children that did better than what they are made of, on the same samples."""
        children = [known for known in self.evidence.candidates if known.extra.get("iteration") == self.number]
        accepted = [known.candidate_id for known in children if not known.full and self._is_better(known)]
        return list(dict.fromkeys(accepted))

    def _is_better(self, child: Known) -> bool:
        if self.stage == "merge":
            parts = self.tasks
            mine = sum(sum(self._scores(child.candidate_id, part)) for part in parts)
            return all(mine >= sum(sum(self._scores(parent, part)) for part in parts) for parent in child.parents[:2])
        place = child.extra.get("place")
        task = self.tasks[place] if isinstance(place, int) and place < len(self.tasks) else None
        if task is None or not self._answered(child.candidate_id, task):
            return False
        both = [place for place in self._places(task) if place in self.known[task["parent"]].means]
        return sum(child.means[place] for place in both) > sum(self.known[task["parent"]].means[place] for place in both)

    def _places(self, task: Task) -> list[tuple[Split, int]]:
        split = Split.TRAIN if task["split"] == "train" and self.situation.train else self.evidence.search
        return [(split, place) for place in range(task["first"], task["first"] + task["count"])]

    def _answered(self, candidate: str, task: Task) -> bool:
        known = self.known.get(candidate)
        return known is not None and all(place in known.means for place in self._places(task))

    def _scores(self, candidate: str, task: Task) -> list[float]:
        """Samples that have no answer count for nothing, on either side."""
        means = self.known[candidate].means
        return [means[place] for place in self._places(task) if place in means] or [PERFECT]

    # -- merging ----------------------------------------------------------------------------------------------------------

    def _merge(self) -> dict[str, JsonValue] | None:
        done = sum(1 for known in self.evidence.candidates if known.extra.get("origin") == "merge" and known.full)
        if done >= self.situation.merges:
            return None
        survivors = list(pruned_fronts(self.evidence))
        random = self._random("merge")
        found = mergeable(self.evidence, [self.known[name] for name in survivors], self.situation.factors, random)
        if found is None:
            return None
        parts = [as_part(self.evidence.search, place, 1) for place in self._contested(found, random)]
        asked: dict[str, JsonValue] = {
            "base": found.one.candidate_id,
            "parents": [found.one.candidate_id, found.other.candidate_id],
            "values": {**found.values},
            "components": [*found.values],
            "reflect": False,
            "origin": "merge",
            "shown": [],
            "parts": [*parts],
            "told": {"iteration": self.number, "ancestor": found.ancestor.candidate_id},
        }
        return {"rewrite": [asked], "under_way": self._under_way("merge", parts)}

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


def _samples(task: Task) -> dict[str, JsonValue]:
    return {"split": task["split"], "first": task["first"], "count": task["count"]}


def published_step(stored: Stored, arguments: Mapping[str, JsonValue]) -> JsonValue:
    """The plan of one step; see `Situation` for the arguments."""
    situation = situation_of(arguments)
    evidence = evidence_of(stored.trials, situation.sign)
    return {"answers": evidence.answers, **Iteration(evidence, situation).plan()}
