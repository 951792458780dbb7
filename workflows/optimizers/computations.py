"""The computations that optimizers ask for, by name, and where each is. Only the `compute` activity imports them, so they may
use statistics and search libraries that workflow code must not load.
"""

from __future__ import annotations

import importlib
from typing import Final

from workflows.model.activities.computation import Computation

COUNTED_FAILURES: Final = "counted_failures"
COUNTED_EDITS: Final = "counted_edits"
COUNTED_TOKENS: Final = "counted_tokens"
CHOSEN_EXAMPLES: Final = "chosen_examples"
SUGGESTED: Final = "suggested"
IMPORTANCES: Final = "importances"
NEXT_STEP: Final = "next_step"
PUBLISHED_STEP: Final = "published_step"

ROOM: Final = __name__.partition(".optimizers.")[0]

COMPUTATIONS: Final = {
    COUNTED_EDITS: "rules.proposals.token_savings:counted_edits",
    COUNTED_TOKENS: "rules.proposals.token_savings:counted_tokens",
    NEXT_STEP: "rules.reflection.step_plan:next_step",
    PUBLISHED_STEP: "rules.reflection.published:published_step",
    COUNTED_FAILURES: "rules.proposals.failure_table:counted",
    CHOSEN_EXAMPLES: "rules.search.example_lists:chosen_examples",
    SUGGESTED: "rules.search.suggestion:suggested",
    IMPORTANCES: "rules.search.importance:importances",
}


def computation(name: str) -> Computation:
    """The function behind a name."""
    module, _, attribute = COMPUTATIONS[name].partition(":")
    found: Computation = getattr(importlib.import_module(f"{ROOM}.{module}"), attribute)
    return found
