"""Errors of the store as Temporal shall see them: what passes by itself is retried, the rest never."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from temporalio.exceptions import ApplicationError

from store.connection import is_away
from store.schema import StoreError
from workflows.model.failures import shorten

STORE_REFUSED = "StoreRefused"
"""The store will refuse the same call again: bad data, a broken constraint, a run that was deleted."""


@contextmanager
def store_errors() -> Iterator[None]:
    """Errors of the store as Temporal shall see them: what passes by itself is retried, the rest never."""
    try:
        yield
    except StoreError as error:
        raise ApplicationError(str(error), type=STORE_REFUSED, non_retryable=True) from error
    except asyncpg.ForeignKeyViolationError as error:
        # Somebody deleted what we refer to in the same moment; written again, it is there.
        raise ApplicationError(f"the store changed under this write: {error}", type="StoreChanged") from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        if is_away(error):
            raise
        message = shorten(f"the store refuses this for good: {type(error).__name__}: {error}")
        raise ApplicationError(message, type=STORE_REFUSED, non_retryable=True) from error
