"""Chat targets: messages with placeholders, factors as request parameters, answers with their price; one request or a chain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from activities.agents.trajectory import counted_apart
from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatAnswer, ChatModels, body_of
from activities.targets import TargetTools
from activities.targets.answers import output_from
from activities.targets.attached_files import attached
from activities.targets.faults import CandidateFault, NotSent
from ratchet import ExperimentContext, Output, Sample
from ratchet._formats.canonical import NotCanonical
from ratchet._text.placeholders import Filling, Unfillable, fill, step_answer_of
from ratchet.prompts.template import PromptTemplate
from store.read.sample_files import FileReader
from workflows.model.failures import shorten
from workflows.model.spec.prices import Price
from workflows.model.spec.targets.chat import ChatStep, ChatTarget
from workflows.model.suite import EvaluationSuite
from workflows.rules.overlay import Overlay
from workflows.rules.spec.sent_messages import factors_sent, messages_of
from workflows.rules.spec.shared_beginnings import shared_messages
from workflows.rules.spec.shown_examples import ShownExamples

NOT_FILLED = "placeholder"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request that is sent in a batch."""

    model: str
    """As the spec names it, and its price."""
    provider: str
    url: str
    body: dict[str, Any]
    """In the form of OpenAI's chat completions."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """A request whose placeholders are filled."""

    model: str
    messages: list[dict[str, Any]]
    parameters: dict[str, Any]
    stream: bool
    shared: Callable[[], int]
    """How many of the messages many requests begin with."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A step of a chain that has its answer."""

    name: str
    model: str
    answer: ChatAnswer


class ChatAnswers:
    """Answers samples with one request to a chat model, or with a chain of them."""

    def __init__(
        self,
        target: ChatTarget,
        models: ChatModels,
        prices: Mapping[str, Price],
        *,
        timeout: float,
        files: FileReader | None = None,
        template: PromptTemplate | None = None,
    ) -> None:
        """`template` is what puts the prompt together, where there is one."""
        self._target = target
        self._template = template
        self._requests = target.requests
        self._models = models
        self._prices = prices
        self._timeout = timeout
        self._files = files

    @classmethod
    def of(cls, suite: EvaluationSuite, tools: TargetTools, *, isolate: bool) -> Self:
        """Make it for a suite."""
        target: Any = suite.target
        return cls(
            target,
            tools.models,
            suite.prices,
            timeout=suite.sample_timeout.total_seconds(),
            files=tools.files,
            template=suite.prompt,
        )

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output:
        if self._target.steps is None:
            return output_of_answer((await self._asked(self._requests[0], configuration, sample, (), context)).answer)
        taken: list[_Taken] = []
        for request in self._requests:
            taken.append(await self._step(request, configuration, sample, taken, context))
        return self._chained(configuration, sample, taken)

    async def _step(
        self,
        request: ChatStep,
        configuration: Mapping[str, Any],
        sample: Sample,
        taken: Sequence[_Taken],
        context: CallContext,
    ) -> _Taken:
        """The next step; one that fails has cost what the steps before it did, too."""
        try:
            return await self._asked(request, configuration, sample, taken, context)
        except CandidateFault as fault:
            raise CandidateFault(
                f"step {request.name}: {fault}",
                tokens=fault.tokens + _tokens(taken),
                cost=fault.cost + _cost(taken),
                latency_ms=None if fault.latency_ms is None else fault.latency_ms + _latency(taken),
                kind=fault.kind,
                billed=fault.billed,
            ) from None

    async def _asked(
        self,
        request: ChatStep,
        configuration: Mapping[str, Any],
        sample: Sample,
        taken: Sequence[_Taken],
        context: CallContext,
    ) -> _Taken:
        filled = await self._filled(request, configuration, sample, taken)
        answer = await self._models.ask(
            base_url=self._target.base_url,
            model=filled.model,
            messages=filled.messages,
            parameters=filled.parameters,
            stream=filled.stream,
            timeout=self._timeout,
            prices=self._prices,
            context=context,
            shared=filled.shared,
        )
        return _Taken(request.name, filled.model, answer)

    async def batch_request(self, configuration: Mapping[str, Any], sample: Sample) -> BatchRequest:
        """The request for a sample, for somebody else to send it. Raises NotSent where it cannot be made."""
        filled = await self._filled(self._requests[0], configuration, sample, ())
        place = self._models.lists.model_place(filled.model, self._target.base_url)
        body = body_of(place, filled.messages, filled.parameters)
        return BatchRequest(filled.model, place.provider, place.url, body)

    async def _filled(
        self, request: ChatStep, configuration: Mapping[str, Any], sample: Sample, taken: Sequence[_Taken]
    ) -> _Filled:
        steps = step_answer_of({step.name: step.answer.value for step in taken})
        files = await attached(self._files, sample.input, configuration)
        shown, given = files.marked(configuration), files.marked(sample.input)
        try:
            filling = Filling(shown, given, steps)
            model = filling.text(request.model or "")
            messages = messages_of(request, ShownExamples(request, shown), given, steps)
            stated = filling.json(request.parameters)
        except (Unfillable, NotCanonical, RecursionError) as error:
            raise NotSent(shorten(str(error))) from None
        parameters = {**factors_sent(configuration), **stated}
        stream = bool(parameters.pop("stream", self._target.stream))
        return _Filled(
            model,
            files.sent(messages),
            parameters,
            stream,
            shared=lambda: shared_messages(request, Overlay("", configuration, self._template)),
        )

    def _chained(self, configuration: Mapping[str, Any], sample: Sample, taken: Sequence[_Taken]) -> Output:
        last = taken[-1].answer
        value = last.value
        if self._target.output is not None:
            steps = step_answer_of({step.name: step.answer.value for step in taken})
            try:
                value = fill(self._target.output, configuration, sample.input, steps)
            except (Unfillable, NotCanonical, RecursionError) as error:
                raise CandidateFault(
                    shorten(f"output: {error}"),
                    tokens=_tokens(taken),
                    cost=_cost(taken),
                    latency_ms=_latency(taken),
                    kind=NOT_FILLED,
                ) from None
        # What JSON within an answer's text holds is only looked at here.
        return output_from(
            Output(
                value=value,
                tokens=_tokens(taken),
                cost=_cost(taken),
                latency_ms=_latency(taken),
                ttft_ms=None if last.ttft_ms is None else _latency(taken[:-1]) + last.ttft_ms,
                trace={"steps": [_traced(step) for step in taken]},
                cached_tokens=sum(step.answer.cached for step in taken),
            )
        )


def output_of_answer(answer: ChatAnswer) -> Output:
    """What a target gives whose one answer this is."""
    return Output(
        value=answer.value,
        tokens=answer.tokens,
        cost=answer.cost,
        latency_ms=answer.latency_ms,
        ttft_ms=answer.ttft_ms,
        trace=_told_beside(answer) or None,
        cached_tokens=answer.cached,
    )


def _told_beside(answer: ChatAnswer) -> dict[str, Any]:
    """What is worth telling of an answer beside what it says."""
    told: dict[str, Any] = {} if answer.finish_reason in (None, "stop") else {"finish_reason": answer.finish_reason}
    return told | counted_apart(answer)


def _traced(step: _Taken) -> dict[str, Any]:
    answer = step.answer
    return {
        "name": step.name,
        "model": step.model,
        "output": answer.value,
        "tokens": answer.tokens,
        "cost": answer.cost,
        "latency_ms": answer.latency_ms,
        "finish_reason": answer.finish_reason,
        **counted_apart(answer),
    }


def _tokens(taken: Sequence[_Taken]) -> int:
    return sum(step.answer.tokens for step in taken)


def _cost(taken: Sequence[_Taken]) -> float:
    return math.fsum(step.answer.cost for step in taken)


def _latency(taken: Sequence[_Taken]) -> float:
    return math.fsum(step.answer.latency_ms for step in taken)
