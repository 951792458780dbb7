"""Few-shot examples: lists of `{input, output}`, each written as the message that asks, and its answer after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

BETWEEN_EXAMPLES: Final = "\n\n"

LABEL_ENDS: Final = (":", "=", ">", "→")
"""What a text ends with that is completed on the same line."""

_PARTS: Final = {"input", "output"}


def are_examples(value: Any) -> bool:
    """Whether a value is a list of examples: of `{input, output}`, and of nothing else. An empty list is one."""
    return isinstance(value, list) and all(isinstance(example, Mapping) and example.keys() == _PARTS for example in value)


def labelled(question: str) -> str:
    """Put words around an input that has none of its own, so that it is told apart from its answer."""
    return f"Input: {question}\nOutput:"


def answered(question: str, answer: str) -> str:
    """Put an answer where a model would go on: on the line of a label, else on a line of its own."""
    if not question or question[-1].isspace():
        return question + answer
    return f"{question} {answer}" if question.endswith(LABEL_ENDS) else f"{question}\n{answer}"
