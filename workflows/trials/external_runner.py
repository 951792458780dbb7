"""A trial that an external experiment runner runs: triggered once, waited for, and its results scored by us.

The runner signals when it is done. Signals get lost, come late, twice, or from nowhere: one only makes us ask at once, and a
durable timer makes us ask in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

from workflows.contracts import Delegating
from workflows.model.activities.external_trials import AnswersInput, ExperimentInput, ExperimentKey, ExperimentState, Triggered
from workflows.model.failures import AGGREGATION_FAILED, ORPHANED
from workflows.model.spec.targets.external import ExperimentRules
from workflows.model.trial import Resumed, ShardResult, TrialInput
from workflows.policies import ASK_RUNNER, CANCEL_EXPERIMENT, SCORE_ANSWERS, SHARD, TRIGGER
from workflows.trials.endings import GoesOn, TrialEnded, refuse_broken_scoring, to_the_end, uninterrupted
from workflows.trials.sharded import shard_of

SIGNAL = "experiment_finished"
MOST_ANNOUNCED = 100
BACKOFF = 1.5


class Announcements:
    """Which experiments are said to be over. They may be announced before anybody knows of them."""

    def __init__(self) -> None:
        self._announced: dict[str, None] = {}

    def hear(self, given: tuple[Any, ...]) -> None:
        """Take in whatever was signalled; what names no experiment is dropped, and of too many the oldest."""
        for part in given:
            experiment_id = part.get("experiment_id") if isinstance(part, Mapping) else None
            if isinstance(experiment_id, str):
                self._announced[experiment_id] = None
        while len(self._announced) > MOST_ANNOUNCED:
            del self._announced[next(iter(self._announced))]

    def take(self, experiment_id: str) -> bool:
        """Whether the experiment was announced since this was last asked."""
        return self._announced.pop(experiment_id, self) is None

    def __contains__(self, experiment_id: str) -> bool:
        return experiment_id in self._announced


class OnRunner:
    """Has one experiment run for one trial."""

    looks = ()

    def __init__(self, trial: TrialInput, rules: ExperimentRules, announcements: Announcements) -> None:
        self._trial = trial
        self._whole = shard_of(trial, trial.first_pair, trial.last_pair)
        self._rules = rules
        self._announcements = announcements
        self._resumed = trial.resumed
        self._started_at = trial.resumed.started_at if trial.resumed else workflow.info().start_time
        self.experiment_id: str | None = None
        self._triggered = Triggered()

    async def run(self) -> list[ShardResult]:
        """Trigger, wait, collect. Whatever else ends this, an experiment that may be running is cancelled."""
        await self._trigger()
        if self._triggered.exhausted is not None:
            pairs = self._whole.last - self._whole.first
            short = {"exhausted": self._triggered.exhausted, "team_rest": self._triggered.team_rest}
            return [ShardResult(missing=pairs, **short)]
        if self.experiment_id is None:
            return [await self._scored()] if self._triggered.kept else []
        key = ExperimentKey(trial=self._whole, experiment_id=self.experiment_id)
        try:
            state = await self._finished(key)
        except GoesOn:
            raise
        except (Exception, asyncio.CancelledError):
            await to_the_end(self._cancel(key))
            raise
        _refuse_unless_completed(state)
        # What the experiment measured is there: whatever ends the trial now, it is taken over to the end.
        return [await uninterrupted(self._collected(key))]

    async def _trigger(self) -> None:
        asked = ExperimentInput(trial=self._whole, workflow_id=workflow.info().workflow_id, signal=SIGNAL)
        triggering = asyncio.ensure_future(
            workflow.execute_activity_method(
                Delegating.trigger_experiment,
                asked,
                task_queue=self._trial.evaluation_task_queue,
                summary=f"trigger the experiment of {self._trial.candidate.candidate_id}",
                **TRIGGER,
            )
        )
        try:
            self._triggered = await asyncio.shield(triggering)
            self.experiment_id = self._triggered.experiment_id
        except asyncio.CancelledError:
            triggering.cancel()
            [late] = await to_the_end(asyncio.gather(triggering, return_exceptions=True))
            if isinstance(late, Triggered) and late.experiment_id is not None:
                self.experiment_id = late.experiment_id
                await to_the_end(self._cancel(ExperimentKey(trial=self._whole, experiment_id=late.experiment_id)))
            raise

    async def _finished(self, key: ExperimentKey) -> ExperimentState:
        """The experiment's end: announced by the runner, or found by asking, more and more rarely."""
        pause = self._rules.poll
        heard = self._resumed is not None
        silent_since: datetime | None = None
        while True:
            if not heard:
                heard = await self._heard_within(min(pause, self._left()), key.experiment_id)
                pause = self._rules.poll if heard else min(pause * BACKOFF, self._rules.longest_poll)
            heard = False
            state = await self._state(key)
            if state.status in {"completed", "failed", "cancelled", "timeout", "unknown"}:
                return state
            silent_since = self._silent_since(silent_since, state)
            if self._left() <= timedelta(0):
                limit = self._rules.timeout.total_seconds()
                raise TrialEnded("timeout", f"the experiment {key.experiment_id} took longer than {limit:g} s")
            if workflow.info().is_continue_as_new_suggested():
                raise GoesOn(Resumed(started_at=self._started_at))

    def _silent_since(self, since: datetime | None, state: ExperimentState) -> datetime | None:
        """Since when the runner does not answer. Beyond all patience the trial is given up."""
        if state.status != "unreachable":
            return None
        now = workflow.now()
        if since is not None and now - since >= self._rules.patience:
            raise TrialEnded("error", f"{AGGREGATION_FAILED}: the runner does not say how the experiment stands: {state.error}")
        return since or now

    def _left(self) -> timedelta:
        return max(timedelta(0), self._started_at + self._rules.timeout - workflow.now())

    async def _heard_within(self, pause: timedelta, experiment_id: str) -> bool:
        try:
            await workflow.wait_condition(lambda: experiment_id in self._announcements, timeout=pause)
        except TimeoutError:
            return False
        return self._announcements.take(experiment_id)

    async def _state(self, key: ExperimentKey) -> ExperimentState:
        return await workflow.execute_activity_method(
            Delegating.experiment_state,
            key,
            task_queue=self._trial.evaluation_task_queue,
            summary=f"how experiment {key.experiment_id[:100]} stands",
            **ASK_RUNNER,
        )

    async def _collected(self, key: ExperimentKey) -> ShardResult:
        result = await workflow.execute_activity_method(
            Delegating.collect_experiment,
            key,
            task_queue=self._trial.evaluation_task_queue,
            summary=f"read and score the results of experiment {key.experiment_id[:100]}",
            **SHARD,
        )
        return refuse_broken_scoring(result)

    async def _scored(self) -> ShardResult:
        """Answers of an experiment that is over, whose scorer was away at the time."""
        result = await workflow.execute_activity_method(
            Delegating.score_answers,
            AnswersInput(shard=self._whole, kept=True),
            task_queue=self._trial.evaluation_task_queue,
            summary=f"{self._trial.candidate.candidate_id}: score those that were kept",
            **SCORE_ANSWERS,
        )
        return refuse_broken_scoring(result)

    async def _cancel(self, key: ExperimentKey) -> None:
        try:
            await workflow.execute_activity_method(
                Delegating.cancel_experiment,
                key,
                task_queue=self._trial.evaluation_task_queue,
                summary=f"cancel experiment {key.experiment_id[:100]}",
                **CANCEL_EXPERIMENT,
            )
        except ActivityError as error:
            workflow.logger.warning(f"experiment {key.experiment_id} could not be cancelled: {error.cause}")


def _refuse_unless_completed(state: ExperimentState) -> None:
    said = f": {state.error}" if state.error else ""
    match state.status:
        case "unknown":
            raise TrialEnded("error", ORPHANED)
        case "failed":
            raise TrialEnded("error", f"the experiment failed{said}")
        case "cancelled" | "timeout" as ended:
            how = "was cancelled by its runner" if ended == "cancelled" else "ran out of its runner's time"
            raise TrialEnded(ended, f"the experiment {how}{said}")
