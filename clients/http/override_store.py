"""The override store that RATCHET_OVERRIDES names, opened when somebody first asks for a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from clients.http.errors import Refused
from clients.http.missing_names import no_prompt
from clients.settings import client_settings
from ratchet.prompts import (
    InvalidName,
    OverrideStore,
    PromptError,
    StoreAway,
    StoreRefused,
    UnknownPrompt,
    UnknownTag,
    UnknownVersion,
    open_store,
)


class PromptSource:
    """The server's one connection to it."""

    def __init__(self) -> None:
        self._opening = asyncio.Lock()
        self._store: OverrideStore | None = None

    async def store(self, database_url: str) -> OverrideStore:
        """The open store. One that cannot be opened is tried again the next time."""
        async with self._opening:
            if self._store is None:
                with refused_prompts():
                    self._store = await open_store(client_settings().overrides, database_url=database_url)
            return self._store

    async def close(self) -> None:
        """Close it, where it was ever opened."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()


@contextmanager
def refused_prompts(prompt: str = "", field: str | None = None, *, unknown: int = 404) -> Iterator[None]:
    """What a store of prompts refuses, as HTTP tells it; of a reference that is not there, the field it came in and a
    status: what a body names is no part of the path."""
    try:
        yield
    except (StoreAway, StoreRefused) as error:
        raise Refused(503, f"the store of prompts does not answer: {error}", retry_after=1) from None
    except UnknownPrompt:
        raise Refused(404, no_prompt(prompt), "prompt") from None
    except (UnknownTag, UnknownVersion, InvalidName) as error:
        raise Refused(unknown, str(error), field or "prompt") from None
    except PromptError as error:
        raise Refused(409, str(error), field) from None
