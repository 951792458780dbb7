"""What OpenAI-compatible endpoints answer, whole or in pieces, read where it arrives; all other answers come in this form.

Whoever is at the other end may send anything. A complete answer that cannot be understood is paid for, and is the candidate's
fault: it is never asked for again. No answer is what the endpoint itself calls an error, a web page that somebody on the way
put in its place, and a stream that breaks off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from activities.targets.answers import usable_value
from activities.targets.faults import BROKEN_ANSWER, UNUSABLE, CandidateFault, Unreachable
from ratchet._formats.canonical import NotCanonical, canonical_json, normalize
from store.encoding import storable_text
from workflows.model.failures import described, quoted, shorten
from workflows.model.run.amounts import MOST_TOKENS
from workflows.model.spec.prices import Price

LONGEST_QUOTE = 200
LONGEST_THOUGHTS = 1_000_000
"""Characters that are kept of what a provider wants back."""

THOUGHTS = "thoughts"
"""Where messages have it."""
MOST_TOOL_CALLS = 1_000
_ENDED = "[DONE]"
_PAGES = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class Thoughts:
    """What a model thought before it called tools, in its provider's own form: it wants it back with the next turn.

    A provider puts it into an answer's message; no JSON of a stranger's can be one.
    """

    parts: list[Any]


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a chat model said, and what it took."""

    value: Any
    """The text, or a mapping with `content` and `tool_calls`; in canonical form, and of bounded size."""
    tokens: int
    cost: float
    latency_ms: float
    ttft_ms: float | None = None
    finish_reason: str | None = None
    split: tuple[int, int] | None = None
    """Its tokens in and out, where the endpoint tells them apart."""
    cached: int = 0
    """Of the tokens in, those that came from the provider's cache."""
    reasoning: int = 0
    """Of the tokens out, those that were thought and not said."""
    thoughts: list[Any] | None = None
    """What its provider wants back with the next turn of the conversation."""


def parsed(text: bytes | str, content_type: str = "") -> dict[str, Any]:
    """A complete body as a JSON object."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        return answer
    start = text[:80].decode("utf-8", "replace") if isinstance(text, bytes) else text[:80]
    why = f"the endpoint answered something that is not a JSON object: {start!r}"
    if is_page(content_type):
        raise Unreachable(why, kind=BROKEN_ANSWER)
    raise CandidateFault(shorten(why), kind=BROKEN_ANSWER, billed="yes")


def is_page(content_type: str) -> bool:
    """Whether that is a web page, which a gateway puts in the place of answers: nobody asked for one."""
    return content_type.partition(";")[0].strip().lower() in _PAGES


def understood(answer: Mapping[str, Any], price: Price | None, latency_ms: float, ttft_ms: float | None = None) -> ChatAnswer:
    """A complete answer, or why it is none. Whatever reading it raises is a fault that says what the answer took."""
    refuse_errors(answer)
    tokens, cost = bill(answer.get("usage"), price)
    try:
        value, finish = _said(answer)
    except CandidateFault as fault:
        why, kind = str(fault), fault.kind
    except Exception as error:  # nobody can list what strangers may send
        why, kind = f"the answer cannot be understood: reading it raised {described(error)}", BROKEN_ANSWER
    else:
        usage = answer.get("usage")
        cached, reasoning = (
            _part_of(usage, "prompt_tokens", "cached_tokens"),
            _part_of(usage, "completion_tokens", "reasoning_tokens"),
        )
        return ChatAnswer(
            value, tokens, cost, latency_ms, ttft_ms, finish, split_of(usage), cached, reasoning, _thoughts(answer)
        )
    raise CandidateFault(shorten(why), tokens=tokens, cost=cost, latency_ms=latency_ms, kind=kind, billed="yes")


def _thoughts(answer: Mapping[str, Any]) -> list[Any] | None:
    """What is to be sent back, where it can be kept."""
    found = answer["choices"][0]["message"].get(THOUGHTS)
    if not isinstance(found, Thoughts) or not found.parts:
        return None
    try:
        written = canonical_json(found.parts)
    except (NotCanonical, RecursionError):
        return None
    return list(json.loads(written)) if len(written) <= LONGEST_THOUGHTS else None


def refuse_errors(answer: Mapping[str, Any]) -> None:
    """Refuse an error that the endpoint tells in place of an answer, although its status says that all is well."""
    if answer.get("error") and not answer.get("choices") and not answer.get("usage"):
        raise Unreachable(f"the endpoint answered an error: {_quoted(answer['error'])}", kind=BROKEN_ANSWER)


def bill(usage: Any, price: Price | None) -> tuple[int, float]:
    """Tokens in and out, and what they cost; what an endpoint does not report, or cannot mean, counts as 0."""
    if not isinstance(usage, Mapping):
        return 0, 0.0
    prompt, completion = _tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens"))
    tokens = _tokens(usage.get("total_tokens")) or prompt + completion
    if price is None:
        return tokens, 0.0
    cached = _part_of(usage, "prompt_tokens", "cached_tokens")
    kept = min(_part_of(usage, "prompt_tokens", "cache_write_tokens"), prompt - cached)
    return tokens, price.for_request(prompt).cost(prompt, completion, cached=cached, kept=kept)


def _part_of(usage: Any, whole: str, part: str) -> int:
    """So many tokens of those that the usage counts under another name; never more than these."""
    details = usage.get(f"{whole}_details") if isinstance(usage, Mapping) else None
    return min(_tokens(usage.get(whole)), _tokens(details.get(part))) if isinstance(details, Mapping) else 0


def split_of(usage: Any) -> tuple[int, int] | None:
    """Tokens in and tokens out; None where the endpoint reports neither."""
    if not isinstance(usage, Mapping):
        return None
    split = _tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens"))
    return split if any(split) else None


class _Pieces:
    """A tool call as it comes."""

    def __init__(self) -> None:
        self.name: list[str] = []
        self.arguments: list[Any] = []

    def joined(self) -> dict[str, Any]:
        """The call; arguments that are no text are taken as they are."""
        texts = [piece for piece in self.arguments if isinstance(piece, str)]
        whole = next((piece for piece in reversed(self.arguments) if not isinstance(piece, str)), None)
        return {"name": "".join(self.name), "arguments": "".join(texts) if whole is None else whole}


class StreamedAnswer:
    """A streamed answer, put together line by line."""

    def __init__(self) -> None:
        self.began = False
        """Whether something of the answer is there."""
        self.complete = False
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _Pieces] = {}
        self._finish: Any = None
        self._usage: Any = None
        self._plain: list[str] = []

    def add(self, line: str) -> None:
        """Take in one line of the stream."""
        if not line.startswith("data:"):
            if not self.began:
                self._plain.append(line)
            return
        data = line[5:].strip()
        if data == _ENDED:
            self.complete = True
            return
        chunk = parsed(data)
        if chunk.get("error"):
            raise Unreachable(f"the stream broke off: {_quoted(chunk['error'])}", kind=BROKEN_ANSWER)
        try:
            self._take(chunk)
        except CandidateFault:
            raise
        except Exception as error:  # nobody can list what strangers may send
            why = f"the answer cannot be understood: reading a piece raised {described(error)}"
            raise CandidateFault(shorten(why), kind=BROKEN_ANSWER, billed="yes") from None

    def _take(self, chunk: Mapping[str, Any]) -> None:
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices") or []
        choice = choices[0] if isinstance(choices, list) and choices else {}
        if not isinstance(choices, list) or not isinstance(choice, Mapping):
            _refuse("choices", choices)
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta") or {}
        if not isinstance(delta, Mapping):
            _refuse("delta", delta)
        self.began = self.began or any(delta.get(name) for name in ("content", "tool_calls", "refusal"))
        self._content.append(_text("content", delta.get("content")))
        self._refusal.append(_text("refusal", delta.get("refusal")))
        for piece in _listed("tool_calls", delta.get("tool_calls")):
            self._take_call(piece)

    def _take_call(self, piece: Any) -> None:
        function = piece.get("function") or {} if isinstance(piece, Mapping) else None
        place = piece.get("index", 0) if isinstance(piece, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(place, int):
            _refuse("tool_calls", piece)
        call = self._calls.setdefault(place, _Pieces())
        if len(self._calls) > MOST_TOOL_CALLS:
            raise _too_many_calls()
        call.name.append(_text("name", function.get("name")))
        call.arguments.append(function.get("arguments") or "")

    def whole(self, content_type: str = "") -> dict[str, Any]:
        """The answer in the form that it has when it is not streamed."""
        if not self.began and not self.complete and self._finish is None and "event-stream" not in content_type:
            return parsed("\n".join(self._plain), content_type)  # it does not stream, although it was asked to
        if not self.complete and self._finish is None:
            raise Unreachable("the stream broke off before the answer was complete", kind=BROKEN_ANSWER)
        message = {
            "content": "".join(self._content),
            "refusal": "".join(self._refusal),
            "tool_calls": [{"function": call.joined()} for _, call in sorted(self._calls.items())],
        }
        return {"choices": [{"message": message, "finish_reason": self._finish}], "usage": self._usage}


def _said(answer: Mapping[str, Any]) -> tuple[Any, str | None]:
    """What the model said, in canonical form, and why it ended."""
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(first, Mapping) or not isinstance(message, Mapping):
        raise CandidateFault(f"the endpoint's answer has no choices: {_quoted(answer)}", kind=BROKEN_ANSWER)
    finish = first.get("finish_reason")
    finish = shorten(finish, 80) if isinstance(finish, str) else None
    if finish == "content_filter":
        raise CandidateFault("the answer was withheld by the content filter", kind="content filter")
    content, refusal = _text("content", message.get("content")), _text("refusal", message.get("refusal"))
    calls = _listed("tool_calls", message.get("tool_calls"))
    if len(calls) > MOST_TOOL_CALLS:
        raise _too_many_calls()
    if refusal and not content:
        raise CandidateFault(f"the model refused: {refusal}", kind="refusal")
    if not calls and not content.strip():
        hint = "; max_tokens may be too small" if finish == "length" else ""
        raise CandidateFault(f"the model gave an empty answer (finish reason {finish}){hint}", kind="empty answer")
    value: Any = _mended(content)
    if calls:
        value = {"content": value or None, "tool_calls": [_tool_call(call) for call in calls]}
    return usable_value(value), finish


def _tool_call(call: Any) -> dict[str, Any]:
    """A call by name; its arguments as JSON where they are, as text otherwise."""
    function = call.get("function") or {} if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        _refuse("tool_calls", call)
    given = function.get("arguments")
    arguments = _json_or_text(given) if isinstance(given, str) else given
    return {"name": _mended(_text("name", function.get("name"))) or None, "arguments": arguments}


def _json_or_text(text: str) -> Any:
    try:
        return normalize(json.loads(text))
    except (ValueError, RecursionError):  # NaN and endless nesting have no canonical form
        return _mended(text)


def _text(name: str, value: Any) -> str:
    """A text, which some endpoints give in parts. Parts that are no text, such as thoughts, are left out."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(_text(name, part.get("text")) if isinstance(part, Mapping) else _text(name, part) for part in value)
    if not isinstance(value, str):
        _refuse(name, value)
    return value


def _listed(name: str, value: Any) -> list[Any]:
    if not value:
        return []
    if not isinstance(value, list):
        _refuse(name, value)
    return value


def _too_many_calls() -> CandidateFault:
    return CandidateFault(f"output is unusable: it has more than {MOST_TOOL_CALLS:,} tool calls", billed="yes")


def _refuse(name: str, value: Any) -> NoReturn:
    raise CandidateFault(f"output is unusable: its {name} is {_quoted(value)}", kind=UNUSABLE, billed="yes")


def _mended(text: str) -> str:
    """The text with halves of a character that came apart put together, and a mark for what no store keeps."""
    if text.isascii() and "\x00" not in text:
        return text
    return storable_text(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def _tokens(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_TOKENS else 0


def _quoted(value: Any) -> str:
    return shorten(value, LONGEST_QUOTE) if isinstance(value, str) else quoted(value, LONGEST_QUOTE)
