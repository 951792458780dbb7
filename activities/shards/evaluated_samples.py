"""Evaluated samples, as proposers, classifiers and error messages quote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ratchet import Record
from workflows.model.trial import Split


class RecordStore(Protocol):
    """What reading evaluated samples needs of the store."""

    async def records(
        self,
        run_id: str,
        split: Split,
        config_hash: str,
        limit: int,
        worst_first: bool = True,
        first: int = 0,
        count: int | None = None,
    ) -> Sequence[Record]: ...
