"""What a target or a scorer may raise, as what the shard knows how to tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from temporalio.exceptions import ApplicationError

from activities.budget.metering import BudgetExhausted, NoMoreCalls
from activities.endpoints.breaker import TargetDown
from activities.endpoints.gate import ClosedForLong
from activities.targets.faults import CandidateFault, Fault, Unreachable
from store.budget_leases import LeaseTaken
from store.schema import StoreError
from workflows.model.failures import described, shorten
from workflows.rules.scoring.objective_score import ScoringFailed

_OF_THE_STORE = (asyncpg.PostgresError, asyncpg.InterfaceError, StoreError, LeaseTaken)
_OF_THE_SHARD = (TargetDown, ClosedForLong, BudgetExhausted, NoMoreCalls)
_FORESEEN = (Fault, ScoringFailed, ApplicationError, *_OF_THE_SHARD, *_OF_THE_STORE)


@contextmanager
def foreseen(what: str) -> Iterator[None]:
    """Let nothing through but what a shard knows how to tell: what one answer leads to must not stop the others, nor be paid
    for again by another attempt. What the worker itself lacks, such as memory, is not the candidate's fault."""
    try:
        yield
    except _FORESEEN:
        raise
    except (OSError, MemoryError) as error:
        raise Unreachable(shorten(f"{what} raised {described(error)}"), kind=_kind_of(error)) from error
    except Exception as error:
        raise CandidateFault(shorten(f"{what} raised {described(error)}"), kind=_kind_of(error)) from error


def _kind_of(error: Exception) -> str:
    return shorten(f"raised {type(error).__name__}", 80)
