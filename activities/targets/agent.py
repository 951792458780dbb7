"""Agent targets: the loop of model and tools. Each turn is kept before the next begins, and what is kept is not asked again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from activities.agents import CalledTool, OutcomeUnknown, ToolCall, ToolDefinition, ToolFailed, called_tool
from activities.agents.trajectory import Trajectory, content_of, failure_of, result_of
from activities.agents.unkept_turns import UnkeptTurn, UnkeptTurns
from activities.agents.user_turns import PlayedUser, played, played_turn, scripted_turn
from activities.endpoints.call_context import CallContext, KeptTurn, TurnKeeper
from activities.endpoints.chat_models import ChatAnswer
from activities.targets import TargetTools
from activities.targets.answers import output_from
from activities.targets.attached_files import AttachedFiles, attached
from activities.targets.faults import CandidateFault, NotSent, TookTooLong
from ratchet import ExperimentContext, Output, Sample
from ratchet._formats.canonical import NotCanonical, content_hash
from ratchet._text.placeholders import Filling, Unfillable, no_steps
from workflows.model.failures import shorten
from workflows.model.spec.targets.agent import AgentTarget
from workflows.model.spec.targets.agent_tools import definitions_in
from workflows.model.spec.targets.simulated_users import ScriptedUser
from workflows.model.suite import EvaluationSuite
from workflows.rules.overlay import Overlay
from workflows.rules.spec.sent_messages import factors_sent, messages_of
from workflows.rules.spec.shared_beginnings import shared_messages
from workflows.rules.spec.shown_examples import ShownExamples

TOOLS = "tools"
ANSWERED, UNKNOWN_EFFECT = "answered", "effect unknown"
NOT_AGAIN = "it has effects and takes no key, so it is not called again"
LONGEST_KEY = 32
"""Hexadecimal digits."""


class LimitReached(Exception):
    """The conversation takes more than it may."""

    def __init__(self, limit: str, told: str) -> None:
        super().__init__(told)
        self.limit = limit


class AgentAnswers:
    """Answers samples with conversations."""

    def __init__(self, suite: EvaluationSuite, tools: TargetTools, *, isolate: bool) -> None:
        target: Any = suite.target
        self._target: AgentTarget = target
        self._suite = suite
        self._shared = tools
        self._timeout = suite.sample_timeout.total_seconds()
        self._tools = [(tool, called_tool(tool, tools, isolate=isolate)) for tool in self._target.tools]

    @classmethod
    def of(cls, suite: EvaluationSuite, tools: TargetTools, *, isolate: bool) -> Self:
        """Make it for a suite."""
        return cls(suite, tools, isolate=isolate)

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output:
        asking = await self._asking(configuration, sample)
        keeper = context.turns or UnkeptTurns()
        course = Trajectory(asking.opening, asking.model)
        talk = Conversation(self._target, asking, keeper, course, sample, experiment, context)
        try:
            await talk.held()
        except LimitReached as reached:
            if self._target.at_limit == "fail":
                raise _with_the_bill(_failed_by(reached), course, f"limit: {reached.limit}") from None
            return _output(course, f"limit: {reached.limit}")
        except OutcomeUnknown as unknown:
            fault = CandidateFault(shorten(str(unknown)), kind=UNKNOWN_EFFECT, billed="yes")
            raise _with_the_bill(fault, course, UNKNOWN_EFFECT) from None
        except CandidateFault as fault:
            raise _with_the_bill(fault, course, fault.kind) from None
        return _output(course, ANSWERED)

    async def _asking(self, configuration: Mapping[str, Any], sample: Sample) -> Asking:
        """Everything that stays the same from turn to turn."""
        target = self._target
        files = await attached(self._shared.files, sample.input, configuration)
        shown, given = files.marked(configuration), files.marked(sample.input)
        filling, request = Filling(shown, given), target.requests[0]
        try:
            model = filling.text(target.model)
            opening = messages_of(request, ShownExamples(request, shown), given, no_steps)
            stated = filling.json(target.parameters)
            called = await self._called(filling, configuration)
            user = None if target.user is None else played(target.user, filling)
        except (Unfillable, NotCanonical, RecursionError) as error:
            raise NotSent(shorten(str(error))) from None
        parameters = {**factors_sent(configuration), **stated, TOOLS: [tool.definition.as_sent() for tool in called.values()]}
        if not called:
            del parameters[TOOLS]
        stream = bool(parameters.pop("stream", target.stream))
        return Asking(
            model,
            opening,
            parameters,
            stream,
            files,
            called,
            user,
            self._shared,
            self._suite,
            self._timeout,
            alike=lambda: shared_messages(request, Overlay("", configuration)),
        )

    async def _called(self, filling: Filling, configuration: Mapping[str, Any]) -> dict[str, OfferedTool]:
        """The tools by name. A factor `tools`, as a prompt with tools has, describes those that it names."""
        found: dict[str, OfferedTool] = {}
        told = definitions_in(configuration.get(TOOLS))
        for spec, tool in self._tools:
            timeout = self._timeout if spec.timeout is None else spec.timeout.total_seconds()
            for definition in await tool.definitions(filling):
                if definition.name in found:
                    raise NotSent(f"two tools are named {definition.name!r}; leave one out with only, or rename it")
                found[definition.name] = OfferedTool(_as_told(definition, told.pop(definition.name, {})), tool, timeout)
        if told:
            raise NotSent(f"the factor tools describes {next(iter(told))!r}, which target.tools does not have")
        return found


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model may call."""

    definition: ToolDefinition
    tool: CalledTool
    timeout: float


@dataclass(frozen=True, slots=True)
class Asking:
    """How the model is asked."""

    model: str
    opening: list[dict[str, Any]]
    parameters: dict[str, Any]
    stream: bool
    files: AttachedFiles
    tools: Mapping[str, OfferedTool]
    user: PlayedUser | None
    shared: TargetTools
    suite: EvaluationSuite
    timeout: float
    alike: Callable[[], int]
    """How many messages all conversations of a candidate begin with."""


class Conversation:
    """One conversation, from where attempts before have left it."""

    def __init__(
        self,
        target: AgentTarget,
        asking: Asking,
        keeper: TurnKeeper,
        course: Trajectory,
        sample: Sample,
        experiment: ExperimentContext,
        context: CallContext,
    ) -> None:
        self._target = target
        self._asking = asking
        self._keeper = keeper
        self._course = course
        self._sample = sample
        self._experiment = experiment
        self._context = context

    async def held(self) -> None:
        """Go on until the model answers without calling a tool. Raises LimitReached, OutcomeUnknown, and what faults name."""
        kept = self._keeper.kept
        while True:
            place = len(self._course.turns)
            turn = kept[place] if place < len(kept) else await self._turn(place)
            reached = self._reached(turn)
            self._course.turns.append(turn)
            if not self._goes_on(turn):
                return
            if reached is not None:
                raise reached
            if not turn.content["calls"] and await self._user_leaves():
                return
            for index, call in enumerate(turn.content["calls"]):
                if index not in turn.results:
                    turn.results[index] = await self._result(place, index, call)
            self._seconds_left()

    def _goes_on(self, turn: KeptTurn) -> bool:
        """Whether the model's turn calls tools, or there is a user who has more to say."""
        user = self._asking.user
        return bool(turn.content["calls"]) or (user is not None and not user.has_left(self._course.replies))

    async def _turn(self, place: int) -> KeptTurn:
        """Ask the model once more."""
        asking = self._asking
        messages = asking.files.sent(self._course.messages())
        answer = await self._asked(asking.model, messages, asking.parameters, stream=asking.stream, shared=asking.alike)
        turn = UnkeptTurn(content_of(answer), answer.tokens, answer.cost)
        goes_on = self._goes_on(turn) and self._reached(turn) is None
        return await self._keeper.keep(place, turn.content, turn.tokens, turn.cost, goes_on=goes_on)

    async def _user_leaves(self) -> bool:
        """Let the user reply; whether he leaves instead."""
        user, course, kept, place = self._asking.user, self._course, self._keeper.kept, len(self._course.turns)
        assert user is not None
        if place < len(kept):
            turn = kept[place]
        elif isinstance(user.spec, ScriptedUser):
            turn = await self._keeper.keep(place, scripted_turn(user.script[course.replies]), 0, 0.0, goes_on=True)
        else:
            messages, parameters = user.request(course, self._experiment.seed)
            answer = await self._asked(user.spec.model, messages, parameters, stream=False)
            content = played_turn(answer)
            turn = await self._keeper.keep(place, content, answer.tokens, answer.cost, goes_on=not content["ends"])
        course.turns.append(turn)
        return bool(turn.content["ends"])

    async def _asked(
        self,
        model: str,
        messages: list[dict[str, Any]],
        parameters: Mapping[str, Any],
        *,
        stream: bool,
        shared: Callable[[], int] | None = None,
    ) -> ChatAnswer:
        """What a model answers, in the time that is left."""
        asking, left = self._asking, self._seconds_left()
        try:
            return await asking.shared.models.ask(
                base_url=self._target.base_url,
                model=model,
                messages=messages,
                parameters=parameters,
                stream=stream,
                timeout=min(asking.timeout, left),
                prices=asking.suite.prices,
                context=self._context,
                shared=shared or (lambda: 0),
                goes_on=shared is not None,
            )
        except TookTooLong:
            if left < asking.timeout:
                raise self._out_of_time() from None
            raise

    def _reached(self, turn: KeptTurn) -> LimitReached | None:
        """The limit that the next turn reaches, if it does: then it is the last, and what it wants to call is not called."""
        limits, course = self._target.limits, self._course
        tokens, cost = course.tokens + turn.tokens, course.cost + turn.cost
        if course.calls + len(turn.content["calls"]) > limits.tool_calls:
            return LimitReached("tool_calls", f"the model wants more than {limits.tool_calls} calls of tools")
        if course.asked + 1 >= limits.turns:
            return LimitReached("turns", f"the model was asked {limits.turns} times and wants to go on")
        if limits.tokens is not None and tokens >= limits.tokens:
            return LimitReached("tokens", f"the conversation took {tokens:,} tokens, and may take {limits.tokens:,}")
        if limits.cost is not None and cost >= limits.cost:
            return LimitReached("cost", f"the conversation cost {cost:g}, and may cost {limits.cost:g}")
        return None

    def _seconds_left(self) -> float:
        """How long models and tools may still take. Raises LimitReached."""
        limit = self._target.limits.time
        left = math.inf if limit is None else limit.total_seconds() - self._course.latency_ms / 1000
        if left <= 0:
            raise self._out_of_time()
        return left

    def _out_of_time(self) -> LimitReached:
        limit = self._target.limits.time
        assert limit is not None
        return LimitReached("time", f"models and tools took longer than {limit.total_seconds():g} s together")

    async def _result(self, place: int, index: int, call: Mapping[str, Any]) -> Any:
        """What came of one call, kept before anything else happens."""
        started, longest = time.perf_counter(), self._target.longest_result
        try:
            value = await self._called(place, index, call)
        except ToolFailed as failed:
            told = failure_of(str(failed), _milliseconds_since(started), longest)
        else:
            told = result_of(value, _milliseconds_since(started), longest)
        return await self._keeper.keep_result(place, index, told)

    async def _called(self, place: int, index: int, call: Mapping[str, Any]) -> Any:
        name, arguments = call["tool"], call["arguments"]
        offered = self._asking.tools.get(name)
        if offered is None:
            raise ToolFailed(f"there is no tool {name!r}; there are {', '.join(self._asking.tools) or 'none'}")
        if not isinstance(arguments, Mapping | None):
            raise ToolFailed("the arguments are no JSON object")
        definition = offered.definition
        await self._context.beginning.permit()
        if definition.is_never_repeated and not await self._keeper.begin_call(place, index):
            raise OutcomeUnknown(f"tool {name} was being called when its worker was lost; {NOT_AGAIN}")
        made = ToolCall(
            name,
            dict(arguments or {}),
            self._sample,
            self._experiment,
            self._context,
            min(offered.timeout, self._seconds_left()),
            definition.is_never_repeated,
            content_hash([self._keeper.key, place, index])[:LONGEST_KEY] if definition.takes_key else None,
        )
        try:
            return await offered.tool.call(made)
        except OutcomeUnknown as unknown:
            raise OutcomeUnknown(
                f"tool {name}: {unknown}; it has effects and takes no key, so it is not called again"
            ) from None


def _as_told(definition: ToolDefinition, told: Mapping[str, Any]) -> ToolDefinition:
    """The definition in the words of a factor `tools`, as far as that says something."""
    description, parameters = told.get("description"), told.get("parameters")
    return replace(
        definition,
        description=definition.description if description is None else str(description),
        parameters=parameters if isinstance(parameters, Mapping) else definition.parameters,
    )


def _milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _failed_by(reached: LimitReached) -> CandidateFault:
    return CandidateFault(f"{reached} (limits.{reached.limit})", kind=f"limit: {reached.limit}", billed="yes")


def _with_the_bill(fault: CandidateFault, course: Trajectory, ended: str) -> CandidateFault:
    """A conversation that fails has cost what its turns did, and is kept as far as it came."""
    if not course.turns:
        return fault
    fault.tokens += course.tokens
    fault.cost += course.cost
    fault.latency_ms = course.latency_ms + (fault.latency_ms or 0.0)
    fault.billed = "yes"
    fault.trace = course.trace(ended)
    return fault


def _output(course: Trajectory, ended: str) -> Output:
    turns: Sequence[KeptTurn] = course.turns
    last = turns[-1].content.get("said") if turns and "user" not in turns[-1].content else None
    value = last if ended == ANSWERED and last is not None else course.said_last
    return output_from(
        Output(
            value=value,
            tokens=course.tokens,
            cached_tokens=course.cached_tokens,
            cost=course.cost,
            latency_ms=course.latency_ms,
            trace=course.trace(ended),
        )
    )
