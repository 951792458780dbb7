"""Work that needs targets, scorers and plug-ins: evaluating shards, concluding trials, asking for new values."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.agents.mcp_servers import McpServers
from activities.budget.lease import BudgetLease, fresh_nonce
from activities.concurrency.in_flight_limits import Caller, RunLimits
from activities.endpoints.breaker import Breakers
from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels
from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import Isolation
from activities.plugins.loader import VERSION, Plugins, invalid
from activities.plugins.lost_attempts import ISOLATED_AFTER, announce, attempts_before, refuse_killers
from activities.plugins.own_activities import OwnActivities
from activities.plugins.probe import LONGEST_IMPORT, import_elsewhere
from activities.preparing.extras import missing_extras
from activities.proposals.computation_runner import Computing
from activities.proposals.custom_optimizers import OwnOptimizers
from activities.proposals.custom_stop_policies import StopPolicies
from activities.proposals.new_values import Proposing
from activities.proposals.optimizer_classes import refuse_no_optimizer
from activities.releases.candidate_tags import TemporaryTags
from activities.scorers import ScorerTools
from activities.scorers.bounded_patterns import BoundedMatching
from activities.scorers.known_replies import AllReplies
from activities.shards.attempt import Attempt, CallsEnd
from activities.shards.call_journal import CallJournal, ShardCalls
from activities.shards.conclusion import Concluding
from activities.shards.conversations import Conversations
from activities.shards.evidence import Judging
from activities.shards.heartbeat import heartbeating
from activities.shards.outcome_batches import OutcomeBatches, until_back
from activities.shards.pair_calls import PairCall, number_of
from activities.shards.sample_outcomes import PairToAnswer
from activities.shards.shard import ShardAtWork
from activities.shards.shard_endings import finished_or_handed_back
from activities.shards.silent_shards import SilentShards
from activities.targets import Answering, TargetTools, target_for
from activities.targets.already_answered import GivenAnswers
from activities.targets.http import HttpEndpoints
from store.budget_leases import LeaseBalance, LeaseKey, Second
from store.errors import store_errors
from store.write.answers.outcomes import ShardWork, UnansweredPair
from store.write.repositories import Store
from workflows.contracts import Evaluating
from workflows.model.activities.computation import Computed, ComputeInput
from workflows.model.activities.judge import JudgeInput, Judgements, RaceLookInput
from workflows.model.activities.optimizer_steps import CustomStepInput, CustomStepResult
from workflows.model.activities.stop_policies import PolicyAnswer, PolicyInput
from workflows.model.run.contract import Inspected, InspectInput, ProposalInput, Proposed
from workflows.model.spec.judgement import RaceDecision
from workflows.model.suite import EvaluationSuite, Outcome, UnscoredAnswer
from workflows.model.trial import Conclusion, ShardInput, ShardResult, Split, TrialResult
from workflows.rules.overlay import Overlay
from workflows.rules.scoring.merged_parts import ending_of

log = structlog.get_logger("evaluation")

OTHER_CODE = "PluginMismatch"


class ShardEvaluation(Evaluating):
    """One per worker process: its clients, gates, limits and threads are shared by everything that runs in it."""

    def __init__(
        self,
        store: Store,
        models: ChatModels,
        plugins: Plugins,
        *,
        is_away: Callable[[BaseException], bool],
        limits: RunLimits | None = None,
        tags: TemporaryTags | None = None,
        calls: PluginCalls | None = None,
        journal: CallJournal | None = None,
        calls_end: CallsEnd | None = None,
        own_activities: OwnActivities | None = None,
    ) -> None:
        """`calls_end` is set by whoever knows that this worker must not begin any further call. What is observed of calls,
        `models` knows."""
        self.meters = models.observation.meters
        self._journal = journal or CallJournal()
        self._calls_end = calls_end or CallsEnd()
        self._store = store
        self._plugins = plugins
        self._is_away = is_away
        self._tags = tags
        self._limits = limits or RunLimits(store.runs.adjusted_limits, forget=models.gates.limits.forget)
        self._calls = calls or PluginCalls()
        self._matching = BoundedMatching()
        self._isolation = Isolation()
        self._models = models
        self._http = HttpEndpoints(models.gates, models.patience, models.lists, models.observation)
        self._mcp = McpServers(models.lists)
        self._targets = TargetTools(
            models, plugins, self._calls, self._isolation, http=self._http, files=store.files, mcp=self._mcp
        )
        self._breakers = Breakers()
        self._scorers = ScorerTools(
            plugins, self._calls, self._matching, models=models, own_activities=own_activities, files=store.files
        )
        self._judging = Judging(store)
        self._computing = Computing(store, plugins, self._calls, self._isolation)
        self._stop_policies = StopPolicies(store, plugins, self._calls, self._isolation)
        self._own_optimizers = OwnOptimizers(store, plugins, self._calls, self._isolation)
        self._concluding = Concluding(store, plugins, self._calls, self._judging, self._isolation)
        self._silent_shards = SilentShards(store, self._journal)
        self._proposing = Proposing(store, models, plugins, self._calls, is_away, self._isolation, own_activities)

    async def close(self) -> None:
        """End what this worker started."""
        await self._matching.close()
        await self._models.close()
        await self._http.close()
        await self._mcp.close()
        await self._targets.processes.close()

    @activity.defn(name="inspect_plugins")
    async def inspect_plugins(self, request: InspectInput) -> Inspected:
        refuse_killers(list(request.references))
        if missing := [*missing_extras(request.search)]:
            raise invalid("\n".join(missing))
        async with heartbeating():
            await import_elsewhere(self._plugins, list(request.references), LONGEST_IMPORT)
            # Importing runs other people's code, which may take its time.
            try:
                async with asyncio.timeout(LONGEST_IMPORT):
                    inspected: Inspected = await self._calls.threads.run(lambda: self._inspected(request))
                    return inspected
            except TimeoutError:
                names = ", ".join(request.references)
                raise invalid(f"plug-ins {names}: importing them took longer than {LONGEST_IMPORT:g} s; import less") from None

    def _inspected(self, request: InspectInput) -> Inspected:
        if request.optimizer is not None:
            refuse_no_optimizer(self._plugins, request.optimizer)
        evaluators = self._plugins.fingerprints(request.references, request.arguments)
        return Inspected(evaluators=evaluators, descriptions=self._plugins.descriptions(request.describable))

    @activity.defn(name="evaluate_shard")
    async def evaluate_shard(self, shard: ShardInput) -> ShardResult:
        info = activity.info()
        attempt = Attempt(self._calls_end)
        calls = self._journal.of_shard(f"{info.workflow_run_id}/{info.activity_id}", info.attempt, info.heartbeat_details)

        def tell() -> tuple[Mapping[str, Any]]:
            attempt.ticked()
            return (calls.told(),)

        async with heartbeating(tell):
            try:
                result = await self._evaluate(shard, attempt=attempt, calls=calls)
            finally:
                calls.close()
            log.info("shard done", evaluated=result.evaluated, found=result.found, missing=result.missing)
            self.meters.answers_found.add(result.found)
            self.meters.answers_missing.add(result.missing)
            # One that was cancelled hands back what it has; what that makes of the trial, its workflow knows.
            # After a lost attempt concluding is an activity of its own, which knows what its own attempts came to.
            if shard.concludes is None or activity.is_cancelled() or attempts_before().lost:
                self._over(calls)
                return result
            conclusion = shard.concludes.model_copy(update=ending_of([result]))
            # A store that is away is waited for here: another attempt would ask again for what stayed without an answer.
            concluded = await until_back(lambda: self._conclude(conclusion), self._is_away)
            self._over(calls)
            return result.model_copy(update={"trial": concluded})

    def _over(self, calls: ShardCalls) -> None:
        """The shard is done: what its attempts have lost is certain now."""
        self.meters.lost_calls.add(calls.lost)
        calls.over()

    async def take_over(self, shard: ShardInput, given: GivenAnswers, replies: AllReplies | None = None) -> ShardResult:
        """Score and commit answers that came from elsewhere, with what judges said of them. For activities, which heartbeat
        while they do it."""
        return await self._evaluate(shard, given, replies=replies)

    def scorers_of(self, suite: EvaluationSuite) -> ScorerTools:
        """What the scorers of a suite share, for whoever asks judges in another way."""
        return replace(self._scorers, prices=suite.prices)

    def target_of(self, suite: EvaluationSuite) -> Answering:
        """The target of a suite, for whoever asks it in another way."""
        return target_for(suite, self._targets, isolate=False)

    async def score_kept(self, shard: ShardInput) -> ShardResult:
        """Score answers that came from elsewhere at another time. For activities, which heartbeat while they do it."""
        return await self._evaluate(shard, GivenAnswers((), complete=False, kept=True))

    async def _evaluate(
        self,
        shard: ShardInput,
        given: GivenAnswers | None = None,
        attempt: Attempt | None = None,
        calls: ShardCalls | None = None,
        replies: AllReplies | None = None,
    ) -> ShardResult:
        with store_errors():
            if replies is None and shard.judged:
                execution = str(activity.info().workflow_run_id)
                said = await until_back(lambda: self._store.judge_replies.load(shard, execution), self._is_away)
                replies = AllReplies(said, waits=False)
            work = await until_back(lambda: self._store.outcomes.missing(shard), self._is_away)
            if given is None and work.suite.rescore_of is not None:
                given = GivenAnswers((), complete=True, kept=True)  # what is not there is missing
            wanted = [pair for pair in work.pairs if given is None or given.concern(pair)]
            if calls is not None:
                unanswered = [number_of(shard, pair.position, pair.replicate) for pair in wanted if pair.kept is None]
                calls.goes_on(unanswered, shard.concurrent_samples)
            metered = shard.metered or work.adjusted.budgeted
            if not wanted:
                return ShardResult(found=work.found, lost=calls.lost if calls is not None and not metered else 0)
            await self._refuse_other_code(work.suite.plugins)
            overlay = Overlay(shard.config_hash, work.configuration, work.suite.prompt)
            if self._tags is not None and given is None:
                await self._tags.put(shard.run_id, work.suite, overlay)
            conversations = None if given is not None else await self._conversations(shard, work.suite, wanted, calls)
            left = len(wanted) if conversations is None else conversations.left(len(wanted))
            isolate = await _isolates(work.suite, calls, left, scores_kept=any(pair.kept is not None for pair in wanted))
            budget_lease = self._budget_lease(shard, work.suite, len(wanted), given, calls) if metered else None
            if conversations is not None:
                conversations.budget_lease = budget_lease
            limits = self._limits.of(
                _caller(shard.run_id, work),
                shard.concurrent_samples,
                trial_id=shard.trial_id,
                trial_capacity=work.suite.concurrent_samples_per_trial,
            )
            async with limits as limit, budget_lease.open() if budget_lease else nullcontext():
                at_work = ShardAtWork(
                    shard,
                    work.suite,
                    overlay,
                    [PairToAnswer(p.position, p.item_hash, p.replicate, p.sample, p.answer_id, p.kept) for p in wanted],
                    target=given or target_for(work.suite, self._targets, isolate=isolate),
                    scorers=replace(self._scorers, isolation=self._isolation if isolate else None, prices=work.suite.prices),
                    limit=limit,
                    batches=OutcomeBatches(
                        self._commit(shard, work.suite, budget_lease, elsewhere=_is_from_elsewhere(work.suite, given)),
                        self._is_away,
                    ),
                    breaker=self._breakers.of(shard.trial_id) if given is None else None,
                    budget_lease=budget_lease,
                    given=given,
                    needs_budget_lease=lambda: self._limits.budgeted(shard.run_id),
                    attempt=attempt,
                    calls=calls,
                    conversations=conversations,
                    replies=replies,
                )
                await finished_or_handed_back(at_work)
                goes_on = at_work.waits_for_a_budget_lease and not activity.is_cancelled()
            done = at_work.result(work.found)
            if not (goes_on and done.missing):
                lost = calls.lost if calls is not None and not metered else 0
                return done.model_copy(update={"metered": metered, "lost": lost})
            lost = calls.lost if calls is not None else 0
            rest = await self._evaluate(shard, given, attempt, calls, replies)
            return rest.model_copy(update={"evaluated": rest.evaluated + done.evaluated, "found": done.found, "lost": lost})

    async def _conversations(
        self, shard: ShardInput, suite: EvaluationSuite, wanted: Sequence[UnansweredPair], calls: ShardCalls | None
    ) -> Conversations | None:
        """Those of a target that answers in turns, with what attempts before have kept of them."""
        if not suite.target.keeps_turns:
            return None
        pairs = [(pair.item_hash, pair.replicate) for pair in wanted if pair.kept is None]
        kept = await until_back(lambda: self._store.turns.load(shard, suite, pairs), self._is_away)
        return Conversations(self._store.turns, shard, suite, kept, self._is_away, calls)

    def _budget_lease(
        self, shard: ShardInput, suite: EvaluationSuite, wanted: int, given: GivenAnswers | None, calls: ShardCalls | None
    ) -> BudgetLease:
        info = activity.info()
        left_open = calls.left_open if calls is not None else None
        key = LeaseKey(
            shard.run_id,
            f"{info.workflow_id}#{info.activity_id}",
            info.attempt,
            fresh_nonce(),
            candidate_id=shard.candidate_id,
            trial_id=shard.trial_id,
            confirming=shard.split is Split.TEST,
            left_open=None if left_open is None else tuple(left_open.items()),
        )
        steps = max(len(suite.target.requests), 1) if given is None else 1
        samples_each = 1 if given is None else 0
        return BudgetLease(
            self._store.budgets,
            key,
            self._is_away,
            most_needed=wanted,
            samples_each=samples_each,
            calls_each=steps,
            meters=self.meters,
        )

    def _commit(
        self, shard: ShardInput, suite: EvaluationSuite, budget_lease: BudgetLease | None, *, elsewhere: bool
    ) -> Callable[[Sequence[Outcome | UnscoredAnswer]], Awaitable[object]]:
        async def commit(
            batch: Sequence[Outcome | UnscoredAnswer], lease: tuple[LeaseKey, Callable[[Second], LeaseBalance]] | None = None
        ) -> Second:
            outcomes = [entry for entry in batch if isinstance(entry, Outcome)]
            kept = [entry for entry in batch if isinstance(entry, UnscoredAnswer)]
            second = await self._store.outcomes.commit(shard, suite, outcomes, lease, kept)
            self.meters.stored(suite.target.kind, batch, elsewhere=elsewhere)
            return second

        if budget_lease is None:
            return commit
        return lambda batch: budget_lease.stored_with(
            lambda key, balance: commit(batch, (key, balance)),
            {answer.answer_id for answer in batch if answer.answer_id is not None},
        )

    @activity.defn(name="conclude_trial")
    async def conclude_trial(self, conclusion: Conclusion) -> TrialResult:
        async with heartbeating():
            if conclusion.ended == "timeout":
                await self._score_what_is_answered(conclusion)
            with store_errors():
                conclusion = await self._silent_shards.heard(conclusion, str(activity.info().workflow_run_id))
            return await self._conclude(conclusion)

    async def _score_what_is_answered(self, conclusion: Conclusion) -> None:
        """A trial whose answers were all there in time counts, also when its time was over before they were scored."""
        with store_errors():
            if await self._concluding.lacks_only_scores(conclusion):
                await self.score_kept(conclusion.trial.whole)

    async def _conclude(self, conclusion: Conclusion) -> TrialResult:
        with store_errors():
            result = await self._concluding.conclude(conclusion)
        log.info("trial concluded", status=result.status, score=result.objective_score, coverage=result.coverage)
        self.meters.trials.add(1, result.status)
        return result

    @activity.defn(name="decide_race")
    async def decide_race(self, asked: RaceLookInput) -> RaceDecision:
        async with heartbeating():
            with store_errors():
                return await self._judging.decide_race(asked)

    @activity.defn(name="judge")
    async def judge(self, asked: JudgeInput) -> Judgements:
        async with heartbeating():
            with store_errors():
                return await self._judging.judge(asked)

    @activity.defn(name="propose_values")
    async def propose_values(self, request: ProposalInput) -> Proposed:
        attempt = Attempt(self._calls_end)
        async with heartbeating(attempt.ticked_in_silence):
            caller = Caller(request.run_id, request.priority, request.rate_limits)
            with store_errors():
                return await self._proposing.propose(request, CallContext(caller, beginning=PairCall(attempt)))

    @activity.defn(name="compute")
    async def compute(self, request: ComputeInput) -> Computed:
        async with heartbeating():
            with store_errors():
                return await self._computing.compute(request)

    @activity.defn(name="step_optimizer")
    async def step_optimizer(self, step: CustomStepInput) -> CustomStepResult:
        async with heartbeating():
            await import_elsewhere(self._plugins, [step.optimizer.ref], LONGEST_IMPORT)
            await self._refuse_other_code({step.optimizer.ref: step.fingerprint} if step.fingerprint else {})
            with store_errors():
                return await self._own_optimizers.step(step)

    @activity.defn(name="ask_stop_policy")
    async def ask_stop_policy(self, asked: PolicyInput) -> PolicyAnswer:
        async with heartbeating():
            await import_elsewhere(self._plugins, [asked.ref], LONGEST_IMPORT)
            await self._refuse_other_code({asked.ref: asked.fingerprint} if asked.fingerprint else {})
            with store_errors():
                return await self._stop_policies.ask(asked)

    async def _refuse_other_code(self, plugins: Mapping[str, str]) -> None:
        """A worker whose plug-ins are not those that the run began with must not answer for it."""
        judged = {reference: hashed for reference, hashed in plugins.items() if not hashed.startswith(VERSION)}
        await import_elsewhere(self._plugins, list(judged), LONGEST_IMPORT)
        for reference, expected in judged.items():
            mine = await self._calls.threads.run(partial(self._plugins.fingerprint, reference, None))
            if mine != expected:
                raise ApplicationError(
                    f"plug-in {reference} on this worker ({mine[:12]}…) is not the code that the run began with "
                    f"({expected[:12]}…); a worker with that code must do this, or start a new run with the new code",
                    type=OTHER_CODE,
                )


async def _isolates(suite: EvaluationSuite, calls: ShardCalls | None, left: int, *, scores_kept: bool) -> bool:
    """Whether plug-ins of a shard may be what killed the workers before. Gives up where they still are in processes of
    their own: attempts after which the store has something new do not count for that."""
    before = attempts_before()
    if calls is None:
        lost, in_vain = before.lost, before.lost
    else:
        lost, in_vain = calls.survived(before.unfinished, left, scores_kept=scores_kept)
        if before.unfinished:
            await announce(calls.told())
    refuse_killers(list(suite.plugins), in_vain)
    return lost >= ISOLATED_AFTER


def _is_from_elsewhere(suite: EvaluationSuite, given: GivenAnswers | None) -> bool:
    """Whether answers were asked for by somebody else, and not by another run either."""
    return given is not None and suite.rescore_of is None


def _caller(run_id: str, work: ShardWork) -> Caller:
    """The run with its limits of now; the suite has those of the spec."""
    suite, adjusted = work.suite, work.adjusted
    return Caller(
        run_id,
        suite.priority if adjusted.priority is None else adjusted.priority,
        suite.rate_limits if adjusted.rate_limits is None else adjusted.rate_limits,
    )
