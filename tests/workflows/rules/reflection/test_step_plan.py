"""The next step of `reflect`: what is rewritten, what is measured again, and when a leader is measured in full."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet._formats.canonical import canonical_json
from tests.support.reflection_worlds import arguments, trial
from workflows.model.activities.computation import LARGEST_ANSWER, Stored, StoredTrial
from workflows.rules.reflection.step_plan import next_step

BASE = {"prompt": "Do it."}


def _better(name: str = "a", share: float = 0.9) -> StoredTrial:
    means: list[float | None] = [float(place < share * 10) for place in range(10)]
    return trial(name, {"prompt": f"Do it.\n{name}"}, [*means, *[None] * 10], parents=["base"], origin="reflection")


def _stored(*others: StoredTrial) -> Stored:
    return Stored(trials=[trial("base", BASE, [float(place < 8) for place in range(20)]), *others])


def _plan(stored: Stored, **changes: Any) -> dict[str, Any]:
    planned = next_step(stored, arguments(**changes))
    assert isinstance(planned, dict)
    return planned


def test_it_begins_with_rewriting_the_baseline_from_its_failures() -> None:
    plan = _plan(_stored(), steps=0)
    assert len(plan["rewrite"]) == 4
    for asked in plan["rewrite"]:
        assert (asked["base"], asked["parents"], asked["reflect"]) == ("base", ["base"], True)
        assert asked["shown"][0]["candidate_id"] == "base"
        [part] = asked["parts"]
        assert (part["split"], part["count"]) == ("search", 5)


def test_the_same_store_and_the_same_arguments_give_the_same_plan() -> None:
    stored = _stored(_better(), _better("b", 0.2))
    assert canonical_json(_plan(stored)) == canonical_json(_plan(stored))
    assert _plan(stored, seed=2) != _plan(stored, seed=3)


def test_after_its_steps_a_round_ends_with_the_leader_measured_in_full_under_its_own_story() -> None:
    plan = _plan(_stored(_better(), _better("b", 0.2)), steps=8)
    assert plan["full"] == ["a"]
    assert plan["extra"]["a"]["origin"] == "reflection"


def test_a_leader_that_is_hardly_better_is_not_paid_for() -> None:
    plan = _plan(_stored(_better("b", 0.2)), steps=8)
    assert plan.keys() == {"answers", "rests", "fronts"}


def test_the_last_of_a_budget_goes_to_a_leader_of_whom_less_is_certain() -> None:
    stored = _stored(_better("b", 0.6))
    assert "full" not in _plan(stored, steps=8)
    assert _plan(stored, calls_left=12)["full"] == ["b"]


def test_as_long_as_a_budget_allows_the_search_goes_on_where_nobody_leads() -> None:
    assert "rewrite" in _plan(_stored(_better("b", 0.2)), steps=8, calls_left=400)


@pytest.mark.parametrize("calls_left", range(60))
def test_no_plan_asks_for_more_calls_than_are_left_and_the_leader_keeps_its_share(calls_left: int) -> None:
    plan = _plan(_stored(_better()), calls_left=calls_left)
    asked = sum(part["count"] for each in plan.get("rewrite", []) for part in each["parts"])
    asked += sum(each["count"] for each in plan.get("measure", []))
    missing = 10 if calls_left >= 10 else 0
    assert asked + missing <= max(calls_left, 0)
    if 10 <= calls_left < 15:
        assert plan["full"] == ["a"]


def test_a_budget_of_trials_keeps_one_for_the_leader() -> None:
    assert len(_plan(_stored(_better()), trials_left=3)["rewrite"]) == 2
    assert _plan(_stored(_better()), trials_left=1)["full"] == ["a"]


def test_before_the_end_those_who_may_be_the_best_are_measured_again() -> None:
    plan = _plan(_stored(_better(), _better("b", 0.8)), steps=7)
    assert plan["measure"]
    assert all(not asked["reflect"] for asked in plan["rewrite"])
    for asked in plan["measure"]:
        assert asked["candidate_id"] != "base"
        assert asked["first"] >= 10


def test_training_samples_are_used_where_there_are_some() -> None:
    plans = [_plan(_stored(), train=20, seed=seed) for seed in range(5)]
    assert {part["split"] for plan in plans for asked in plan["rewrite"] for part in asked["parts"]} == {"train", "search"}


def test_texts_are_rewritten_one_after_the_other_if_the_spec_says_so() -> None:
    stored = Stored(trials=[trial("base", {"a": "x", "b": "y"}, [0.0, 1.0] * 10)])
    plan = _plan(stored, factors=["a", "b"], one_at_a_time=True)
    assert [asked["components"] for asked in plan["rewrite"]] == [["a"], ["b"], ["a"], ["b"]]


def test_a_plan_stays_small_however_long_the_texts_are() -> None:
    long = "\n".join(f"Line {number} " + "x" * 100 for number in range(150))
    base = trial("base", {"prompt": long}, [0.0, 1.0] * 10)
    children = [
        trial(f"c{n}", {"prompt": f"{long}\nRule {n}."}, [1.0] * 5 + [None] * 15, parents=["base"], replaced=[])
        for n in range(30)
    ]
    plan = _plan(Stored(trials=[base, *children]), candidates_per_round=20)
    assert len(canonical_json(plan).encode()) < LARGEST_ANSWER
    assert any(not asked.get("values") for asked in plan["rewrite"])


def test_an_empty_store_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="the baseline has no answers"):
        next_step(Stored(), arguments())
