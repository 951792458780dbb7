"""Structured mutations say in words what they did, leave their input alone, and stay inside what the factors allow."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.support.mutation_examples import FACTORS, PARAMETERS
from workflows.model.spec.extensions.mutation_kinds import FAILURE_TABLE, PADDING, Mutation
from workflows.model.spec.factors import Configuration
from workflows.rules.proposals.mutations import CannotMutate, mutate, refuse_mutation
from workflows.rules.proposals.validation import refuse_value


def _mutation(**given: Any) -> Mutation:
    made: Mutation = TypeAdapter(Mutation).validate_python(given)
    return made


@pytest.mark.parametrize(
    ("mutation", "changed", "words"),
    [
        (
            {"kind": "threshold", "factor": "health_threshold", "delta": 0.1},
            {"health_threshold": 0.4},
            "Adjusted health_threshold: 0.300 → 0.400 (increase, Δ=0.100)",
        ),
        (
            {"kind": "threshold", "factor": "hunger_threshold", "delta": 0.1, "direction": "decrease"},
            {"hunger_threshold": 0.4},
            "Adjusted hunger_threshold: 0.500 → 0.400 (decrease, Δ=0.100)",
        ),
        (
            {"kind": "priority", "operation": "prioritize", "skill": "flee"},
            {"skill_priority": ["flee", "explore", "fight", "eat", "use_item"]},
            "Prioritized 'flee': ['explore', 'fight', 'eat', 'use_item', 'flee'] → "
            "['flee', 'explore', 'fight', 'eat', 'use_item']",
        ),
        (
            {"kind": "priority", "operation": "deprioritize", "skill": "fight"},
            {"skill_priority": ["explore", "eat", "use_item", "flee", "fight"]},
            "Deprioritized 'fight': ['explore', 'fight', 'eat', 'use_item', 'flee'] → "
            "['explore', 'eat', 'use_item', 'flee', 'fight']",
        ),
        (
            {"kind": "priority", "operation": "rotate"},
            {"skill_priority": ["flee", "explore", "fight", "eat", "use_item"]},
            "Rotated skill priority: ['explore', 'fight', 'eat', 'use_item', 'flee'] → "
            "['flee', 'explore', 'fight', 'eat', 'use_item']",
        ),
        (
            {"kind": "risk", "to": 0.7},
            {"risk_tolerance": 0.7},
            "Changed risk tolerance: balanced (0.500) → aggressive (0.700)",
        ),
        (
            {"kind": "risk", "by": -0.25},
            {"risk_tolerance": 0.25},
            "Changed risk tolerance: balanced (0.500) → conservative (0.250)",
        ),
        (
            {"kind": "limits", "changes": {"max_exploration_steps": {"to": 150}, "max_combat_attempts": {"to": 5}}},
            {"max_exploration_steps": 150, "max_combat_attempts": 5},
            "Adjusted limits: exploration_steps: 100 → 150, combat_attempts: 3 → 5",
        ),
        (
            {"kind": "limits", "changes": {"max_exploration_steps": {"times": 1.5}}},
            {"max_exploration_steps": 150},
            "Adjusted limits: exploration_steps: 100 → 150",
        ),
    ],
)
def test_every_operator_does_what_it_says_in_the_documents_words(
    mutation: dict[str, Any], changed: Configuration, words: str
) -> None:
    before = copy.deepcopy(PARAMETERS)
    made = mutate(PARAMETERS, _mutation(**mutation), FACTORS)
    assert made.parameters == {**PARAMETERS, **changed}
    assert made.description == words
    assert before == PARAMETERS


def test_steps_leave_no_dust_of_floats() -> None:
    made = mutate({**PARAMETERS, "health_threshold": 0.7}, _mutation(kind="threshold", factor="health_threshold"), FACTORS)
    assert made.parameters["health_threshold"] == 0.8


def test_at_the_end_of_its_range_a_value_stays_what_it_is() -> None:
    made = mutate({**PARAMETERS, "health_threshold": 1.0}, _mutation(kind="threshold", factor="health_threshold"), FACTORS)
    assert made.parameters["health_threshold"] == 1.0
    assert made.description == "Adjusted health_threshold: 1.000 → 1.000 (increase, Δ=0.000)"
    cut = mutate({**PARAMETERS, "risk_tolerance": 0.9}, _mutation(kind="risk", by=0.25), FACTORS)
    assert cut.parameters["risk_tolerance"] == 1.0


@pytest.mark.parametrize(("before", "times", "after"), [(1, 1.5, 2), (1, 1.2, 2), (3, 0.9, 2), (1, 0.5, 1), (40, 1.5, 50)])
def test_a_relative_step_moves_a_whole_number_by_at_least_one_inside_its_range(before: int, times: float, after: int) -> None:
    mutation = _mutation(kind="limits", changes={"max_combat_attempts": {"times": times}})
    assert mutate({**PARAMETERS, "max_combat_attempts": before}, mutation, FACTORS).parameters["max_combat_attempts"] == after


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "very conservative"),
        (0.2, "conservative"),
        (0.375, "balanced"),
        (0.6, "balanced"),
        (0.7, "aggressive"),
        (0.9, "very aggressive"),
    ],
)
def test_risk_is_told_by_the_nearest_quarter(value: float, words: str) -> None:
    made = mutate(PARAMETERS, _mutation(kind="risk", to=value), FACTORS)
    assert made.description.endswith(f"→ {words} ({value:.3f})")


def test_a_prompts_parameters_are_found_by_their_bare_names() -> None:
    named = {f"param:{name}": factor for name, factor in FACTORS.items()}
    values = {f"param:{name}": value for name, value in PARAMETERS.items()}
    made = mutate(values, _mutation(kind="threshold", factor="health_threshold"), named)
    assert made.parameters["param:health_threshold"] == 0.4
    assert made.description == "Adjusted health_threshold: 0.300 → 0.400 (increase, Δ=0.100)"


@pytest.mark.parametrize(
    ("mutation", "message"),
    [
        ({"kind": "threshold", "factor": "helth"}, "'helth' is no factor (known are health_threshold, hunger_threshold, "),
        ({"kind": "threshold", "factor": "model"}, "'model' is frozen; it must be change: structured, type: number or integer"),
        ({"kind": "threshold", "factor": "skill_priority"}, "'skill_priority' is of type order; it must be"),
        ({"kind": "priority", "factor": "risk_tolerance", "operation": "rotate"}, "'risk_tolerance' is of type number"),
        ({"kind": "priority", "operation": "prioritize", "skill": "sing"}, "'sing' is not in 'skill_priority', which orders"),
    ],
)
def test_what_cannot_be_done_is_an_error_and_never_a_silent_nothing(mutation: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotMutate) as raised:
        mutate(PARAMETERS, _mutation(**mutation), FACTORS)
    assert str(raised.value).startswith(message)
    assert refuse_mutation(_mutation(**mutation), FACTORS) == str(raised.value)


@pytest.mark.parametrize(
    ("mutation", "message"),
    [
        ({"kind": "priority", "operation": "prioritize"}, "prioritize needs the skill that is moved"),
        ({"kind": "priority", "operation": "rotate", "skill": "flee"}, "rotate moves the last item to the front"),
        ({"kind": "risk"}, "needs exactly one of by (a change) and to (a new value)"),
        ({"kind": "risk", "by": 0.1, "to": 0.2}, "needs exactly one of by"),
        ({"kind": "limits", "changes": {"max_combat_attempts": {}}}, "needs exactly one of times (a factor) and to"),
    ],
)
def test_a_mutation_that_is_half_said_is_refused(mutation: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        _mutation(**mutation)
    assert message in str(raised.value)


@given(
    st.sampled_from([*(rule.mutation for rule in FAILURE_TABLE), *PADDING]),
    st.fixed_dictionaries(
        {
            "health_threshold": st.floats(0, 1),
            "hunger_threshold": st.floats(0, 1),
            "risk_tolerance": st.floats(0, 1),
            "max_exploration_steps": st.integers(10, 1000),
            "skill_priority": st.permutations(["explore", "fight", "eat", "use_item", "flee"]),
        }
    ),
)
def test_whatever_it_starts_from_a_mutation_stays_inside_what_the_factors_allow(
    mutation: Mutation, given_parameters: dict[str, Any]
) -> None:
    parameters = {**PARAMETERS, **given_parameters}
    once = mutate(parameters, mutation, FACTORS)
    again = mutate(parameters, mutation, FACTORS)
    assert once == again
    for name, factor in FACTORS.items():
        assert refuse_value(name, once.parameters[name], factor) is None
