"""`evolve`: train episodes, failures classified, mutations proposed, validated, accepted only when significantly better; again
while that succeeds.

Who is accepted is not decided here: the frame judges the round (`judgement.accept: better`), and says so in `TrialFacts.kept`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    OptimizerState,
    Part,
    RunContext,
    StopDecision,
    StopReason,
    TrialFacts,
    TrialHistory,
)
from workflows.model.activities.computation import Reads, RecordsOf
from workflows.model.spec.optimizers.evolve import EvolveOptimizer
from workflows.model.trial import Split
from workflows.optimizers.computations import COUNTED_FAILURES
from workflows.optimizers.frame import Frame, ProposalFailed
from workflows.rules.proposals.failure_table import Mutant, called_for, mutants_of

EXPLORED = "explored"
"""The version whose training samples were measured last."""

UNMEASURED = "unmeasured"
"""The version whose training samples could not be measured."""

STAGNANT = "stagnant"
"""Set when a round of mutations led to no better version."""


class Evolve:
    """One generation after the other: learn from failures, try what they call for, keep what is better for sure."""

    def __init__(self, options: EvolveOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        """The current version on the training samples first; once these are known, the mutations they call for."""
        current = self._current(state)
        configuration = await self._frame.configuration(current)
        if state.algorithm_data.get(UNMEASURED) == current:
            raise ProposalFailed(f"the training samples of {current} could not be measured; its exploration says why")
        if state.algorithm_data.get(EXPLORED) != current:
            return [CandidateProposal(configuration=configuration, parent_candidate_ids=(current,), part=Part(split="train"))]
        failures = await self._failures(current)
        mutants = mutants_of(
            configuration,
            called_for(failures, self._options),
            self._frame.factors,
            {trial.config_hash for trial in history.trials},
            max_candidates,
        )
        return [_proposal(mutant, current, failures) for mutant in mutants]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        current, best_score = self._current(state), state.best_score
        was_explored = state.algorithm_data.get(EXPLORED) == current
        data: dict[str, JsonValue] = dict(state.algorithm_data)
        for trial in trials:
            if trial.split == Split.TRAIN:
                data[EXPLORED if trial.status == "completed" else UNMEASURED] = trial.candidate_id
            elif trial.kept:
                current, best_score = trial.candidate_id, trial.score
        data[STAGNANT] = was_explored and current == self._current(state)
        return OptimizerState(
            generation=state.generation + was_explored,
            best_candidate_id=current,
            best_score=best_score,
            algorithm_data=data,
        )

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if not state.algorithm_data.get(STAGNANT):
            return GO_ON
        told = f"No mutation was significantly better than {self._current(state)}"
        return StopDecision(should_stop=True, reason=StopReason.CONVERGENCE, message=told)

    def _current(self, state: OptimizerState) -> str:
        return state.best_candidate_id or self._frame.context.baseline_candidate_id

    async def _failures(self, candidate_id: str) -> dict[str, int]:
        """How often each kind of failure happened on the training samples of a candidate."""
        classifier = self._options.classifier
        counts = await self._frame.compute(
            COUNTED_FAILURES,
            {"classifier": classifier.ref},
            reads=Reads(records=RecordsOf(candidate_id=candidate_id, split=Split.TRAIN, limit=classifier.records)),
            plugin=classifier.ref,
        )
        assert isinstance(counts, dict)
        return {kind: count for kind, count in counts.items() if isinstance(count, int)}


def _proposal(mutant: Mutant, parent: str, failures: Mapping[str, int]) -> CandidateProposal:
    extra: dict[str, JsonValue] = {
        "origin": "mutation",
        "operators": [mutant.kind],
        "components": [*mutant.components],
        "because": mutant.because,
        "failures": dict(failures),
    }
    return CandidateProposal(
        configuration=mutant.configuration, parent_candidate_ids=(parent,), rationale=mutant.description, extra=extra
    )


def describe_evolution(options: EvolveOptimizer) -> str:
    """The mutator in words, as reports show it."""
    kinds = ", ".join(dict.fromkeys(rule.failure for rule in options.table)) or "nothing"
    return f"Structured mutations for failures ({kinds}), classified by {options.classifier.ref}"
