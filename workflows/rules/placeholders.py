"""Placeholders, which the public package shares: see `ratchet.placeholders`."""

from ratchet.placeholders import (
    StepAnswer,
    UnknownPlaceholder,
    as_text,
    fill,
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
    "StepAnswer",
    "UnknownPlaceholder",
    "as_text",
    "fill",
    "is_placeholder_name",
    "no_steps",
    "placeholders",
    "render",
    "step_answer_of",
    "substitute",
    "unclosed",
    "whole_placeholder",
]
