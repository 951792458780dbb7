"""`gepa`: reflective evolution. A computation plans each step over everything that was measured; here the plan is carried out:
texts are rewritten, and candidates proposed for some samples or for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from ratchet._canonical import derive_seed, normalize
from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    Direction,
    OptimizerState,
    Part,
    RunContext,
    StopDecision,
    StopReason,
    TrialFacts,
    TrialHistory,
    Withdrawal,
)
from workflows.model.activities.computation import Reads
from workflows.model.run.candidates import ReasonCode
from workflows.model.spec.factors import Configuration, FrozenFactor, TextFactor
from workflows.model.spec.optimizers.gepa import GepaOptimizer
from workflows.model.spec.proposers import ModelProposer
from workflows.optimizers.computations import NEXT_STEP, PUBLISHED_STEP
from workflows.optimizers.frame import BudgetRefused, Frame, ProposalFailed, Shown
from workflows.rules.reflection.lines import INCREMENTAL, kept_share, keys_of, lines_of, mark, with_placeholders_of

MOST_ADDED = 100
"""Lines of one rewriting that are remembered."""

IDLE_STEPS = 3
"""So many steps in a row in which nothing new was measured end the search."""


class Gepa:
    """Reflects, measures a little, and measures in full what leads."""

    def __init__(self, options: GepaOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame
        self._planned: dict[str, Any] = {}
        """What this step is about to do."""

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, best_score=context.baseline_score)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        plan = self._planned = await self._plan(state)
        proposals = [await self._again(asked) for asked in plan.get("measure", [])]
        proposals += [await self._in_full(candidate, plan) for candidate in plan.get("full", [])]
        return [*proposals, *await self._rewritten(plan.get("rewrite", []))]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        plan, round_over = self._planned, any(trial.part is None for trial in trials) or "rests" in self._planned
        best = next((trial for trial in trials if trial.kept), None)
        unchanged = plan.get("answers") == state.algorithm_data.get("answers")
        idle = state.algorithm_data.get("idle")
        data: dict[str, JsonValue] = {
            "steps": 0 if round_over else _count(state, "steps") + 1,
            "answers": plan.get("answers"),
            "idle": (idle if isinstance(idle, int) else 0) + 1 if unchanged else 0,
            "over": not any(plan.get(name) for name in ("measure", "rewrite", "full", "rests")),
            "under_way": plan.get("under_way", {}),
        }
        return OptimizerState(
            generation=state.generation + 1,
            best_candidate_id=best.candidate_id if best else state.best_candidate_id,
            best_score=best.score if best else state.best_score,
            algorithm_data=data,
        )

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if state.algorithm_data.get("over"):
            told = "No other candidate is worth measuring in full, as far as the budget goes"
            return StopDecision(should_stop=True, reason=StopReason.CONVERGENCE, message=told)
        if _count(state, "idle") >= IDLE_STEPS:
            told = "Nothing new is proposed any more: everything that comes back was measured before"
            return StopDecision(should_stop=True, reason=StopReason.CONVERGENCE, message=told)
        return GO_ON

    async def _plan(self, state: OptimizerState) -> dict[str, Any]:
        options, context, prospects = self._options, self._frame.context, self._frame.prospects
        arguments: dict[str, JsonValue] = {
            "seed": derive_seed(context.seed, "gepa", state.generation),
            "run_seed": context.seed,
            "sign": 1.0 if context.direction is Direction.MAXIMIZE else -1.0,
            "generation": state.generation,
            "steps": _count(state, "steps"),
            "steps_per_round": options.steps_per_round,
            "factors": [*self._treatment()],
            "one_at_a_time": options.components == "round_robin",
            "beside": options.candidates_per_round,
            "minibatch": options.minibatch,
            "search": prospects.search_samples,
            "train": prospects.train_samples,
            "replicates": prospects.replicates,
            "calls_left": prospects.calls_left,
            "trials_left": prospects.trials_left,
            "brevity": options.brevity,
            "merges": options.merges,
            "under_way": state.algorithm_data.get("under_way") or {},
        }
        function = NEXT_STEP if options.mode == "improved" else PUBLISHED_STEP
        planned: Any = await self._frame.compute(function, arguments, reads=Reads(trials=True))
        return dict(planned)

    def _treatment(self) -> tuple[str, ...]:
        """The factors that may be rewritten, of those the spec lets us."""
        factors = self._frame.factors
        named = self._options.factors or [name for name, factor in factors.items() if not isinstance(factor, FrozenFactor)]
        if isinstance(self._options.proposer, ModelProposer):
            return tuple(name for name in named if isinstance(factors[name], TextFactor))
        return tuple(named)

    # -- carrying out -----------------------------------------------------------------------------------------------------

    async def _again(self, asked: Mapping[str, Any]) -> CandidateProposal:
        """A known candidate on more samples."""
        known = asked["candidate_id"]
        configuration = await self._frame.configuration(known)
        return CandidateProposal(configuration=configuration, parent_candidate_ids=(known,), part=_part(asked))

    async def _in_full(self, candidate: str, plan: Mapping[str, Any]) -> CandidateProposal:
        """A candidate that was measured in part so far, with what was said of it then."""
        return CandidateProposal(
            configuration=await self._frame.configuration(candidate),
            extra=plan.get("extra", {}).get(candidate, {}),
        )

    async def _rewritten(self, asked: Sequence[Mapping[str, Any]]) -> list[CandidateProposal]:
        """All rewritings side by side. Those that fail are told as rejections, unless all do: then the round is lost."""
        answers = await asyncio.gather(*[self._one(each, index) for index, each in enumerate(asked)], return_exceptions=True)
        made: list[CandidateProposal] = []
        failed: list[ProposalFailed] = []
        for each, answer in zip(asked, answers, strict=True):
            if isinstance(answer, ProposalFailed):
                failed.append(answer)
                made.append(await self._unwritten(each, answer))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                made += answer
        if failed and len(failed) == len(asked):
            raise next((each for each in failed if isinstance(each, BudgetRefused)), failed[0])
        return made

    async def _unwritten(self, asked: Mapping[str, Any], failure: ProposalFailed) -> CandidateProposal:
        return CandidateProposal(
            configuration=await self._frame.configuration(asked["base"]),
            parent_candidate_ids=tuple(asked["parents"]),
            part=_part(asked["parts"][0]),
            withdrawn=Withdrawal(reason_code=ReasonCode.PROPOSAL_FAILED, message=str(failure)),
        )

    async def _one(self, asked: Mapping[str, Any], index: int) -> list[CandidateProposal]:
        """One candidate, on each of the parts that it is to be measured on."""
        base, components = asked["base"], tuple(asked["components"])
        own = await self._frame.configuration(base)
        given: Configuration = {**own, **{name: normalize(value) for name, value in asked["values"].items()}}
        operators: list[JsonValue] = ["recombine"] if asked["values"] else []
        if not asked["reflect"]:
            origin = asked.get("origin", "recombination")
            unread: dict[str, JsonValue] = {"origin": origin, "operators": [*operators] or ["merge"], "replaced": []}
            return _proposals(asked, given, [*asked["values"]], None, unread)
        answer = await self._frame.new_values(
            self._options.proposer,
            parent=base,
            factors=components,
            index=index,
            feedback="",
            configuration=given,
            shown=tuple(_shown(each) for each in asked["shown"]),
        )
        # Names that are no factor stay in, so that validation refuses them; all but the components stays as it is.
        changes = {name: value for name, value in answer.values.items() if name in components or name not in given}
        made = {**given, **{name: _guarded(given.get(name), value) for name, value in changes.items()}}
        changed = [name for name in made if name not in own or made[name] != own[name]]
        extra: dict[str, JsonValue] = {"origin": "reflection", "operators": [*operators, "reflect"]}
        return _proposals(asked, made, changed, answer.rationale, {**extra, **_changes(given, made, components)})


def _proposals(
    asked: Mapping[str, Any],
    configuration: Configuration,
    components: Sequence[str],
    rationale: str | None,
    extra: Mapping[str, JsonValue],
) -> list[CandidateProposal]:
    return [
        CandidateProposal(
            configuration=configuration,
            parent_candidate_ids=tuple(asked["parents"]),
            rationale=rationale,
            part=_part(part),
            extra={**extra, "components": [*components], **asked["told"]},
        )
        for part in asked["parts"]
    ]


def _guarded(given: object, value: Any) -> Any:
    """What came back, with placeholders that it lost put back where they were."""
    if not isinstance(given, str) or not isinstance(value, str):
        return value
    return with_placeholders_of(given, value)


def _changes(given: Configuration, made: Configuration, components: Sequence[str]) -> dict[str, JsonValue]:
    """What a rewriting did to the lines of texts: those that it added, and the texts that it replaced altogether."""
    added: dict[str, JsonValue] = {}
    replaced: list[JsonValue] = []
    for name in components:
        before, after = given.get(name), made.get(name)
        if isinstance(before, str) and isinstance(after, str):
            old, new = keys_of(lines_of(before)), keys_of(lines_of(after))
            added[name] = [*[mark(line) for line in new if line not in set(old)][:MOST_ADDED]]
            if kept_share(old, new) < INCREMENTAL:
                replaced.append(name)
    return {"added": added, "replaced": replaced}


def _part(asked: Mapping[str, Any]) -> Part:
    return Part(split=asked["split"], first=asked["first"], count=asked["count"])


def _shown(asked: Mapping[str, Any]) -> Shown:
    return Shown(asked["candidate_id"], asked["split"], asked["first"], asked["count"], limit=asked.get("limit", 5))


def _count(state: OptimizerState, name: str) -> int:
    found = state.algorithm_data.get(name)
    return found if isinstance(found, int) else 0
