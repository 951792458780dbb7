"""`optimizer: none`: measure one configuration, or several side by side."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.model.spec.request import OptimizationRequest
from workflows.optimizers.measure import MeasureOptimizer
from workflows.optimizers.refine import RefineOptimizer
from workflows.rules.spec.check import check_request


def request(optimizer: Any, **parts: Any) -> OptimizationRequest:
    return OptimizationRequest.model_validate(
        {
            "configuration": {
                "prompt": {"value": "Sort {{input.ticket}}.", "change": "text", "max_length": 60},
                "temperature": {"value": 0.7, "change": "structured", "type": "number", "min": 0, "max": 1},
                "model": "small",
            },
            "target": {"kind": "chat", "messages": [{"role": "user", "content": "{{factors.prompt}}"}]},
            "dataset": [{"input": {"ticket": "It is late."}, "expected": "shipping"}],
            "objective": "exact",
            "optimizer": optimizer,
        }
        | parts
    )


def test_none_alone_is_an_optimizer_and_a_proposer_that_only_refine_asks_means_refine() -> None:
    assert isinstance(request("none").optimizer, MeasureOptimizer)
    assert isinstance(request({"proposer": {"kind": "noop"}}).optimizer, RefineOptimizer)
    assert check_request(request("none")) == []


def test_variations_may_change_any_factor_frozen_ones_included() -> None:
    measured = request({"name": "none", "configurations": [{"model": "large"}, {"temperature": 0, "model": "huge"}]})
    assert check_request(measured) == []
    assert measured.factors_in_play["model"].choices == ["small", "large", "huge"]  # type: ignore[union-attr]
    assert measured.factors_in_play["temperature"] is measured.configuration["temperature"]


@pytest.mark.parametrize(
    ("variations", "finding"),
    [
        ([{"modell": "large"}], "optimizer.configurations[0]: 'modell' is no factor; known are prompt, temperature, model"),
        ([{}, {"temperature": 2}], "optimizer.configurations[1].temperature: factor 'temperature': 2 is outside 0.0 … 1.0"),
        (
            [{"prompt": "Sort it."}],
            "optimizer.configurations[0].prompt: prompt: placeholder {{input.ticket}} was lost; keep it",
        ),
        ([{"temperature": 0.7}], "optimizer.configurations[0]: is the same as the baseline; drop it, or raise replicates"),
        (
            [{"model": "large"}, {"model": "large", "temperature": 0.7}],
            "optimizer.configurations[1]: is the same as optimizer.configurations[0]; drop it",
        ),
    ],
)
def test_a_variation_that_cannot_be_measured_is_named_with_the_fix(variations: list[dict[str, Any]], finding: str) -> None:
    found = check_request(request({"name": "none", "configurations": variations}))
    assert any(line.startswith(finding.split(" … ")[0]) for line in found), found


def test_a_budget_in_money_needs_the_price_of_every_model_that_is_compared() -> None:
    optimizer = {"name": "none", "configurations": [{"model": "large"}]}
    found = check_request(request(optimizer, budget={"cost": 1}, prices={"small": {"input": 1, "output": 1}}))
    assert any("'large'" in line and "has no price" in line for line in found)
