"""`none`: no search. Measures the configuration, and the variations the spec lists, side by side in one round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from ratchet._formats.canonical import canonical_json, content_hash
from ratchet._values import CanonicalValue
from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    OptimizerState,
    RunContext,
    StopDecision,
    StopReason,
    TrialFacts,
    TrialHistory,
)
from workflows.model.spec.execution import Stop
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.factors import ChoiceFactor, Factor, FrozenFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.optimizers.frame import Frame
from workflows.optimizers.states import first_state
from workflows.rules.proposals.validation import refuse_value
from workflows.rules.spec.value_schemas import SchemaWork

MOST_VARIATIONS = 1_000
"""Configurations that one run measures side by side."""


class MeasureOptimizer(OptimizerSpec):
    """No search: measures the configuration, and the listed variations of it side by side, with the same machinery."""

    rounds = 1
    is_comparison = True

    name: Literal["none"]
    configurations: Annotated[list[dict[str, CanonicalValue]], Field(max_length=MOST_VARIATIONS)] = Field(default_factory=list)
    """Variations to compare: each names the factors that differ from the baseline, frozen ones included."""

    @property
    def proposer(self) -> None:
        """Nothing is proposed."""
        return

    @property
    def factors(self) -> list[str] | None:
        """Every factor that some variation names."""
        return list(dict.fromkeys(name for variation in self.configurations for name in variation)) or None

    @property
    def candidates_per_round(self) -> int:
        """All variations are one round."""
        return max(len(self.configurations), 1)

    def most_trials(self, stop: Stop) -> int:
        return 1 + len(self.configurations)

    def in_play(self, configuration: Mapping[str, Factor]) -> Mapping[str, Factor]:
        """What a variation names may take its values, frozen or not."""
        return {
            name: ChoiceFactor(
                change="structured", type="choice", value=factor.value, choices=self._variants(name, factor.value)
            )
            if isinstance(factor, FrozenFactor)
            else factor
            for name, factor in configuration.items()
        }

    def _variants(self, name: str, baseline: JsonValue) -> list[JsonValue]:
        given = [variation[name] for variation in self.configurations if name in variation]
        return list({canonical_json(value): value for value in [baseline, *given]}.values())

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        """Variations that cannot be, or that are the same as others."""
        seen = {content_hash(request.baseline): "the baseline"}
        factors, work = request.factors_in_play, SchemaWork()
        for index, variation in enumerate(self.configurations):
            where = f"optimizer.configurations[{index}]"
            unknown = [name for name in variation if name not in request.configuration]
            if unknown:
                yield f"{where}: {unknown[0]!r} is no factor; known are {', '.join(request.configuration)}"
                continue
            for name, value in variation.items():
                refusal = refuse_value(name, value, factors[name], work)
                if refusal is not None:
                    yield f"{where}.{name}: {refusal.message}"
            config_hash = content_hash({**request.baseline, **variation})
            if config_hash in seen:
                yield f"{where}: is the same as {seen[config_hash]}; drop it, or raise replicates to measure it more often"
            seen.setdefault(config_hash, where)

    def describe(self, longest: int | None) -> str:
        return "None (the configurations were given)"

    def treatment(self, request: OptimizationRequest) -> Sequence[str]:
        return self.factors or []

    @property
    def looks_further(self) -> bool:
        return bool(self.configurations)

    @property
    def seeks_winner(self) -> bool:
        return self.looks_further


class Measure:
    """Tries what it was given, once."""

    def __init__(self, options: MeasureOptimizer, frame: Frame) -> None:
        self._variations = options.configurations
        self._frame = frame

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        baseline = self._frame.context.baseline_candidate_id
        configuration = await self._frame.configuration(baseline)
        return [
            CandidateProposal(
                configuration={**configuration, **variation},
                parent_candidate_ids=(baseline,),
                extra={"origin": "listed", "components": sorted(variation), "place": place},
            )
            for place, variation in enumerate(self._variations)
        ]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        return state.model_copy(update={"generation": state.generation + 1})

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if self._variations and state.generation == 0:
            return GO_ON
        message = f"All {len(self._variations) + 1} configurations were measured" if self._variations else "Measured"
        return StopDecision(should_stop=True, reason=StopReason.COMPLETED, message=message)
