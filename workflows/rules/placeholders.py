"""Placeholders, which the public package shares: see `ratchet.placeholders`."""

from ratchet.placeholders import (
    Filling,
    StepAnswer,
    Unfillable,
    UnknownPlaceholder,
    as_text,
    fill,
    has_input,
    is_placeholder_name,
    no_steps,
    placeholders,
    render,
    step_answer_of,
    substitute,
    unclosed,
    whole_placeholder,
)

__all__ = [
    "Filling",
    "StepAnswer",
    "Unfillable",
    "UnknownPlaceholder",
    "as_text",
    "fill",
    "has_input",
    "is_placeholder_name",
    "no_steps",
    "placeholders",
    "render",
    "step_answer_of",
    "substitute",
    "unclosed",
    "whole_placeholder",
]
