"""A prompt becomes factors, with what its tag overrides, and targets see it rendered exactly as production will."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet._text.placeholders import UnknownPlaceholder
from ratchet.optimizer import CandidateProposal
from ratchet.prompts import PromptTemplate
from tests.support.prompted_specs import OVERRIDES, TEMPLATE, read, snapshot, unread
from workflows.model.spec.factors import FrozenFactor, JsonFactor, NumberFactor, TextFactor
from workflows.model.spec.prompt import PromptSource
from workflows.rules.overlay import Overlay
from workflows.rules.proposals.validation import Admitted, KnownConfigurations, Refusal, examine
from workflows.rules.spec.check import check_request
from workflows.rules.spec.prompt_factors import shows_its_prompt, with_prompt

SHOP = {"shop": "Nile"}


class TestMapping:
    def test_sections_and_parameters_are_factors_of_their_kind(self) -> None:
        factors = read().configuration
        assert list(factors) == [
            "section:role",
            "section:rules/labels",
            "section:examples",
            "section:tools/lookup",
            "param:tone",
            "param:temperature",
            "model",
        ]
        kinds = {name: type(factor) for name, factor in factors.items()}
        assert kinds["section:role"] is FrozenFactor
        assert kinds["section:rules/labels"] is kinds["section:tools/lookup"] is TextFactor
        assert kinds["section:examples"] is JsonFactor
        assert kinds["param:temperature"] is NumberFactor

    def test_the_baseline_has_what_the_tag_overrides(self) -> None:
        baseline = read().baseline
        assert baseline["section:rules/labels"] == "Stay {{factors.tone}}. Read {{factors.role}}"
        assert baseline["param:temperature"] == 0.25
        assert read(None).baseline["section:rules/labels"] == "Be {{factors.tone}}. See {{factors.role}}"

    @pytest.mark.parametrize("source", ["support/triage", {"file": "triage.yaml"}])
    def test_a_read_prompt_survives_the_wire(self, source: Any) -> None:
        request = read(prompt=source)
        assert type(request).model_validate(request.model_dump(mode="json", by_alias=True)) == request


class TestTheGuard:
    """Every section keeps its placeholders, whoever proposes."""

    @pytest.mark.parametrize(
        ("factor", "value", "code"),
        [
            ("section:rules/labels", "Stay kind. Read {{factors.role}}", "placeholder_lost"),
            ("section:rules/labels", "Stay {{factors.tone}}. Read {{factors.role}} {{input.x}}", "invalid_shape"),
            ("section:rules/labels", " ", "empty_value"),
            ("section:role", "You sort tickets.", "frozen_factor_changed"),
            ("section:tools/lookup", "Finds an order.", "placeholder_lost"),
            ("section:examples", [{"input": "x"}], "out_of_range"),
            ("param:tone", "rude", "out_of_range"),
            ("param:temperature", 2, "out_of_range"),
        ],
    )
    def test_a_proposal_that_breaks_a_part_of_the_prompt_is_kept_out(self, factor: str, value: Any, code: str) -> None:
        request = read()
        proposal = CandidateProposal(configuration={**request.baseline, factor: value})
        refused = examine(proposal, request.factors_in_play, KnownConfigurations((), ()), ())
        assert isinstance(refused, Refusal)
        assert refused.reason_code == code
        assert factor in refused.message

    def test_a_proposal_that_keeps_them_is_let_in_and_the_template_takes_it(self) -> None:
        request = read()
        changed = {"section:rules/labels": "{{factors.role}} {{factors.tone}}!", "param:tone": "short"}
        admitted = examine(
            CandidateProposal(configuration={**request.baseline, **changed}),
            request.factors_in_play,
            KnownConfigurations((), ()),
            (),
        )
        assert isinstance(admitted, Admitted)
        part = {name: value for name, value in admitted.configuration.items() if name != "model"}
        assert TEMPLATE.configuration(TEMPLATE.overrides_of(part)) == part


class TestWhatTargetsSee:
    def test_the_prompt_is_rendered_as_the_template_renders_it(self) -> None:
        request = read()
        seen = Overlay("h", request.baseline, TEMPLATE).for_sample(SHOP)
        rendered = TEMPLATE.render(TEMPLATE.configuration(OVERRIDES), SHOP)
        assert (seen["prompt"], seen["messages"]) == (rendered.text, rendered.messages)
        assert seen["prompt"].startswith("You sort tickets of Nile.\n\nStay kind. Read You sort tickets of Nile.")
        assert seen["tools"] == [
            {
                "type": "function",
                "function": {
                    "name": "lookup",
                    "description": "Finds an order of Nile.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ]

    def test_parameters_go_by_their_own_names_and_other_factors_as_they_are(self) -> None:
        seen = Overlay("h", read().baseline, TEMPLATE).for_sample(SHOP)
        assert (seen["temperature"], seen["tone"], seen["model"]) == (0.25, "kind", "small")

    def test_a_sample_that_lacks_an_input_gets_no_rendered_prompt(self) -> None:
        overlay = Overlay("h", read().baseline, TEMPLATE)
        assert {"prompt", "messages", "tools"}.isdisjoint(overlay.for_sample({"other": 1}))
        with pytest.raises(UnknownPlaceholder, match=r"\{\{input\.shop\}\}"):
            overlay.for_sample({"other": 1}, strict=True)
        with pytest.raises(KeyError, match=r"prompt: cannot be rendered from this sample's input alone: .*input\.shop"):
            overlay.for_sample({"other": 1})["prompt"]
        with pytest.raises(KeyError, match=r"^'nothing'$"):
            overlay.for_sample({"other": 1})["nothing"]

    def test_what_differs_by_sample_is_told_apart_from_what_does_not(self) -> None:
        overlay = Overlay("h", read().baseline, TEMPLATE)
        assert "prompt" not in overlay.for_every_sample
        assert set(overlay.differing(SHOP)) == {"prompt", "messages", "tools"}
        plain = PromptTemplate.model_validate({"prompt": "a/b", "sections": [{"path": "x", "body": "Hello"}]})
        same = Overlay("h", plain.configuration(), plain)
        assert same.for_every_sample == {"section:x": "Hello", "prompt": "Hello"}, "one message says no more than the text"
        assert same.differing(SHOP) == {}

    def test_what_a_sample_holds_is_never_read_as_a_placeholder(self) -> None:
        from ratchet._text.placeholders import fill

        seen = Overlay("h", read().baseline, TEMPLATE).for_sample({"shop": "{{factors.model}} {{input.x}}"})
        filled = fill(["{{factors.prompt}}", "> {{factors.prompt}}"], seen, {})
        assert "{{factors.model}} {{input.x}}" in filled[0]
        assert filled[1] == f"> {filled[0]}"

    def test_without_a_prompt_the_configuration_is_what_it_is(self) -> None:
        overlay = Overlay("h", {"a": 1})
        assert overlay.for_sample(SHOP, strict=True) == overlay.for_every_sample == {"a": 1}
        assert overlay.is_named_by("h") and not overlay.is_named_by("x")

    def test_an_answer_names_the_overlay_or_the_prompt_in_it(self) -> None:
        overlay = Overlay("h", read().baseline, TEMPLATE)
        assert overlay.prompt_hash == snapshot().overlay_hash != "h"
        assert overlay.is_named_by("h") and overlay.is_named_by(snapshot().overlay_hash)
        assert not overlay.is_named_by(snapshot(overrides=None).overlay_hash)


def _chat(content: str) -> dict[str, Any]:
    return {"kind": "chat", "messages": [{"role": "user", "content": content}]}


class TestChecks:
    @pytest.mark.parametrize(
        "content",
        [
            "{{factors.prompt}}",
            "{{factors.section:rules/labels}}",
            "{{factors.param:tone}} {{factors.tone}}",
            "{{factors.model}}",
        ],
    )
    def test_every_name_of_a_prompt_is_known_once_it_was_read(self, content: str) -> None:
        assert check_request(read(target=_chat(content))) == []

    def test_until_then_nothing_is_said_about_names_that_it_may_bring(self) -> None:
        request = unread(target=_chat("{{factors.tone}}"), optimizer={"proposer": {"kind": "step"}, "factors": ["param:tone"]})
        assert check_request(request) == []

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            (
                {"target": _chat("{{factors.nobody}}")},
                "target.messages[0].content: placeholder {{factors.nobody}} names no factor; known are section:role, "
                "section:rules/labels, section:examples, section:tools/lookup, param:tone, param:temperature, model, tone, "
                "temperature, role, prompt, messages, tools",
            ),
            (
                {"dataset": [{"input": {"ticket": "x"}, "expected": 1}]},
                "dataset.items[0].input: has no 'shop', which target.messages[0].content needs",
            ),
            (
                {"optimizer": {"name": "refine", "proposer": {"kind": "model", "model": "big"}, "factors": ["section:role"]}},
                "optimizer.factors: 'section:role' is frozen; set accepts_overrides in the prompt",
            ),
            (
                {"optimizer": {"name": "refine", "proposer": {"kind": "model", "model": "big"}, "factors": ["section:rule"]}},
                "optimizer.factors: 'section:rule' is no factor; known are section:role, section:rules/labels, "
                "section:examples, section:tools/lookup, param:tone, param:temperature, model",
            ),
            (
                {"configuration": {"model": "small", "tone": "x"}},
                "configuration.tone: {{factors.tone}} stands for a part of the prompt; rename the factor",
            ),
            (
                {"configuration": {"model": "small", "prompt": "x"}},
                "configuration.prompt: {{factors.prompt}} stands for a part of the prompt; rename the factor",
            ),
        ],
    )
    def test_what_is_wrong_names_the_field_and_the_fix(self, changes: dict[str, Any], problem: str) -> None:
        assert problem in check_request(read(**changes))

    def test_a_spec_cannot_define_parts_of_a_prompt_itself(self) -> None:
        told = "configuration.section:role: is a part of the prompt, which is read with it; remove it here"
        mixed = unread(configuration={"section:role": "x"})
        assert check_request(mixed) == [told]
        with pytest.raises(ValueError, match="is a part of the prompt"):
            with_prompt(mixed, snapshot(), OVERRIDES)
        alone = unread(prompt=None, configuration={"section:role": "x"}, target=_chat("x"))
        assert "names a part of a prompt, but there is none" in check_request(alone)[0]

    def test_a_snapshot_that_does_not_fit_is_refused(self) -> None:
        request = read()
        other = request.prompt.model_copy(update={"snapshot": snapshot(overrides=None)}) if request.prompt else None
        [problem] = check_request(request.model_copy(update={"prompt": other}))
        assert problem.startswith("prompt.snapshot: does not fit the configuration")

    def test_only_targets_that_show_the_prompt_need_it_rendered(self) -> None:
        assert shows_its_prompt(read().target)
        assert not shows_its_prompt(read(target=_chat("{{factors.section:role}}")).target)


class TestSize:
    """A prompt goes through the workflow, beside the configuration."""

    HUGE = PromptTemplate.model_validate(
        {"prompt": "a/b", "sections": [{"path": f"s{n}", "body": "x" * 19_000, "accepts_overrides": False} for n in range(14)]}
    )

    def test_one_that_does_not_fit_is_refused_when_it_is_read(self) -> None:
        with pytest.raises(ValueError, match=r"^prompt: is 26\d,\d{3} bytes as JSON; at most 262,144 fit"):
            with_prompt(unread(), snapshot(self.HUGE, None))

    def test_one_that_does_not_fit_is_refused_when_it_is_sent(self) -> None:
        told = {"name": "a/b", "snapshot": snapshot(self.HUGE, None).model_dump(mode="json", by_alias=True)}
        with pytest.raises(ValueError, match="at most 262,144 fit"):
            unread(prompt=told)


class TestSpelling:
    def test_a_name_alone_means_its_stable_tag(self) -> None:
        assert PromptSource.model_validate("support/triage") == PromptSource(name="support/triage", tag="stable")

    @pytest.mark.parametrize("told", [{}, {"name": "a/b", "file": "x"}, {"file": "x.yaml", "tag": "canary"}, "triage", "A/b"])
    def test_a_prompt_has_one_source(self, told: Any) -> None:
        with pytest.raises(ValueError, match=r"exactly one|tag belongs|is not allowed"):
            PromptSource.model_validate(told)
