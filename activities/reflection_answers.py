"""What a model proposes, read from its answer, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from activities.scorers.extracting import read_json
from workflows.model.failures import shorten
from workflows.rules.placeholders import placeholders

LONGEST_RATIONALE = 600
LONGEST_QUOTE = 200

_OPEN, _CLOSE = re.compile(r"<new_value(?:\s[^>]*)?>"), "</new_value>"
_NAME = re.compile(r"""name\s*=\s*["']([^"']*)["']""")
_FENCED = re.compile(r"```[\w-]*\n(.*?)\n?```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """What an answer proposes."""

    values: dict[str, str] = field(default_factory=dict)
    rationale: str | None = None
    unreadable: str | None = None
    """Why nothing can be made of it."""


def read_answer(answer: str, texts: Mapping[str, str], *, cut_off: bool = False) -> Found:
    """The proposed texts, by name. Models quote the request: of several tags for one text the last one counts."""
    openings = list(_OPEN.finditer(answer))
    values: dict[str, str] = {}
    earliest = len(answer)
    for opening in reversed(openings):
        end = answer.find(_CLOSE, opening.end())
        name = _named(opening.group(0), texts)
        if end < 0 or name is None or name in values:
            continue
        values[name] = answer[opening.end() : end].strip()
        earliest = min(earliest, opening.start())
    if values:
        # Told in the order of the request, whatever the order of the answer.
        return Found({name: values[name] for name in texts if name in values}, _rationale(answer[:earliest]))
    if openings or cut_off:
        return Found(unreadable="the answer was cut off before the new text ended")
    return _without_tags(answer, texts)


def _named(tag: str, texts: Mapping[str, str]) -> str | None:
    """Which text a tag is about; where there is one text only, whatever the tag says."""
    if len(texts) == 1:
        return next(iter(texts))
    named = _NAME.search(tag)
    return named.group(1) if named and named.group(1) in texts else None


def _without_tags(answer: str, texts: Mapping[str, str]) -> Found:
    fenced = _FENCED.findall(answer)
    if len(texts) == 1:
        [name] = texts
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
