"""The spec as a whole: its defaults, its limits, its schema."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from ratchet._text.explanation import PATTERNS
from tests.support.spec_building import SPEC, request, spec
from workflows.model.run.contract import RunInput
from workflows.model.spec.execution import Adjustment, BudgetChange, only_given
from workflows.model.spec.request import OptimizationRequest, spec_schema
from workflows.optimizers.refine import RefineOptimizer


def test_defaults_are_those_of_the_documents() -> None:
    made = request()
    assert made.objective.direction == "maximize"
    assert (made.stop.max_rounds, made.stop.no_improvement, made.stop.min_delta, made.stop.score) == (19, 5, 0.0, None)
    assert (made.budget.cost, made.budget.tokens, made.budget.samples, made.budget.trials) == (0, 0, 0, 0)
    assert made.budget.wall_time == timedelta(0)
    assert (made.replicates, made.reuse, made.seed) == (1, "run", 0)
    assert (made.execution.min_coverage, made.execution.max_consecutive_failed_trials) == (0.95, 3)
    assert isinstance(made.optimizer, RefineOptimizer)
    assert made.optimizer.parent == "best"
    assert made.scorers[0].threshold == 0.5


def test_a_request_survives_the_wire() -> None:
    made = request(budget={"wall_time": "1h30m", "cost": 5}, prices={"m": {"input": 1, "output": 2}}, seed=2**63 - 1)
    assert OptimizationRequest.model_validate_json(made.model_dump_json(by_alias=True)) == made


def test_the_workflow_reads_what_a_person_wrote() -> None:
    assert RunInput.model_validate(SPEC).carried is None


@pytest.mark.parametrize(
    ("objective", "metric"), [("exact", "exact"), ({"kind": "success_rate"}, "exact"), ({"metric": "exact"}, "exact")]
)
def test_the_metric_is_the_named_or_the_only_score(objective: Any, metric: str) -> None:
    assert request(objective=objective).metric == metric


@pytest.mark.parametrize(("direction", "worst"), [("maximize", 0.0), ("minimize", 1.0)])
def test_the_worst_score_follows_the_direction_unless_it_is_stated(direction: str, worst: float) -> None:
    assert request(objective={"metric": "exact", "direction": direction}).objective.worst_score == worst
    assert request(objective={"metric": "exact", "direction": direction, "worst": -9}).objective.worst_score == -9


def test_every_plugin_is_listed_with_its_version() -> None:
    made = request(
        target={"kind": "python", "ref": "a:t", "version": "1"},
        scorers=[{"kind": "python", "ref": "a:s", "name": "s"}, {"kind": "exact"}],
        objective={"kind": "python", "ref": "a:o"},
        optimizer={"name": "refine", "proposer": {"kind": "python", "ref": "a:p", "version": "2"}},
    )
    assert made.plugin_references == {"a:t": "1", "a:s": None, "a:o": None, "a:p": "2"}


def test_a_configuration_has_a_largest_size() -> None:
    assert request(configuration={"it": "x" * 262_000}).baseline
    with pytest.raises(ValidationError, match="at most 262,144 fit, keep larger values behind a reference"):
        request(configuration={"it": "x" * 262_144})


def test_an_inline_dataset_has_a_largest_size() -> None:
    with pytest.raises(ValidationError, match="put them in a JSONL file and give its path"):
        request(dataset=[{"input": "x" * 524_288}])


def test_the_schema_accepts_what_the_spec_accepts_and_refuses_a_misspelt_key() -> None:
    schema = json.loads(json.dumps(spec_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert not list(validator.iter_errors({**SPEC, "dataset": {"items": SPEC["dataset"]}, "objective": {"metric": "exact"}}))
    assert list(validator.iter_errors(spec(optimiser={})))


def test_every_pattern_of_the_spec_has_words_for_people() -> None:
    patterns = set()

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            patterns.update(node.get("patternProperties", {}))
            if isinstance(node.get("pattern"), str):
                patterns.add(node["pattern"])
            for part in node.values():
                collect(part)
        elif isinstance(node, list):
            for part in node:
                collect(part)

    collect(spec_schema())
    assert patterns - {r"^\s*\d"} == set(PATTERNS)


def test_every_field_of_the_spec_is_described_for_editors() -> None:
    schema: Any = spec_schema()
    silent = [
        f"{name}.{field}"
        for name, model in {**schema["$defs"], "spec": schema}.items()
        for field, definition in model.get("properties", {}).items()
        if "description" not in definition and "$ref" not in definition and field not in {"kind", "change", "type", "name"}
    ]
    assert silent == []


def test_only_what_is_given_is_changed() -> None:
    assert only_given(Adjustment(max_rounds=0, budget=BudgetChange(cost=0.0))) == {
        "budget": BudgetChange(cost=0.0),
        "max_rounds": 0,
    }
    assert only_given(BudgetChange(cost=0.0, tokens=None)) == {"cost": 0.0}
    with pytest.raises(ValidationError, match="changes nothing"):
        Adjustment()
    with pytest.raises(ValidationError, match="changes nothing"):
        Adjustment(max_rounds=None)
