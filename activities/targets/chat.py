"""Chat targets: messages with placeholders, factors as request parameters, answers with their price."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from activities.models import ChatModels
from activities.targets.faults import CandidateFault
from ratchet import ExperimentContext, Output, Sample
from workflows.model.target import ChatTarget, Price
from workflows.rules.placeholders import UnknownPlaceholder, render

REQUEST_PARAMETERS = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "presence_penalty",
    "frequency_penalty",
    "reasoning_effort",
    "seed",
    "stop",
    "tools",
    "tool_choice",
    "response_format",
    "verbosity",
)
"""Factors of these names are sent as the parameter of that name. `model` is sent by way of the target's `model`."""

_ONE_FACTOR = re.compile(r"\{\{\s*factors\.([\w./:-]+)\s*\}\}")


class ChatAnswers:
    """Answers samples with a chat model."""

    def __init__(self, target: ChatTarget, models: ChatModels, prices: Mapping[str, Price], *, timeout: float) -> None:
        self._target = target
        self._models = models
        self._prices = prices
        self._timeout = timeout

    async def answer(self, configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
        target = self._target
        try:
            model = render(target.model, configuration, sample.input)
            messages = [
                {"role": message.role, "content": render(message.content, configuration, sample.input)}
                for message in target.messages
            ]
            stated = {name: _filled(value, configuration, sample.input) for name, value in target.parameters.items()}
        except UnknownPlaceholder as error:
            raise CandidateFault(str(error)) from None
        factors = {name: configuration[name] for name in REQUEST_PARAMETERS if configuration.get(name) is not None}
        parameters = {**factors, **stated}
        stream = bool(parameters.pop("stream", target.stream))
        answer = await self._models.ask(
            base_url=target.base_url,
            model=model,
            messages=messages,
            parameters=parameters,
            stream=stream,
            timeout=self._timeout,
            prices=self._prices,
        )
        return Output(
            value=answer.value,
            tokens=answer.tokens,
            cost=answer.cost,
            latency_ms=answer.latency_ms,
            ttft_ms=answer.ttft_ms,
            trace={"finish_reason": answer.finish_reason} if answer.finish_reason not in (None, "stop") else None,
        )


def _filled(value: Any, configuration: Mapping[str, Any], sample_input: Any) -> Any:
    """A parameter with its placeholders substituted. One that is nothing but a factor keeps that factor's type."""
    if isinstance(value, str):
        whole = _ONE_FACTOR.fullmatch(value)
        if whole is not None and not isinstance(configuration.get(whole.group(1), ""), str):
            return configuration[whole.group(1)]
        return render(value, configuration, sample_input)
    if isinstance(value, Mapping):
        return {name: _filled(part, configuration, sample_input) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, configuration, sample_input) for part in value]
    return value
