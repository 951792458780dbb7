"""An answer is used again where the target is the same, a score where the scorers are: each has a fingerprint of its own."""

from __future__ import annotations

from typing import Any

import pytest

from activities.preparing import evaluation_plan
from activities.preparing.evaluation_plan import scorer_fingerprint, target_fingerprint
from ratchet.prompts.template import PromptTemplate, effective_hash
from tests.support.spec_building import request
from workflows.model.spec.prompt import PromptSnapshot
from workflows.rules.spec.prompt_factors import with_prompt

RUBRIC = {"kind": "rubric", "rubric": "Is it polite?", "model": "judge"}
SIMILARITY = {"kind": "similarity", "model": "embedding"}
PRICES = {"small": {"input": 1, "output": 2}}
DEARER = {"small": {"input": 9, "output": 9}}


def fingerprints(*scorers: dict[str, Any], plugins: dict[str, str] | None = None, **parts: Any) -> tuple[str, str]:
    """Of the target, and of the scorers."""
    made = request(scorers=list(scorers), objective={"metric": scorers[0].get("name", scorers[0]["kind"])}, **parts)
    return target_fingerprint(made, plugins or {}), scorer_fingerprint(made, plugins or {})


def fingerprint(*scorers: dict[str, Any], **parts: Any) -> str:
    return fingerprints(*scorers, **parts)[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RUBRIC, {**RUBRIC, "rubric": "Is it short?"}),
        (RUBRIC, {**RUBRIC, "model": "another judge"}),
        (RUBRIC, {**RUBRIC, "base_url": "https://elsewhere/v1"}),
        (RUBRIC, {**RUBRIC, "scale": [0, 10]}),
        (RUBRIC, {**RUBRIC, "parameters": {"temperature": 0}}),
        (RUBRIC, {**RUBRIC, "show": []}),
        (SIMILARITY, {**SIMILARITY, "model": "another embedding"}),
        ({"kind": "exact"}, {"kind": "exact", "not": True, "name": "exact"}),
        ({"kind": "exact"}, {"kind": "exact", "extract": {"strip": True}}),
        ({"kind": "latency", "at_most": 1}, {"kind": "latency", "at_most": 2}),
        ({"kind": "mean_of", "scorers": [RUBRIC]}, {"kind": "mean_of", "scorers": [{**RUBRIC, "weight": 2}]}),
    ],
)
def test_every_option_of_a_scorer_is_part_of_it(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(dict(one))
    assert fingerprints(one)[0] == fingerprints(other)[0], "no target is asked again for another scorer"


def test_what_we_tell_a_judge_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before, other = fingerprint({"kind": "all_of", "scorers": [RUBRIC]}), fingerprint({"kind": "exact"})
    monkeypatch.setattr(evaluation_plan, "INSTRUCTIONS", "Be kind.")
    assert fingerprint({"kind": "all_of", "scorers": [RUBRIC]}) != before
    assert fingerprint({"kind": "exact"}) == other


def test_prices_are_part_of_it_only_where_the_cost_is_scored() -> None:
    assert fingerprint({"kind": "cost"}, prices=PRICES) != fingerprint({"kind": "cost"}, prices=DEARER)
    assert fingerprint({"kind": "exact"}, prices=PRICES) == fingerprint({"kind": "exact"}, prices=DEARER)


def test_flags_are_part_of_it_and_their_order_is_not() -> None:
    def of(**flags: int) -> tuple[str, str]:
        return fingerprints({"kind": "exact"}, flags=flags)

    assert of(a=1, b=2) == of(b=2, a=1)
    assert len({of()[0], of(a=1)[0], of(a=2)[0]}) == 3
    assert len({of()[1], of(a=1)[1]}) == 1, "scorers are not told"


def test_the_source_of_a_plug_in_within_a_combination_is_part_of_it() -> None:
    combined = {"kind": "any_of", "scorers": [{"kind": "python", "ref": "mine:score"}]}
    assert fingerprint(combined, plugins={"mine:score": "a"}) != fingerprint(combined, plugins={"mine:score": "b"})
    assert fingerprint({"kind": "exact"}, plugins={"mine:score": "a"}) == fingerprint({"kind": "exact"}, plugins={})


def test_how_a_prompt_writes_its_examples_is_part_of_it() -> None:
    def of(**written: Any) -> str:
        examples = {"kind": "example", "path": "examples", "examples": [{"input": {"q": "x"}, "output": "y"}], **written}
        template = PromptTemplate.model_validate({"prompt": "a/b", "sections": [{"path": "task", "body": "Do."}, examples]})
        snapshot = PromptSnapshot(template=template, overlay_hash=effective_hash(template.configuration()))
        made = request(scorers=[{"kind": "exact"}], configuration={"model": "m"}, prompt="a/b", optimizer="none")
        return target_fingerprint(with_prompt(made, snapshot), {})

    assert len({of(), of(template="Q: {{input.q}}\nA:"), of(template="{{input.q}} =")}) == 3
