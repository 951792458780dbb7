"""How far a run goes: stop policies, budgets and limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ratchet._frozen import SpecPart
from ratchet._values import ShortText
from workflows.model.run.first_look import FirstLookMode
from workflows.model.run.numbers import Cost, Count, Distance, ScoreValue
from workflows.model.spec.batch_options import BatchOptions
from workflows.model.spec.durations import Duration
from workflows.model.spec.extensions.named_plugins import Description, PluginReference
from workflows.model.spec.limits import DEFAULT_PRIORITY, Priority, RateLimits
from workflows.model.spec.task_queues import TaskQueue


class StopPolicy(SpecPart):
    """A callable `(facts: ratchet.StopFacts) -> str | None`, sync or async: why the run ends now, or None to go on."""

    ref: PluginReference
    """`package.module:attribute`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""
    description: Description | None = None
    """What reports call it. Default: what its own `description()` returns, or else its reference."""

    @model_validator(mode="before")
    @classmethod
    def _bare_reference(cls, value: Any) -> Any:
        return {"ref": value} if isinstance(value, str) else value


class Stop(SpecPart):
    """When to stop. The first rule to trigger ends the run. A `score` that is left out, and a 0 elsewhere, is no rule."""

    max_rounds: Annotated[int, Field(ge=0, le=100_000)] = 19
    """Rounds after the baseline. With it they are 20 iterations, as histories count them."""
    no_improvement: Annotated[int, Field(le=100_000)] = 5
    """Rounds in a row without a better candidate. 0 or less switches it off."""
    min_delta: Distance = 0.0
    """How much better counts as an improvement for `no_improvement`."""
    score: ScoreValue | None = None
    """A score that is good enough."""
    policy: StopPolicy | None = None
    """A rule of your own, asked after every round that no other rule has ended; a reference, or `{ref: …, version: …}`. What it
    returns is why the run ended."""


class Budget(SpecPart):
    """What the run may spend in all. 0 is unlimited.

    What a call can take at most is set aside before it is made, and settled when it is over; what is left of a budget stays
    unspent when it does not cover another call. With a test split, the confirmation of the winner is left its share: its
    calls, at 1.5 times the mean of those so far.
    """

    cost: Cost = 0.0
    """Money, in the currency of `prices`. Hard for models, whose calls are bounded by `max_tokens` (16,384 where nothing states
    it), and for targets that state `at_most`; other targets are expected to take 1.5 times their dearest call so far."""
    tokens: Count = 0
    """Tokens of targets, judges and proposers, in and out. As hard as `cost`."""
    samples: Count = 0
    """Target calls that are paid for."""
    trials: Count = 0
    """Trials, the baseline and the two of the confirmation included."""
    wall_time: Duration = timedelta(0)
    """Time that the run is served by a worker and not paused, from the start; a laptop that sleeps takes none of it. Where
    it is over, trials in flight are cut off, and those whose answers are all there count."""


class Execution(SpecPart):
    """How trials are run."""

    mode: Literal["direct", "batch", "auto"] = "direct"
    """How a chat model is asked for the samples. `direct` has answers at once. `batch` hands all samples of a trial to the
    provider's batch API (OpenAI's, Anthropic's or Google's), and then what judges are asked about the answers: half the price,
    and an answer within 24 hours each time (Google: 48). `auto` does so as long as the time budget leaves a trial that time,
    and asks directly what a batch left without an answer, and models that have no batches, which `batch` refuses. What is
    decided is the same. Proposers are asked directly in all of them."""
    batches: BatchOptions = Field(default_factory=BatchOptions)
    """With `mode: batch` or `auto`: how large batches are, and how often they are looked at."""
    concurrent_trials: Annotated[int, Field(ge=1, le=100)] = 4
    """Trials side by side."""
    concurrent_samples: Annotated[int, Field(ge=1, le=10_000)] = 32
    """Target calls in flight, over all trials of the run, on each worker. What bounds all workers together is `rate_limits`."""
    concurrent_samples_per_trial: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Target calls of one trial in flight, on each worker. Default: as many as the run may have."""
    rate_limits: RateLimits = Field(default_factory=dict)
    """How fast models and endpoints may be called for this run, over all workers, by the model's name or the endpoint's URL.
    What holds for all runs together is the operator's to say, by RATCHET_RATE_LIMITS."""
    priority: Priority = DEFAULT_PRIORITY
    """From 1 to 5: where runs wait for the same endpoint, each step up gets twice the share; nobody waits for ever. Where they
    wait for workers, the higher one goes first."""
    sample_timeout: Duration = timedelta(seconds=60)
    """The longest one target call may take; beyond it the sample counts as failed."""
    min_coverage: Annotated[float, Field(gt=0, le=1)] = 0.95
    """The share of samples that must have an answer for a trial to be compared."""
    max_failed_scores: Annotated[float, Field(ge=0, le=1)] = 0.05
    """The share of a trial's answers that scorers may fail on (they raise, or give no number), one answer at least: such an
    answer is unscored, and counts for nothing. More of them end the run; 0 allows none."""
    max_consecutive_failed_trials: Annotated[int, Field(ge=1)] = 3
    """So many failed trials in a row end the run."""
    first_look: FirstLookMode = "tell"
    """What follows where a first look at the baseline's answers finds something wrong with how they are measured. `tell`: the
    run goes on, and every report says it. `ask`: it pauses until somebody resumes it. `strict`: it ends, as failed."""
    samples_per_shard: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Target calls per activity. Default: about 75."""
    evaluation_task_queue: TaskQueue | None = None
    """Where shards run. Default: the workflow's task queue with `-evaluation` added. Another one must be in
    RATCHET_EVALUATION_QUEUES of the workers that serve workflows; `ratchet run` on embedded servers allows it."""
    max_rounds_per_execution: Annotated[int, Field(ge=1)] | None = None
    """Continue as new after so many rounds, or steps of rounds that have several. Default: when Temporal suggests it."""

    @model_validator(mode="after")
    def _timeout_is_positive(self) -> Execution:
        if self.sample_timeout <= timedelta(0):
            raise ValueError("sample_timeout must be longer than 0")
        return self


class BudgetChange(SpecPart):
    """New budgets for a running run; what is left out stays."""

    cost: Cost | None = None
    tokens: Count | None = None
    samples: Count | None = None
    trials: Count | None = None
    wall_time: Duration | None = None


class Adjustment(SpecPart):
    """The `adjust` update: changes budgets, limits and stop rules of a running run; what is left out stays."""

    budget: BudgetChange | None = None
    concurrent_trials: Annotated[int, Field(ge=1, le=100)] | None = None
    concurrent_samples: Annotated[int, Field(ge=1, le=10_000)] | None = None
    priority: Priority | None = None
    rate_limits: RateLimits | None = None
    """New limits by model or URL; what is left out stays."""
    max_rounds: Annotated[int, Field(ge=0, le=100_000)] | None = None
    no_improvement: Annotated[int, Field(le=100_000)] | None = None
    min_delta: Distance | None = None
    score: ScoreValue | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Adjustment:
        budget_changes = self.budget is not None and bool(only_given(self.budget))
        if not budget_changes and not set(only_given(self)) - {"budget"}:
            raise ValueError("changes nothing; give budget, a limit such as concurrent_samples, or a stop rule")
        return self

    @property
    def concerns_calls(self) -> bool:
        """Whether it changes how fast calls are made, which trials in flight notice, too."""
        return not {"concurrent_trials", "concurrent_samples", "priority", "rate_limits"}.isdisjoint(only_given(self))


def only_given(change: BudgetChange | Adjustment) -> dict[str, Any]:
    """The fields a change really sets."""
    return {name: getattr(change, name) for name in sorted(change.model_fields_set) if getattr(change, name) is not None}
