"""What edits of sections save, counted in tokens: computations of `compress`, run by the `compute` activity because the
tokenizer's vocabulary is nothing for workflow code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from ratchet.prompts.tokens import tokens_of
from workflows.model.activities.computation import Stored
from workflows.rules.proposals.text_cuts import edits_of, without


def counted_edits(stored: Stored, arguments: Mapping[str, Any]) -> JsonValue:
    """The sections that are long enough, and the edits of them that save most as [path, strategy, number, saving]."""
    values: dict[str, JsonValue] = arguments["values"]
    tokens = {path: tokens_of(value) for path, value in values.items()}
    long_enough = {path: value for path, value in values.items() if tokens[path] >= arguments["min_section_tokens"]}
    others = [*arguments["others"], *(value for path, value in values.items() if path not in long_enough)]
    edits: list[tuple[int, str, str, int]] = []
    for edit in edits_of(long_enough, [text for text in others if isinstance(text, str)], arguments["strategies"]):
        saving = tokens[edit.path] - tokens_of(without(values[edit.path], edit.cuts))
        if saving > 0:
            edits.append((-saving, edit.path, edit.strategy, edit.number))
    return {
        "sections": {path: tokens[path] for path in long_enough},
        "edits": [[path, strategy, number, -saving] for saving, path, strategy, number in sorted(edits)[: arguments["most"]]],
    }


def counted_tokens(stored: Stored, arguments: Mapping[str, Any]) -> JsonValue:
    """The tokens of every value."""
    return [tokens_of(value) for value in arguments["values"]]
