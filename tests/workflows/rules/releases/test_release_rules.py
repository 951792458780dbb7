"""What may be released, what it is made of, and what its writer keeps in mind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from ratchet.optimizer import Direction
from tests.support.spec_building import NOW, request
from workflows.model.run.run_result import Confirmation
from workflows.model.spec.release import ReleaseSpec, ReleaseState
from workflows.rules.releases.pending import NEWEST, PendingReleases
from workflows.rules.releases.release_gate import regression, unconfirmed
from workflows.rules.releases.target import first_template, released_part, released_prompt
from workflows.rules.spec.check import check_request


def state(number: int = 1, status: str = "pending", **more: Any) -> ReleaseState:
    given = {"release_id": f"r{number}", "prompt": "ns/key", "kind": "promote", "tag": "stable", "status": status}
    return ReleaseState.model_validate({**given, "base_hash": "b", "overlay_hash": "o", "asked_at": NOW, **more})


def test_nothing_is_known_without_a_confirmation() -> None:
    assert unconfirmed(None) == "nothing confirmed it: the dataset has no test split"
    assert unconfirmed(Confirmation(baseline_score=0.5)) == "nothing confirmed it: the confirmation did not complete"
    assert unconfirmed(Confirmation(baseline_score=0.5, winner_score=0.4)) is None


@pytest.mark.parametrize(
    ("direction", "after", "regresses"),
    [
        (Direction.MAXIMIZE, 0.4, True),
        (Direction.MAXIMIZE, 0.6, False),
        (Direction.MINIMIZE, 0.6, True),
        (Direction.MINIMIZE, 0.5, False),
    ],
)
def test_a_loss_on_the_test_split_is_a_regression(direction: Direction, after: float, regresses: bool) -> None:
    shown = regression(Confirmation(baseline_score=0.5, winner_score=after), direction)
    assert (shown is not None) == regresses


def judged(verdict: str, effect: float = 0.0, **evidence: Any) -> Confirmation:
    given = {"verdict": verdict, "accepted": False, "evidence": {"reference": "r0", "effect": effect, **evidence}}
    return Confirmation.model_validate({"baseline_score": 0.5, "winner_score": 0.5 + effect, "judged": given})


@pytest.mark.parametrize(
    ("confirmation", "shown"),
    [
        (judged("better", 0.1), None),
        (judged("not_worse", -0.01), None),
        (judged("inconclusive", 0.02), None),
        (judged("inconclusive", -0.02), "inconclusive, and lower"),
        (judged("worse", -0.1), "worse"),
        (judged("better", 0.1, must_pass_broken=("s1", "s7")), "must-pass samples failed: s1, s7"),
        (
            judged("better", 0.1, constraints=({"constraint": "cost <= 1", "value": 2, "limit": 1, "holds": False},)),
            "cost <= 1 does not hold",
        ),
    ],
)
def test_the_verdict_counts_where_there_is_one(confirmation: Confirmation, shown: str | None) -> None:
    wanted = None if shown is None else f"the confirmation shows a regression: {shown}"
    assert regression(confirmation, Direction.MAXIMIZE) == wanted


def test_text_factors_are_sections_and_all_others_parameters() -> None:
    asked = request(release={"prompt": "support/triage"})
    assert released_prompt(asked) == ("support/triage", "stable")
    part = released_part(asked, {"prompt": "Say {{input.q}}", "temperature": 0.7, "model": "small"})
    assert part == {"section:prompt": "Say {{input.q}}", "param:temperature": 0.7, "param:model": "small"}
    template = first_template(asked, "support/triage")
    assert template is not None
    assert template.configuration() == released_part(asked, asked.baseline)
    assert template.overrides_of(part).parameters == {"temperature": 0.7}


def test_factors_that_make_no_prompt_are_told() -> None:
    json_factor = {"value": [1], "change": "structured", "type": "json", "schema": {"type": "array"}}
    with pytest.raises(ValueError, match="factor 'list' is of type json"):
        first_template(request(configuration={"list": json_factor, "prompt": {"value": "Hi", "change": "text"}}), "a/b")
    with pytest.raises(ValueError, match="the factors make no prompt: sections"):
        first_template(request(configuration={"model": "small"}), "a/b")


@pytest.mark.parametrize(
    ("release", "problem"),
    [
        ({}, "release.prompt: is missing; name the prompt that the winner becomes, e.g. support/triage"),
        ({"prompt": "a/b", "canary": True, "tag": "canary"}, "release.tag: the canary is compared with a tag"),
        ({"prompt": "a/b", "mode": "automatic"}, "release.mode: automatic needs samples that the search never saw"),
    ],
)
def test_a_release_that_cannot_work_is_told_before_the_run(release: dict[str, Any], problem: str) -> None:
    [told] = check_request(request(release=release))
    assert told.startswith(problem)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"prompt": "triage"}, "prompt"),
        ({"prompt": "../etc/passwd"}, "prompt"),
        ({"prompt": "ns/key\n"}, "prompt"),
        ({"prompt": "ns/key", "tag": "Stable"}, "tag"),
        ({"prompt": "ns/key", "mode": "yes"}, "mode"),
        ({"prompt": "ns/key", "deadline": 0}, "deadline"),
        ({"prompt": "ns/key", "approver": "ann"}, "approver"),
    ],
)
def test_a_wrong_release_is_refused_by_its_field(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ReleaseSpec.model_validate(given)
    assert refused.value.errors()[0]["loc"] == (problem,)


def test_the_writer_knows_what_is_due() -> None:
    releases = PendingReleases("ns/key")
    releases.remember(
        [
            state(1, deadline_at=NOW + timedelta(days=2), remind_at=NOW + timedelta(days=1)),
            state(2, deadline_at=NOW + timedelta(days=3)),
            state(3, status="released", deadline_at=NOW),
        ]
    )
    assert releases.next_due() == NOW + timedelta(days=1)
    assert [due.release_id for due in releases.to_remind_of(NOW + timedelta(days=1))] == ["r1"]
    assert [due.release_id for due in releases.overdue(NOW + timedelta(days=2))] == ["r1"]
    assert [waiting.release_id for waiting in releases.waiting().releases] == ["r2", "r1"]


def test_the_writer_forgets_what_was_decided_long_ago_and_nothing_that_waits() -> None:
    releases = PendingReleases("ns/key")
    releases.note(state(0))
    for number in range(1, 3 * NEWEST):
        releases.note(state(number, status="released"))
    assert len(releases.log().releases) == NEWEST + 1
    assert releases.get("r0") is not None
    assert releases.get("r1") is None


def test_what_the_writer_shows_cannot_break_its_table() -> None:
    releases = PendingReleases("ns/key")
    releases.note(state(1, status="rejected", message="no | <b>\n\n# way", asked_by="ann"))
    lines = releases.details().splitlines()
    assert len(lines) == 3
    assert lines[2] == "| promote | stable |  | rejected | ann | no \\| &lt;b&gt; # way |"
