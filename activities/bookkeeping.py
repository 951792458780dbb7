"""Bookkeeping: the short, idempotent writes and reads of the store that a run's workflow asks for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.datasets import DatasetError, SourceAway
from activities.datasets.run_dataset import clusters_in, dataset_of, given_splits_in, lacking_samples, strata_of
from activities.endpoints.endpoint_policy import NotListed, OperatorLists
from activities.preparing.default_prices import DefaultPrices, default_prices
from activities.preparing.evaluation_plan import plan_evaluation
from activities.preparing.factor_files import (
    FactorFileMissing,
    WithFactorFiles,
    data_folder,
    keep_factor_files,
    with_factor_files,
)
from activities.preparing.placed_models import batch_refusals, placed_models
from activities.preparing.prompt_snapshot import UnusablePrompt, with_its_prompt
from activities.preparing.release_precheck import unreleasable
from activities.preparing.request_check import problems_of
from activities.releases.override_stores import Overrides
from activities.settings import DatasetSettings
from activities.shards.heartbeat import heartbeating
from ratchet._formats.canonical import NotCanonical, content_hash
from store.connection import Database
from store.errors import store_errors
from store.events import RunUnknown
from store.read.access.teams import RunOwner, TeamReader
from store.read.dataset_items import DatasetItemReader
from store.schema import StoreError
from store.write.datasets import Datasets
from store.write.repositories import Store
from store.write.runs import NewRun
from store.write.suites import DrawnSuite
from workflows.contracts import Bookkeeping
from workflows.model.activities.optimizer_steps import version_key
from workflows.model.failures import INVALID_REQUEST, shorten
from workflows.model.run.candidates import Candidate
from workflows.model.run.clock import ClockKey, RunClock
from workflows.model.run.contract import (
    CandidateKey,
    CommitRounds,
    FinishInput,
    HistoryPage,
    HistoryRows,
    NamedQueue,
    Prepared,
    PrepareInput,
    ReadSpec,
)
from workflows.model.run.test_split import OpenedTestSplit, OpenTestSplit
from workflows.model.spec.dataset import is_object
from workflows.model.spec.judgement import Plan
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import TrialInput
from workflows.rules.decisions.budget import needs_of, refuse_baseline
from workflows.rules.releases.target import automatic_without_test
from workflows.rules.spec.judgement_check import unknown_must_pass

ATTEMPTS_AT_A_SOURCE = 5
"""How often a dataset is asked for where it is kept; a store that is away is worth more patience than a wrong address."""


def invalid_request(problems: Sequence[str]) -> ApplicationError:
    """Everything that is wrong with a spec, as one error that is never retried."""
    return ApplicationError(shorten("\n".join(problems), 20_000), type=INVALID_REQUEST, non_retryable=True)


def _read(request: OptimizationRequest) -> ReadSpec:
    return ReadSpec(snapshot=request.prompt and request.prompt.snapshot, configuration=request.configuration)


def _assumed_plan(spec: OptimizationRequest, samples: int, held_back: int) -> Plan:
    # Statistics take long to import; a worker that serves workflows needs them for nothing else.
    from workflows.rules.statistics.detectable_effect import assumed_plan

    return assumed_plan(spec, samples, held_back)


def _deciding_versions(prepare: PrepareInput) -> dict[str, str]:
    """Which code decides what a run does, where that is the user's: the optimizer, the stop policy."""
    own, policy = prepare.request.optimizer.own_class, prepare.request.stop.policy
    deciding = {"optimizer": own.ref if own else None, "stop policy": policy.ref if policy else None}
    known = {role: ref for role, ref in deciding.items() if ref is not None and ref in prepare.evaluators}
    return {version_key(role, ref): prepare.evaluators[ref] for role, ref in known.items()}


class StoreBookkeeping(Bookkeeping):
    """Bookkeeping over PostgreSQL."""

    def __init__(
        self,
        database: Database,
        *,
        search_attributes: bool = False,
        versions: Mapping[str, str] | None = None,
        datasets_from: DatasetSettings | None = None,
        overrides: Overrides | None = None,
        lists: OperatorLists | None = None,
        evaluation_task_queue: str | None = None,
        namespace_id: str = "",
    ) -> None:
        self._database = database
        self._store = Store(database)
        self._datasets = Datasets(database)
        self._teams = TeamReader(database)
        self._overrides = overrides or Overrides("postgres", database.url)
        self._search_attributes = search_attributes
        self._versions = dict(versions or {})
        self._lists = lists or OperatorLists()
        self._evaluation_task_queue = evaluation_task_queue
        self._namespace_id = namespace_id
        self._datasets_from = datasets_from or DatasetSettings()

    @activity.defn(name="admit_evaluation_queue")
    async def admit_evaluation_queue(self, named: NamedQueue) -> None:
        """Refuse a run that would be evaluated on a task queue which the operator does not list."""
        own = activity.info().task_queue
        try:
            self._lists.refuse_evaluation_queue(named.task_queue, self._evaluation_task_queue or f"{own}-evaluation", own)
        except NotListed as error:
            raise invalid_request([f"execution.evaluation_task_queue: {error}"]) from None

    @activity.defn(name="prepare")
    async def prepare(self, request: PrepareInput) -> Prepared:
        """Check the spec, ingest the dataset, store the baseline overlay and the run's row."""
        async with heartbeating():
            with store_errors():
                owner = await self._teams.owner_of(request.run_id)
                foreign = await self._teams.foreign_parts(owner.team, request.request)
                if foreign:
                    raise invalid_request(foreign)
                found = await self._with_its_files(request.request)
                read = request.model_copy(update={"request": await self._with_its_prompt(found.request)})
                known = await asyncio.to_thread(default_prices, read.request, self._lists)
                problems = await problems_of(known.given_to(read.request))
                in_batches = await asyncio.to_thread(placed_models, read.request, self._lists)
                problems += batch_refusals(read.request, in_batches)
                if problems:
                    raise invalid_request(problems)
                self._refuse_unlisted(read.request)
                hopeless = await unreleasable(read.request, self._overrides)
                if hopeless is not None:
                    raise invalid_request([hopeless])
                try:
                    await keep_factor_files(self._database, request.run_id, found.files)
                except FactorFileMissing as error:
                    raise invalid_request([str(error)]) from None
                prepared = await self._prepare(read, owner, known)
        if read.request is request.request:
            return prepared
        return prepared.model_copy(update={"read": _read(read.request)})

    def _refuse_unlisted(self, request: OptimizationRequest) -> None:
        """What the spec names outside of the operator's lists; where samples are sent over HTTP, the call itself is refused."""
        lists = self._lists
        objects = [(field, lists.refuse_object, path) for field, path in request.dataset.files.items() if is_object(path)]
        queues = [(named.field, lists.refuse_activity_queue, named.task_queue) for named in request.own_activities()]
        for field, refuse, what in (*objects, *queues):
            try:
                refuse(what)
            except NotListed as error:
                raise invalid_request([f"{field}: {error}"]) from None

    async def _with_its_files(self, request: OptimizationRequest) -> WithFactorFiles:
        try:
            return await asyncio.to_thread(with_factor_files, request, data_folder(self._datasets_from.data_dir))
        except DatasetError as error:
            raise invalid_request([error.unquoted]) from None

    async def _with_its_prompt(self, request: OptimizationRequest) -> OptimizationRequest:
        try:
            return await with_its_prompt(request, self._overrides, self._datasets_from.data_dir)
        except UnusablePrompt as error:
            raise invalid_request([*await problems_of(request), str(error)]) from None

    async def _prepare(self, prepare: PrepareInput, owner: RunOwner, known: DefaultPrices) -> Prepared:
        spec = prepare.request
        priced = prepare.model_copy(update={"request": known.given_to(spec)})
        try:
            dataset = prepare.ingested or await dataset_of(
                self._database, spec, self._datasets_from, owner.team, self._lists.refuse_object
            )
            hashes = await self._datasets.item_hashes(dataset.dataset_id)
            strata = await strata_of(self._datasets, dataset.dataset_id, spec.dataset.drawn_splits)
            clusters = await clusters_in(self._datasets, dataset.dataset_id, spec.dataset)
            given = await given_splits_in(self._datasets, dataset.dataset_id, spec, hashes, clusters)
            plan = await asyncio.to_thread(plan_evaluation, priced, dataset.dataset_id, hashes, strata, clusters, given)
            baseline_hash = content_hash(spec.baseline)
            design = spec.design(plan.search.suite.samples)
            too_small = refuse_baseline(spec.budget, needs_of(spec, design, plan.test_samples))
            problems = [*([too_small] if too_small is not None else [])]
            problems += spec.optimizer.sample_problems(spec, plan.counting)
            problems += automatic_without_test(spec, plan.test_samples)
            problems += [*await self._unknown_must_pass(spec, dataset.dataset_id)]
            problems += await lacking_samples(DatasetItemReader(self._database), dataset.dataset_id, spec)
            problems += await self._unusable_earlier_runs(spec, plan.search)
            if problems:
                raise invalid_request(problems)
        except DatasetError as error:
            raise invalid_request([str(error)]) from None
        except SourceAway as error:
            if activity.info().attempt >= ATTEMPTS_AT_A_SOURCE:
                raise invalid_request([f"{error}; start the run again when it is there"]) from None
            raise
        except NotCanonical as error:
            raise invalid_request([f"the spec has no canonical form: {error}"]) from None
        info = activity.info()
        versions = self._versions | _deciding_versions(prepare) | ({} if known.source is None else {"prices": known.source})
        foreseen = await asyncio.to_thread(_assumed_plan, spec, plan.search.suite.samples, plan.test_samples)
        await self._store.runs.open(
            NewRun(
                run_id=prepare.run_id,
                execution_id=info.workflow_run_id or "",
                request=spec,
                task_queue=info.task_queue,
                versions=versions,
                baseline_hash=baseline_hash,
                baseline=spec.baseline,
                suites=list(plan.suites),
                plan=foreseen,
                started_at=prepare.started_at,
                namespace_id=self._namespace_id,
            )
        )
        return Prepared(
            dataset_id=dataset.dataset_id,
            evaluation_suite_id=plan.search.suite.suite_id,
            search_split=plan.search.suite.split,
            search_samples=plan.search.suite.samples,
            test_samples=plan.test_samples,
            train_samples=plan.train.suite.samples if plan.train else 0,
            plan=foreseen,
            cross_fits=not plan.test_samples and not spec.dataset.holds_nothing_back,
            confirms_in_time=True,
            team_budgeted=owner.has_budget,
            search_attributes=self._search_attributes,
            duplicates_dropped=dataset.duplicates_dropped,
            left_out=given.left_out if given is not None else {},
            versions=versions,
            prices=dict(known.prices),
        )

    async def _unusable_earlier_runs(self, spec: OptimizationRequest, search: DrawnSuite) -> list[str]:
        """Runs to learn from that say nothing about this one."""
        if not spec.optimizer.earlier_runs:
            return []
        earlier = spec.optimizer.earlier_runs
        problems = await self._store.search_history.not_comparable(earlier, search.suite, search.item_hashes)
        return [f"optimizer.warm_start: {run_id!r} {problem}" for run_id, problem in problems.items()]

    async def _unknown_must_pass(self, spec: OptimizationRequest, dataset_id: str) -> Sequence[str]:
        named = spec.judgement.must_pass
        if named is None:
            return ()
        return [*unknown_must_pass(spec, *await self._datasets.names_among(dataset_id, named.samples, named.tags))]

    @activity.defn(name="begin_trial")
    async def begin_trial(self, trial: TrialInput) -> RunClock:
        """In one transaction: the rounds that travel with the trial, its overlay, its candidate, its row, its event."""
        with store_errors():
            return await self._store.trials.begin(trial)

    @activity.defn(name="commit_rounds")
    async def commit_rounds(self, rounds: CommitRounds) -> RunClock:
        """Round records, rejections, the run's status and limits, with their events, in one transaction."""
        with store_errors():
            return await self._store.runs.commit_rounds(rounds)

    @activity.defn(name="read_clock")
    async def read_clock(self, key: ClockKey) -> RunClock:
        """For how long no worker has served the run, and its time budget."""
        with store_errors():
            return await self._store.served_times.run_clock(key.run_id)

    @activity.defn(name="load_history")
    async def load_history(self, page: HistoryPage) -> HistoryRows:
        """Finished trials in the order of their proposals, a page at a time."""
        with store_errors():
            return HistoryRows(rows=await self._store.search_history.page(page))

    @activity.defn(name="load_candidate")
    async def load_candidate(self, key: CandidateKey) -> Candidate:
        """One candidate with its configuration."""
        with store_errors():
            candidate = await self._store.search_history.candidate(key.run_id, key.candidate_id)
            if candidate is None:
                raise StoreError(f"run {key.run_id!r} has no candidate {key.candidate_id!r} in the store")
            return candidate

    @activity.defn(name="open_test_split")
    async def open_test_split(self, asked: OpenTestSplit) -> OpenedTestSplit:
        """Note that the baseline and the winner are going to be measured on the held-back samples, once."""
        with store_errors():
            return await self._store.held_back_splits.open(asked)

    @activity.defn(name="finish_run")
    async def finish_run(self, finish: FinishInput) -> None:
        """The run's end: result, status, last round records and events, in one transaction.

        A run that was cancelled before it was prepared has no row, and nothing to end.
        """
        with store_errors(), contextlib.suppress(RunUnknown):
            await self._store.runs.finish(finish)
