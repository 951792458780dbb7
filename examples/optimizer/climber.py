"""An optimizer of one's own: moves the numbers of the best candidate at random, less and less while nothing gets better."""

from collections.abc import Sequence
from random import Random

from ratchet import CandidateProposal, OptimizerState, RunContext, StopDecision, TrialFacts, TrialHistory


class Climber:
    def __init__(self, step: float = 0.3, smallest: float = 0.001) -> None:
        self.step, self.smallest = step, smallest

    def initialize(self, context: RunContext) -> OptimizerState:
        numbers = {name: domain for name, domain in context.domains.items() if domain.get("type") == "number"}
        ranges = {name: [numbers[name]["min"], numbers[name]["max"]] for name in context.factors if name in numbers}
        memory = {"step": self.step, "seed": context.seed, "ranges": ranges}
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, algorithm_data=memory)

    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        memory, random = state.algorithm_data, Random(f"{state.algorithm_data['seed']} {state.generation}")
        best = next(trial for trial in history.trials if trial.candidate_id == state.best_candidate_id)
        proposals = []
        for _ in range(max_candidates):
            changed = dict(best.configuration)
            for name, (low, high) in memory["ranges"].items():
                moved = changed[name] + random.gauss(0, memory["step"]) * (high - low)
                changed[name] = min(max(moved, low), high)
            proposals.append(CandidateProposal(configuration=changed, parent_candidate_ids=(best.candidate_id,)))
        return proposals

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        kept = [trial for trial in trials if trial.kept]
        best = kept[-1].candidate_id if kept else state.best_candidate_id
        memory = {**state.algorithm_data, "step": state.algorithm_data["step"] * (1.2 if kept else 0.7)}
        return OptimizerState(generation=state.generation + 1, best_candidate_id=best, algorithm_data=memory)

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return StopDecision(should_stop=state.algorithm_data["step"] < self.smallest, message="The steps became too small")
