"""The objective in words, as reports show it."""

from __future__ import annotations

from typing import Any

import pytest

from clients.reports.formatting import objective_text
from tests.support.spec_building import request

LABEL = {"kind": "classification", "name": "label"}
BOTH = [LABEL, {"kind": "exact"}]


@pytest.mark.parametrize(
    ("scorers", "objective", "words"),
    [
        ([LABEL], {"kind": "f1"}, "MAXIMIZE macro F1"),
        ([LABEL], {"kind": "recall", "positive": "bug"}, "MAXIMIZE recall for bug"),
        (BOTH, {"kind": "accuracy", "metric": "label"}, "MAXIMIZE accuracy of label"),
        ([LABEL], {"kind": "success_rate", "direction": "minimize"}, "MINIMIZE success rate"),
        (
            BOTH,
            {"kind": "weighted", "components": [{"kind": "precision", "metric": "label"}, {"metric": "exact"}]},
            "MAXIMIZE 100% macro precision of label + 100% mean exact",
        ),
    ],
)
def test_it_says_what_is_counted_and_in_which_direction(scorers: list[Any], objective: Any, words: str) -> None:
    assert objective_text(request(scorers=scorers, objective=objective)) == words
