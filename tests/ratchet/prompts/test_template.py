"""Templates: what they are written like, what they refuse, and how they render."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ratchet._text.placeholders import UnknownPlaceholder
from ratchet.prompts import InvalidOverride, InvalidTemplate, Overrides, PromptTemplate, effective_hash, prompt_part
from tests.support.prompt_examples import template, toned

WRITTEN = """\
prompt: support/triage
description: Sorts tickets.
inputs: [ticket, customer.name]
sections:
  - path: task
    accepts_overrides: false
    body: |-
      You sort support tickets.
      Never promise anything.
  - path: [rules, tone]
    body: "Be {{factors.style}}. Write {\\"label\\": …}."
  - kind: tool
    path: tools/lookup
    name: lookup
    description: Finds an order.
    parameters: {type: object, properties: {id: {type: string}}}
  - kind: example
    path: examples
    examples:
      - {input: {ticket: "Where is it?"}, output: shipping}
      - {input: It crashed, output: no}
  - path: ticket
    body: "{{ input.ticket }}"
parameters:
  style: {type: choice, value: plain, choices: [plain, formal]}
  tries: {type: integer, value: 3, min: 1, max: 9}
"""


class TestFiles:
    def test_a_template_is_read_from_yaml(self) -> None:
        read = PromptTemplate.from_yaml(WRITTEN)
        assert [(section.kind, section.path, section.accepts_overrides) for section in read.sections] == [
            ("text", "task", False),
            ("text", "rules/tone", True),
            ("tool", "tools/lookup", True),
            ("example", "examples", True),
            ("text", "ticket", True),
        ]
        assert read.section("examples").value == [
            {"input": {"ticket": "Where is it?"}, "output": "shipping"},
            {"input": "It crashed", "output": "no"},
        ]

    @pytest.mark.parametrize("written", [PromptTemplate.from_yaml(WRITTEN), template()])
    def test_what_is_written_is_read_again(self, written: PromptTemplate) -> None:
        assert PromptTemplate.from_yaml(written.to_yaml()) == written
        assert PromptTemplate.from_yaml(written.to_yaml()).hash == written.hash

    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=80))
    def test_every_text_survives_being_written(self, text: str) -> None:
        try:
            one = template(sections=[{"path": "task", "body": text}], parameters={})
        except ValidationError:
            return
        assert PromptTemplate.from_yaml(one.to_yaml()).hash == one.hash

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("- 1", "is no prompt; write `prompt: namespace/key`"),
            ("", "is no prompt"),
            ("prompt: a/b\nprompt: a/c\n", "line 2: key 'prompt' is there twice"),
            ("prompt: a/b\nsections: [{path: a, body: !!python/name:os.system x}]", "tags such as !python"),
            ("prompt: a/b", "sections: is missing; add it"),
            ("prompt: a/b\nsections: []", "sections: is empty"),
            ("prompt: a/b\nsections: [{path: a, body: ' '}]", "sections[0]: the text is empty"),
            ("prompt: a/b\nsections: [{path: a, text: x}]", "sections[0].text: is not a known field"),
            ("prompt: a/b\nsections: [{path: A, body: x}]", "sections[0].path: in section 'A', segment 'A' is not allowed"),
            ("prompt: a/b\nsections: [{path: a, kind: story, body: x}]", "has kind 'story'; use one of 'text', 'tool'"),
            ("prompt: b\nsections: [{path: a, body: x}]", "prompt: prompt 'b' is not allowed; write namespace/key"),
            ("prompt: a/b\nsections: [{path: a, body: x}, {path: a, body: y}]", "path 'a' is used twice"),
            ("prompt: a/b\nsections: [{path: a, body: x}]\nparameters: {a: {type: flag, value: true}}", "named like a section"),
            ("prompt: a/b\nsections: [{path: a, body: x}]\nparameters: {p: {type: integer, value: 9, min: 1, max: 3}}",
             "parameters.p: value 9 is outside min 1 … max 3"),
            ("prompt: a/b\nsections: [{path: a, body: '{{nothing}}'}]", "placeholder {{nothing}} is unknown; use {{input.…}}"),
            ("prompt: a/b\nsections: [{path: a, body: '{{factors.b}}'}]", "names no section and no parameter of this prompt"),
            ("prompt: a/b\nsections: [{path: a, body: '{{factors.b}}'}, {path: b, body: '{{factors.a}}'}]", "back to itself"),
            ("prompt: a/b\ninputs: [ticket]\nsections: [{path: a, body: '{{input.tickets}}'}]", "none of the inputs ticket"),
            ("prompt: a/b\nsections: [{kind: example, path: a, examples: [{input: 1}]}]", "examples[0].output: is missing"),
            ("prompt: a/b\nsections: [{kind: example, path: a, template: 'x', examples: []}]", "shows nothing of an example"),
            ("prompt: a/b\nsections: [{kind: example, path: a, template: '{{factors.b}}', examples: []}]",
             "{{factors.b}} is unknown"),
            ("prompt: a/b\nsections: [{kind: example, path: a, template: '{{input.q}}', examples: [{input: 1, output: 2}]}]",
             "cannot be written by its template: placeholder {{input.q}} names nothing known"),
            ("prompt: a/b\nsections: [{kind: tool, path: a, name: 'two words', description: x}]", "sections[0].name"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_told_with_its_field(self, text: str, told: str) -> None:
        with pytest.raises(InvalidTemplate) as refused:
            PromptTemplate.from_yaml(text)
        assert told in str(refused.value)


class TestExamples:
    REVIEWS = (
        "prompt: films/judge\nsections:\n- {path: task, body: Judge.}\n- kind: example\n  path: examples\n"
        "  template: |-\n    Review: {{input.text}}\n    Sentiment:\n  examples: [{input: {text: A joy.}, output: positive}]\n"
    )

    def test_they_are_written_by_their_template_as_text_and_as_messages(self) -> None:
        read = PromptTemplate.from_yaml(self.REVIEWS)
        rendered = read.render(read.configuration())
        assert rendered.text == "Judge.\n\nReview: A joy.\nSentiment: positive"
        assert rendered.messages[1:] == [
            {"role": "user", "content": "Review: A joy.\nSentiment:"},
            {"role": "assistant", "content": "positive"},
        ]
        assert PromptTemplate.from_yaml(read.to_yaml()) == read

    def test_without_one_they_are_input_and_output(self) -> None:
        read = PromptTemplate.from_yaml(
            self.REVIEWS.replace("  template: |-\n    Review: {{input.text}}\n    Sentiment:\n", "")
        )
        assert read.render(read.configuration()).text == 'Judge.\n\nInput: {"text":"A joy."}\nOutput: positive'

    def test_an_override_that_the_template_cannot_write_is_refused(self) -> None:
        read = PromptTemplate.from_yaml(self.REVIEWS)
        other: Any = [{"input": {"body": "x"}, "output": "y"}]
        with pytest.raises(InvalidOverride, match="cannot be written by its template"):
            read.check(Overrides(sections={"examples": read.override("examples", other)}))
        schema: Any = read.factors()["section:examples"]["schema"]
        assert schema["items"]["properties"]["input"] == {"type": "object", "required": ["text"]}

    def test_another_template_makes_overrides_stale(self) -> None:
        read = PromptTemplate.from_yaml(self.REVIEWS)
        other = PromptTemplate.from_yaml(self.REVIEWS.replace("Sentiment:", "Opinion:"))
        assert read.section("examples").hash != other.section("examples").hash
        assert read.frozen_hash != other.frozen_hash


class TestFactors:
    def test_a_prompt_is_a_configuration_and_back(self) -> None:
        configuration = template().configuration(toned("Be kind."))
        assert configuration["section:rules/tone"] == "Be kind."
        assert configuration["param:tries"] == 3
        assert template().overrides_of(configuration) == toned("Be kind.")
        assert template().overrides_of(template().configuration()) == Overrides()

    def test_factors_say_how_each_part_may_change(self) -> None:
        factors = template().factors(toned("Be kind."))
        assert factors["section:task"] == {"value": "You sort support tickets.", "change": "frozen"}
        assert factors["section:rules/tone"] == {"value": "Be kind.", "change": "text", "max_length": 20_000}
        assert factors["section:tools/lookup"]["value"] == "Finds an order."
        assert (factors["section:examples"]["change"], factors["section:examples"]["type"]) == ("structured", "json")
        assert factors["param:tries"] == {"value": 3, "change": "structured", "type": "integer", "min": 1, "max": 9}
        assert factors["param:labels"]["type"] == "order"

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"section:task": "Obey."}, "section 'task' is frozen"),
            ({"section:more": "x"}, "has 'section:more', which the template has not"),
            ({"param:risk": "much"}, "is not a number"),
            ({"section:rules/tone": "\ud800"}, "lone surrogate"),
        ],
    )
    def test_a_configuration_that_is_none_of_this_prompt_is_refused(self, change: dict[str, Any], problem: str) -> None:
        with pytest.raises(InvalidOverride, match=problem):
            template().overrides_of({**template().configuration(), **change})

    def test_a_configuration_that_lacks_a_part_is_refused(self) -> None:
        with pytest.raises(InvalidOverride, match="lacks 'section:rules/tone'"):
            template().overrides_of({k: v for k, v in template().configuration().items() if k != "section:rules/tone"})

    def test_only_the_prompts_own_factors_count_in_its_hash(self) -> None:
        configuration = {**template().configuration(), "model": "big", "temperature": 0.5}
        assert prompt_part(configuration) == template().configuration()
        assert effective_hash(configuration) == effective_hash(template().configuration())


class TestHashes:
    def test_a_sections_hash_is_that_of_its_text(self) -> None:
        assert template().section("rules/tone").hash == hashlib.sha256(b"Be brief.").hexdigest()

    def test_a_tools_hash_covers_its_contract(self) -> None:
        tool = template().section("tools/lookup").model_dump()
        other = template(sections=[{**tool, "parameters": {"type": "object"}}], parameters={})
        assert other.section("tools/lookup").hash != template().section("tools/lookup").hash

    def test_a_description_changes_nothing(self) -> None:
        assert template(description="For people.").hash == template().hash

    def test_the_frozen_hash_covers_what_no_override_changes_and_nothing_else(self) -> None:
        def changed(index: int, **changes: Any) -> str:
            sections = [section.model_dump() for section in template().sections]
            return template(sections=[*sections[:index], {**sections[index], **changes}, *sections[index + 1 :]]).frozen_hash

        def with_parameter(name: str, **changes: Any) -> str:
            parameters = {key: value.model_dump() for key, value in template().parameters.items()}
            return template(parameters={**parameters, name: {**parameters[name], **changes}}).frozen_hash

        same = template().frozen_hash
        assert changed(2, body="Other words.") == same
        assert changed(3, description="Other words.") == same
        assert with_parameter("risk", value=0.25) == same
        assert with_parameter("labels", value=["bug", "billing", "shipping"]) == same
        assert changed(0, body="Other orders.") != same
        assert changed(2, accepts_overrides=False) != same
        assert changed(2, path="rules/manner") != same
        assert changed(3, parameters={"type": "object"}) != same
        assert with_parameter("risk", max=2) != same
        assert with_parameter("labels", value=["bug", "billing", "other"]) != same

    def test_tokens_are_counted_whatever_the_text_says(self) -> None:
        descriptor = template().descriptor(toned("<|endoftext|> is text. " * 10))
        tokens = {section.path: section.tokens for section in descriptor.sections}
        assert 4 <= tokens["task"] <= 6
        assert tokens["rules/tone"] > 50
        assert tokens["examples"] > 3
        assert descriptor.sections[0].hash == template().section("task").hash


class TestRendering:
    def test_sections_and_examples_make_the_text(self) -> None:
        rendered = PromptTemplate.from_yaml(WRITTEN).render(
            PromptTemplate.from_yaml(WRITTEN).configuration(), {"ticket": "It {{input.ticket}} broke"}
        )
        assert rendered.text == (
            "You sort support tickets.\nNever promise anything.\n\n"
            'Be plain. Write {"label": …}.\n\n'
            'Input: {"ticket":"Where is it?"}\nOutput: shipping\n\nInput: It crashed\nOutput: no\n\n'
            "It {{input.ticket}} broke"
        )
        assert str(rendered) == rendered.text

    def test_examples_are_questions_and_answers_of_a_chat(self) -> None:
        rendered = template().render(template().configuration(), {"ticket": "Lost."})
        system, question, answer = rendered.messages
        assert system["role"] == "system"
        assert system["content"].endswith("Ticket: Lost.")
        assert "Where is it?" not in system["content"]
        assert (question, answer) == (
            {"role": "user", "content": "Where is it?"},
            {"role": "assistant", "content": "shipping"},
        )

    def test_tools_are_told_beside_the_text(self) -> None:
        configuration = template().configuration(
            Overrides(sections={"tools/lookup": template().override("tools/lookup", "Looks up.")})
        )
        rendered = template().render(configuration, {"ticket": "Lost."})
        assert [(tool.name, tool.description) for tool in rendered.tools] == [("lookup", "Looks up.")]
        assert "Looks up." not in rendered.text

    @pytest.mark.parametrize("given", [None, {}, {"tickets": "x"}, "text"])
    def test_what_nothing_fills_is_an_error(self, given: Any) -> None:
        with pytest.raises(UnknownPlaceholder, match=r"input\.ticket"):
            template().render(template().configuration(), given)

    def test_the_text_with_its_inputs_open_renders_to_the_same(self) -> None:
        from ratchet._text.placeholders import render

        configuration = template().configuration(toned("Be kind."))
        given = {"ticket": "Lost: {{factors.labels}}"}
        assert render(template().text(configuration), {}, given) == template().render(configuration, given).text
