"""Carry out the steps that a computation planned for `reflect` or `gepa`: texts are rewritten, and candidates proposed for some
samples or for all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from ratchet._formats.canonical import normalize
from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    OptimizerState,
    Part,
    StopDecision,
    StopReason,
    TrialFacts,
    Withdrawal,
)
from workflows.model.activities.computation import Reads
from workflows.model.activities.reflection_plans import MeasuredPart, Rewriting, SamplePart, ShownPart, Situation, StepPlan
from workflows.model.run.candidates import ReasonCode
from workflows.model.spec.extensions.proposers import AskedProposer
from workflows.model.spec.factors import Configuration
from workflows.optimizers.frame import BudgetRefused, Frame, ProposalFailed, Shown
from workflows.optimizers.states import next_state, selection
from workflows.rules.reflection.lines import INCREMENTAL, kept_share, keys_of, lines_of, mark, with_placeholders_of

MOST_ADDED = 100
"""Lines of one rewriting that are remembered."""

IDLE_STEPS = 3
"""So many steps in a row in which nothing new was measured end the search."""


async def planned(frame: Frame, function: str, situation: Situation) -> StepPlan:
    """Have the next step planned, over everything that was measured."""
    found = await frame.compute(function, situation.model_dump(mode="json"), reads=Reads(trials=True))
    return StepPlan.model_validate(found)


async def carried_out(plan: StepPlan, proposer: AskedProposer, frame: Frame) -> list[CandidateProposal]:
    """Propose what a plan says: known candidates on more samples, leaders on all, and what is rewritten."""
    proposals = [await _again(asked, frame) for asked in plan.measure]
    proposals += [await _in_full(candidate, plan, frame) for candidate in plan.full]
    return [*proposals, *await _rewritten(plan.rewrite, proposer, frame)]


def after(
    plan: StepPlan, state: OptimizerState, trials: Sequence[TrialFacts], own: Mapping[str, JsonValue], method: str
) -> OptimizerState:
    """Remember what a step came to, and what the algorithm keeps of its own. Parents are drawn by the method that is named."""
    unchanged = plan.answers == state.algorithm_data.get("answers")
    data: dict[str, JsonValue] = {
        "answers": plan.answers,
        "idle": count(state, "idle") + 1 if unchanged else 0,
        "over": plan.is_empty,
    }
    front: list[JsonValue] = [{"id": name, "metrics": {"samples_led": led}} for name, led in plan.fronts.items()]
    survivors = plan.full or tuple(plan.fronts)
    return next_state(state, trials, {**data, **own}, {**selection(method, survivors), "pareto_front": front})


def convergence(state: OptimizerState) -> StopDecision:
    """Stop when nothing is left to do, or when nothing new comes back any more."""
    if state.algorithm_data.get("over"):
        told = "No other candidate is worth measuring in full, as far as the budget goes"
        return StopDecision(should_stop=True, reason=StopReason.CONVERGENCE, message=told)
    if count(state, "idle") >= IDLE_STEPS:
        told = "Nothing new is proposed any more: everything that comes back was measured before"
        return StopDecision(should_stop=True, reason=StopReason.CONVERGENCE, message=told)
    return GO_ON


def count(state: OptimizerState, name: str) -> int:
    """Read a number that a step left; 0 before the first."""
    found = state.algorithm_data.get(name)
    return found if isinstance(found, int) else 0


# -- known candidates -----------------------------------------------------------------------------------------------------


async def _again(asked: MeasuredPart, frame: Frame) -> CandidateProposal:
    """A known candidate on more samples."""
    known = asked.candidate_id
    return CandidateProposal(configuration=await frame.configuration(known), parent_candidate_ids=(known,), part=_part(asked))


async def _in_full(candidate: str, plan: StepPlan, frame: Frame) -> CandidateProposal:
    """A candidate that was measured in part so far, with what was said of it then."""
    return CandidateProposal(configuration=await frame.configuration(candidate), extra=plan.extra.get(candidate, {}))


# -- new candidates -------------------------------------------------------------------------------------------------------


async def _rewritten(asked: Sequence[Rewriting], proposer: AskedProposer, frame: Frame) -> list[CandidateProposal]:
    """All rewritings side by side. Those that fail are told as rejections, unless all do: then the round is lost."""
    writing = [_one(each, index, proposer, frame) for index, each in enumerate(asked)]
    answers = await asyncio.gather(*writing, return_exceptions=True)
    made: list[CandidateProposal] = []
    failed: list[ProposalFailed] = []
    for each, answer in zip(asked, answers, strict=True):
        if isinstance(answer, ProposalFailed):
            failed.append(answer)
            made.append(await _unwritten(each, answer, frame))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            made += answer
    if failed and len(failed) == len(asked):
        raise next((each for each in failed if isinstance(each, BudgetRefused)), failed[0])
    return made


async def _unwritten(asked: Rewriting, failure: ProposalFailed, frame: Frame) -> CandidateProposal:
    return CandidateProposal(
        configuration=await frame.configuration(asked.base),
        parent_candidate_ids=asked.parents,
        part=_part(asked.parts[0]),
        withdrawn=Withdrawal(reason_code=ReasonCode.PROPOSAL_FAILED, message=str(failure)),
    )


async def _one(asked: Rewriting, index: int, proposer: AskedProposer, frame: Frame) -> list[CandidateProposal]:
    """One candidate, on each of the parts that it is to be measured on."""
    components = asked.components
    own = await frame.configuration(asked.base)
    given: Configuration = {**own, **{name: normalize(value) for name, value in asked.values.items()}}
    operators: list[JsonValue] = ["recombine"] if asked.values else []
    if not asked.reflect:
        unread: dict[str, JsonValue] = {"origin": asked.origin, "operators": [*operators] or ["merge"], "replaced": []}
        return _proposals(asked, given, [*asked.values], None, unread)
    answer = await frame.new_values(
        proposer,
        parent=asked.base,
        factors=components,
        index=index,
        feedback="",
        configuration=given,
        shown=tuple(_shown(each) for each in asked.shown),
    )
    # Names that are no factor stay in, so that validation refuses them; all but the components stays as it is.
    changes = {name: value for name, value in answer.values.items() if name in components or name not in given}
    made = {**given, **{name: _guarded(given.get(name), value) for name, value in changes.items()}}
    changed = [name for name in made if name not in own or made[name] != own[name]]
    extra: dict[str, JsonValue] = {"origin": "reflection", "operators": [*operators, "reflect"]}
    return _proposals(asked, made, changed, answer.rationale, {**extra, **_changes(given, made, components)})


def _proposals(
    asked: Rewriting,
    configuration: Configuration,
    components: Sequence[str],
    rationale: str | None,
    extra: Mapping[str, JsonValue],
) -> list[CandidateProposal]:
    return [
        CandidateProposal(
            configuration=configuration,
            parent_candidate_ids=asked.parents,
            rationale=rationale,
            part=_part(part),
            extra={**extra, "components": [*components], **asked.told},
        )
        for part in asked.parts
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


def _part(asked: SamplePart) -> Part:
    return Part(split=asked.split, first=asked.first, count=asked.count)


def _shown(asked: ShownPart) -> Shown:
    return Shown(asked.candidate_id, asked.split, asked.first, asked.count, limit=asked.limit)
