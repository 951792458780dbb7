"""What kinds of targets and scorers name as their other half is there."""

from __future__ import annotations

import pytest

from activities.scorers import grading
from activities.targets import answering_class
from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.model.spec.scorers import SCORERS
from workflows.model.spec.targets import TARGETS

ANSWERED_HERE = {kind: target.answered_by for kind, target in TARGETS.items() if target.answered_by is not None}


@pytest.mark.parametrize("kind", SCORERS)
def test_every_scorer_names_a_function_that_grades(kind: str) -> None:
    scorer: type[Scorer] = SCORERS[kind]
    assert callable(grading(scorer))


@pytest.mark.parametrize("kind", ANSWERED_HERE)
def test_every_target_that_is_answered_here_names_its_class(kind: str) -> None:
    assert callable(answering_class(ANSWERED_HERE[kind]).of)


def test_only_what_runs_elsewhere_is_answered_by_nobody() -> None:
    assert sorted(TARGETS.keys() - ANSWERED_HERE.keys()) == ["activity", "external"]
