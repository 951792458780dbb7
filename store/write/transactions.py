"""What activities do with the store. Every method is one transaction, and doing it twice changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ratchet.plugins import Record, Sample
from store.budget_leases import LeaseBalance, Leased, LeaseKey, LeaseRequest
from store.connection import Database
from store.events import announce, lock_run
from store.model_answer import ModelAnswer
from store.read import search_history
from store.write import (
    budgets,
    external_experiments,
    learned_rates,
    model_answers,
    proposals,
    rate_limits,
    releases,
    runs,
    served_times,
    test_split,
    trials,
    unscored_answers,
)
from store.write import (
    outcomes as outcome_rows,
)
from store.write.outcomes import Pair, ShardWork
from store.write.releases import NewRelease, Settlement, StoredRelease
from store.write.runs import NewRun
from workflows.model.activities.computation import Bounded, StoredTrial
from workflows.model.activities.external_trials import CallsSettlement
from workflows.model.run.amounts import Amount
from workflows.model.run.candidates import Candidate
from workflows.model.run.clock import RunClock
from workflows.model.run.contract import CommitRounds, FinishInput, HistoryPage, Proposed, TrialRow
from workflows.model.run.test_split import OpenedTestSplit, OpenTestSplit
from workflows.model.spec.factors import Configuration
from workflows.model.spec.judgement import MustPass
from workflows.model.spec.limits import AdjustedLimits, RateLimit
from workflows.model.spec.release import ReleaseState, ReleaseStep
from workflows.model.suite import EvaluationSuite, KeptAnswer, MeasuredSample, Outcome
from workflows.model.trial import Conclusion, ShardInput, Split, TrialInput, TrialResult
from workflows.rules.learned_rate import Endpoint, Learned, Throttle
from workflows.rules.scoring.tally import Tally

__all__ = ["NewRun", "Pair", "ShardWork", "Store"]


class Store:
    """The store as activities see it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # The run

    async def open_run(self, new: NewRun) -> None:
        """Store a run's row with its suites and its baseline; another execution of the same run id starts it anew."""
        async with self._database.transaction() as connection:
            await runs.open_run(connection, new)

    async def commit_ledger(self, entry: CommitRounds) -> RunClock:
        """Store decided rounds, the run's status and its changed limits."""
        async with self._database.transaction() as connection:
            run = await lock_run(connection, entry.run_id)
            events = await runs.write_rounds(connection, run, entry.records, status=entry.status, limits=entry.limits)
            if entry.budget is not None:
                await budgets.set_limits(connection, entry.run_id, entry.budget)
            if entry.stood_still is not None:
                await served_times.write_stood_still(connection, entry.run_id, entry.stood_still)
            await announce(connection, run, events)
            return await served_times.run_clock(connection, entry.run_id)

    async def finish_run(self, finish: FinishInput) -> None:
        """Store the run's end."""
        async with self._database.transaction() as connection:
            await runs.finish_run(connection, finish)

    async def run_clock(self, run_id: str) -> RunClock:
        """For how long no worker has served a run, and its time budget."""
        async with self._database.connection() as connection:
            return await served_times.run_clock(connection, run_id)

    async def mark_served(self, task_queues: Sequence[str]) -> None:
        """Say that task queues are served now."""
        async with self._database.transaction() as connection:
            await served_times.mark_served(connection, task_queues)

    async def adjusted_limits(self, run_id: str) -> AdjustedLimits:
        """The run's limits as the adjust update left them."""
        async with self._database.connection() as connection:
            return await budgets.adjusted_limits(connection, run_id)

    async def lease_starts(self, name: tuple[str, str], limit: RateLimit, calls: int, tokens: float, owed: float) -> float:
        """Reserve calls and tokens of a limit that workers share; in how many seconds the first call may start."""
        async with self._database.connection() as connection:
            return await rate_limits.lease_starts(connection, name, limit, calls, tokens, owed)

    async def learned(self, endpoint: Endpoint) -> Learned | None:
        """What an endpoint's complaints have taught."""
        async with self._database.connection() as connection:
            return await learned_rates.learned(connection, endpoint)

    async def lease_learned(self, endpoint: Endpoint, known: Learned, calls: int, refused: int) -> tuple[float, Learned | None]:
        """Reserve calls of the rate that was learned; in how many seconds the first may start, and what is known by now."""
        async with self._database.connection() as connection:
            return await learned_rates.lease(connection, endpoint, known, calls, refused)

    async def throttled(self, endpoint: Endpoint, throttle: Throttle) -> Learned:
        """Learn from a complaint."""
        async with self._database.transaction() as connection:
            return await learned_rates.throttled(connection, endpoint, throttle)

    # Trials

    async def begin_trial(self, trial: TrialInput) -> RunClock:
        """Store a trial that begins, with the ledger that travels with it."""
        async with self._database.transaction() as connection:
            await trials.begin_trial(connection, trial)
            return await served_times.run_clock(connection, trial.run_id)

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

    async def open_test_split(self, asked: OpenTestSplit) -> OpenedTestSplit:
        """Note who is going to read the held-back samples, unless that is more than was planned."""
        async with self._database.transaction() as connection:
            return await test_split.open_test_split(connection, asked)

    # External experiments

    async def experiment_of(self, trial: ShardInput) -> external_experiments.TrialExperiment:
        """The external experiment that was triggered for a trial, if there is one."""
        async with self._database.connection() as connection:
            return await external_experiments.experiment_of(connection, trial)

    async def record_experiment(self, trial: ShardInput, experiment_id: str) -> None:
        """Keep which experiment belongs to a trial."""
        async with self._database.connection() as connection:
            await external_experiments.record_experiment(connection, trial, experiment_id)

    # Samples and outcomes

    async def load_shard(self, shard: ShardInput) -> ShardWork:
        """The suite, the configuration, and those pairs of the shard's range that have no answer yet."""
        async with self._database.connection() as connection:
            return await outcome_rows.load_shard(connection, shard)

    async def commit_outcomes(
        self,
        shard: ShardInput,
        evaluator: str,
        outcomes: Sequence[Outcome],
        lease: tuple[LeaseKey, LeaseBalance] | None = None,
        kept: Sequence[KeptAnswer] = (),
    ) -> None:
        """Store answers, scored or still to be, with what they took out of the budget; the first answer to a pair wins."""
        scored_later = [outcome for outcome in outcomes if outcome.was_kept]
        if lease is None and not kept and not scored_later:
            async with self._database.connection() as connection:
                await outcome_rows.commit_outcomes(connection, shard, evaluator, outcomes)
            return
        async with self._database.transaction() as connection:
            if kept:
                await unscored_answers.store(connection, shard, evaluator, kept)
            await outcome_rows.commit_outcomes(connection, shard, evaluator, outcomes)
            if scored_later:
                await unscored_answers.scored(connection, shard, evaluator, scored_later)
            if lease is not None:
                await budgets.write_balance(connection, *lease)

    async def paid_for_kept(self, trial: TrialInput) -> Amount:
        """What a trial paid for answers that are still to be scored."""
        async with self._database.connection() as connection:
            return await unscored_answers.paid_for(connection, trial.run_id, trial.candidate.config_hash, trial.trial_id)

    async def lease(self, key: LeaseKey, balance: LeaseBalance, request: LeaseRequest) -> Leased:
        """Set budget aside for calls."""
        async with self._database.transaction() as connection:
            return await budgets.lease(connection, key, balance, request)

    async def write_balance(self, key: LeaseKey, balance: LeaseBalance) -> None:
        """Keep where a purse stands."""
        async with self._database.connection() as connection:
            await budgets.write_balance(connection, key, balance)

    async def close_lease(self, key: LeaseKey, balance: LeaseBalance) -> None:
        """Settle a purse for good."""
        async with self._database.transaction() as connection:
            await budgets.close_lease(connection, key, balance)

    async def settle_calls(self, key: LeaseKey, settlement: CallsSettlement) -> None:
        """Settle calls that others made."""
        async with self._database.transaction() as connection:
            await budgets.settle_calls(connection, key, settlement)

    async def settle_trial(self, trial: TrialInput) -> Amount:
        """Settle what dead workers left open of a trial; what its calls lost in all."""
        async with self._database.transaction() as connection:
            return await budgets.settle_trial(connection, trial.run_id, trial.candidate.candidate_id, trial.trial_id)

    async def suite(self, run_id: str, split: Split) -> EvaluationSuite:
        """What every trial on a split is measured with."""
        async with self._database.connection() as connection:
            return await outcome_rows.load_suite(connection, run_id, split)

    async def overlay(self, config_hash: str) -> dict[str, Any]:
        """A configuration by its hash."""
        async with self._database.connection() as connection:
            return await outcome_rows.load_overlay(connection, config_hash)

    async def store_overlay(self, config_hash: str, configuration: Configuration) -> None:
        """Store a configuration under its hash."""
        async with self._database.connection() as connection:
            await runs.store_overlay(connection, config_hash, configuration)

    async def measured(
        self, run_id: str, split: Split, config_hash: str, evaluator: str, first_replicate: int, replicates: int
    ) -> list[MeasuredSample]:
        """What the answers to a trial were worth; `paid` says which of them were not copied from another run."""
        async with self._database.connection() as connection:
            return await outcome_rows.measured(connection, run_id, split, config_hash, evaluator, first_replicate, replicates)

    async def tally(self, tally: Tally, config_hash: str, first_replicate: int, replicates: int) -> None:
        """Add up what the answers to a trial were worth, without holding them all."""
        suite = tally.suite
        if suite.samples * replicates <= outcome_rows.ANSWERS_AT_ONCE:
            tally.add(await self.measured(suite.run_id, suite.split, config_hash, suite.evaluator, first_replicate, replicates))
            return
        async with self._database.snapshot() as connection:
            async for batch in outcome_rows.measured_in_batches(connection, suite, config_hash, first_replicate, replicates):
                tally.add(batch)

    async def records(
        self,
        run_id: str,
        split: Split,
        config_hash: str,
        limit: int,
        worst_first: bool = True,
        first: int = 0,
        count: int | None = None,
    ) -> list[Record]:
        """Evaluated samples as a proposer sees them."""
        async with self._database.connection() as connection:
            return await outcome_rows.records(
                connection, run_id, split, config_hash, limit, worst_first=worst_first, first=first, count=count
            )

    async def must_pass(self, run_id: str, split: Split, named: MustPass) -> dict[int, str]:
        """The places in a split of samples that every candidate must pass, with their ids."""
        async with self._database.connection() as connection:
            return await outcome_rows.must_pass(connection, run_id, split, named)

    async def stored_trials(self, run_id: str) -> list[StoredTrial]:
        """What computations read: every finished trial of the search, in full or of a part."""
        async with self._database.connection() as connection:
            return await trials.stored_trials(connection, run_id)

    async def searched(self, run_id: str, bounded: Bounded) -> search_history.Searched:
        """The baseline, the best and the newest trials, and the hashes of all that was tried."""
        async with self._database.connection() as connection:
            return await search_history.searched(connection, run_id, bounded)

    async def first_samples(self, run_id: str, split: Split, limit: int) -> list[Sample]:
        """Samples of a split in its order, whether they were measured or not."""
        async with self._database.connection() as connection:
            return await search_history.first_samples(connection, run_id, split, limit)

    async def of_earlier_runs(self, run_ids: Sequence[str], bounded: Bounded) -> list[StoredTrial]:
        """The best and the newest trials of other runs."""
        async with self._database.connection() as connection:
            return await search_history.of_earlier_runs(connection, run_ids, bounded)

    async def not_comparable(
        self, run_ids: Sequence[str], suite: EvaluationSuite, item_hashes: Sequence[str]
    ) -> dict[str, str]:
        """The runs whose scores say nothing about this suite, and why."""
        async with self._database.connection() as connection:
            return await search_history.not_comparable(connection, run_ids, suite, item_hashes)

    # Proposals

    async def proposal(self, run_id: str, round_index: int, index: int) -> Proposed | None:
        """A proposer's answer that was paid for already."""
        async with self._database.connection() as connection:
            return await proposals.load(connection, run_id, round_index, index)

    async def proposal_of(self, retry_of: str, round_index: int, index: int, parent_hash: str) -> Proposed | None:
        """What a run that is retried was answered in the same place."""
        async with self._database.connection() as connection:
            return await proposals.load_of(connection, retry_of, round_index, index, parent_hash)

    async def store_proposal(
        self,
        run_id: str,
        round_index: int,
        index: int,
        proposed: Proposed,
        parent_hash: str = "",
        lease: tuple[LeaseKey, LeaseBalance] | None = None,
    ) -> Proposed:
        """Keep a proposer's answer, and return the one that counts: the first."""
        async with self._database.transaction() as connection:
            kept = await proposals.store(connection, run_id, round_index, index, proposed, parent_hash=parent_hash)
            if lease is not None:
                await budgets.write_balance(connection, *lease)
            return kept

    async def model_answer(self, run_id: str, request_hash: str) -> ModelAnswer | None:
        """What a model answered to a request that was paid for already."""
        async with self._database.connection() as connection:
            return await model_answers.load(connection, run_id, request_hash)

    async def keep_model_answer(
        self, run_id: str, request_hash: str, answer: ModelAnswer, lease: tuple[LeaseKey, LeaseBalance] | None = None
    ) -> ModelAnswer:
        """Keep a model's answer as it came, and return the one that counts: the first."""
        async with self._database.transaction() as connection:
            kept = await model_answers.keep(connection, run_id, request_hash, answer, metered=lease is not None)
            if lease is not None:
                await budgets.write_balance(connection, *lease)
            return kept

    # Releases

    async def spec_of(self, run_id: str) -> dict[str, Any] | None:
        """What a run was asked to do."""
        async with self._database.connection() as connection:
            return await runs.spec_of(connection, run_id)

    async def open_release(self, new: NewRelease) -> StoredRelease:
        """Store a release that is asked for; asked for again, the row that is there."""
        async with self._database.transaction() as connection:
            return await releases.open_release(connection, new)

    async def accept_release(self, step: ReleaseStep) -> ReleaseState:
        """Keep who approved it, before it is carried out."""
        async with self._database.transaction() as connection:
            return await releases.accept_release(connection, step)

    async def settle_release(self, release_id: str, settlement: Settlement) -> ReleaseState:
        """End a release. What is decided stays: the first settlement counts."""
        async with self._database.transaction() as connection:
            return await releases.settle_release(connection, release_id, settlement)

    async def reminded(self, release_id: str) -> ReleaseState:
        """A reminder goes out, once."""
        async with self._database.transaction() as connection:
            return await releases.reminded(connection, release_id)

    async def known_release(self, release_id: str) -> ReleaseState | None:
        """One release, if it was ever asked for."""
        async with self._database.connection() as connection:
            return await releases.known_release(connection, release_id)

    async def stored_release(self, release_id: str) -> StoredRelease:
        """One release with all that is needed to carry it out."""
        async with self._database.connection() as connection:
            return await releases.stored_release(connection, release_id)

    async def releases(
        self, *, prompt: str | None = None, run_id: str | None = None, undecided: bool = False, limit: int = 100
    ) -> list[ReleaseState]:
        """Releases of a prompt, of a run, or of all, the newest first."""
        async with self._database.connection() as connection:
            return await releases.releases(connection, prompt=prompt, run_id=run_id, undecided=undecided, limit=limit)

    async def validated_base(self, prompt: str, canary: str, overlay_hash: str) -> tuple[str, str] | None:
        """What a canary that is out now was validated with."""
        async with self._database.connection() as connection:
            return await releases.validated_base(connection, prompt, canary, overlay_hash)
