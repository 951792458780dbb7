"""What activities do with the store. Every method is one transaction, and doing it twice changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from activities.store import experiments, ledger, proposals, rate_limits, shards, trials
from activities.store.connection import Database
from activities.store.events import announce, lock_run
from activities.store.ledger import NewRun
from activities.store.shards import Pair, ShardWork
from ratchet.plugins import Record
from workflows.model.candidates import Candidate
from workflows.model.factors import Configuration
from workflows.model.limits import AdjustedLimits, RateLimit
from workflows.model.run import FinishInput, HistoryPage, LedgerInput, Proposed, TrialRow
from workflows.model.suite import EvaluationSuite, MeasuredSample, Outcome
from workflows.model.trial import Conclusion, ShardInput, Split, TrialInput, TrialResult

__all__ = ["NewRun", "Pair", "ShardWork", "Store"]


class Store:
    """The store as activities see it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # The run

    async def open_run(self, new: NewRun) -> None:
        """Store a run's row with its suites and its baseline; another execution of the same run id starts it anew."""
        async with self._database.transaction() as connection:
            await ledger.open_run(connection, new)

    async def commit_ledger(self, entry: LedgerInput) -> None:
        """Store decided rounds, the run's status and its changed limits."""
        async with self._database.transaction() as connection:
            run = await lock_run(connection, entry.run_id)
            events = await ledger.write_ledger(connection, run, entry.records, status=entry.status, limits=entry.limits)
            await announce(connection, run, events)

    async def finish_run(self, finish: FinishInput) -> None:
        """Store the run's end."""
        async with self._database.transaction() as connection:
            await ledger.finish_run(connection, finish)

    async def adjusted_limits(self, run_id: str) -> AdjustedLimits:
        """The run's limits as the adjust update left them."""
        async with self._database.connection() as connection:
            limits = await connection.fetchval("SELECT limits FROM runs WHERE run_id = $1", run_id)
            return AdjustedLimits() if limits is None else AdjustedLimits.model_validate_json(limits)

    async def lease_starts(self, name: tuple[str, str], limit: RateLimit, calls: int, tokens: float, owed: float) -> float:
        """Reserve calls and tokens of a limit that workers share; in how many seconds the first call may start."""
        async with self._database.connection() as connection:
            return await rate_limits.lease_starts(connection, name, limit, calls, tokens, owed)

    # Trials

    async def begin_trial(self, trial: TrialInput) -> None:
        """Store a trial that begins, with the ledger that travels with it."""
        async with self._database.transaction() as connection:
            await trials.begin_trial(connection, trial)

    async def record_trial(self, result: TrialResult, conclusion: Conclusion, sample_means: Sequence[float | None]) -> None:
        """Store a trial's end, with the run's totals."""
        async with self._database.transaction() as connection:
            await trials.record_trial(connection, result, conclusion, sample_means)

    async def history(self, page: HistoryPage) -> tuple[TrialRow, ...]:
        """Finished trials in the order of their proposals."""
        async with self._database.connection() as connection:
            return await trials.history(connection, page)

    async def candidate(self, run_id: str, candidate_id: str) -> Candidate | None:
        """One candidate with its configuration."""
        async with self._database.connection() as connection:
            return await trials.load_candidate(connection, run_id, candidate_id)

    async def paired_means(self, run_id: str, one: str, other: str) -> list[trials.PairedMeans]:
        """For each sample that both trials have an answer to: what it was worth in each."""
        async with self._database.connection() as connection:
            return await trials.paired_means(connection, run_id, one, other)

    # External experiments

    async def experiment_of(self, trial: ShardInput) -> experiments.TrialExperiment:
        """The external experiment that was triggered for a trial, if there is one."""
        async with self._database.connection() as connection:
            return await experiments.experiment_of(connection, trial)

    async def record_experiment(self, trial: ShardInput, experiment_id: str) -> None:
        """Keep which experiment belongs to a trial."""
        async with self._database.connection() as connection:
            await experiments.record_experiment(connection, trial, experiment_id)

    # Samples and outcomes

    async def load_shard(self, shard: ShardInput) -> ShardWork:
        """The suite, the configuration, and those pairs of the shard's range that have no answer yet."""
        async with self._database.connection() as connection:
            return await shards.load_shard(connection, shard)

    async def commit_outcomes(self, shard: ShardInput, evaluator: str, outcomes: Sequence[Outcome]) -> None:
        """Store answers; the first answer to a pair wins."""
        if outcomes:
            async with self._database.connection() as connection:
                await shards.commit_outcomes(connection, shard, evaluator, outcomes)

    async def suite(self, run_id: str, split: Split) -> EvaluationSuite:
        """What every trial on a split is measured with."""
        async with self._database.connection() as connection:
            return await shards.load_suite(connection, run_id, split)

    async def overlay(self, config_hash: str) -> dict[str, Any]:
        """A configuration by its hash."""
        async with self._database.connection() as connection:
            return await shards.load_overlay(connection, config_hash)

    async def store_overlay(self, config_hash: str, configuration: Configuration) -> None:
        """Store a configuration under its hash."""
        async with self._database.connection() as connection:
            await ledger.store_overlay(connection, config_hash, configuration)

    async def measured(
        self, run_id: str, split: Split, config_hash: str, evaluator: str, first_replicate: int, replicates: int
    ) -> list[MeasuredSample]:
        """What the answers to a trial were worth; `paid` says which of them were not copied from another run."""
        async with self._database.connection() as connection:
            return await shards.measured(connection, run_id, split, config_hash, evaluator, first_replicate, replicates)

    async def records(self, run_id: str, split: Split, config_hash: str, limit: int, worst_first: bool = True) -> list[Record]:
        """Evaluated samples as a proposer sees them."""
        async with self._database.connection() as connection:
            return await shards.records(connection, run_id, split, config_hash, limit, worst_first=worst_first)

    # Proposals

    async def proposal(self, run_id: str, round_index: int, index: int) -> Proposed | None:
        """A proposer's answer that was paid for already."""
        async with self._database.connection() as connection:
            return await proposals.load(connection, run_id, round_index, index)

    async def store_proposal(self, run_id: str, round_index: int, index: int, proposed: Proposed) -> Proposed:
        """Keep a proposer's answer, and return the one that counts: the first."""
        async with self._database.transaction() as connection:
            return await proposals.store(connection, run_id, round_index, index, proposed)
