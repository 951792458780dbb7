"""The taxonomy of failures: few types, matched by name, that say whether a retry can help."""

from __future__ import annotations

from typing import Final

from ratchet._text.shortening import LONGEST_MESSAGE as LONGEST_MESSAGE
from ratchet._text.shortening import cut as cut
from ratchet._text.shortening import quoted as quoted
from ratchet._text.shortening import shorten as shorten
from ratchet._text.visible import one_line as one_line

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

ORPHANED: Final = f"{ORPHANED_EXPERIMENT}: the runner does not know the experiment any more"

PAYLOADS_TOO_LARGE: Final = "PayloadsTooLarge"
"""Raised by the SDK; running the work again would pay again and fail again."""

PROPOSER_FAILED: Final = "ProposerFailed"
"""A proposer that raises or answers rubbish; retried a few times."""

COMPUTATION_FAILED: Final = "ComputationFailed"
"""A function over stored outcomes that raises: it would raise again."""

OPTIMIZER_FAILED: Final = "OptimizerFailed"
"""A user's optimizer that raises; retried a few times. What it returned and cannot be used is not."""

STOP_POLICY_FAILED: Final = "StopPolicyFailed"
"""A user's stop policy that raises; retried a few times."""

ATTEMPTS_EXHAUSTED: Final = "AttemptsExhausted"
"""An activity that ended with errors, or took too long, as often as it may; the message names the last one."""

WORKER_LOST: Final = "WorkerLost"
"""An activity whose workers died with it, as often as they may; the message names the plug-in, where there is one."""

BUDGET_EXHAUSTED: Final = "BudgetExhausted"
"""What is left of the budget does not cover a call; the detail names what is short: samples, tokens or cost."""

NOT_RETRYABLE: Final = [
    INVALID_REQUEST,
    PERMANENT_TARGET_ERROR,
    STALE_BASE,
    AGGREGATION_FAILED,
    PAYLOADS_TOO_LARGE,
    COMPUTATION_FAILED,
    BUDGET_EXHAUSTED,
    ATTEMPTS_EXHAUSTED,
    WORKER_LOST,
]


def with_traceback(message: str, traceback: str) -> str:
    """A message, cut so that the traceback fits behind it; both on lines of their own."""
    if not traceback:
        return shorten(message)
    return f"{shorten(message, max(LONGEST_MESSAGE - len(traceback) - 1, LONGEST_MESSAGE // 4))}\n{traceback}"


def split_traceback(text: str) -> tuple[str, str]:
    """What went wrong, and the lines behind it that say where: each of these begins with blanks."""
    lines = text.split("\n")
    end = len(lines)
    while end > 1 and lines[end - 1].startswith("  "):
        end -= 1
    return "\n".join(lines[:end]), "\n".join(lines[end:])


def with_remark(text: str, remark: str) -> str:
    """The text with more said of what went wrong, before the lines that say where."""
    message, where = split_traceback(text)
    return f"{message}{remark}\n{where}" if where else f"{message}{remark}"


def without_traceback(text: str) -> str:
    """What went wrong, without where: for where there is room for no more."""
    return split_traceback(text)[0]


def described(error: BaseException) -> str:
    """An exception in one line, whatever its text is or does."""
    try:
        text = str(error).strip()
    except Exception:
        text = "(its text cannot be shown)"
    return shorten(one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__))
