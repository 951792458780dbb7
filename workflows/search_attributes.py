"""The search attributes of a run, in one place: workflows set them, the worker registers them."""

from __future__ import annotations

from typing import Any

from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from workflows.run.state import RunState

STATUS = SearchAttributeKey.for_keyword("RatchetStatus")
OPTIMIZER = SearchAttributeKey.for_keyword("RatchetOptimizer")
OBJECTIVE = SearchAttributeKey.for_keyword("RatchetObjective")
PROMPT = SearchAttributeKey.for_keyword("RatchetPrompt")
BEST_SCORE = SearchAttributeKey.for_float("RatchetBestScore")
COST = SearchAttributeKey.for_float("RatchetCost")
ROUND = SearchAttributeKey.for_int("RatchetRound")

LONGEST_KEYWORD = 255
"""Of what SQL databases keep of a keyword."""

SEARCH_ATTRIBUTES: tuple[SearchAttributeKey[str] | SearchAttributeKey[float] | SearchAttributeKey[int], ...] = (
    STATUS,
    OPTIMIZER,
    OBJECTIVE,
    PROMPT,
    BEST_SCORE,
    COST,
    ROUND,
)


def attributes_of(state: RunState) -> list[SearchAttributeUpdate[Any]]:
    """What a run can be found by."""
    updates: list[SearchAttributeUpdate[Any]] = [
        STATUS.value_set(state.status),
        OPTIMIZER.value_set(state.request.optimizer.name),
        OBJECTIVE.value_set(state.request.metric),
        COST.value_set(state.spending.spend.cost),
        ROUND.value_set(state.round),
    ]
    prompt = state.request.prompt
    if prompt is not None:
        name = prompt.snapshot.template.name if prompt.snapshot is not None else prompt.name
        updates.append(PROMPT.value_set((name or "")[:LONGEST_KEYWORD]))
    if state.best:
        updates.append(BEST_SCORE.value_set(state.best.score))
    return updates
