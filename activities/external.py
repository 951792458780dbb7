"""Trials whose samples are answered elsewhere: what is missing goes out, answers come in, and are scored like any others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from pydantic import JsonValue
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.budget.external_reservations import Covered, ExternalReservations
from activities.endpoints.gate import ClosedForLong
from activities.endpoints.runner import Forgotten, Runners
from activities.endpoints.runner_results import read_results, state_from
from activities.evaluation import ShardEvaluation
from activities.releases.candidate_tags import TemporaryTags
from activities.shards.heartbeat import heartbeating
from activities.shards.outcome_batches import until_back
from activities.shards.shard_endings import RATE_LIMITED
from activities.shards.shard_experiment import context_of
from activities.targets.already_answered import GivenAnswers
from activities.targets.faults import Refused, Unreachable
from ratchet import experiment_from_input, experiment_headers
from ratchet._formats.canonical import canonical_json, derive_seed
from store.errors import store_errors
from store.write.answers.outcomes import ShardWork, UnansweredPair
from store.write.repositories import Store
from workflows.contracts import Delegating
from workflows.model.activities.external_trials import (
    AnswersInput,
    Calls,
    CallsInput,
    ExperimentInput,
    ExperimentKey,
    ExperimentState,
    ReservedRetries,
    RetriesInput,
    Triggered,
)
from workflows.model.failures import (
    AGGREGATION_FAILED,
    INVALID_REQUEST,
    ORPHANED,
    ORPHANED_EXPERIMENT,
    PERMANENT_TARGET_ERROR,
    shorten,
)
from workflows.model.spec.targets.external import ActivityTarget, ExternalTarget
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import ShardInput, ShardResult
from workflows.rules.overlay import Overlay
from workflows.rules.scoring.external_answers import settlement_of
from workflows.rules.scoring.merged_parts import merged

LARGEST_LOAD = 1_000_000
"""Bytes of samples that go through the workflow at once. Configuration and parameters come on top; Temporal takes 2 MB."""

LARGEST_CALL = 1_900_000
LARGEST_INLINE = 4_000_000
"""Bytes of samples that are sent to a runner with the trigger."""

PAIRS_AT_ONCE = 1_000
LONGEST_LAST_TRIGGER = 10.0
"""Seconds that a trigger which is on its way gets to be answered when its trial is cancelled."""

PATIENCE_WHEN_ASKING = 5.0
"""Seconds. A runner that does not answer a question is asked again by the workflow, later."""

LONGEST_REASON = 1_000
PATIENCE_WITH_OTHERS = 30.0
"""Seconds. So long is waited for what others give back when calls that failed shall be made again."""

EXPERIMENT = "experiment"
"""Under which name an experiment's budget is set aside."""


class DelegatedEvaluation(Delegating):
    """Stands between trials and those who answer for them."""

    def __init__(
        self,
        store: Store,
        shards: ShardEvaluation,
        runners: Runners,
        *,
        is_away: Callable[[BaseException], bool],
        tags: TemporaryTags | None = None,
    ) -> None:
        self._store = store
        self._shards = shards
        self._runners = runners
        self._aside = ExternalReservations(store.budgets, is_away, shards.meters)
        self._is_away = is_away
        self._tags = tags

    # -- somebody else's activity -------------------------------------------------------------------------------------------

    @activity.defn(name="load_calls")
    async def load_calls(self, asked: CallsInput) -> Calls:
        async with heartbeating():
            with store_errors():
                work = await self._work(asked.shard)
            target = work.suite.target
            assert isinstance(target, ActivityTarget)
            overlay = Overlay(asked.shard.config_hash, work.configuration, work.suite.prompt)
            await self._publish(asked.shard.run_id, work.suite, overlay)
            common = _common(asked.shard, work.suite, overlay, target)
            samples: list[dict[str, JsonValue]] = []
            places: list[int] = []
            left = LARGEST_LOAD
            until = asked.shard.last
            kept = 0
            for pair in work.pairs:
                if pair.kept is not None:
                    kept += 1
                    continue
                sample = _sample(pair, asked.shard, overlay)
                size = len(canonical_json(sample).encode())
                _refuse_too_large(sample, size + len(canonical_json(common).encode()))
                if samples and size > left:
                    until = _place(pair, asked.shard)
                    break
                left -= size
                samples.append(sample)
                places.append(_place(pair, asked.shard))
            calls = Calls(common=common, samples=tuple(samples), until=until, found=work.found, kept=kept)
            if not (asked.shard.metered or work.adjusted.budgeted):
                return calls
            return await self._covered(asked.shard, calls, places, target, work.suite)

    async def _covered(
        self, shard: ShardInput, calls: Calls, places: Sequence[int], target: ActivityTarget, suite: EvaluationSuite
    ) -> Calls:
        """Those calls that the budget covers."""
        if not places:
            return calls
        holder = f"calls-{shard.first}"
        lasts = _longest(target, suite)
        with store_errors():
            covered = await self._aside.cover(shard, holder, len(places), target.at_most, lasts=lasts)
        until = calls.until if covered.calls == len(places) else places[covered.calls]
        return calls.model_copy(
            update={
                "samples": calls.samples[: covered.calls],
                "until": until,
                "holder": holder,
                "exhausted": covered.short_of,
                "team_rest": covered.team_rest,
            }
        )

    @activity.defn(name="reserve_retries")
    async def reserve_retries(self, asked: RetriesInput) -> ReservedRetries:
        async with heartbeating():
            with store_errors():
                suite = await until_back(lambda: self._store.suites.load(asked.shard.run_id, asked.shard.split), self._is_away)
                target = suite.target
                assert isinstance(target, ActivityTarget)
                lasts = _longest(target, suite)
                covered = await self._aside.cover(
                    asked.shard,
                    asked.holder,
                    asked.calls,
                    target.at_most,
                    lasts=lasts,
                    least=asked.calls,
                    patience=PATIENCE_WITH_OTHERS,
                )
                return ReservedRetries(exhausted=covered.short_of, team_rest=covered.team_rest)

    @activity.defn(name="score_answers")
    async def score_answers(self, given: AnswersInput) -> ShardResult:
        async with heartbeating():
            if given.settlement is not None:
                with store_errors():
                    await self._aside.settle(given.shard, given.settlement)
            if given.kept:
                return merged([await self._shards.score_kept(part) for part in _parts_of(given.shard)])
            return await self._shards.take_over(given.shard, GivenAnswers(given.answers, complete=False))

    # -- an external runner -------------------------------------------------------------------------------------------------

    @activity.defn(name="trigger_experiment")
    async def trigger_experiment(self, asked: ExperimentInput) -> Triggered:
        async with heartbeating():
            triggering = asyncio.create_task(self._trigger(asked))
            try:
                return await asyncio.shield(triggering)
            except asyncio.CancelledError:
                # What is on its way may arrive: only an experiment whose id is known can be cancelled.
                await asyncio.wait({triggering}, timeout=LONGEST_LAST_TRIGGER)
                if triggering.done():
                    return triggering.result()
                triggering.cancel()
                raise

    async def _trigger(self, asked: ExperimentInput) -> Triggered:
        trial = asked.trial
        with store_errors(), runner_errors():
            known = await until_back(lambda: self._store.trials.experiment_of(trial), self._is_away)
            if known.experiment_id is not None:
                return Triggered(experiment_id=known.experiment_id)
            suite, target = await self._target(trial)
            body, missing, kept = await self._request(asked, suite, target)
            if body is None:
                return Triggered(kept=kept)
            covered = await self._set_aside(trial, missing, target)
            if covered.short_of is not None:
                return Triggered(exhausted=covered.short_of, team_rest=covered.team_rest)
            key = trial.trial_id if known.starts == 1 else f"{trial.trial_id}#{known.starts}"
            try:
                experiment_id = await self._runners.trigger(
                    target.url, body, key, target.patience.total_seconds(), _headers(body["context"])
                )
            except Forgotten as error:
                raise Refused(f"target.url: there is no runner at {target.url} ({error})") from None
            await until_back(lambda: self._store.trials.record_experiment(trial, experiment_id), self._is_away)
            return Triggered(experiment_id=experiment_id)

    async def _request(
        self, asked: ExperimentInput, suite: EvaluationSuite, target: ExternalTarget
    ) -> tuple[dict[str, Any] | None, int, int]:
        """What a trigger says, None when every answer is there; how many are missing, and how many only to be scored."""
        trial = asked.trial
        inline: list[dict[str, JsonValue]] = []
        left = 0 if target.samples == "reference" else LARGEST_INLINE
        missing = kept = 0
        overlay: Overlay | None = None
        async for part, work in self._parts(trial):
            overlay = overlay or Overlay(trial.config_hash, work.configuration, suite.prompt)
            unanswered = [pair for pair in work.pairs if pair.kept is None]
            missing += len(unanswered)
            kept += len(work.pairs) - len(unanswered)
            for pair in unanswered:
                sample = _sample(pair, part, overlay)
                left -= len(canonical_json(sample).encode())
                if left >= 0 or target.samples == "inline":
                    inline.append(sample)
        if overlay is None or not missing:
            return None, missing, kept
        await self._publish(trial.run_id, suite, overlay)
        by_reference = len(inline) < missing
        body = {
            "optimization_id": trial.run_id,
            "candidate_id": trial.candidate_id,
            "mask_id": trial.config_hash,
            "evaluation_suite_id": suite.suite_id,
            "execution_params": target.execution_params,
            "trial_id": trial.trial_id,
            "configuration": overlay.for_every_sample,
            "context": _context(trial, suite, overlay),
            "samples": None if by_reference else inline,
            "samples_reference": _reference(trial, suite) if by_reference else None,
            "completion": {
                "workflow_id": asked.workflow_id,
                "signal": asked.signal,
                "namespace": activity.info().workflow_namespace,
            },
        }
        return body, missing, kept

    async def _set_aside(self, trial: ShardInput, calls: int, target: ExternalTarget) -> Covered:
        """Whether the budget covers the experiment. It is set aside as a whole: nobody sees what the runner does."""
        if not trial.metered:
            return Covered(calls)
        lasts = target.timeout.total_seconds()
        return await self._aside.cover(trial, EXPERIMENT, calls, target.at_most, lasts=lasts, least=calls)

    @activity.defn(name="experiment_state")
    async def experiment_state(self, key: ExperimentKey) -> ExperimentState:
        with store_errors(), runner_errors():
            _, target = await self._target(key.trial)
            try:
                reply = await self._runners.status(target.url, key.experiment_id, PATIENCE_WHEN_ASKING)
                return state_from(target.url, reply)
            except Forgotten:
                return ExperimentState(status="unknown")
            except (Unreachable, ClosedForLong) as error:
                return ExperimentState(status="unreachable", error=shorten(str(error), LONGEST_REASON))

    @activity.defn(name="collect_experiment")
    async def collect_experiment(self, key: ExperimentKey) -> ShardResult:
        async with heartbeating():
            with store_errors(), runner_errors(reading=True):
                suite, target = await self._target(key.trial)
                patience = target.patience.total_seconds()
                answers = await read_results(
                    lambda cursor: self._runners.results(target.url, key.experiment_id, cursor, patience), suite.scorers
                )
            if key.trial.metered:
                calls = sum([len(work.pairs) async for _, work in self._parts(key.trial)])
                with store_errors():
                    await self._aside.settle(key.trial, settlement_of(answers, [EXPERIMENT], calls))
            given = GivenAnswers(answers, complete=True)
            return merged([await self._shards.take_over(part, given) for part in _parts_of(key.trial)])

    @activity.defn(name="cancel_experiment")
    async def cancel_experiment(self, key: ExperimentKey) -> None:
        with store_errors(), runner_errors():
            _, target = await self._target(key.trial)
            try:
                await self._runners.cancel(target.url, key.experiment_id, PATIENCE_WHEN_ASKING)
            except Forgotten:
                return  # what nobody knows does not run

    async def _publish(self, run_id: str, suite: EvaluationSuite, overlay: Overlay) -> None:
        if self._tags is not None:
            await self._tags.put(run_id, suite, overlay)

    # -- the store ----------------------------------------------------------------------------------------------------------

    async def _work(self, shard: ShardInput) -> ShardWork:
        return await until_back(lambda: self._store.outcomes.missing(shard), self._is_away)

    async def _target(self, trial: ShardInput) -> tuple[EvaluationSuite, ExternalTarget]:
        suite = await until_back(lambda: self._store.suites.load(trial.run_id, trial.split), self._is_away)
        assert isinstance(suite.target, ExternalTarget)
        return suite, suite.target

    async def _parts(self, trial: ShardInput) -> AsyncIterator[tuple[ShardInput, ShardWork]]:
        for part in _parts_of(trial):
            yield part, await self._work(part)


def _longest(target: ActivityTarget, suite: EvaluationSuite) -> float:
    """Seconds after which the calls of a shard should be over, failed attempts and waiting for their turn included."""
    calls = target.calls(suite.sample_timeout)
    return 2 * calls.attempts * calls.timeout.total_seconds() + 60.0


def _parts_of(trial: ShardInput) -> Iterator[ShardInput]:
    """A whole trial in ranges that fit into memory."""
    for first in range(trial.first, trial.last, PAIRS_AT_ONCE):
        yield trial.model_copy(update={"first": first, "last": min(first + PAIRS_AT_ONCE, trial.last)})


def _sample(pair: UnansweredPair, shard: ShardInput, overlay: Overlay) -> dict[str, JsonValue]:
    """A sample as strangers see it."""
    return {
        **{name: part for name, part in asdict(pair.sample).items() if name != "files"},
        "tags": list(pair.sample.tags),
        "replicate": pair.replicate,
        "seed": derive_seed(shard.seed, pair.item_hash, pair.replicate),
        **overlay.differing(pair.sample.input),
    }


def _context(shard: ShardInput, suite: EvaluationSuite, overlay: Overlay) -> dict[str, JsonValue]:
    """The experiment as strangers see it; what is different for every sample is said with the sample."""
    context = asdict(context_of(shard, suite, overlay, replicate=0, seed=0))
    return {name: value for name, value in context.items() if name not in {"replicate", "seed"}}


def _headers(context: Mapping[str, Any]) -> dict[str, str]:
    headers = experiment_headers(experiment_from_input(context))
    return {name: value for name, value in headers.items() if name not in {"X-Ratchet-Replicate", "X-Ratchet-Seed"}}


def _common(shard: ShardInput, suite: EvaluationSuite, overlay: Overlay, target: ActivityTarget) -> dict[str, JsonValue]:
    return {
        "configuration": overlay.for_every_sample,
        "context": _context(shard, suite, overlay),
        "execution_params": dict(target.execution_params),
    }


def _place(pair: UnansweredPair, shard: ShardInput) -> int:
    return pair.position * shard.replicates + pair.replicate - shard.first_replicate


def _refuse_too_large(sample: Mapping[str, Any], size: int) -> None:
    if size > LARGEST_CALL:
        message = (
            f"sample {sample['id']} with the configuration has {size:,} bytes; an activity takes at most {LARGEST_CALL:,}: "
            "keep what is large behind a reference that the activity resolves"
        )
        raise ApplicationError(message, type=INVALID_REQUEST, non_retryable=True)


def _reference(trial: ShardInput, suite: EvaluationSuite) -> dict[str, JsonValue]:
    """Where a runner that may read the store finds the samples."""
    first = trial.first_replicate
    return {
        "view": "suite_items",
        "run_id": trial.run_id,
        "split": trial.split.value,
        "dataset_id": suite.dataset_id,
        "first": trial.first // trial.replicates,
        "count": (trial.last - trial.first) // trial.replicates,
        "replicates": list(range(first, first + trial.replicates)),
    }


@contextmanager
def runner_errors(*, reading: bool = False) -> Iterator[None]:
    """A runner's failures as Temporal shall see them. All patience is spent already, so hardly any is retried."""
    try:
        yield
    except Forgotten:
        raise ApplicationError(ORPHANED, type=ORPHANED_EXPERIMENT, non_retryable=True) from None
    except ClosedForLong as error:
        raise ApplicationError(
            str(error),
            type=RATE_LIMITED,
            next_retry_delay=timedelta(seconds=error.seconds),
            category=ApplicationErrorCategory.BENIGN,
        ) from error
    except (Refused, Unreachable) as error:
        kind = AGGREGATION_FAILED if reading else PERMANENT_TARGET_ERROR
        said = f"{AGGREGATION_FAILED}: {error}" if reading else str(error)
        raise ApplicationError(shorten(said), type=kind, non_retryable=True) from None
