"""Bookkeeping: the short, idempotent writes and reads of the store that a run's workflow asks for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.datasets import DatasetError, SourceAway, draw_splits
from activities.datasets.stored import dataset_of, strata_of
from activities.heartbeat import heartbeating
from activities.scorers.rubric import INSTRUCTIONS, REPAIR
from activities.store import samples
from activities.store.connection import Database
from activities.store.events import RunUnknown
from activities.store.ledger import DrawnSuite, NewRun
from activities.store.migrating import StoreError
from activities.store.refusals import store_errors
from activities.store.writing import Store
from workflows.contracts import Bookkeeping
from workflows.model.candidates import Candidate
from workflows.model.failures import AGGREGATION_FAILED, INVALID_REQUEST, shorten
from workflows.model.request import OptimizationRequest
from workflows.model.run import (
    CandidateKey,
    ConfirmInput,
    FinishInput,
    HistoryPage,
    HistoryRows,
    Interval,
    LedgerInput,
    Prepared,
    PrepareInput,
)
from workflows.model.scorers import CostScorer, PythonScorer, RubricScorer, placed_scorers
from workflows.model.suite import EvaluationSuite
from workflows.model.target import PythonTarget
from workflows.model.trial import Split, TrialInput
from workflows.rules.budget import CONFIRMATION_TRIALS, Needs, refuse_baseline
from workflows.rules.canonical import NotCanonical, content_hash
from workflows.rules.pairing import paired_interval
from workflows.rules.spec_check import check_request

CONFIDENCE = 0.95

ATTEMPTS_AT_A_SOURCE = 5
"""How often a dataset is asked for where it is kept; a store that is away is worth more patience than a wrong address."""


def invalid_request(problems: Sequence[str]) -> ApplicationError:
    """Everything that is wrong with a spec, as one error that is never retried."""
    return ApplicationError(shorten("\n".join(problems), 20_000), type=INVALID_REQUEST, non_retryable=True)


class StoreBookkeeping(Bookkeeping):
    """Bookkeeping over PostgreSQL."""

    def __init__(
        self,
        database: Database,
        *,
        search_attributes: bool = False,
        versions: Mapping[str, str] | None = None,
        data_directory: Path | None = None,
    ) -> None:
        self._database = database
        self._store = Store(database)
        self._search_attributes = search_attributes
        self._versions = dict(versions or {})
        named = os.environ.get("RATCHET_DATA_DIR")
        self._data_directory = data_directory or (Path(named) if named else None)

    @activity.defn(name="prepare")
    async def prepare(self, request: PrepareInput) -> Prepared:
        """Check the spec, ingest the dataset, store the baseline overlay and the run's row."""
        problems = check_request(request.request)
        if problems:
            raise invalid_request(problems)
        async with heartbeating():
            with store_errors():
                return await self._prepare(request)

    async def _prepare(self, prepare: PrepareInput) -> Prepared:
        spec = prepare.request
        try:
            dataset = prepare.ingested or await dataset_of(self._database, spec, self._data_directory)
            async with self._database.connection() as connection:
                hashes = await samples.item_hashes(connection, dataset.dataset_id)
                strata = await strata_of(connection, dataset.dataset_id, spec.dataset.splits)
            plan = plan_evaluation(prepare, dataset.dataset_id, hashes, strata)
            baseline_hash = content_hash(spec.baseline)
            too_small = refuse_baseline(spec.budget, _needs(plan, spec.replicates))
            if too_small is not None:
                raise invalid_request([too_small])
        except DatasetError as error:
            raise invalid_request([str(error)]) from None
        except SourceAway as error:
            if activity.info().attempt >= ATTEMPTS_AT_A_SOURCE:
                raise invalid_request([f"{error}; start the run again when it is there"]) from None
            raise
        except NotCanonical as error:
            raise invalid_request([f"the spec has no canonical form: {error}"]) from None
        info = activity.info()
        await self._store.open_run(
            NewRun(
                run_id=prepare.run_id,
                execution_id=info.workflow_run_id or "",
                request=spec,
                task_queue=info.task_queue,
                versions=self._versions,
                baseline_hash=baseline_hash,
                baseline=spec.baseline,
                search=plan.search,
                others=[plan.test] if plan.test else [],
            )
        )
        return Prepared(
            dataset_id=dataset.dataset_id,
            evaluation_suite_id=plan.search.suite.suite_id,
            search_split=plan.search.suite.split,
            search_samples=plan.search.suite.samples,
            test_samples=plan.test.suite.samples if plan.test else 0,
            search_attributes=self._search_attributes,
            duplicates_dropped=dataset.duplicates_dropped,
            versions=self._versions,
        )

    @activity.defn(name="begin_trial")
    async def begin_trial(self, trial: TrialInput) -> None:
        """In one transaction: the ledger that travels with the trial, its overlay, its candidate, its row, its event."""
        with store_errors():
            await self._store.begin_trial(trial)

    @activity.defn(name="commit_ledger")
    async def commit_ledger(self, ledger: LedgerInput) -> None:
        """Round records, rejections, the run's status and limits, with their events, in one transaction."""
        with store_errors():
            await self._store.commit_ledger(ledger)

    @activity.defn(name="load_history")
    async def load_history(self, page: HistoryPage) -> HistoryRows:
        """Finished trials in the order of their proposals, a page at a time."""
        with store_errors():
            return HistoryRows(rows=await self._store.history(page))

    @activity.defn(name="load_candidate")
    async def load_candidate(self, key: CandidateKey) -> Candidate:
        """One candidate with its configuration."""
        with store_errors():
            candidate = await self._store.candidate(key.run_id, key.candidate_id)
            if candidate is None:
                raise StoreError(f"run {key.run_id!r} has no candidate {key.candidate_id!r} in the store")
            return candidate

    @activity.defn(name="confirm")
    async def confirm(self, request: ConfirmInput) -> Interval:
        """The paired difference between two trials over the same samples: winner minus baseline."""
        with store_errors():
            pairs = await self._store.paired_means(request.run_id, request.baseline, request.winner)
        if not pairs:
            raise ApplicationError(
                f"trials {request.baseline!r} and {request.winner!r} have no sample in common that both answered",
                type=AGGREGATION_FAILED,
                non_retryable=True,
            )
        return paired_interval(pairs)

    @activity.defn(name="finish_run")
    async def finish_run(self, finish: FinishInput) -> None:
        """The run's end: result, status, last round records and events, in one transaction.

        A run that was cancelled before it was prepared has no row, and nothing to end.
        """
        with store_errors(), contextlib.suppress(RunUnknown):
            await self._store.finish_run(finish)


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """The suites of a run: one to search with, and one to confirm with when samples were held back."""

    search: DrawnSuite
    test: DrawnSuite | None


def _needs(plan: EvaluationPlan, replicates: int) -> Needs:
    confirmed = plan.test.suite.samples if plan.test else 0
    return Needs(plan.search.suite.samples * replicates, CONFIRMATION_TRIALS * confirmed * replicates)


def plan_evaluation(
    prepare: PrepareInput, dataset_id: str, item_hashes: Sequence[str], strata: Sequence[str] | None = None
) -> EvaluationPlan:
    """Draw the splits and describe what each is measured with."""
    spec = prepare.request
    splits = draw_splits(item_hashes, spec.dataset.splits, spec.seed, strata)
    drawn = {split: hashes[: spec.samples_per_trial] for split, hashes in splits.items()}
    searchable = [split for split in (Split.VALIDATION, Split.TRAIN, Split.ALL) if drawn.get(split)]
    if not searchable:
        raise DatasetError("dataset.splits: no sample is left to score candidates on; add samples or raise the shares")
    search = _suite(prepare, dataset_id, searchable[0], drawn[searchable[0]])
    held_back = drawn.get(Split.TEST)
    return EvaluationPlan(search, _suite(prepare, dataset_id, Split.TEST, held_back) if held_back else None)


def _suite(prepare: PrepareInput, dataset_id: str, split: Split, hashes: Sequence[str]) -> DrawnSuite:
    spec = prepare.request
    scorers = [scorer.model_dump(mode="json", by_alias=True) for scorer in spec.scorers]
    suite_id = content_hash({"dataset": dataset_id, "split": split.value, "samples": list(hashes), "scorers": scorers})
    suite = EvaluationSuite(
        run_id=prepare.run_id,
        split=split,
        suite_id=suite_id,
        dataset_id=dataset_id,
        samples=len(hashes),
        evaluator=evaluator_fingerprint(spec, prepare.evaluators),
        target=spec.target,
        scorers=spec.scorers,
        objective=spec.objective,
        metric=spec.metric,
        prices=spec.prices,
        sample_timeout=spec.execution.sample_timeout,
        reuse=spec.reuse,
        retry_of=spec.retry_of,
        priority=spec.execution.priority,
        rate_limits=spec.execution.rate_limits,
        experiment=spec.experiment,
        flags=spec.flags,
        baseline_hash=content_hash(spec.baseline),
        concurrent_samples_per_trial=spec.execution.concurrent_samples_per_trial,
        plugins={reference: source for reference, source in prepare.evaluators.items() if reference in _measuring(spec)},
    )
    return DrawnSuite(suite, hashes)


def evaluator_fingerprint(spec: OptimizationRequest, plugins: Mapping[str, str]) -> str:
    """What an answer depends on beside the configuration and the sample: target and scorers with their options and sources,
    and the flags that the target is told.

    A model's name is in the target, in a scorer, or in a factor. The objective is computed from answers, and prices change what
    an answer cost, not the answer: they are no part of it, unless what it cost is a score.
    """
    answering = _answering(spec)
    scorers = [scorer for _, scorer in placed_scorers(spec.scorers)]
    parts: dict[str, Any] = {
        "target": spec.target.model_dump(mode="json", by_alias=True, exclude={"at_most"}),
        "scorers": [scorer.model_dump(mode="json", by_alias=True) for scorer in spec.scorers],
        "plugins": {reference: source for reference, source in plugins.items() if reference in answering},
    }
    if spec.flags:
        parts["flags"] = spec.flags
    if any(isinstance(scorer, RubricScorer) for scorer in scorers):
        parts["judging"] = [INSTRUCTIONS, REPAIR]
    if any(isinstance(scorer, CostScorer) for scorer in scorers):
        parts["prices"] = {model: price.model_dump(mode="json") for model, price in spec.prices.items()}
    return content_hash(parts)


def _answering(spec: OptimizationRequest) -> set[str]:
    """The plug-ins that answer or score."""
    parts = [spec.target, *(scorer for _, scorer in placed_scorers(spec.scorers))]
    return {part.ref for part in parts if isinstance(part, PythonTarget | PythonScorer)}


def _measuring(spec: OptimizationRequest) -> set[str]:
    """The plug-ins that answer, score, or compute the objective."""
    return _answering(spec) | ({spec.objective.ref} if spec.objective.ref else set())
