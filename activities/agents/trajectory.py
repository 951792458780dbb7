"""A conversation so far: what the model is sent next, what it took, and how it is kept with the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from activities.endpoints.call_context import KeptTurn
from activities.endpoints.chat_protocol import THOUGHTS, ChatAnswer
from activities.targets.answers import LARGEST_TRACE
from ratchet._formats.canonical import canonical_json
from ratchet._text.placeholders import as_text
from workflows.model.failures import cut

SHORTEST_KEPT: Final = 200
"""Characters of each text that a trace keeps at least, however many turns there are."""


def content_of(answer: ChatAnswer) -> dict[str, Any]:
    """One turn of a model, as it is kept."""
    value = answer.value
    said, calls = (value.get("content"), value["tool_calls"]) if isinstance(value, Mapping) else (value, [])
    return {
        "said": said,
        "calls": [{"tool": call["name"], "arguments": call["arguments"]} for call in calls],
        "latency_ms": answer.latency_ms,
        "finish_reason": answer.finish_reason,
        **counted_apart(answer),
        **({THOUGHTS: answer.thoughts} if answer.thoughts else {}),
    }


def counted_apart(answer: ChatAnswer) -> dict[str, int]:
    """Tokens that came from a cache, and those that were thought and not said, where there were any."""
    counts = {"cached_tokens": answer.cached, "reasoning_tokens": answer.reasoning}
    return {name: count for name, count in counts.items() if count}


def result_of(value: Any, latency_ms: float, longest: int) -> dict[str, Any]:
    """What came of a call, as it is kept and as the model is shown it."""
    text = as_text(value)
    return {"result": value if len(text) <= longest else cut(text, longest), "latency_ms": latency_ms}


def failure_of(why: str, latency_ms: float, longest: int) -> dict[str, Any]:
    """Why nothing came of a call."""
    return {"error": cut(why, longest), "latency_ms": latency_ms}


@dataclass(slots=True)
class Trajectory:
    """The turns of one conversation."""

    opening: list[dict[str, Any]]
    """The messages that it begins with."""
    model: str
    turns: list[KeptTurn] = field(default_factory=list)

    @property
    def asked(self) -> int:
        """How often the model was asked."""
        return sum(1 for turn in self.turns if "user" not in turn.content)

    @property
    def replies(self) -> int:
        """How often the user replied."""
        return len(self.turns) - self.asked

    @property
    def calls(self) -> int:
        """How many calls of tools came to an end."""
        return sum(len(turn.results) for turn in self.turns)

    @property
    def tokens(self) -> int:
        return sum(turn.tokens for turn in self.turns)

    @property
    def cached_tokens(self) -> int:
        """Of the tokens, those that came from a provider's cache."""
        return sum(turn.content.get("cached_tokens", 0) for turn in self.turns)

    @property
    def cost(self) -> float:
        return math.fsum(turn.cost for turn in self.turns)

    @property
    def latency_ms(self) -> float:
        """What models and tools took together."""
        tools = (result["latency_ms"] for turn in self.turns for result in turn.results.values())
        return math.fsum([*(turn.content["latency_ms"] for turn in self.turns), *tools])

    @property
    def said_last(self) -> str:
        """The last words of the model."""
        said = (turn.content["said"] for turn in reversed(self.turns) if "user" not in turn.content)
        return next((words for words in said if words), "")

    def messages(self) -> list[dict[str, Any]]:
        """What the model is sent next."""
        return [*self.opening, *(message for place, turn in enumerate(self.turns) for message in _messages(place, turn))]

    def trace(self, ended: str) -> dict[str, Any]:
        """All turns, as they are kept with the answer: texts are cut where they are too many to be kept whole."""
        longest = LARGEST_TRACE
        while True:
            told = {"ended": ended, "turns": [_traced(turn, longest) for turn in self.turns]}
            if longest <= SHORTEST_KEPT or len(canonical_json(told)) <= LARGEST_TRACE:
                return told
            longest //= 2


def _messages(place: int, turn: KeptTurn) -> Iterator[dict[str, Any]]:
    content = turn.content
    if "user" in content:
        if content["user"]:
            yield {"role": "user", "content": content["user"]}
        return
    calls = content["calls"]
    if not calls:
        yield {"role": "assistant", "content": content["said"]}
        return
    made = [
        {
            "id": call_id(place, index),
            "type": "function",
            "function": {"name": call["tool"] or "", "arguments": _arguments(call["arguments"])},
        }
        for index, call in enumerate(calls)
    ]
    thoughts = {THOUGHTS: content[THOUGHTS]} if THOUGHTS in content else {}
    yield {"role": "assistant", "content": content["said"], "tool_calls": made, **thoughts}
    for index, result in sorted(turn.results.items()):
        shown = f"error: {result['error']}" if "error" in result else as_text(result["result"])
        yield {"role": "tool", "tool_call_id": call_id(place, index), "content": shown}


def call_id(place: int, index: int) -> str:
    """What ties a result to its call: the same for every attempt, whatever the model called it."""
    return f"call_{place}_{index}"


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else canonical_json({} if given is None else given)


def _traced(turn: KeptTurn, longest: int) -> dict[str, Any]:
    content = turn.content
    took = {"tokens": turn.tokens, "cost": turn.cost, "latency_ms": content["latency_ms"]}
    took |= {name: content[name] for name in ("cached_tokens", "reasoning_tokens") if name in content}
    if "user" in content:
        return {"user": cut(content["user"], longest), **took}
    calls = [
        {**_shortened(call, longest), **_shortened(turn.results.get(index, {}), longest)}
        for index, call in enumerate(content["calls"])
    ]
    said = content["said"]
    told = {"said": None if said is None else cut(as_text(said), longest), "calls": calls, **took}
    unusual = content["finish_reason"] not in (None, "stop", "tool_calls")
    return {**told, "finish_reason": content["finish_reason"]} if unusual else told


def _shortened(told: Mapping[str, Any], longest: int) -> dict[str, Any]:
    return {name: _cut(value, longest) for name, value in told.items()}


def _cut(value: Any, longest: int) -> Any:
    text = as_text(value)
    return value if len(text) <= longest else cut(text, longest)
