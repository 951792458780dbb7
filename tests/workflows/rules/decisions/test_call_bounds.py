"""The most that a call can take is really the most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workflows.model.spec.prices import Price
from workflows.rules.decisions.call_bounds import LONGEST_ANSWER, chat_bound, embedding_bound

PRICE = Price(input=2, output=10)
texts = st.text(max_size=200)


@given(st.lists(texts, max_size=5), st.integers(1, 1000))
def test_no_request_has_more_tokens_than_its_bytes_and_no_answer_more_than_its_limit(contents: list[str], limit: int) -> None:
    messages = [{"role": "user", "content": content} for content in contents]
    bound = chat_bound({"model": "m", "messages": messages, "max_tokens": limit}, PRICE)
    read = sum(len(content.encode("utf-8", "replace")) for content in contents)
    assert bound.tokens >= read + limit
    assert bound.cost >= (read * 2 + limit * 10) / 1e6
    assert bound.samples == 0


def test_whatever_else_is_sent_is_read_too() -> None:
    plain = chat_bound({"messages": [], "max_tokens": 1}, PRICE)
    tools = chat_bound({"messages": [], "max_tokens": 1, "tools": [{"name": "x" * 500}]}, PRICE)
    assert tools.tokens - plain.tokens >= 500


def test_an_answer_without_a_limit_has_one_that_is_stated() -> None:
    unlimited = chat_bound({"messages": []}, PRICE)
    assert unlimited.tokens >= LONGEST_ANSWER
    assert chat_bound({"messages": [], "max_completion_tokens": 5, "max_tokens": 50}, PRICE).tokens < unlimited.tokens
    assert chat_bound({"messages": [], "max_tokens": True}, PRICE) == unlimited


def test_several_choices_are_several_answers() -> None:
    one = chat_bound({"messages": [], "max_tokens": 100}, PRICE)
    assert chat_bound({"messages": [], "max_tokens": 100, "n": 3}, PRICE).tokens == one.tokens + 200


def test_the_dearer_of_two_input_prices_counts() -> None:
    odd = Price(input=1, output=0, cached_input=4)
    assert embedding_bound(["x" * 100], odd).cost >= 400 / 1e6
    assert embedding_bound(["x"], None).cost == 0
