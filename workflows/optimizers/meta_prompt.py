"""`meta_prompt`: texts rewritten from the history, a hall of fame of the best ones, and the newest failures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from ratchet._formats.canonical import derive_seed
from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    Direction,
    OptimizerState,
    RunContext,
    StopDecision,
    TrialFacts,
    TrialHistory,
)
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.extensions.proposers import Asked
from workflows.model.spec.request import OptimizationRequest
from workflows.optimizers.frame import Brief, Frame, Shown
from workflows.optimizers.states import next_state, selection
from workflows.optimizers.text_rewrites import described, recent_iterations, rewritable, rewritten, those_that_came
from workflows.rules.spec.treatment import changed_by, rewriting_problems

HALL_OF_FAME = "hall_of_fame"
"""In the state: the best candidates as [id, score], the best first."""

NEWEST = "newest"
"""In the state: the candidates of the round before."""

TEMPLATE = """\
You improve a system that is measured by experiment. These versions of its texts did best so far, the best one last:

<hall_of_fame>
{{hall_of_fame}}
</hall_of_fame>

{{texts}}

{{feedback}}

Find out what the better versions say that the others do not, and what still goes wrong in the answers above. Write a version
that does better than all of them: keep what makes the best ones good, bring together what several of them do well, and
settle what still fails. Settle the general question behind a failure; do not list the examples themselves, since the result
will be measured on others.

{{limits}}

{{form}}
"""


class MetaPromptOptimizer(OptimizerSpec):
    """Rewrites texts from the history: the proposer reads a hall of fame, the best candidates with their scores, and what the
    newest ones still got wrong. Every candidate of a round is measured in full."""

    name: Literal["meta_prompt"]
    proposer: Asked
    """Who writes. A model's request shows `{{hall_of_fame}}`; a template of your own may show it, too. A callable is given the
    failures and the values of the candidate that it starts from."""
    factors: list[str] | None = None
    """The texts to rewrite, all in one request. Default: every text that may change; with a callable, every such factor."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 4
    """How many candidates a round writes and measures side by side: every other one from the best, the rest from others of the
    hall of fame."""
    hall_of_fame: Annotated[int, Field(ge=1, le=20)] = 5
    """How many of the best candidates are kept in it."""

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        yield from rewriting_problems(self.proposer, request)

    def describe(self, longest: int | None) -> str:
        if self.proposer.kind == "model":
            return f"LLM-based rewriting from the best {self.hall_of_fame} (max length: {longest})"
        return f"{described(self.proposer, longest)}, from the best {self.hall_of_fame}"

    def treatment(self, request: OptimizationRequest) -> Sequence[str]:
        return changed_by(self.proposer, request)


class MetaPrompt:
    """Learns from the best, and from what the newest got wrong."""

    def __init__(self, options: MetaPromptOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame

    def initialize(self, context: RunContext) -> OptimizerState:
        baseline = context.baseline_candidate_id
        return OptimizerState(
            best_candidate_id=baseline,
            best_score=context.baseline_score,
            algorithm_data={HALL_OF_FAME: [[baseline, context.baseline_score]], NEWEST: [baseline]},
        )

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        wanted = min(max_candidates, self._options.candidates_per_round)
        return await those_that_came([self._written(state, history, index) for index in range(wanted)])

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        measured = [trial for trial in trials if trial.score is not None and trial.stopped_early is None]
        hall = self._ranked([*_hall_of(state), *((trial.candidate_id, trial.score or 0.0) for trial in measured)])
        shown: list[JsonValue] = [[name, score] for name, score in hall]
        newest: list[JsonValue] = [trial.candidate_id for trial in measured]
        data: dict[str, JsonValue] = {HALL_OF_FAME: shown, NEWEST: newest or state.algorithm_data[NEWEST]}
        return next_state(state, trials, data, selection(HALL_OF_FAME, [name for name, _ in hall], hall_of_fame=shown))

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return GO_ON

    async def _written(self, state: OptimizerState, history: TrialHistory, index: int) -> CandidateProposal:
        hall = _hall_of(state)
        parent = self._parent(state, hall, index)
        configuration = await self._frame.configuration(parent)
        proposer = self._options.proposer
        treatment = rewritable(self._frame.factors, self._options.factors, proposer)
        answer = await self._frame.new_values(
            proposer,
            parent=parent,
            factors=treatment,
            index=index,
            feedback=recent_iterations(history),
            shown=self._failures(state, parent, index),
            brief=Brief(template=TEMPLATE, hall_of_fame=tuple(reversed(hall))),
        )
        extra: dict[str, JsonValue] = {
            "origin": "rewrite",
            "operators": ["meta_prompt", proposer.kind],
            "hall_of_fame_ref": [name for name, _ in hall],
        }
        return rewritten(answer, configuration, parent, treatment, extra)

    def _parent(self, state: OptimizerState, hall: Sequence[tuple[str, float]], index: int) -> str:
        """Every other candidate starts from the best, the rest from any of the hall of fame."""
        if index % 2 == 0:
            return state.best_candidate_id or hall[0][0]
        name, _ = Random(derive_seed(self._frame.context.seed, "parent", state.generation, index)).choice(hall)
        return name

    def _failures(self, state: OptimizerState, parent: str, index: int) -> tuple[Shown, ...]:
        """What the parent gets wrong, and what one of the newest does."""
        newest = [str(name) for name in _listed(state.algorithm_data[NEWEST])]
        other = newest[index % len(newest)]
        examples = self._options.proposer.examples
        if other == parent:
            return (Shown(parent, limit=examples),)
        return (Shown(parent, limit=math.ceil(examples / 2)), Shown(other, limit=examples // 2))

    def _ranked(self, members: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """The best ones, the best first, each once; of equals the earlier."""
        sign = -1.0 if self._frame.context.direction is Direction.MAXIMIZE else 1.0
        once: dict[str, float] = {}
        for name, score in members:
            once.setdefault(name, score)
        return sorted(once.items(), key=lambda member: sign * member[1])[: self._options.hall_of_fame]


def _hall_of(state: OptimizerState) -> list[tuple[str, float]]:
    hall = []
    for member in _listed(state.algorithm_data[HALL_OF_FAME]):
        name, score = _listed(member)
        assert isinstance(score, int | float)
        hall.append((str(name), float(score)))
    return hall


def _listed(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value
