"""Failures are counted by a plug-in, and a declared table says what they call for."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet._formats.canonical import content_hash
from tests.support.mutation_examples import FACTORS, PARAMETERS
from workflows.model.activities.computation import Stored
from workflows.optimizers.evolve import EvolveOptimizer
from workflows.rules.proposals.failure_table import Mutant, called_for, counted, mutants_of


def _options(**given: Any) -> EvolveOptimizer:
    return EvolveOptimizer.model_validate({"name": "evolve", "classifier": "a:f", **given})


def _mutants(failures: dict[str, int], wanted: int = 5, tried: set[str] | None = None, **options: Any) -> list[Mutant]:
    asked = _options(**options)
    return mutants_of(PARAMETERS, called_for(failures, asked.table, asked.padding), FACTORS, tried or set(), wanted)


def test_the_documents_example_calls_for_the_documents_mutations() -> None:
    mutants = _mutants({"injury": 5, "starvation": 2, "combat_loss": 3, "entrapment": 1})
    changes = [{name: mutant.configuration[name] for name in mutant.components} for mutant in mutants]
    flee_first = ["flee", "explore", "fight", "eat", "use_item"]
    assert changes == [
        {"health_threshold": 0.4},
        {"skill_priority": flee_first},
        {"risk_tolerance": 0.25},
        {"risk_tolerance": 0.75},
        {"skill_priority": flee_first},
    ]
    assert [mutant.because for mutant in mutants] == ["injury 5 > 2", "combat_loss 3 > 1", "padding", "padding", "padding"]


def test_a_mutation_that_is_no_news_is_recorded_but_takes_no_place() -> None:
    """Rotating this order puts flee first, which the table proposed already: there is room for another."""
    mutants = _mutants(
        {"combat_loss": 3}, padding=[{"kind": "priority", "operation": "rotate"}, {"kind": "risk", "by": 0.1}], wanted=2
    )
    assert [(mutant.kind, mutant.is_new) for mutant in mutants] == [("priority", True), ("priority", False), ("risk", True)]


def test_what_was_tried_before_and_what_changes_nothing_are_no_news() -> None:
    tried = {content_hash({**PARAMETERS, "risk_tolerance": 0.25})}
    limits = {"kind": "limits", "changes": {"max_exploration_steps": {"to": 100}}}
    mutants = _mutants({}, padding=[{"kind": "risk", "by": -0.25}, limits, {"kind": "risk", "by": 0.25}], tried=tried)
    assert [mutant.is_new for mutant in mutants] == [False, False, True]


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_a_round_takes_no_more_than_it_wants_and_the_table_comes_first(wanted: int) -> None:
    mutants = _mutants({"injury": 3, "starvation": 3, "entrapment": 2}, wanted=wanted)
    assert [mutant.because for mutant in mutants] == ["injury 3 > 2", "starvation 3 > 2", "entrapment 2 > 1"][:wanted]


def test_so_many_failures_as_the_table_names_do_not_call_for_anything_yet() -> None:
    assert [mutant.because for mutant in _mutants({"injury": 2, "combat_loss": 1, "unheard_of": 99})] == ["padding"] * 3


def test_counts_are_taken_over_as_they_are() -> None:
    assert counted(Stored(answer={"injury": 3, "boredom": 0}), {"classifier": "a:f"}) == {"injury": 3, "boredom": 0}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (["injury"], "failure classifier a:f returned a list; return a mapping of counts by kind of failure"),
        ({"injury": -1}, "failure classifier a:f counted -1 failures of kind 'injury'; return whole numbers of 0 or more"),
        ({"injury": 1.5}, "failure classifier a:f counted 1.5 failures"),
        ({"injury": True}, "failure classifier a:f counted True failures"),
        ({3: 1}, "failure classifier a:f named a failure '3'; use short texts"),
        ({str(kind): 1 for kind in range(1001)}, "failure classifier a:f returned 1,001 kinds of failure"),
    ],
)
def test_what_is_no_count_is_refused_by_name(answer: Any, message: str) -> None:
    with pytest.raises(ValueError, match="failure classifier") as raised:
        counted(Stored(answer=answer), {"classifier": "a:f"})
    assert str(raised.value).startswith(message)
