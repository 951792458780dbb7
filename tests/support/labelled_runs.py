"""A run whose answers people label: two scorers that disagree about some of them."""

from __future__ import annotations

from typing import Any

from tests.support.word_runs import word_spec


def labelled_spec() -> dict[str, Any]:
    """Words that are known, and a scorer that lets every answer pass."""
    scorers = [{"kind": "exact", "name": "known"}, {"kind": "tokens", "at_most": 100_000}]
    return word_spec(name="labelled", scorers=scorers)
