"""Names that nobody knows, with the known one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticKnownError

UNKNOWN_FIELD: Final = "extra_forbidden"

LEAST_LIKENESS: Final = 0.66
MOST_PROBLEMS: Final = 50
"""Where more is wrong at once, nobody misspelt a name, and looking for what was meant would take long."""

LONGEST_NAME: Final = 100
"""Characters. What is longer is no misspelt name."""


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one; None where none is."""
    if len(name) > LONGEST_NAME:
        return None
    by_letters = {one.lower().replace("_", ""): one for one in known}
    return next(
        (by_letters[one] for one in difflib.get_close_matches(_letters(name), by_letters, n=1, cutoff=LEAST_LIKENESS)), None
    )


def _letters(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def with_what_was_meant(error: ValidationError, known: Sequence[str]) -> ValidationError:
    """The same error, where a field of the part itself is misspelt with what was meant by it."""
    if error.error_count() > MOST_PROBLEMS:
        return error
    problems = error.errors(include_url=False)
    suggestions = [_suggestion(problem, known) for problem in problems]
    if not any(suggestions):
        return error
    told = [_again(problem, suggestion) for problem, suggestion in zip(problems, suggestions, strict=True)]
    return ValidationError.from_exception_data(error.title, told)


def _suggestion(problem: Any, known: Sequence[str]) -> str | None:
    of_the_part = problem["type"] == UNKNOWN_FIELD and len(problem["loc"]) == 1 and "meant" not in problem.get("ctx", {})
    return meant(str(problem["loc"][0]), known) if of_the_part else None


def _again(problem: Any, suggestion: str | None) -> InitErrorDetails:
    """The problem as it was, or with the suggestion."""
    place, given, context = problem["loc"], problem["input"], problem.get("ctx", {})
    if suggestion is not None:
        kind = PydanticCustomError(UNKNOWN_FIELD, "Extra inputs are not permitted", {"meant": suggestion})
        return InitErrorDetails(type=kind, loc=place, input=given)
    try:
        PydanticKnownError(problem["type"], context)
    except KeyError:
        kind = PydanticCustomError(problem["type"], problem["msg"], context)
        return InitErrorDetails(type=kind, loc=place, input=given)
    return InitErrorDetails(type=problem["type"], loc=place, input=given, ctx=context)
