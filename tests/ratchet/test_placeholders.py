"""Placeholders only substitute: what was substituted is never read again, and no text takes long to read."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet._text.placeholders import UnknownPlaceholder, as_text, is_placeholder_name, placeholders, render, substitute

hostile = st.text("{}inputfacors.ab \n", max_size=30) | st.sampled_from(
    ["{{factors.secret}}", "{{input.a}}", "{{input}}", "{{{{input.a}}}}", "{{unknown}}", "{{", "}}", "{{factors.prompt}}"]
)


@given(hostile, hostile)
def test_a_sample_that_contains_placeholders_stays_data(one: str, other: str) -> None:
    rendered = render(
        "<{{input.a}}|{{factors.f}}|{{input.b}}>", {"f": "[{{input.a}}]", "secret": "s3cret"}, {"a": one, "b": other}
    )
    assert rendered == f"<{one}|[{one}]|{other}>"


@given(hostile, hostile)
def test_values_of_our_own_templates_stay_data(one: str, other: str) -> None:
    assert substitute("{{a}}-{{ b }}", {"a": one, "b": other}) == f"{one}-{other}"


@given(st.text(max_size=40).filter(lambda text: "{{" not in text))
def test_text_without_double_braces_is_left_alone(text: str) -> None:
    assert render(text, {}, {}) == text
    assert placeholders(text) == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{{input.a}} {{ factors.b }}\n{{input.a}}", ("input.a", "factors.b")),
        ('{"json": {"a": 1}} {single}', ()),
        ("{{{input.a}}}", ("input.a",)),
        ("{{}}", ("",)),
        ("{{\n input.a \t}}", ("input.a",)),
        ("{{input.a}", ()),
        ("{{ {{input.a}} }}", ("input.a",)),
    ],
)
def test_names_are_found_once_and_in_order(text: str, names: tuple[str, ...]) -> None:
    assert placeholders(text) == names


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("input", True),
        ("input.a", True),
        ("input.a.b-c/d:e", True),
        ("factors.a", True),
        ("factors", False),
        ("inputs.a", False),
        ("", False),
        ("input.", False),
        ("input.a b", False),
        ("Input.a", False),
    ],
)
def test_only_input_and_factors_can_be_named(name: str, known: bool) -> None:
    assert is_placeholder_name(name) is known


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{input.a}}", "1"),
        ("{{input.deep.er}}", "x"),
        ("{{input.dot.ted}}", "y"),
        ("{{input.list}}", '[1,"é"]'),
        ("{{factors.n}}", "0.5"),
        ("{{factors.flag}}", "true"),
        ("{{factors.outer}}", "(x)"),
        ("{ {{input.a}} }", "{ 1 }"),
    ],
)
def test_values_of_every_kind_are_substituted(text: str, expected: str) -> None:
    factors = {"n": 0.5, "flag": True, "outer": "({{factors.inner}})", "inner": "{{input.deep.er}}"}
    assert render(text, factors, {"a": 1, "deep": {"er": "x"}, "dot.ted": "y", "list": [1.0, "é"]}) == expected


def test_the_whole_input_can_be_substituted() -> None:
    assert render("{{input}}", {}, "plain") == "plain"
    assert render("{{input}}", {}, {"b": 1, "a": 2}) == '{"a":2,"b":1}'


@pytest.mark.parametrize(
    ("text", "sample", "message"),
    [
        ("{{input.b}}", {"a": 1}, "placeholder {{input.b}} names nothing known; known are {{input.a}}"),
        ("{{input.a.b}}", {"a": 1}, "placeholder {{input.a.b}} names nothing known; known are {{input.a}}"),
        ("{{input.a}}", "text", "placeholder {{input.a}} names nothing known; known are {{input}}"),
        ("{{factors.x}}", {}, "placeholder {{factors.x}} names nothing known; known are {{factors.f}}, {{factors.g}}"),
        ("{{name}}", {"a": 1}, "placeholder {{name}} names nothing known; known are {{input.a}}"),
        ("{{factors.f}}", {}, "placeholder {{factors.f}} names nothing known; known are {{factors}}"),
    ],
)
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(text: str, sample: Any, message: str) -> None:
    with pytest.raises(UnknownPlaceholder) as refused:
        render(text, {"f": "{{factors.g}}", "g": "{{factors.f}}"}, sample)
    assert str(refused.value) == message


@pytest.mark.parametrize("text", ["{{" + " " * 200_000, "{{ " * 60_000, "{" * 200_000, "{{" + "a" * 200_000 + "}"])
def test_no_text_takes_long_to_read(text: str) -> None:
    started = time.process_time()
    placeholders(text)
    assert time.process_time() - started < 0.5


def test_text_is_itself_and_all_else_is_canonical_json() -> None:
    assert as_text("a\r\n") == "a\r\n"
    assert as_text({"b": 1.0, "a": None}) == '{"a":null,"b":1}'
