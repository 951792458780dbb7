"""Composition: each change alone, all harmless ones together, then greedily; nothing is measured twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from workflows.rules.proposals.composition import Part, Parts, combined, next_step


def of(*names: str) -> Parts:
    return frozenset(names)


A, B, C = Part("a", "a", 30), Part("b", "b", 20), Part("c", "c", 10)


def test_every_change_is_tried_alone_first_the_largest_saving_first() -> None:
    step = next_step([C, A, B], {})
    assert (step.phase, step.measure) == ("alone", (of("a"), of("b"), of("c")))
    assert next_step([A, B, C], {of("b"): True}).measure == (of("a"), of("c"))


def test_what_did_no_harm_alone_is_tried_together() -> None:
    alone = {of("a"): True, of("b"): False, of("c"): True}
    assert next_step([A, B, C], alone).measure == (of("a", "c"),)
    done = next_step([A, B, C], {**alone, of("a", "c"): True})
    assert (done.phase, done.chosen) == ("done", of("a", "c"))


def test_a_single_survivor_or_none_is_not_measured_again() -> None:
    assert next_step([A, B], {of("a"): True, of("b"): False}).chosen == of("a")
    assert next_step([A, B], {of("a"): False, of("b"): False}).chosen == of()


def test_when_they_hurt_each_other_they_are_added_one_by_one_and_known_results_are_reused() -> None:
    known = {of("a"): True, of("b"): True, of("c"): True, of("a", "b", "c"): False}
    first = next_step([A, B, C], known)
    assert (first.phase, first.measure) == ("greedy", (of("a", "b"),))
    without_b = next_step([A, B, C], known | {of("a", "b"): False})
    assert without_b.measure == (of("a", "c"),)
    assert next_step([A, B, C], known | {of("a", "b"): False, of("a", "c"): True}).chosen == of("a", "c")
    all_but_the_last = next_step([A, B, C], known | {of("a", "b"): True})
    assert all_but_the_last.phase == "done"  # with c it is the set that was rejected already
    assert all_but_the_last.chosen == of("a", "b")


def test_of_changes_that_exclude_each_other_the_larger_saving_is_taken() -> None:
    rewritten, shorter = Part("whole", "x", 50, exclusive=True), Part("other", "x", 45, exclusive=True)
    line, blank = Part("line", "x", 20), Part("blank", "x", 25)
    assert combined([rewritten, line, blank]) == of("whole")
    assert combined([shorter, line, Part("more", "x", 26)]) == of("line", "more")
    assert combined([rewritten, shorter, A]) == of("whole", "a")


def test_an_excluded_change_gets_its_chance_when_the_larger_one_fails_with_the_others() -> None:
    whole, line = Part("whole", "x", 50, exclusive=True), Part("line", "x", 20)
    known = {of("whole"): True, of("line"): True, of("b"): True, of("whole", "b"): False}
    chosen = next_step([whole, line, B], known)
    assert chosen.chosen == of("whole")  # `line` collides with what was kept, `b` is known to hurt beside it


@given(
    some.lists(some.integers(1, 100), min_size=1, max_size=7),
    some.sets(some.integers(0, 6)),
    some.lists(some.tuples(some.integers(0, 6), some.integers(0, 6)), max_size=4),
)
def test_it_ends_with_a_harmless_set_after_few_measurements_none_of_them_twice(
    savings: list[int], harmful: set[int], enemies: list[tuple[int, int]]
) -> None:
    parts = [Part(str(place), str(place), saving) for place, saving in enumerate(savings)]

    def harmless(tried: Parts) -> bool:
        alone = not any(str(place) in tried for place in harmful)
        return alone and not any(one != other and {str(one), str(other)} <= tried for one, other in enemies)

    known: dict[Parts, bool] = {}
    while (step := next_step(parts, known)).phase != "done":
        assert step.measure
        for tried in step.measure:
            assert tried not in known
            known[tried] = harmless(tried)
    assert not step.chosen or known[step.chosen]
    assert len(known) <= 2 * len(parts) + 1
    left = {part.part_id for part in parts if known[of(part.part_id)]} - step.chosen
    assert all(not harmless(step.chosen | {one}) for one in left)
