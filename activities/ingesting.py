"""Datasets that a plug-in gives: a callable without arguments, whose items are taken once and stored."""

from __future__ import annotations

import tempfile
from pathlib import Path

from temporalio import activity

from activities.datasets.dataset_errors import DatasetError
from activities.datasets.ingestion import ingest
from activities.datasets.plugin_items import Taken, is_async
from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugins, invalid
from activities.plugins.lost_attempts import attempts_before, refuse_killers
from activities.plugins.probe import LONGEST_IMPORT, import_elsewhere
from activities.settings import DatasetSettings
from activities.shards.heartbeat import heartbeating
from store.connection import Database
from store.errors import store_errors
from workflows.contracts import Ingesting
from workflows.model.failures import described
from workflows.model.run.contract import IngestedDataset, IngestInput


class PluginDatasets(Ingesting):
    """Calls plug-ins for datasets; one per worker process."""

    def __init__(
        self,
        database: Database,
        plugins: Plugins,
        calls: PluginCalls,
        isolation: Isolation | None = None,
        settings: DatasetSettings | None = None,
    ) -> None:
        self._database = database
        self._plugins = plugins
        self._calls = calls
        self._isolation = isolation or Isolation()
        self._settings = settings or DatasetSettings()

    @activity.defn(name="ingest_dataset")
    async def ingest_dataset(self, request: IngestInput) -> IngestedDataset:
        refuse_killers([request.ref])
        async with heartbeating():
            with store_errors():
                try:
                    return await self._ingest(request)
                except DatasetError as error:
                    raise invalid(f"dataset.ref: {error}") from None

    async def _ingest(self, request: IngestInput) -> IngestedDataset:
        """What a plug-in yields waits in a file: it may be more than memory holds."""
        with tempfile.TemporaryDirectory(prefix="ratchet-dataset-") as folder:
            taken = Taken(Path(folder) / "items", request.ref)
            if attempts_before().isolates:
                await self._take_elsewhere(request.ref, Path(folder) / "items")
            else:
                await self._take_here(request.ref, taken)
            ingested = await ingest(self._database, taken, request.name, largest_mb=self._settings.largest_dataset_mb)
        return IngestedDataset(
            dataset_id=ingested.dataset_id, count=ingested.count, duplicates_dropped=ingested.duplicates_dropped
        )

    async def _take_here(self, ref: str, taken: Taken) -> None:
        """Other people's code runs in a daemon thread, or in a loop of its own."""
        await import_elsewhere(self._plugins, [ref], LONGEST_IMPORT)
        plugin = await self._calls.threads.run(lambda: self._plugins.resolve(ref, 0))
        try:
            if is_async(plugin):
                await self._calls.loops.of(ref).run(lambda: taken.take_async(plugin.call()))
            else:
                await self._calls.threads.run(lambda: taken.take(plugin.call()))
        except DatasetError:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise DatasetError(f"plug-in {ref} raised {described(error)}") from error

    async def _take_elsewhere(self, ref: str, file: Path) -> None:
        try:
            await self._isolation.call(self._plugins, ref, "dataset", {"file": str(file)})
        except IsolatedFault as fault:
            told = str(fault) if fault.kind == "told" else f"plug-in {ref}: {fault}"
            raise DatasetError(told) from None
