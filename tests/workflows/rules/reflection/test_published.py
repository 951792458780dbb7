"""The published algorithm, step by step: fronts, parents by their fronts, the strict gate, merges by ancestry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.support.reflection_worlds import arguments, trial
from workflows.model.activities.computation import Stored, StoredTrial
from workflows.model.trial import Split
from workflows.rules.reflection.ancestry import mergeable
from workflows.rules.reflection.measured_answers import evidence_of
from workflows.rules.reflection.pareto import drawn_by_fronts, fronts_of, measured_in_full, pruned_fronts, survivors
from workflows.rules.reflection.published import published_step


def _plan(trials: list[StoredTrial], **changes: Any) -> dict[str, Any]:
    given = {"candidates_per_round": 1, "minibatch": 3, "search": 4, "train": 6, "one_at_a_time": True}
    planned = published_step(Stored(trials=trials), arguments(**(given | changes)))
    assert isinstance(planned, dict)
    return planned


def _base(**configuration: str) -> StoredTrial:
    return trial("base", configuration or {"prompt": "Do it."}, [1.0, 0.0, 0.0, 0.0])


def _on_train(name: str, text: str, means: Sequence[float | None], **extra: Any) -> StoredTrial:
    return trial(name, {"prompt": text}, means, split=Split.TRAIN, parents=["base"] if name != "base" else [], **extra)


def test_fronts_are_by_sample_and_whoever_is_covered_by_others_is_pruned_from_the_lowest_mean_up() -> None:
    trials = [
        trial("base", {"prompt": "0"}, [1.0, 0.0, 0.0, 0.0]),
        trial("a", {"prompt": "1"}, [1.0, 1.0, 0.0, 0.0], full=True),
        trial("b", {"prompt": "2"}, [0.0, 0.0, 1.0, 0.0], full=True),
        trial("part", {"prompt": "3"}, [1.0, 1.0, 1.0, 1.0]),
    ]
    evidence = evidence_of(trials, 1.0)
    pool = measured_in_full(evidence)
    assert [known.candidate_id for known in pool] == ["base", "a", "b"]
    assert fronts_of(pool, evidence) == [{"base", "a"}, {"a"}, {"b"}, {"base", "a", "b"}]
    assert pruned_fronts(evidence) == {"a": 3, "b": 2}


def test_equal_candidates_do_not_prune_each_other_away() -> None:
    assert survivors([frozenset({"x", "y"})], {"x": 0.5, "y": 0.5}) == {"y": 1}


def test_parents_are_drawn_as_often_as_they_are_on_fronts() -> None:
    random = Random(1)
    drawn = Counter(drawn_by_fronts({"a": 3, "b": 1}, random) for _ in range(4000))
    assert 0.72 < drawn["a"] / 4000 < 0.78


def test_an_iteration_measures_the_parent_reflects_gates_and_measures_in_full() -> None:
    trials = [_base()]
    plan = _plan(trials)
    [asked] = plan["measure"]
    assert (asked["candidate_id"], asked["split"], asked["count"]) == ("base", "train", 3)
    first = asked["first"]
    means: list[float | None] = [0.0 if first <= place < first + 3 else None for place in range(6)]
    trials.append(_on_train("base", "Do it.", means))

    plan = _plan(trials, under_way=plan["under_way"])
    [asked] = plan["rewrite"]
    assert (asked["base"], asked["components"], asked["reflect"]) == ("base", ["prompt"], True)
    assert asked["shown"][0]["first"] == first
    assert asked["parts"][0]["first"] == first
    assert plan["fronts"] == {"base": 4}
    under_way = plan["under_way"]

    equal = _on_train("child", "Do it well.", means, origin="reflection", **asked["told"])
    better_means = [None if mean is None else mean + float(place == first) for place, mean in enumerate(means)]
    better = _on_train("child", "Do it well.", better_means, origin="reflection", **asked["told"])
    assert _plan([*trials, better], under_way=under_way)["full"] == ["child"]
    after = _plan([*trials, equal], under_way=under_way)
    assert "full" not in after
    assert after["under_way"]["iteration"] == 1


def test_what_is_known_is_not_measured_again() -> None:
    trials = [_base(), _on_train("base", "Do it.", [0.0] * 6)]
    assert "rewrite" in _plan(trials)


def test_a_perfect_minibatch_is_passed_over_and_without_any_failure_nothing_is_left_to_do() -> None:
    assert not _plan([_base(), _on_train("base", "Do it.", [1.0] * 6)]).keys() & {"rewrite", "measure", "full"}
    plan = _plan([_base(), _on_train("base", "Do it.", [1.0] * 3 + [0.0] * 3)])
    assert plan["rewrite"][0]["parts"][0]["first"] > 0


def test_texts_take_turns_by_the_children_of_their_parent() -> None:
    both = {"a": "x", "b": "y"}
    trials = [trial("base", both, [0.0] * 4), trial("base", both, [0.0] * 6, split=Split.TRAIN)]
    assert _plan(trials, factors=["a", "b"])["rewrite"][0]["components"] == ["a"]
    child = trial("c", {**both, "a": "z"}, [0.0] * 6, parents=["base"], split=Split.TRAIN, origin="reflection")
    assert _plan([*trials, child], factors=["a", "b"])["rewrite"][0]["components"] == ["b"]


def test_an_epoch_shows_every_minibatch_once() -> None:
    trials = [_base(), _on_train("base", "Do it.", [0.0] * 6)]
    firsts = [_plan(trials, under_way={"iteration": number})["rewrite"][0]["parts"][0]["first"] for number in range(4)]
    assert sorted(firsts[:2]) == sorted(firsts[2:]) == [0, 3]


def test_where_lower_is_better_the_child_must_score_lower() -> None:
    trials = [_base(), _on_train("base", "Do it.", [5.0] * 6)]
    plan = _plan(trials, sign=-1.0)
    told = plan["rewrite"][0]["told"]
    lower = _on_train("child", "Do it well.", [4.0] * 6, origin="reflection", **told)
    assert _plan([*trials, lower], sign=-1.0, under_way=plan["under_way"])["full"] == ["child"]
    higher = _on_train("child", "Do it well.", [6.0] * 6, origin="reflection", **told)
    assert "full" not in _plan([*trials, higher], sign=-1.0, under_way=plan["under_way"])


def _family() -> list[StoredTrial]:
    """Two children of the baseline, each of which changed another text, and each better somewhere."""
    base = {"a": "old", "b": "old"}
    return [
        trial("base", base, [0.0, 0.0, 0.0, 0.0]),
        trial("one", {**base, "a": "new"}, [1.0, 1.0, 0.0, 0.0], parents=["base"], full=True, origin="reflection"),
        trial("two", {**base, "b": "new"}, [0.0, 0.0, 1.0, 0.0], parents=["base"], full=True, origin="reflection"),
    ]


def test_two_candidates_that_changed_different_texts_are_merged_and_gated_on_contested_samples() -> None:
    merging = {"factors": ["a", "b"], "merges": 5, "under_way": {"found_new": True, "iteration": 3}}
    plan = _plan(_family(), **merging)
    [asked] = plan["rewrite"]
    configuration = {"one": {"a": "new", "b": "old"}, "two": {"a": "old", "b": "new"}}[asked["base"]] | asked["values"]
    assert configuration == {"a": "new", "b": "new"}
    assert set(asked["parents"]) == {"one", "two"}
    assert (asked["origin"], asked["reflect"], asked["told"]["ancestor"]) == ("merge", False, "base")
    assert [part["first"] for part in asked["parts"]] == [0, 1, 2, 3]
    told = {"origin": "merge", **asked["told"]}
    as_good = trial("merged", configuration, [1.0, 0.0, 1.0, 0.0], parents=asked["parents"], **told)
    assert _plan([*_family(), as_good], **{**merging, "under_way": plan["under_way"]})["full"] == ["merged"]
    worse = trial("merged", configuration, [1.0, 0.0, 0.0, 0.0], parents=asked["parents"], **told)
    assert "full" not in _plan([*_family(), worse], **{**merging, "under_way": plan["under_way"]})


def test_a_merge_that_was_tried_is_not_tried_again_and_one_text_cannot_be_merged() -> None:
    evidence = evidence_of(_family(), 1.0)
    survivors = [evidence.candidates[1], evidence.candidates[2]]
    assert mergeable(evidence, survivors, ["a"], Random(1)) is not None
    tried = trial("m", {"a": "new", "b": "new"}, [0.0], parents=["one", "two"], origin="merge", ancestor="base")
    again = evidence_of([*_family(), tried], 1.0)
    assert mergeable(again, survivors, ["a", "b"], Random(1)) is None
    both = {"a": "old", "b": "old", "c": "old"}
    trials = [
        trial("base", both, [0.0, 0.0]),
        trial("one", {**both, "a": "new", "c": "1"}, [1.0, 0.0], parents=["base"], full=True),
        trial("two", {**both, "b": "new", "c": "2"}, [0.0, 1.0], parents=["base"], full=True),
    ]
    pair = evidence_of(trials, 1.0).candidates[1:]
    made = [mergeable(evidence_of(trials, 1.0), pair, ["a", "b", "c"], Random(seed)) for seed in range(8)]
    assert {each.values.get("c") for each in made if each} == {None, "1", "2"}
    merged = {"a": "new", "b": "new", "c": "1"}
    trials += [trial("m1", merged, [0.0], parents=["one", "two"], origin="merge", ancestor="base")]
    trials += [trial("m2", merged, [0.0], parents=["two", "one"], origin="merge", ancestor="base")]
    assert not any(mergeable(evidence_of(trials, 1.0), pair, ["a", "b", "c"], Random(seed)) for seed in range(8))
    descended = trial("two", {"a": "new", "b": "new"}, [0.0, 0.0, 1.0, 0.0], parents=["one"], full=True)
    line = evidence_of([*_family()[:2], descended], 1.0)
    assert mergeable(line, [*line.candidates[1:]], ["a", "b"], Random(1)) is None


def test_merges_stop_at_their_number() -> None:
    plan = _plan(_family(), factors=["a", "b"], merges=0, under_way={"found_new": True})
    assert plan.get("rewrite", [{}])[0].get("origin") != "merge"
