"""What a model proposes, read from its answer, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from activities.scorers.extracts import read_json
from ratchet._text.placeholders import placeholders
from workflows.model.failures import shorten

LONGEST_RATIONALE = 600
LONGEST_QUOTE = 200

CUT_OFF = "the answer was cut off before the new text ended"
TAG = "<new_value"
"""What a request names that asks for tags."""

_TAG = re.compile(r"<new_value(?:\s[^<>]*)?>|</new_value\s*>")
"""It ends at the next bracket, so that no answer takes more than linear time to read."""

_NAME = re.compile(r"""name\s*=\s*["']([^"'<>]*)["']""")
_FENCED = re.compile(r"```[\w-]*\n(.*?)\n?```", re.DOTALL)
_PLACE_OF_A_TEXT = ("…", "...")
"""What stands for the text in the request; models repeat it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an answer proposes."""

    values: dict[str, str] = field(default_factory=dict)
    rationale: str | None = None
    unreadable: str | None = None
    """Why nothing can be made of it."""


def read_answer(answer: str, texts: Mapping[str, str], *, cut_off: bool = False, tagged: bool = True) -> Found:
    """The proposed texts, by name. Nothing outside of the tags is used where the request asked for them, as it says.

    Models quote the request: of several tags for one text the last one counts.
    """
    spans, opened = _spans(answer, texts)
    values = {name: _text(answer[span.start : span.end]) for name, span in spans.items() if span.is_clear}
    if values:
        # Told in the order of the request, whatever the order of the answer.
        earliest = min(spans[name].opens for name in values)
        return Found({name: values[name] for name in texts if name in values}, _rationale(answer[:earliest]))
    if opened or cut_off:
        unclear = any(span.is_nested for span in spans.values())
        return Found(unreadable="there are tags within tags; write one text between one pair of them" if unclear else CUT_OFF)
    return _without_tags(answer, texts, tagged)


def _text(enclosed: str) -> str:
    text = enclosed.strip()
    return "" if text in _PLACE_OF_A_TEXT else text


@dataclass(slots=True)
class _Span:
    """What the tags for one text enclose."""

    opens: int
    start: int
    end: int
    is_nested: bool = False
    """A second end follows: nobody can tell what is the text, and what is part of it."""
    goes_on: bool = False
    """It is opened once more, and never closed."""

    @property
    def is_clear(self) -> bool:
        return not self.is_nested and not self.goes_on


def _spans(answer: str, texts: Mapping[str, str]) -> tuple[dict[str, _Span], bool]:
    """The last pair of tags for each text, and whether there is any that opens one."""
    spans: dict[str, _Span] = {}
    opening: re.Match[str] | None = None
    last: str | None = None
    opened = False
    for tag in _TAG.finditer(answer):
        if not tag.group().startswith("</"):
            opening, opened = tag, True
        elif opening is None:
            if last is not None:
                spans[last].is_nested = True
        else:
            last = _named(opening.group(), texts)
            if last is not None:
                spans[last] = _Span(opening.start(), opening.end(), tag.start())
            opening = None
    unclosed = None if opening is None else _named(opening.group(), texts)
    if unclosed in spans:
        spans[unclosed].goes_on = True
    return spans, opened


def _named(tag: str, texts: Mapping[str, str]) -> str | None:
    """Which text a tag is about; where there is one text only, whatever the tag says."""
    if len(texts) == 1:
        return next(iter(texts))
    named = _NAME.search(tag)
    return named.group(1) if named and named.group(1) in texts else None


def _without_tags(answer: str, texts: Mapping[str, str], tagged: bool) -> Found:
    """Several texts may come as JSON, by their names. Only where no tags were asked for, an answer may be a text itself."""
    if len(texts) == 1:
        if tagged:
            return Found(unreadable="it has nothing between <new_value> and </new_value>, and only what is there is used")
        [name] = texts
        fenced = _FENCED.findall(answer)
        if fenced:
            return Found({name: max(fenced, key=len).strip()}, _rationale(_FENCED.split(answer)[0]))
        return Found({name: answer.strip()})
    try:
        read = read_json(answer)
    except (ValueError, RecursionError):
        read = None
    values = {name: read[name].strip() for name in texts if isinstance(read.get(name), str)} if isinstance(read, dict) else {}
    if values:
        return Found(values)
    return Found(unreadable=f"it has no <new_value name=…> for any of {', '.join(texts)}")


def problems_of(found: Found, texts: Mapping[str, str], limits: Mapping[str, int]) -> list[str]:
    """What is wrong with what was proposed, each in words that the model can do something about."""
    if found.unreadable is not None:
        return [found.unreadable]
    problems = [problem for name, value in found.values.items() for problem in _wrong_with(name, value, texts[name], limits)]
    if not problems and all(found.values[name] == texts[name].strip() for name in found.values):
        problems.append("nothing was changed")
    return problems


def _wrong_with(name: str, value: str, current: str, limits: Mapping[str, int]) -> Iterator[str]:
    if not value:
        yield f"{name}: Factor value cannot be empty"
        return
    longest = limits.get(name)
    if longest is not None and len(value) > longest:
        yield f"{name}: Factor value exceeds max length {longest} (was {len(value)})"
    kept, wanted = placeholders(value), placeholders(current)
    for lost in (placeholder for placeholder in wanted if placeholder not in kept):
        yield f"{name}: placeholder {{{{{lost}}}}} was lost; keep it"
    for added in (placeholder for placeholder in kept if placeholder not in wanted):
        yield f"{name}: nothing would fill the placeholder {{{{{shorten(added, LONGEST_QUOTE)}}}}}; leave it out"


def _rationale(text: str) -> str | None:
    return shorten(text.strip(), LONGEST_RATIONALE) or None
