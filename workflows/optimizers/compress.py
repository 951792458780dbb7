"""`compress`: make sections shorter. Every edit alone, in one round; then all that did no harm together; then greedily, the
largest saving first. Who did no harm is decided by the frame's judgement, and the shortest of them is the run's best.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, model_validator

from ratchet._formats.canonical import content_hash, normalize
from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    OptimizerState,
    RunContext,
    StopDecision,
    StopReason,
    TrialFacts,
    TrialHistory,
    Withdrawal,
)
from workflows.model.activities.computation import Reads
from workflows.model.run.candidates import ReasonCode
from workflows.model.run.compression_report import Compression, Strategy
from workflows.model.run.run_result import OptimizationResult
from workflows.model.spec.execution import Stop
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.extensions.proposers import Asked, AskedProposer, ModelProposer
from workflows.model.spec.factors import Configuration, FrozenFactor, TextFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.optimizers.computations import COUNTED_EDITS, COUNTED_TOKENS
from workflows.optimizers.frame import Frame, ProposalFailed
from workflows.optimizers.states import first_state, next_state, selection
from workflows.rules.proposals.composition import Parts
from workflows.rules.proposals.compression import (
    REWRITTEN,
    Findings,
    SectionEdit,
    Tried,
    cuts_of,
    reported,
    shortened,
    worth_most,
)
from workflows.rules.proposals.text_cuts import may_shrink
from workflows.rules.spec.prompt_factors import is_of_a_prompt
from workflows.rules.spec.treatment import changed_by

REQUEST = """\
You make one section of a prompt shorter, so that it costs fewer tokens and still leads to the same answers. The section is
named "{{factor.name}}". This is how it reads now:

<current_value>
{{factor.value}}
</current_value>

Write it as short as it can be without losing any instruction, condition, name, number, format or exception that could change
an answer. Leave out courtesy, repetition and explanation. Do not add anything.

{{limits}}

Give the complete shorter section between <new_value> and </new_value>; nothing outside of the tags will be used.
"""


class CompressOptimizer(OptimizerSpec):
    """Makes texts shorter without loss: every edit alone, then all that did no harm together, then greedily, the largest saving
    first. The winner is the shortest configuration that is not worse than the baseline by `judgement.margin`, and it is
    confirmed on fresh answers."""

    defaults: ClassVar[Mapping[str, Any]] = {
        "judgement": {"rule": "non_inferiority", "accept": "shorter", "correction": "none"},
        "stop": {"no_improvement": 0},
        "replicates": 3,
    }

    name: Literal["compress"]
    strategies: list[Strategy] = Field(
        default_factory=lambda: list[Strategy](["whitespace", "duplicates", "examples", "ablation"])
    )
    """Edits that need no model: needless white space, sentences that were said before, few-shot examples dropped one by one,
    parts of a section (by headings, paragraphs, lines or sentences) left out one by one."""
    proposer: Asked | None = None
    """Also rewrites each section shorter. One of yours may give a list of texts for a section: each is an edit of its own.
    Default: nobody does."""
    factors: list[str] | None = None
    """Which sections. Default: every text that may change, and every list of examples."""
    min_section_tokens: Annotated[int, Field(ge=0)] = 20
    """Shorter sections are left alone."""
    max_edits: Annotated[int, Field(ge=1, le=200)] = 40
    """How many edits are tried at most, those with the largest savings."""

    @model_validator(mode="after")
    def _knows_how(self) -> CompressOptimizer:
        if not self.strategies and self.proposer is None:
            raise ValueError("has no way to make anything shorter; give strategies or a proposer")
        return self

    @property
    def candidates_per_round(self) -> int:
        """All edits are measured alone in one round."""
        return self.max_edits

    def most_trials(self, stop: Stop) -> int:
        """Each edit alone, all together, and all but the first once more when they are added one by one."""
        return 1 + 2 * self.max_edits

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        """Sections that are none, or that cannot become shorter."""
        factors = request.configuration
        for name in self.factors or []:
            if name not in factors:
                yield f"optimizer.factors: {name!r} is no factor; known are {', '.join(factors)}"
            elif isinstance(factors[name], FrozenFactor):
                own = "write it as {value: …, change: text}"
                fix = "set accepts_overrides in the prompt" if is_of_a_prompt(name) else own
                yield f"optimizer.factors: {name!r} is frozen; {fix}"
            elif not may_shrink(factors[name]):
                yield f"optimizer.factors: {name!r} is neither text nor a list, so it cannot become shorter; drop it"
        treated = [factors[name] for name in self.factors or factors if name in factors and may_shrink(factors[name])]
        if not treated and not self.factors:
            yield "configuration: nothing can become shorter; let at least one text change ({value: …, change: text})"
        if treated and not self.strategies and not any(isinstance(factor, TextFactor) for factor in treated):
            yield "optimizer.proposer: rewrites text, but no treated factor is text; give strategies that drop examples"
        if request.judgement.accept != "shorter":
            yield (
                f"judgement.accept: is {request.judgement.accept!r}, but compress keeps what is shorter; "
                "leave it out, and say with judgement.rule what a shorter prompt must satisfy"
            )

    def describe(self, longest: int | None) -> str:
        writer = {"model": "rewritten by a model", "python": "rewritten by a plug-in", "activity": "rewritten by an activity"}
        ways = [*self.strategies, *([writer[self.proposer.kind]] if self.proposer else [])]
        return f"Sections made shorter: {', '.join(ways)}"

    def treatment(self, request: OptimizationRequest) -> Sequence[str]:
        return changed_by(self.proposer, request)


class Compress:
    """Tries edits, and puts those that did no harm together."""

    def __init__(self, options: CompressOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._found: Findings | None = None
        self._in_flight: dict[str, list[Tried]] = {}
        """The sets of this round, by the hashes of the configurations that they make."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        self._in_flight = {}
        if not state.algorithm_data:
            return await self._each_alone(self._baseline(), history.trials[0].success_rate if history.trials else None)
        known = {trial.config_hash: trial for trial in history.trials}
        self._found = Findings.read(state.algorithm_data)
        while self._found.step.measure:
            proposals = [await self._together(self._found, parts) for parts in self._found.step.measure]
            if any(config_hash not in known for config_hash in self._in_flight):
                return proposals
            self._found = self._found.having(self._in_flight, known)
            self._in_flight = {}
        return []

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        assert self._found is not None
        found = self._found.having(self._in_flight, {trial.config_hash: trial for trial in trials})
        harmless = [trial.candidate_id for trial in trials if trial.accepted]
        return next_state(state, trials, found.as_data(), selection(self._options.name, harmless))

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if not state.algorithm_data:
            return GO_ON
        found = Findings.read(state.algorithm_data)
        step = found.step
        if step.phase != "done":
            return GO_ON
        told = f"Compressed: {len(step.chosen)} of {len(found.edits)} edits kept"
        return StopDecision(should_stop=True, reason=StopReason.COMPLETED, message=told)

    def report(self, state: OptimizerState, result: OptimizationResult) -> dict[str, Compression]:
        """What the run's result says beside what every result says."""
        found = Findings.read(state.algorithm_data) if state.algorithm_data else None
        return {"compression": reported(found, result, self._baseline(), self._frame.template)}

    def _baseline(self) -> Configuration:
        return {name: normalize(factor.value) for name, factor in self._frame.factors.items()}

    # -- each edit alone --------------------------------------------------------------------------------------------------

    async def _each_alone(self, baseline: Configuration, pass_rate: float | None) -> list[CandidateProposal]:
        """Every edit by itself. Sections that came back longer are withdrawn, for the record."""
        sections, edits = await self._edits(baseline)
        rewritten = await self._rewritten(baseline, sections)
        kept = worth_most([*edits, *(edit for edit, _ in rewritten)], self._options.max_edits)
        self._found = Findings(sections, kept, pass_rate)
        texts = {edit.part_id: text for edit, text in rewritten}
        cuts = cuts_of(baseline, sections, self._options.strategies)
        proposals = []
        for edit in kept:
            value = texts[edit.part_id] if edit.part_id in texts else shortened(baseline[edit.path], [edit], cuts)
            tokens = {edit.path: sections[edit.path] - edit.saving}
            proposals.append(self._proposal([edit], {**baseline, edit.path: value}, tokens, "alone"))
        return [*proposals, *(self._withdrawn(edit, text, baseline) for edit, text in rewritten if edit.saving <= 0)]

    async def _edits(self, baseline: Configuration) -> tuple[dict[str, int], list[SectionEdit]]:
        """The tokens of every section that is worth the trouble, and the edits that need no model."""
        values = {name: baseline[name] for name in self._treated()}
        arguments: dict[str, JsonValue] = {
            "values": values,
            "others": [value for name, value in baseline.items() if name not in values and isinstance(value, str)],
            "strategies": [*self._options.strategies],
            "min_section_tokens": self._options.min_section_tokens,
            "most": self._options.max_edits,
        }
        counted: Any = await self._frame.compute(COUNTED_EDITS, arguments, reads=Reads())
        return counted["sections"], [SectionEdit(*fields) for fields in counted["edits"]]

    def _treated(self) -> list[str]:
        """What may become shorter: texts, and lists of examples."""
        factors = self._frame.factors
        return self._options.factors or [name for name, factor in factors.items() if may_shrink(factor)]

    async def _rewritten(self, baseline: Configuration, sections: Mapping[str, int]) -> list[tuple[SectionEdit, str]]:
        """Every text as the proposer writes it, in one way or several. What it fails to write stays as it is, unless it fails
        everywhere and there is nothing else to try."""
        proposer = self._options.proposer
        paths = sorted((path for path in sections if isinstance(baseline[path], str)), key=lambda path: (-sections[path], path))
        if proposer is None or not paths:
            return []
        asked = [self._written(_asking_for_less(proposer), path, index) for index, path in enumerate(paths)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        written: list[tuple[str, int, str]] = []
        for path, answer in zip(paths, answers, strict=True):
            if isinstance(answer, list):
                written += [(path, number, text) for number, text in enumerate(answer, start=1)]
            elif not isinstance(answer, ProposalFailed):
                raise answer
        failed = next((answer for answer in answers if isinstance(answer, ProposalFailed)), None)
        if failed is not None and not written and not self._options.strategies:
            raise failed
        return await self._with_savings(written, sections) if written else []

    async def _written(self, proposer: AskedProposer, path: str, index: int) -> list[str]:
        parent = self._frame.context.baseline_candidate_id
        answer = await self._frame.new_values(proposer, parent=parent, factors=(path,), index=index, feedback="")
        given = answer.values.get(path)
        texts = [text for text in (given if isinstance(given, list) else [given]) if isinstance(text, str)]
        if not texts:
            raise ProposalFailed(f"no text came back for {path}")
        return [*dict.fromkeys(texts)]

    async def _with_savings(
        self, written: Sequence[tuple[str, int, str]], sections: Mapping[str, int]
    ) -> list[tuple[SectionEdit, str]]:
        counted = await self._tokens([text for _, _, text in written])
        edits = []
        for (path, number, text), tokens in zip(written, counted, strict=True):
            saving = sections[path] - tokens
            longer = len(text) >= len(str(self._baseline()[path]))
            edits.append((SectionEdit(path, REWRITTEN, number, min(saving, 0) if longer else saving), text))
        return edits

    async def _tokens(self, values: Sequence[JsonValue]) -> list[int]:
        counted: Any = await self._frame.compute(COUNTED_TOKENS, {"values": [*values]}, reads=Reads())
        return [int(tokens) for tokens in counted]

    # -- several edits together -------------------------------------------------------------------------------------------

    async def _together(self, found: Findings, parts: Parts) -> CandidateProposal:
        baseline, edits = self._baseline(), found.of(parts)
        changed: dict[str, JsonValue] = {}
        cuts = cuts_of(baseline, found.sections, self._options.strategies)
        for path in dict.fromkeys(edit.path for edit in edits):
            same = [edit for edit in edits if edit.path == path]
            rewritten = next((edit for edit in same if edit.strategy == REWRITTEN), None)
            changed[path] = await self._text_of(found, rewritten) if rewritten else shortened(baseline[path], same, cuts)
        tokens = dict(zip(changed, await self._tokens([*changed.values()]), strict=True))
        return self._proposal(edits, {**baseline, **changed}, tokens, found.step.phase)

    async def _text_of(self, found: Findings, edit: SectionEdit) -> JsonValue:
        """The section as it was written, from the candidate that tried it alone."""
        tried = found.alone(edit)
        assert tried is not None and tried.candidate_id is not None
        configuration = await self._frame.configuration(tried.candidate_id)
        return configuration[edit.path]

    def _proposal(
        self, edits: Sequence[SectionEdit], configuration: Configuration, tokens: Mapping[str, int], phase: str
    ) -> CandidateProposal:
        assert self._found is not None
        parts = frozenset(edit.part_id for edit in edits)
        self._in_flight.setdefault(content_hash(configuration), []).append(Tried(parts, tokens))
        saved = sum(self._found.sections[path] - count for path, count in tokens.items())
        return CandidateProposal(
            configuration=configuration,
            parent_candidate_ids=(self._frame.context.baseline_candidate_id,),
            rationale=f"{phase}: {', '.join(sorted(parts))}; {saved} tokens fewer",
            extra={
                "origin": "compression",
                "operators": [*dict.fromkeys(edit.strategy for edit in edits)],
                "components": [*dict.fromkeys(edit.path for edit in edits)],
                "phase": phase,
                "saved_tokens": saved,
            },
        )

    def _withdrawn(self, edit: SectionEdit, text: str, baseline: Configuration) -> CandidateProposal:
        told = f"{edit.path}: what was written is no shorter, by {-edit.saving} tokens more"
        return CandidateProposal(
            configuration={**baseline, edit.path: text},
            parent_candidate_ids=(self._frame.context.baseline_candidate_id,),
            withdrawn=Withdrawal(reason_code=ReasonCode.NOT_SMALLER, message=told),
        )


def _asking_for_less(proposer: AskedProposer) -> AskedProposer:
    """A model is asked for fewer words unless the spec words the request itself; no examples are needed for that."""
    if isinstance(proposer, ModelProposer) and proposer.template is None:
        return proposer.model_copy(update={"template": REQUEST, "examples": 0})
    return proposer
