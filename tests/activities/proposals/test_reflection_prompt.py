"""What a model reads that is asked for new values."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.proposals.reflection_prompt import LONGEST_EXAMPLES, Material, request_text
from ratchet import Record
from tests.support.proposal_requests import FAILURES, PROMPT, by_model, request
from workflows.model.failures import INVALID_REQUEST
from workflows.model.spec.extensions.proposers import ModelProposer


def told(**more: Any) -> str:
    wanted = request(
        more.pop("proposer", by_model()), **{name: more[name] for name in more if name not in ("records", "texts")}
    )
    assert isinstance(wanted.proposer, ModelProposer)
    hall = [(0.4, {"prompt": "Sort."}), (0.6, {"prompt": "Sort well."})]
    return request_text(
        wanted, wanted.proposer, more.get("texts", {"prompt": PROMPT}), Material(more.get("records", FAILURES), hall)
    )


def test_text_scores_failures_and_limits() -> None:
    text = told()
    assert f"<current_value>\n{PROMPT}\n</current_value>" in text
    assert "Iteration 0: score=0.400, successRate=40.00%" in text
    assert 'Input: {"ticket":"I was charged twice, case 0."}' in text
    assert "Answer: bug\nExpected: billing\nFeedback: expected billing" in text
    assert "at most 4000 characters" in text
    assert "exactly as written here, and no others: {{input.ticket}}." in text
    assert "<new_value>" in text


def test_as_many_failures_as_the_spec_says() -> None:
    assert told(proposer=by_model(examples=2)).count("Example ") == 2
    assert "Example" not in told(proposer=by_model(examples=0))


def test_huge_samples_do_not_make_a_huge_request() -> None:
    huge = [Record("i" * 50_000, "o" * 50_000, 0.0, "f" * 50_000, "e" * 50_000) for _ in range(20)]
    assert len(told(records=huge, proposer=by_model(examples=20))) < LONGEST_EXAMPLES + 8_000


def test_candidates_written_side_by_side_are_asked_to_differ() -> None:
    assert told() != told(index=1, batch_position=1)


def test_braces_in_samples_and_texts_are_data() -> None:
    assert "{{factors.secret}}" in told(records=[Record("{{factors.secret}}", "{{feedback}}", 0.0)])


def test_several_texts_are_shown_and_asked_for_by_name() -> None:
    text = told(texts={"prompt": PROMPT, "greeting": "Hello, {{input.name}}!"})
    assert '<current_value name="greeting">\nHello, {{input.name}}!\n</current_value>' in text
    assert '<new_value name="prompt">…</new_value>\n<new_value name="greeting">…</new_value>' in text
    assert 'The new text "prompt" has at most 4000 characters.' in text


def test_a_template_may_show_the_best_so_far_the_best_last() -> None:
    text = told(proposer=by_model(template="{{hall_of_fame}}"))
    assert text == "Score 0.4000:\n<prompt>\nSort.\n</prompt>\n\nScore 0.6000:\n<prompt>\nSort well.\n</prompt>"


def test_the_optimizers_words_replace_the_usual_ones_and_the_specs_replace_both() -> None:
    assert told(template="Better: {{texts}}").startswith("Better: ")
    assert told(template="Better: {{texts}}", proposer=by_model(template="Mine: {{texts}}")).startswith("Mine: ")


def test_the_specs_own_template_replaces_it() -> None:
    template = "Improve {{factor.name}}: {{factor.value}}\n{{limits}}"
    assert told(proposer=by_model(template=template)).startswith(f"Improve prompt: {PROMPT}\nThe new text has")


def test_a_template_with_an_unknown_placeholder_is_a_mistake_in_the_spec() -> None:
    with pytest.raises(ApplicationError, match=r"optimizer\.proposer\.template") as raised:
        told(proposer=by_model(template="{{factor.valeu}}"))
    assert raised.value.type == INVALID_REQUEST
