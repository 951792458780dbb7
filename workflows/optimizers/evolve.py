"""`evolve`: train episodes, failures classified, mutations proposed, validated, accepted only when significantly better; again
while that succeeds.

Who is accepted is not decided here: the frame judges the round (`judgement.accept: better`), and says so in `TrialFacts.kept`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, model_validator

from ratchet._frozen import SpecPart
from ratchet._values import ShortText
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
from workflows.model.spec.extensions.mutation_kinds import FAILURE_TABLE, PADDING, FailureRule, Mutation
from workflows.model.spec.extensions.named_plugins import NamedPlugin, PluginReference
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split
from workflows.optimizers.computations import COUNTED_FAILURES
from workflows.optimizers.frame import Frame, ProposalFailed
from workflows.optimizers.states import first_state, selection
from workflows.rules.decisions.verdicts import FEWEST_SAMPLES, share_of_round, smallest_p
from workflows.rules.proposals.failure_table import Mutant, called_for, mutants_of
from workflows.rules.proposals.mutations import refuse_mutation
from workflows.rules.spec.prompt_factors import is_read

EXPLORED = "explored"
"""The version whose training samples were measured last."""

UNMEASURED = "unmeasured"
"""The version whose training samples could not be measured."""

STAGNANT = "stagnant"
"""Set when a round of mutations led to no better version."""


class FailureClassifier(SpecPart):
    """A callable `(records: list[Record]) -> Mapping[str, int]`, sync or async: how often each kind of failure happened."""

    ref: PluginReference
    """`package.module:attribute`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""
    records: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    """How many evaluated training samples it is shown at most."""

    @model_validator(mode="before")
    @classmethod
    def _bare_reference(cls, value: Any) -> Any:
        return {"ref": value} if isinstance(value, str) else value


class EvolveOptimizer(OptimizerSpec):
    """Structured mutations of typed parameters, proposed for the failures seen on the training samples, and accepted only when
    they are significantly better on the validation samples. Goes on while that succeeds."""

    defaults: ClassVar[Mapping[str, Any]] = {"judgement": {"accept": "better", "test": "mann_whitney"}}

    name: Literal["evolve"]
    classifier: FailureClassifier
    """Counts the failures of the current version's training samples; a reference, or `{ref: …, records: …}`."""
    table: Annotated[list[FailureRule], Field(max_length=100)] = Field(default_factory=lambda: [*FAILURE_TABLE])
    """Which failures call for which mutation, in the order of preference. Default: injury > 2 raises `health_threshold` by 0.1,
    starvation > 2 lowers `hunger_threshold` by 0.1, combat_loss > 1 prioritizes flee in `skill_priority`, entrapment > 1
    multiplies `max_exploration_steps` by 1.5."""
    padding: Annotated[list[Mutation], Field(max_length=100)] = Field(default_factory=lambda: [*PADDING])
    """What a round tries beside, as far as there is room. Default: `risk_tolerance` -0.25, then +0.25, then `skill_priority`
    rotated."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 5
    """How many mutations a round tries side by side. The more, the clearer each must win: the test is corrected for them."""

    @property
    def proposer(self) -> None:
        """No model and no plug-in writes proposals: they follow from the table."""
        return

    @property
    def factors(self) -> list[str] | None:
        """The treatment is whatever may change; the table says what really does."""
        return None

    def mutations(self) -> Iterator[tuple[str, Mutation]]:
        """Every mutation with its place in the spec."""
        for index, rule in enumerate(self.table):
            yield f"optimizer.table[{index}].mutation", rule.mutation
        for index, mutation in enumerate(self.padding):
            yield f"optimizer.padding[{index}]", mutation

    def plugins(self) -> Iterator[NamedPlugin]:
        yield NamedPlugin("optimizer.classifier.ref", self.classifier.ref, 1, self.classifier.version)

    @property
    def learns_from_train(self) -> bool:
        return True

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        """Tables that cannot apply, and judgements that are not its own."""
        if not self.table and not self.padding:
            yield "optimizer.table: is empty, and so is padding; nothing could ever be proposed"
        for place, mutation in self.mutations():
            problem = refuse_mutation(mutation, request.configuration) if is_read(request) else None
            if problem is not None:
                yield f"{place}: {problem}{self._a_default(place)}"
        judgement = request.judgement
        if judgement.accept != "better":
            yield f"judgement.accept: is {judgement.accept}, but evolve goes on only from what is significantly better; drop it"
        if judgement.rule != "improvement":
            yield f"judgement.rule: is {judgement.rule}, but evolve asks for improvement; drop it"
        if request.dataset.lacks("train", "validation"):
            yield (
                "dataset.splits: evolve learns from train samples and judges on validation samples; "
                "give shares for both, and for test, such as {train: 0.2, validation: 0.5, test: 0.3}"
            )

    def sample_problems(self, request: OptimizationRequest, sizes: Mapping[Split, int]) -> Iterator[str]:
        """Samples so few that no candidate could ever be significantly better, with the numbers."""
        if not sizes.get(Split.TRAIN):
            yield "dataset.splits.train: leaves no sample to classify failures of; add samples or raise the share"
        most = request.samples_per_trial
        samples = min(sizes.get(Split.VALIDATION, 0), most) if most is not None else sizes.get(Split.VALIDATION, 0)
        judgement, candidates = request.judgement, self.candidates_per_round
        allowed = judgement.alpha * share_of_round(judgement, 1)
        least = smallest_p(judgement.test, samples) * candidates
        if samples >= FEWEST_SAMPLES and least <= allowed:
            return
        of_which = f", of which the first round may use {allowed:g}" if allowed < judgement.alpha else ""
        needed = next(n for n in range(FEWEST_SAMPLES, 1_000) if smallest_p(judgement.test, n) * candidates <= allowed)
        yield (
            f"dataset.splits.validation: has {samples} samples, with which no candidate can ever pass: the smallest p-value "
            f"of the {judgement.test} test, corrected for {candidates} candidates, is {min(least, 1.0):.3g}, and "
            f"judgement.alpha is {judgement.alpha:g}{of_which}; at least {needed} samples are needed, or fewer "
            "candidates_per_round"
        )

    def _a_default(self, place: str) -> str:
        part = place.partition("[")[0].removeprefix("optimizer.")
        return "" if part in self.model_fields_set else f" (the default {part} is meant; declare {part} to fit your factors)"

    def describe(self, longest: int | None) -> str:
        kinds = ", ".join(dict.fromkeys(rule.failure for rule in self.table)) or "nothing"
        return f"Structured mutations for failures ({kinds}), classified by {self.classifier.ref}"


class Evolve:
    """One generation after the other: learn from failures, try what they call for, keep what is better for sure."""

    def __init__(self, options: EvolveOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

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
            called_for(failures, self._options.table, self._options.padding),
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
            notes=selection("significantly_better", [current]),
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
