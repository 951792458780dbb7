"""Optimizers with one mistake each, and a good one that they are made of."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from random import Random, choice, random
from typing import Any

from ratchet import CandidateProposal, OptimizerState, RunContext, StopDecision, TrialFacts, TrialHistory


class Good:
    """Moves `x` by seeded steps."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, algorithm_data={"seed": context.seed})

    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        return [self.at(self.draw(state, index), history) for index in range(max_candidates)]

    def draw(self, state: OptimizerState, index: int) -> float:
        return Random(f"{state.algorithm_data['seed']} {state.generation} {index}").random()

    def at(self, x: Any, history: TrialHistory, **changes: Any) -> CandidateProposal:
        baseline = history.trials[0]
        assert baseline.configuration is not None
        return CandidateProposal(
            configuration={**baseline.configuration, "x": x, **changes}, parent_candidate_ids=(baseline.candidate_id,)
        )

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        return state.model_copy(update={"generation": state.generation + 1})

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return StopDecision(should_stop=False)


class GlobalChance(Good):
    def draw(self, state: OptimizerState, index: int) -> float:
        return random()


class ChosenByTheModule(Good):
    def draw(self, state: OptimizerState, index: int) -> float:
        return choice([0.1, 0.2])


class NoSeed(Good):
    def draw(self, state: OptimizerState, index: int) -> float:
        return Random().random()


class Uuid(Good):
    def draw(self, state: OptimizerState, index: int) -> float:
        return uuid.uuid4().int / 2**128


class Clock(Good):
    def draw(self, state: OptimizerState, index: int) -> float:
        return time.time() % 1


class Today(Good):
    def draw(self, state: OptimizerState, index: int) -> float:
        return datetime.now().microsecond / 1e6


class Sleepy(Good):
    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        time.sleep(0)
        return super().observe(state, trials)


class Reads(Good):
    def initialize(self, context: RunContext) -> OptimizerState:
        Path(__file__).read_text()
        return super().initialize(context)


class ReadsInSecret(Good):
    def initialize(self, context: RunContext) -> OptimizerState:
        try:
            Path(__file__).read_text()
        except Exception:
            return super().initialize(context)
        return super().initialize(context)


class Connects(Good):
    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        socket.socket().close()
        return StopDecision(should_stop=False)


class Spawns(Good):
    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        subprocess.run(["true"], check=True)
        return StopDecision(should_stop=False)


class Threads(Good):
    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        threading.Thread(target=print).start()
        return StopDecision(should_stop=False)


class RemembersOnItself(Good):
    def __init__(self) -> None:
        self.asked = 0

    def draw(self, state: OptimizerState, index: int) -> float:
        self.asked += 1
        return 1 / self.asked


class RemembersOnItsClass(Good):
    asked = 0

    def draw(self, state: OptimizerState, index: int) -> float:
        type(self).asked += 1
        return 1 / self.asked


class Grows(Good):
    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        seen = [*state.algorithm_data.get("seen", []), *(trial.config_hash for trial in trials)]  # type: ignore[misc]
        data = {**state.algorithm_data, "seen": seen}
        return OptimizerState(generation=state.generation + 1, algorithm_data=data)


class FillsUp(Good):
    """Large, but no larger than it is after some rounds."""

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        seen = [*state.algorithm_data.get("seen", []), *(trial.config_hash for trial in trials)][-30:]  # type: ignore[misc]
        return OptimizerState(generation=state.generation + 1, algorithm_data={**state.algorithm_data, "seen": seen})


class Huge(Good):
    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        return OptimizerState(algorithm_data={"all": "x" * 70_000})


class KeepsASet(Good):
    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        made = super().observe(state, trials)
        made.algorithm_data["seen"] = (1, 2)  # type: ignore[assignment]
        return made


class ProposeRemembers(Good):
    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        state.algorithm_data["asked"] = True
        return super().propose(state, history, max_candidates)


class OutOfRange(Good):
    def draw(self, state: OptimizerState, index: int) -> float:
        return 7 + index + state.generation


class ForgetsFactors(Good):
    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        return [CandidateProposal(configuration={"x": 0.5})]


class TooMany(Good):
    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        return super().propose(state, history, max_candidates + 1)


class NoList(Good):
    def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Any:
        return None


class NaN(Good):
    def draw(self, state: OptimizerState, index: int) -> float:
        return float("nan")


class Raises(Good):
    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        raise KeyError("population")


class GivesUp(Good):
    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return StopDecision(should_stop=True)


class Waits(Good):
    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().propose(state, history, max_candidates)


class Async(Good):
    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Any:  # type: ignore[override]
        return super().propose(state, history, max_candidates)
