"""The taxonomy of failures: few types, matched by name, that say whether a retry can help."""

from __future__ import annotations

from typing import Final

INVALID_REQUEST: Final = "InvalidRequest"
"""The spec is wrong. The message names the field and the fix."""

PERMANENT_TARGET_ERROR: Final = "PermanentTargetError"
"""The target refuses for good: wrong key, unknown model, an endpoint that is not there."""

STALE_BASE: Final = "StaleBase"
"""The release's base has moved since it was validated."""

AGGREGATION_FAILED: Final = "AggregationFailed"
"""The outcomes are there, but cannot be turned into a result."""

ORPHANED_EXPERIMENT: Final = "orphaned_experiment"
"""The external runner no longer knows an experiment that it began."""

PAYLOADS_TOO_LARGE: Final = "PayloadsTooLarge"
"""Raised by the SDK; running the work again would pay again and fail again."""

PROPOSER_FAILED: Final = "ProposerFailed"
"""A proposer that raises or answers rubbish; retried a few times."""

BUDGET_EXHAUSTED: Final = "BudgetExhausted"
"""What is left of the budget does not cover a call; the detail names what is short: samples, tokens or cost."""

NOT_RETRYABLE: Final = [
    INVALID_REQUEST,
    PERMANENT_TARGET_ERROR,
    STALE_BASE,
    AGGREGATION_FAILED,
    PAYLOADS_TOO_LARGE,
    BUDGET_EXHAUSTED,
]

LONGEST_MESSAGE: Final = 2_000
"""Characters of an error's text that are kept: histories are small, and targets may raise a novel."""


def shorten(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """The text, cut with a mark when it is longer than the limit, and without what no wire and no store carries.

    Errors repeat what plug-ins, models and files said; a lone surrogate in one must not make it untellable.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut if cut.isascii() and "\x00" not in cut else cut.replace("\x00", "␀").encode("utf-8", "replace").decode("utf-8")


def described(error: BaseException) -> str:
    """An exception in one line, whatever its text is or does."""
    try:
        text = str(error).strip()
    except Exception:
        text = "(its text cannot be shown)"
    return shorten(f"{type(error).__name__}: {text}" if text else type(error).__name__)
