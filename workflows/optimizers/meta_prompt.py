"""`meta_prompt`: texts rewritten from the history, a hall of fame of the best ones, and the newest failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from pydantic import JsonValue

from ratchet._canonical import derive_seed
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
from workflows.model.spec.optimizers.meta_prompt import MetaPromptOptimizer
from workflows.optimizers.frame import Brief, Frame, Shown
from workflows.optimizers.text_rewrites import recent_iterations, rewritable, rewritten, those_that_came

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
        kept = next((trial for trial in trials if trial.kept), None)
        shown: list[JsonValue] = [[name, score] for name, score in hall]
        newest: list[JsonValue] = [trial.candidate_id for trial in measured]
        return OptimizerState(
            generation=state.generation + 1,
            best_candidate_id=kept.candidate_id if kept else state.best_candidate_id,
            best_score=kept.score if kept else state.best_score,
            algorithm_data={HALL_OF_FAME: shown, NEWEST: newest or state.algorithm_data[NEWEST]},
            notes={"selection_meta": {HALL_OF_FAME: shown}},
        )

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


def describe_meta_prompting(options: MetaPromptOptimizer, longest: int | None) -> str:
    """The mutator in words, as reports show it."""
    if options.proposer.kind == "python":
        return f"Python: {options.proposer.ref}, from the best {options.hall_of_fame}"
    return f"LLM-based rewriting from the best {options.hall_of_fame} (max length: {longest})"
