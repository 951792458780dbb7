"""What is let in, and the reason code and words for what is kept out."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet._formats.canonical import canonical_json, content_hash
from ratchet.optimizer import CandidateProposal
from tests.support.spec_building import factor, proposal, request
from workflows.model.run.candidates import ReasonCode
from workflows.rules.proposals.validation import Admitted, KnownConfigurations, Refusal, candidate_name, examine, refuse_value

FACTORS = request().configuration
NOTHING = KnownConfigurations((), ())


def _judge(
    configuration: Any, known: KnownConfigurations = NOTHING, parents: tuple[str, ...] = (), **fields: Any
) -> Admitted | Refusal:
    made = CandidateProposal.model_construct(configuration=configuration, parent_candidate_ids=(), **fields)
    return examine(made, FACTORS, known, parents)


GOOD = {"prompt": "Say {{input.q}}", "temperature": 0.7, "model": "small"}


def test_a_good_proposal_is_admitted_in_canonical_form() -> None:
    admitted = _judge({**GOOD, "prompt": "e\u0301\r\n{{input.q}}", "temperature": 1.0})
    assert isinstance(admitted, Admitted)
    assert admitted.configuration == {"model": "small", "prompt": "é\n{{input.q}}", "temperature": 1}
    assert isinstance(admitted.configuration["temperature"], int)
    assert admitted.config_hash == content_hash(admitted.configuration)


REFUSED: list[tuple[Any, ReasonCode, str]] = [
    ("text", ReasonCode.INVALID_SHAPE, "configuration is not a mapping of factor names to values"),
    ({**GOOD, "temperature": float("nan")}, ReasonCode.INVALID_SHAPE, "configuration: nan is not a finite number"),
    ({**GOOD, "prompt": "a\x00"}, ReasonCode.INVALID_SHAPE, "configuration: text contains a NUL character; remove it"),
    (
        {**GOOD, "temperature": 10**400},
        ReasonCode.INVALID_SHAPE,
        "configuration: a whole number of more than 308 digits is too large; write it as text",
    ),
    ({}, ReasonCode.MISSING_FACTOR, "factor 'prompt' is missing; a proposal names every factor"),
    (
        {**GOOD, "top_p": 1},
        ReasonCode.UNKNOWN_FACTOR,
        "factor 'top_p' is unknown; known are prompt, temperature, model",
    ),
    ({**GOOD, "model": "large"}, ReasonCode.FROZEN_FACTOR_CHANGED, "factor 'model' is frozen, but its value was changed"),
    ({**GOOD, "temperature": 1.1}, ReasonCode.OUT_OF_RANGE, "factor 'temperature': 1.1 is outside 0.0 … 1.0"),
    ({**GOOD, "temperature": -sys.float_info.max}, ReasonCode.OUT_OF_RANGE, "is outside 0.0 … 1.0"),
    ({**GOOD, "temperature": True}, ReasonCode.INVALID_SHAPE, "factor 'temperature': true is not a number"),
    ({**GOOD, "temperature": "hot"}, ReasonCode.INVALID_SHAPE, "factor 'temperature': \"hot\" is not a number"),
    ({**GOOD, "prompt": " \n"}, ReasonCode.EMPTY_VALUE, "prompt: Factor value cannot be empty"),
    ({**GOOD, "prompt": "x" * 201}, ReasonCode.TOO_LONG, "prompt: Factor value exceeds max length 200 (was 201)"),
    ({**GOOD, "prompt": 5}, ReasonCode.INVALID_SHAPE, "factor 'prompt': 5 is not text"),
    ({**GOOD, "prompt": "Say"}, ReasonCode.PLACEHOLDER_LOST, "prompt: placeholder {{input.q}} was lost; keep it"),
    ({**GOOD, "prompt": "{input.q}"}, ReasonCode.PLACEHOLDER_LOST, "prompt: placeholder {{input.q}} was lost; keep it"),
    (
        {**GOOD, "prompt": "{{input.q}} {{input.r}}"},
        ReasonCode.INVALID_SHAPE,
        "factor 'prompt': placeholder {{input.r}} is not in the baseline; nothing would fill it",
    ),
]


@pytest.mark.parametrize(("configuration", "code", "message"), REFUSED)
def test_what_is_kept_out_has_a_code_and_a_readable_message(configuration: Any, code: ReasonCode, message: str) -> None:
    refusal = _judge(configuration)
    assert isinstance(refusal, Refusal)
    assert refusal.reason_code is code
    assert refusal.message.endswith(message)


def test_a_configuration_that_is_too_large_is_kept_out() -> None:
    factors = request(configuration={"a": {"value": "x", "change": "text", "max_length": 200_000}, "b": "y"}).configuration
    huge = CandidateProposal(configuration={"a": "é" * 131_072, "b": "y"})
    refusal = examine(huge, factors, NOTHING, ())
    assert refusal == Refusal(ReasonCode.TOO_LONG, "configuration is 262,160 bytes; at most 262,144 are allowed")


@pytest.mark.parametrize(
    ("definition", "good", "bad", "code"),
    [
        ({"type": "integer", "value": 1, "min": 0, "max": 5}, [0, 5, 3.0], [6, -1], ReasonCode.OUT_OF_RANGE),
        ({"type": "integer", "value": 1, "min": 0, "max": 5}, [2], [2.5, "2", None, True], ReasonCode.INVALID_SHAPE),
        ({"type": "number", "value": 1, "min": 0, "max": 5}, [0, 5, 0.1], [5.000001], ReasonCode.OUT_OF_RANGE),
        ({"type": "choice", "value": 1, "choices": [1, "a"]}, [1, 1.0, "a"], [True, "b", None], ReasonCode.OUT_OF_RANGE),
        ({"type": "order", "value": [1, 2, 3]}, [[3, 1, 2]], [[1, 2], [1, 1, 2], "123", [1, 2, 3, 3]], ReasonCode.OUT_OF_RANGE),
        ({"type": "flag", "value": True}, [False, True], [1, 0, "true", None], ReasonCode.INVALID_SHAPE),
        ({"type": "json", "value": 1, "schema": {"type": "integer"}}, [2], ["2"], ReasonCode.OUT_OF_RANGE),
    ],
)
def test_structured_factors_stay_in_their_domain(
    definition: dict[str, Any], good: list[Any], bad: list[Any], code: ReasonCode
) -> None:
    made = factor(change="structured", **definition)
    for value in good:
        assert refuse_value("it", value, made) is None
    for value in bad:
        refusal = refuse_value("it", value, made)
        assert refusal is not None
        assert refusal.reason_code is code


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"$ref": "http://x.test/y"}, {"$ref": "#/nowhere"}])
def test_a_schema_that_cannot_be_applied_refuses_instead_of_raising_or_fetching(schema: dict[str, Any]) -> None:
    refusal = refuse_value("it", 1, factor(change="structured", type="json", value=1, schema=schema))
    assert refusal is not None
    assert refusal.reason_code is ReasonCode.INVALID_SHAPE
    assert refusal.message.startswith("factor 'it': its schema cannot be applied: ")


def test_lineage_and_novelty_are_checked_last() -> None:
    admitted = _judge(GOOD)
    assert isinstance(admitted, Admitted)
    known = KnownConfigurations((admitted.config_hash,), ("r0-1",))
    stranger = examine(proposal(parent_candidate_ids=("r9-9",)), FACTORS, known, ())
    assert stranger == Refusal(ReasonCode.UNKNOWN_PARENT, "parent 'r9-9' is no candidate of this run")
    assert _judge(GOOD, known) == Refusal(ReasonCode.DUPLICATE, f"configuration {admitted.config_hash[:8]} was tried already")
    assert _judge(GOOD, known, (admitted.config_hash,)) == Refusal(ReasonCode.NO_CHANGE, "the proposal equals its parent")
    assert _judge(GOOD, known, resample=True) == admitted
    assert _judge({**GOOD, "prompt": ""}, known, resample=True) == Refusal(
        ReasonCode.EMPTY_VALUE, "prompt: Factor value cannot be empty"
    )


@given(st.text(st.characters(exclude_characters="\r"), max_size=10), st.floats(0, 1), st.sampled_from(["\n", "\r\n", "\r"]))
def test_notation_never_makes_a_duplicate_new(text: str, temperature: float, line_end: str) -> None:
    first = _judge({**GOOD, "prompt": f"{text}\n{{{{input.q}}}}", "temperature": temperature})
    if isinstance(first, Refusal):
        return
    shuffled = {"model": "small", "temperature": temperature, "prompt": f"{text}{line_end}{{{{input.q}}}}"}
    again = _judge(shuffled, KnownConfigurations((first.config_hash,), ()))
    assert isinstance(again, Refusal)
    assert again.reason_code is ReasonCode.DUPLICATE


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), st.lists, max_leaves=5))
def test_any_value_is_judged_and_nothing_raises(value: Any) -> None:
    for name in FACTORS:
        judged = _judge({**GOOD, name: value})
        if isinstance(judged, Refusal):
            assert len(judged.message) < 1_000
        else:
            assert canonical_json(judged.configuration)


def test_messages_stay_short_whatever_is_proposed() -> None:
    for refusal in (_judge({**GOOD, "x" * 100_000: 1}), _judge({**GOOD, "prompt": f"{{{{input.q}}}} {{{{{'y' * 150}}}}}"})):
        assert isinstance(refusal, Refusal)
        assert len(refusal.message) < 1_000
    stranger = examine(proposal(parent_candidate_ids=("p" * 100_000,)), FACTORS, NOTHING, ())
    assert isinstance(stranger, Refusal)
    assert len(stranger.message) < 1_000


def test_candidates_are_named_by_round_and_content_and_numbered_when_tried_again() -> None:
    digest = "0123456789abcdef"
    assert candidate_name(3, digest, ()) == "r3-01234567"
    assert candidate_name(3, digest, {"r3-01234567"}) == "r3-01234567-2"
    assert candidate_name(3, digest, {"r3-01234567", "r3-01234567-2"}) == "r3-01234567-3"
