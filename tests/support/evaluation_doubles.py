"""A store in memory that can be away, and the frame for running activities in tests."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.endpoints.chat_models import ChatModels, Patience
from activities.endpoints.gate import Gates
from activities.evaluation import ShardEvaluation
from activities.plugins.loader import Plugins
from activities.settings import ALLOWED_FILE
from activities.shards.call_journal import CallJournal
from ratchet import Record, Sample
from store.budget_leases import LeaseBalance, Leased, LeaseKey, LeaseRequest
from store.model_answer import ModelAnswer
from store.read.search_history import Searched
from tests.support.allowed import FILE, lists_of
from workflows.model.activities.computation import Bounded, StoredTrial
from workflows.model.run.amounts import Amount, total
from workflows.model.run.candidates import Candidate
from workflows.model.run.clock import RunClock
from workflows.model.run.contract import HistoryPage, Proposed, TrialRow
from workflows.model.spec.judgement import MustPass
from workflows.model.spec.limits import AdjustedLimits
from workflows.model.spec.scorers import ExactScorer, Objective, PythonScorer, Scorer
from workflows.model.spec.targets.python import ChatTarget, HttpTarget, PythonTarget
from workflows.model.suite import EvaluationSuite, KeptAnswer, MeasuredSample, Outcome
from workflows.model.trial import Conclusion, Purpose, ShardInput, Split, TrialInput, TrialResult
from workflows.rules.scoring.tally import Tally

PLUGINS = "tests.support.evaluation_plugins"
QUICK = Patience(seconds=5.0, attempts=4, first_delay=0.01, longest_delay=0.02)


def plugin(name: str) -> str:
    return f"{PLUGINS}:{name}"


def samples(count: int, **more: Any) -> list[Sample]:
    """Samples whose right answer is in their input."""
    return [Sample(f"s{n}", {"word": f"w{n}", **more}, f"w{n}") for n in range(count)]


def misbehaviours(*how: str) -> list[Sample]:
    return [Sample(f"s{n}", {"how": one}, one) for n, one in enumerate(how)]


def suite(target: PythonTarget | ChatTarget | HttpTarget | str, **more: Any) -> EvaluationSuite:
    """A suite for a target, or for a plug-in of this name, scored by exact equality unless told otherwise."""
    if isinstance(target, str):
        target = PythonTarget(kind="python", ref=plugin(target))
    given: dict[str, Any] = {
        "run_id": "run",
        "split": Split.ALL,
        "suite_id": "suite",
        "dataset_id": "dataset",
        "samples": 1,
        "evaluator": "evaluator",
        "target": target,
        "scorers": [ExactScorer(kind="exact")],
        "objective": Objective(),
    }
    given |= more
    given.setdefault("metric", given["scorers"][0].score_name)
    return EvaluationSuite(**given)


def scored_by(name: str, **more: Any) -> list[Scorer]:
    return [PythonScorer(kind="python", ref=plugin(name), **more)]


@dataclass
class Pair:
    position: int
    item_hash: str
    replicate: int
    sample: Sample
    kept: KeptAnswer | None = None


@dataclass
class Work:
    suite: EvaluationSuite
    configuration: dict[str, Any]
    pairs: list[Pair]
    found: int
    adjusted: AdjustedLimits


@dataclass
class MemoryStore:
    """What PostgreSQL does in production, with a switch for an outage."""

    the_suite: EvaluationSuite
    samples: list[Sample]
    configuration: dict[str, Any] = field(default_factory=lambda: {"a": 1})
    outcomes: dict[tuple[str, int], Outcome] = field(default_factory=dict)
    kept: dict[tuple[str, int], KeptAnswer] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    refusals_left: int = 0
    refusals_when_recording: int = 0
    refuses_for_good: bool = False
    adjusted: AdjustedLimits = field(default_factory=AdjustedLimits)
    proposals: dict[tuple[str, int, int], Proposed] = field(default_factory=dict)
    answers: dict[str, ModelAnswer] = field(default_factory=dict)
    recorded: list[tuple[TrialResult, Sequence[float | None]]] = field(default_factory=list)
    evidence: list[Record] = field(default_factory=list)

    def _perhaps_away(self) -> None:
        if self.refuses_for_good:
            raise ValueError("the table is not there")
        if self.refusals_left > 0:
            self.refusals_left -= 1
            raise ConnectionError("connection refused")

    async def load_shard(self, shard: ShardInput) -> Work:
        self._perhaps_away()
        wanted = [
            Pair(position, item, replicate, sample, self.kept.get((item, replicate)))
            for position, sample in enumerate(self.samples)
            for item in [f"item-{sample.id}"]
            for replicate in range(shard.first_replicate, shard.first_replicate + shard.replicates)
        ][shard.first : shard.last]
        missing = [pair for pair in wanted if (pair.item_hash, pair.replicate) not in self.outcomes]
        return Work(self.the_suite, self.configuration, missing, len(wanted) - len(missing), AdjustedLimits())

    async def commit_outcomes(
        self,
        shard: ShardInput,
        evaluator: str,
        outcomes: Sequence[Outcome],
        lease: tuple[LeaseKey, LeaseBalance] | None = None,
        kept: Sequence[KeptAnswer] = (),
    ) -> None:
        self._perhaps_away()
        self.kept.update({(answer.item_hash, answer.replicate): answer for answer in kept})
        if outcomes:
            self.batches.append(len(outcomes))
        for outcome in outcomes:
            self.outcomes.setdefault((outcome.item_hash, outcome.replicate), outcome)

    async def suite(self, run_id: str, split: Split) -> EvaluationSuite:
        return self.the_suite.model_copy(update={"samples": len(self.samples)})

    async def measured(
        self, run_id: str, split: Split, config_hash: str, evaluator: str, first_replicate: int, replicates: int
    ) -> list[MeasuredSample]:
        return [
            MeasuredSample(
                position=position,
                weight=sample.weight,
                replicate=outcome.replicate,
                status=outcome.status,
                scores=outcome.scores,
                passed=outcome.passed,
                tokens=outcome.tokens,
                cost=outcome.cost,
                latency_ms=outcome.latency_ms,
                ttft_ms=outcome.ttft_ms,
                labels={n: (d["labels"][0], d["labels"][1]) for n, d in outcome.per_score.items() if d.get("labels")},
                scoring_tokens=sum(d.get("tokens", 0) for d in outcome.per_score.values()),
            )
            for position, sample in enumerate(self.samples)
            for (item_hash, _), outcome in sorted(self.outcomes.items())
            if item_hash == f"item-{sample.id}"
        ]

    async def tally(self, tally: Tally, config_hash: str, first_replicate: int, replicates: int) -> None:
        suite = tally.suite
        tally.add(await self.measured(suite.run_id, suite.split, config_hash, suite.evaluator, first_replicate, replicates))

    async def record_trial(self, result: TrialResult, conclusion: Conclusion, sample_means: Sequence[float | None]) -> None:
        if self.refusals_when_recording > 0:
            self.refusals_when_recording -= 1
            raise ConnectionError("connection refused")
        self.recorded.append((result, sample_means))

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
        return self.evidence[:limit]

    async def stored_trials(self, run_id: str) -> list[StoredTrial]:
        return []

    async def history(self, page: HistoryPage) -> tuple[TrialRow, ...]:
        return ()

    async def searched(self, run_id: str, bounded: Bounded) -> Searched:
        return Searched([], [])

    async def first_samples(self, run_id: str, split: Split, limit: int) -> list[Sample]:
        return []

    async def of_earlier_runs(self, run_ids: Sequence[str], bounded: Bounded) -> list[StoredTrial]:
        return []

    async def must_pass(self, run_id: str, split: Split, named: MustPass) -> dict[int, str]:
        return {}

    async def overlay(self, config_hash: str) -> dict[str, Any]:
        return self.configuration

    async def proposal(self, run_id: str, round_index: int, index: int) -> Proposed | None:
        return self.proposals.get((run_id, round_index, index))

    async def proposal_of(self, retry_of: str, round_index: int, index: int, parent_hash: str) -> Proposed | None:
        return self.proposals.get((retry_of, round_index, index))

    async def model_answer(self, run_id: str, request_hash: str) -> ModelAnswer | None:
        return self.answers.get(request_hash)

    async def keep_model_answer(
        self, run_id: str, request_hash: str, answer: ModelAnswer, lease: tuple[LeaseKey, LeaseBalance] | None = None
    ) -> ModelAnswer:
        self._perhaps_away()
        return self.answers.setdefault(request_hash, answer)

    async def lease(self, key: LeaseKey, balance: LeaseBalance, request: LeaseRequest) -> Leased:
        raise AssertionError("budgets are proven with PostgreSQL")

    async def write_balance(self, key: LeaseKey, balance: LeaseBalance) -> None:
        raise AssertionError("budgets are proven with PostgreSQL")

    async def close_lease(self, key: LeaseKey, balance: LeaseBalance) -> None:
        raise AssertionError("budgets are proven with PostgreSQL")

    async def run_clock(self, run_id: str) -> RunClock:
        return RunClock()

    async def paid_for_kept(self, trial: TrialInput) -> Amount:
        return total(Amount(1, answer.tokens, answer.cost) for pair, answer in self.kept.items() if pair not in self.outcomes)

    async def settle_trial(self, trial: TrialInput) -> Amount:
        raise AssertionError("budgets are proven with PostgreSQL")

    async def store_proposal(
        self,
        run_id: str,
        round_index: int,
        index: int,
        proposed: Proposed,
        parent_hash: str = "",
        lease: tuple[LeaseKey, LeaseBalance] | None = None,
    ) -> Proposed:
        self._perhaps_away()
        return self.proposals.setdefault((run_id, round_index, index), proposed)

    async def adjusted_limits(self, run_id: str) -> AdjustedLimits:
        return self.adjusted

    def by_sample(self) -> dict[str, Outcome]:
        """Outcomes by sample id; for shards with one replicate."""
        return {item_hash.removeprefix("item-"): outcome for (item_hash, _), outcome in sorted(self.outcomes.items())}


@asynccontextmanager
async def evaluation(
    store: MemoryStore, *, environment: Mapping[str, str] | None = None, patience: Patience = QUICK, **more: Any
) -> AsyncIterator[ShardEvaluation]:
    """A worker's evaluation over a store, with short patience."""
    models = ChatModels(Gates(), lists_of({ALLOWED_FILE: str(FILE), **(environment or {})}), patience=patience)
    with tempfile.TemporaryDirectory() as folder:
        given = {"journal": CallJournal(Path(folder)), **more}
        evaluating = ShardEvaluation(
            store, models, Plugins([PLUGINS]), is_away=lambda error: isinstance(error, ConnectionError), **given
        )
        try:
            yield evaluating
        finally:
            await evaluating.close()


def shard(last: int, **more: Any) -> ShardInput:
    given: dict[str, Any] = {
        "run_id": "run",
        "trial_id": "run/r0/abc",
        "candidate_id": "c0",
        "config_hash": "f" * 64,
        "split": Split.ALL,
        "first": 0,
        "last": last,
        "replicates": 1,
    }
    return ShardInput(**{**given, **more})


def trial(count: int, **more: Any) -> TrialInput:
    candidate = Candidate(candidate_id="c0", config_hash="f" * 64, configuration={"a": 1}, round=0, index=0)
    given: dict[str, Any] = {
        "run_id": "run",
        "trial_id": "run/r0/abc",
        "candidate": candidate,
        "purpose": Purpose.CANDIDATE,
        "split": Split.ALL,
        "samples": count,
        "evaluation_task_queue": "queue",
    }
    return TrialInput(**{**given, **more})


def activity_environment(
    *, attempt: int = 1, heartbeat_timeout: timedelta | None = None, lost: int | None = None
) -> ActivityEnvironment:
    """An attempt after others, of which so many were lost with their worker, as they died in the middle of a call."""
    environment = ActivityEnvironment()
    lost = attempt - 1 if lost is None else lost
    told = [{"attempts": {"lost": lost, "begun": 0}}, {"calls": {"place": "elsewhere", "killed": lost}}] if lost else []
    environment.info = dataclasses.replace(
        environment.info, attempt=attempt, heartbeat_timeout=heartbeat_timeout, heartbeat_details=told
    )
    return environment
