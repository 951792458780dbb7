"""What factors show of each other is bounded, and told in time linear in the spec."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from ratchet._text.placeholders import LARGEST_RENDERED, Filling, RendersTooLong, UnfoldsTooFar, filled_in, render
from ratchet._text.unfolding import Unfolding
from ratchet.prompts.template import PromptTemplate
from tests.support.spec_building import proposal, request
from workflows.model.run.candidates import ReasonCode
from workflows.model.spec.extraction import pattern_problem
from workflows.rules.proposals.validation import KnownConfigurations, Refusal, examine
from workflows.rules.spec.check import MOST_PROBLEMS, check_request

MODEL = {"proposer": {"kind": "model", "model": "big"}}


def _text(value: str) -> dict[str, Any]:
    return {"value": value, "change": "text"}


def _asked(content: str) -> dict[str, Any]:
    return {"kind": "chat", "messages": [{"role": "user", "content": content}], "model": "m"}


def _bomb(levels: int, last: str = "x") -> dict[str, str]:
    twice = {f"f{i}": f"{{{{factors.f{i + 1}}}}}{{{{factors.f{i + 1}}}}}" for i in range(levels)}
    return twice | {f"f{levels}": last}


@pytest.mark.parametrize("last", ["", "x", "x" * 1_000])
def test_factors_that_name_each_other_twice_never_fill_the_memory(last: str) -> None:
    with pytest.raises(UnfoldsTooFar, match=r"\{\{factors\.f0\}\} unfolds too far"):
        render("{{factors.f0}}", _bomb(40, last), {})
    assert Unfolding({name: [text] for name, text in _bomb(40, last).items()}).of("{{factors.f0}}").is_too_far


def test_what_is_told_of_texts_is_what_unfolding_them_gives() -> None:
    factors: dict[str, Any] = {**_bomb(8, "ab"), "n": 12, "all": "{{factors.f0}} {{factors.n}} {{factors.f6}} {{input.q}}"}
    extent = Unfolding({name: [value] for name, value in factors.items()}).of("{{factors.all}}{{factors.all}}")
    unfolded = filled_in("{{factors.all}}{{factors.all}}", factors)
    assert len(unfolded.text) == 2 * (2**8 * 2 + 1 + 2 + 1 + 2**2 * 2 + 1 + len("{{input.q}}"))
    assert extent.substitutions == 2 * (1 + (2**9 - 1) + 1 + (2**3 - 1))


def test_a_chain_of_a_thousand_factors_is_followed_to_its_end() -> None:
    chain = {f"f{i}": f"{{{{factors.f{i + 1}}}}}." for i in range(999)} | {"f999": "end"}
    assert render("{{factors.f0}}", chain, {}) == "end" + "." * 999
    made = request(
        configuration={name: _text(value) for name, value in chain.items()}, target=_asked("{{factors.f0}}"), optimizer=MODEL
    )
    assert check_request(made) == []


def test_a_sample_that_is_used_thousands_of_times_never_fills_the_memory() -> None:
    large = {"q": "x" * (1024 * 1024), "deep": {"list": ["x" * (1024 * 1024)]}}
    with pytest.raises(RendersTooLong, match=r"\{\{input\.q\}\} makes the text longer than"):
        render("{{input.q}}" * 20_000, {}, large)
    with pytest.raises(RendersTooLong, match=r"\{\{input\.deep\}\}"):
        render("{{input.deep}}" * 20_000, {}, large)
    several = Filling({}, large)
    with pytest.raises(RendersTooLong, match=r"\{\{input\}\}"):
        several.json({"messages": ["{{input}}"] * 20_000})
    one_by_one, times = Filling({}, large), LARGEST_RENDERED // len(large["q"])
    assert sum(len(one_by_one.text("{{input.q}}")) for _ in range(times)) == LARGEST_RENDERED
    with pytest.raises(RendersTooLong):
        one_by_one.text("{{input.q}}")


@pytest.mark.parametrize(
    "target", [_asked("{{factors.f0}}"), _asked("{{factors.f1}}" * 9_000), {**_asked("x"), "model": "{{factors.f0}}"}]
)
def test_a_spec_whose_texts_unfold_too_far_is_refused_by_the_field(target: dict[str, Any]) -> None:
    levels = 40 if "f0" in str(target) else 2
    made = request(configuration={name: _text(value) for name, value in _bomb(levels).items()}, target=target, optimizer=MODEL)
    [problem] = [problem for problem in check_request(made) if "placeholders filled in" in problem]
    assert problem.startswith(("target.messages[0].content: ", "target.model: "))
    assert "let factors name each other less" in problem


def test_choices_count_as_the_longest_of_them() -> None:
    bomb = {name: _text(value) for name, value in _bomb(40).items()}
    choice = {"value": "short", "change": "structured", "type": "choice", "choices": ["short", "{{factors.f0}}"]}
    made = request(configuration={**bomb, "style": choice}, target=_asked("{{factors.style}}"), optimizer=MODEL)
    assert any("placeholders filled in" in problem for problem in check_request(made))


def test_a_proposal_that_unfolds_too_far_is_kept_out() -> None:
    chain = {f"f{i}": _text(f"{{{{factors.f{i + 1}}}}}") for i in range(4)} | {"f4": _text("x")}
    factors = request(configuration=chain, target=_asked("{{factors.f0}}"), optimizer=MODEL).configuration
    grown = {f"f{i}": f"{{{{factors.f{i + 1}}}}}" * 100 for i in range(4)} | {"f4": "x"}
    refused = examine(proposal(configuration=grown), factors, KnownConfigurations((), ()), ())
    assert isinstance(refused, Refusal)
    assert refused.reason_code is ReasonCode.TOO_LONG
    assert refused.message.startswith("f0: with placeholders filled in")


def test_a_prompt_whose_sections_unfold_too_far_is_no_template() -> None:
    sections = [{"path": name, "body": value} for name, value in _bomb(40).items()]
    with pytest.raises(ValueError, match=r"sections\.f0: with placeholders filled in"):
        PromptTemplate.model_validate({"prompt": "a/b", "sections": sections})


def test_a_prompt_whose_sections_show_each_other_in_a_circle_is_no_template() -> None:
    for bodies in ({"a": "{{factors.a}}"}, {"a": "{{factors.b}}", "b": "{{factors.section:a}}"}, {"a": "{{factors.t}}"}):
        sections = [{"path": name, "body": value} for name, value in bodies.items()]
        parameters = {"t": {"type": "choice", "value": "{{factors.t}}", "choices": ["{{factors.t}}", "x"]}}
        with pytest.raises(ValueError, match="leads back to itself"):
            PromptTemplate.model_validate({"prompt": "a/b", "sections": sections, "parameters": parameters})


def _calls(work: Callable[[], object]) -> int:
    """How many functions are called: what a clock would say, on any machine."""
    count = 0

    def counted(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


SHAPES: dict[str, Callable[[int], dict[str, Any]]] = {
    "a chain": lambda n: {"configuration": {f"f{i}": _text(f"{{{{factors.f{(i + 1) % n}}}}}!") for i in range(1, n)}},
    "names that nobody knows": lambda n: {"configuration": {f"f{i}": _text(f"{{{{factors.g{i}}}}}") for i in range(n)}},
    "circles": lambda n: {
        "configuration": {f"f{i}": _text("".join(f"{{{{factors.f{(i + j) % n}}}}}" for j in range(8))) for i in range(n)}
    },
    "many samples": lambda n: {
        "configuration": {"f1": _text("{{input.q}}")},
        "dataset": {"items": [{"id": str(i), "input": {"q": ""}} for i in range(n)]},
    },
    "many parameters": lambda n: {
        "configuration": {f"f{i}": _text("x") for i in range(n)},
        "target": _asked("x") | {"parameters": {"stop": [f"{{{{factors.f{i}}}}}" for i in range(n)]}},
    },
    "many variations": lambda n: {
        "configuration": {f"f{i}": "x" for i in range(n)},
        "optimizer": {"name": "none", "configurations": [{f"f{i}": "y"} for i in range(10)]},
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_checking_takes_time_in_proportion_to_the_spec(shape: str) -> None:
    def calls(size: int) -> int:
        made = request(**({"target": _asked("{{factors.f1}}"), "optimizer": MODEL} | SHAPES[shape](size)))
        return _calls(lambda: check_request(made))

    calls(10)  # what is imported and cached once
    assert calls(800) < 6 * calls(200) + 1_000


def test_no_more_problems_are_told_than_somebody_reads() -> None:
    made = request(
        configuration={f"f{i}": _text(f"{{{{nobody{i}}}}}") for i in range(1_000)}, target=_asked("x"), optimizer=MODEL
    )
    problems = check_request(made)
    assert len(problems) == MOST_PROBLEMS
    assert max(map(len, problems)) < 10_000


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("a{99999999999}", "the repetition number is too large"),
        ("(" * 3_000, "it is nested too deeply"),
        ("(", "missing ), unterminated subpattern at position 0"),
        ("(?<=a+)b", "look-behind requires fixed-width pattern"),
        ("(?<=ab)b(?=c+)", None),
    ],
)
def test_a_pattern_that_cannot_be_compiled_is_refused_in_words(pattern: str, told: str | None) -> None:
    assert pattern_problem(pattern) == told


def test_a_pattern_is_not_compiled_to_find_out_whether_it_could_be() -> None:
    slow = "(?i)" + r"[\x00-\uffff]" * 2_000
    assert _calls(lambda: pattern_problem(slow)) < 1_000_000
