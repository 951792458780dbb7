"""Where prompts are kept: the store that RATCHET_OVERRIDES names, opened when it is first needed."""

from __future__ import annotations

import asyncio

from ratchet.prompts.addresses import open_store
from ratchet.prompts.store import OverrideStore


class Overrides:
    """The worker's one connection to the override store."""

    def __init__(self, url: str, database_url: str) -> None:
        self._url = url
        self._database_url = database_url
        self._opening = asyncio.Lock()
        self._store: OverrideStore | None = None

    async def store(self) -> OverrideStore:
        """The open store. One that cannot be opened is tried again the next time."""
        async with self._opening:
            if self._store is None:
                self._store = await open_store(self._url, database_url=self._database_url)
            return self._store

    async def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            await store.close()
