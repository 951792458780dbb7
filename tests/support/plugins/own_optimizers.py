"""Users' optimizers, by reference: `own_optimizers:Stepper` and some with mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ratchet import (
    CandidateProposal,
    ExperimentContext,
    OptimizerState,
    Output,
    RunContext,
    Sample,
    StopDecision,
    StopReason,
    TrialFacts,
    TrialHistory,
)
from ratchet.optimizer import Part


class Stepper:
    """Moves `x` of the best candidate by seeded steps, and remembers what it was told."""

    def __init__(self, size: int = 50, patience: int = 100) -> None:
        self.size, self.patience = size, patience

    def initialize(self, context: RunContext) -> OptimizerState:
        domain = context.domains["x"]
        data = {"seed": context.seed, "max": domain["max"], "from": context.baseline["x"], "barren": 0}
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, algorithm_data=data)

    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        random = Random(f"{state.algorithm_data['seed']} {state.generation}")
        best = next(trial for trial in history.trials if trial.candidate_id == state.best_candidate_id)
        assert best.configuration is not None
        proposals = []
        for _ in range(max_candidates):
            x = min(max(best.configuration["x"] + random.randint(-self.size, 2 * self.size), 0), 1000)
            proposals.append(
                CandidateProposal(
                    configuration={**best.configuration, "x": x},
                    parent_candidate_ids=(best.candidate_id,),
                    rationale=f"from {best.configuration['x']}",
                    extra={"origin": "mutation", "components": ["x"]},
                )
            )
        return proposals

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        kept = [trial.candidate_id for trial in trials if trial.kept]
        told = [[len(trial.sample_scores), len(trial.records), (trial.configuration or {}).get("x")] for trial in trials]
        return OptimizerState(
            generation=state.generation + 1,
            best_candidate_id=kept[-1] if kept else state.best_candidate_id,
            algorithm_data={
                **state.algorithm_data,
                "told": told,
                "barren": 0 if kept else int(state.algorithm_data["barren"]) + 1,  # type: ignore[arg-type]
            },
        )

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        enough = int(state.algorithm_data["barren"]) >= self.patience  # type: ignore[arg-type]
        return StopDecision(should_stop=enough, reason=StopReason.CONVERGENCE, message="Nothing better for a while")


class AsyncStepper(Stepper):
    async def propose(  # type: ignore[override]
        self, state: OptimizerState, history: TrialHistory, max_candidates: int
    ) -> Sequence[CandidateProposal]:
        return super().propose(state, history, max_candidates)


class Peeks(Stepper):
    """Measures each of its proposals on three training samples first, and in full only what did best there."""

    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        steps = super().propose(state, history, max_candidates)
        if "peeked" in state.algorithm_data:
            peeked: Any = state.algorithm_data["peeked"]
            [best] = [proposal for proposal in steps if proposal.configuration["x"] == peeked]
            return [best]
        part = Part(split="train", first=1, count=3)
        return [proposal.model_copy(update={"part": part}) for proposal in steps]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        if all(trial.part is None for trial in trials):
            after = super().observe(state, trials)
            data = {name: value for name, value in after.algorithm_data.items() if name != "peeked"}
            return after.model_copy(update={"algorithm_data": data})
        best = max(trials, key=lambda trial: sum(score or 0.0 for score in trial.sample_scores))
        told: Any = [[*trial.sample_scores, *[record.inputs for record in trial.records]] for trial in trials]
        assert best.configuration is not None
        data = {**state.algorithm_data, "peeked": best.configuration["x"], "told": told}
        return state.model_copy(update={"algorithm_data": data})


class RaisesInObserve(Stepper):
    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        raise ValueError("nothing to learn from")


class RemembersEverything(Stepper):
    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        return OptimizerState(algorithm_data={"everything": "x" * 100_000})


class LacksMethods:
    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState()


def no_class(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    return Output(1)
