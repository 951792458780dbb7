"""Computations of optimizers over what is stored of a run: read once, computed in a thread, answered in few bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from temporalio.exceptions import ApplicationError

from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugins
from activities.plugins.lost_attempts import attempts_before, failure_of_isolated, refuse_killers
from activities.plugins.probe import LONGEST_IMPORT, import_elsewhere
from activities.preparing.extras import with_package
from ratchet import Record
from ratchet._formats.canonical import canonical_json, normalize
from store.write.repositories import Store
from workflows.model.activities.computation import BOUNDED, LARGEST_ANSWER, Computed, ComputeInput, Stored
from workflows.model.failures import COMPUTATION_FAILED, PROPOSER_FAILED, described, shorten
from workflows.optimizers.computations import computation


class Computing:
    """Runs the functions that `workflows.optimizers.computations` names."""

    def __init__(self, store: Store, plugins: Plugins, calls: PluginCalls, isolation: Isolation | None = None) -> None:
        self._isolation = isolation or Isolation()
        self._store = store
        self._plugins = plugins
        self._calls = calls

    async def compute(self, request: ComputeInput) -> Computed:
        stored = await self._read(request)
        try:
            function = await asyncio.to_thread(computation, request.function)
            value = normalize(await asyncio.to_thread(function, stored, request.arguments))
            size = len(canonical_json(value).encode())
        except Exception as error:
            told = str(error) if isinstance(error, ValueError) else described(error)
            if isinstance(error, ModuleNotFoundError):
                told = f"needs {error.name}, which this worker does not have; install {with_package(error.name)}"
            raise ApplicationError(
                shorten(f"{request.function}: {told}"), type=COMPUTATION_FAILED, non_retryable=True
            ) from error
        if size > LARGEST_ANSWER:
            told = f"{request.function}: its answer is {size:,} bytes; at most {LARGEST_ANSWER:,} fit"
            raise ApplicationError(told, type=COMPUTATION_FAILED, non_retryable=True)
        return Computed(value=value)

    async def _read(self, request: ComputeInput) -> Stored:
        stored = await self._trials(request)
        records: Sequence[Record] = ()
        wanted = request.reads.records
        if wanted is not None:
            assert request.config_hash is not None
            records = await self._store.evaluated_samples.records(
                request.run_id, wanted.split, request.config_hash, wanted.limit, wanted.worst_first
            )
        answer = None if request.plugin is None else await self._asked(request.plugin, records)
        unmeasured = request.reads.samples
        samples = (
            await self._store.suites.first_samples(request.run_id, unmeasured.split, unmeasured.limit) if unmeasured else ()
        )
        return replace(stored, records=records, samples=samples, answer=answer)

    async def _trials(self, request: ComputeInput) -> Stored:
        reads = request.reads
        if not reads.trials:
            return Stored()
        earlier = await self._store.search_history.of_earlier_runs(reads.earlier_runs, reads.bounded or BOUNDED)
        if reads.bounded is None:
            return Stored(trials=await self._store.search_history.trials(request.run_id), earlier=earlier)
        trials, config_hashes = await self._store.search_history.searched(request.run_id, reads.bounded)
        return Stored(trials=trials, config_hashes=config_hashes, earlier=earlier)

    async def _asked(self, reference: str, records: Sequence[Record]) -> Any:
        if attempts_before().isolates:
            return await self._isolated(reference, records)
        await import_elsewhere(self._plugins, [reference], LONGEST_IMPORT)
        plugin = await self._calls.threads.run(partial(self._plugins.resolve, reference, 1))
        try:
            return await self._calls.call(plugin, list(records))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise ApplicationError(shorten(f"plug-in {reference} raised {described(error)}"), type=PROPOSER_FAILED) from error

    async def _isolated(self, reference: str, records: Sequence[Record]) -> Any:
        """By a plug-in that may be what killed the workers before."""
        refuse_killers([reference])
        request = {"records": [asdict(record) for record in records]}
        try:
            return (await self._isolation.call(self._plugins, reference, "classifier", request))["value"]
        except IsolatedFault as fault:
            raise failure_of_isolated(fault, f"plug-in {reference}: {fault}", PROPOSER_FAILED) from None
