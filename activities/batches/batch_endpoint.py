"""The batch APIs that a worker asks: which one a model has, and what is the same for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from activities.batches.batch_connection import BatchConnection
from activities.batches.protocols import BatchSaid, NoBatchApi, NoSuchBatch, SoughtBatch, protocol_of
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.endpoint_policy import OPENAI, ModelPlace
from activities.targets.faults import CandidateFault, Refused


class BatchEndpoint:
    """The batch API of one model."""

    def __init__(self, api: BatchConnection) -> None:
        self._api = api
        self.protocol = api.protocol

    async def upload(self, file: Path) -> str:
        """Hand requests over, where that comes before the batch is made; their name, or none. Raises NoBatchApi."""
        with self._is_there():
            return await self.protocol.upload(self._api, file)

    async def make(self, file: Path, input_file: str, key: str, seconds: float) -> BatchSaid:
        """Make a batch. Tried once: who is not told how it ended has to look for it. Raises NoBatchApi."""
        with self._is_there():
            return await self.protocol.make(self._api, file, input_file, key, seconds)

    async def find(self, sought: SoughtBatch) -> BatchSaid | None:
        """The batch that somebody may have made. Raises NotYetKnown where nobody can say so yet, and Refused where nobody ever
        can: where batches are not listed, one may have been made all the same."""
        try:
            with self._is_there():
                return await self.protocol.find(self._api, sought)
        except NoBatchApi as error:
            raise Refused(str(error)) from None

    async def look(self, provider_id: str) -> BatchSaid:
        """Where a batch stands. Raises NoSuchBatch."""
        return await self.protocol.look(self._api, provider_id)

    async def cancel(self, provider_id: str) -> None:
        """Ask for the end of a batch. One that has ended meanwhile, or is going to, stays as it is."""
        try:
            await self.protocol.cancel(self._api, provider_id)
        except CandidateFault:
            return

    async def download(self, said: BatchSaid, folder: Path) -> list[Path]:
        """The results, in files with a line for each; what is gone is left out."""
        return await self.protocol.download(self._api, said, folder)

    @contextmanager
    def _is_there(self) -> Iterator[None]:
        """What is not there at all, where no batch was asked for by name, is the API itself."""
        try:
            yield
        except (NoSuchBatch, NoBatchApi) as error:
            told = f"model {self._api.model!r} at {self._api.url}: it has no batch API ({error})"
            raise NoBatchApi(f"{told}; set execution.mode: direct, or auto") from None


class BatchEndpoints:
    """The worker's connections to batch APIs."""

    def __init__(self, models: ChatModels) -> None:
        self._models = models
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def at(self, provider: str, url: str, model: str) -> BatchEndpoint:
        """The batch API of a model, by its name in the spec."""
        name = model if provider == OPENAI else model.removeprefix(f"{provider}/")
        place = ModelPlace(provider, url, name)
        return BatchEndpoint(BatchConnection(protocol_of(provider), place, model, self._models, self._opened))

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=True)
        return self._session
