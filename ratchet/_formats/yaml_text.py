"""YAML for people: texts as blocks, every other text quoted, constants bare, rows of numbers on one line.

PyYAML writes a prompt with one trailing blank as a single escaped line, an emoji as a number, and takes minutes over the scores
of a large run. It reads what is written here: the tests hold every kind of text against both of its readers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
_TAKEN_FOR_SOMETHING_ELSE: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
LONGEST_SIMPLE_KEY: Final = 1000
_UNSEEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e0fff"
)
_NOT_IN_A_BLOCK: Final = re.compile(f"[{_UNSEEN}]|[ \t](\n|$)")
_ESCAPED: Final = re.compile(f'[{_UNSEEN}\t\n"\\\\]')
_SHORT: Final = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\", "\x1b": "\\e", "\r": "\\r", "\x00": "\\0"}


def yaml_text(
    document: Mapping[str, Any],
    *,
    bare: frozenset[str] = frozenset(),
    spaced: frozenset[str] = frozenset(),
    flat: frozenset[str] = frozenset(),
    comments: Mapping[str, str] | None = None,
) -> str:
    """The document.

    `bare` names the fields that hold constants, `spaced` the top-level lists with room between their items, `flat` the
    top-level mappings whose entries are mappings of plain values, and stand on one line each; `comments` says what stands above
    a top-level field.
    """
    said = comments or {}
    lines: list[str] = []
    for name, value in document.items():
        if name in said:
            lines += [*([""] if lines else []), *(f"# {line}" for line in said[name].split("\n"))]
        if name in flat and value:
            lines += [f"{_key(name)}:", *(line for entry, parts in value.items() for line in _flat_entry(entry, parts))]
            continue
        first, *rest = _entry(name, value, 0, bare)
        items = [part for line in rest for part in (("", line) if name in spaced and line.startswith("  - ") else (line,))]
        lines += [first, *(items[1:] if items[:1] == [""] else items)]
    return "\n".join(lines) + "\n"


def _flat_entry(name: str, parts: Mapping[str, Any]) -> list[str]:
    """A mapping of plain values on one line."""
    key = _key(name)
    told = (f"{_key(part)}: {_quoted(value) if isinstance(value, str) else _scalar(value)}" for part, value in parts.items())
    flat = f"{{{', '.join(told)}}}"
    return [f"  {key}: {flat}"] if len(key) <= LONGEST_SIMPLE_KEY else [f"  ? {key}", f"  : {flat}"]


def _entry(name: str, value: Any, indent: int, bare: frozenset[str]) -> Iterator[str]:
    margin, key = " " * indent, _key(name)
    if len(key) > LONGEST_SIMPLE_KEY:
        yield f"{margin}? {key}"
        key = ""
    first, *rest = _value(value, indent, bare, constant=name in bare)
    yield f"{margin}{key}:{first}"
    yield from rest


def _value(value: Any, indent: int, bare: frozenset[str], *, constant: bool = False) -> Iterator[str]:
    """What follows a colon: the rest of its line, then the lines below."""
    match value:
        case str() if constant and _is_plain(value):
            yield f" {value}"
        case str():
            first, *rest = _text(value, indent + 2)
            yield f" {first}"
            yield from rest
        case Mapping() if value:
            yield ""
            for name, item in value.items():
                yield from _entry(name, item, indent + 2, bare)
        case list() | tuple() if value and not all(item is None or _is_number(item) for item in value):
            yield ""
            for item in value:
                yield from _item(item, indent + 2, bare)
        case _:
            yield f" {_scalar(value)}"


def _item(item: Any, indent: int, bare: frozenset[str]) -> Iterator[str]:
    """An item of a list: its first line begins with a dash, the others are set in."""
    margin = " " * indent
    if isinstance(item, Mapping) and item:
        lines = [line for name, value in item.items() for line in _entry(name, value, indent + 2, bare)]
        yield f"{margin}- {lines[0][indent + 2 :]}"
        yield from lines[1:]
        return
    first, *rest = _value(item, indent, bare)
    yield f"{margin}-{first}"
    yield from rest


def _key(name: str) -> str:
    return name if _is_plain(name) else _quoted(name)


def _is_plain(word: str) -> bool:
    return _PLAIN.fullmatch(word) is not None and word.lower() not in _TAKEN_FOR_SOMETHING_ELSE


def _text(text: str, indent: int) -> list[str]:
    """A block when the text has several lines that a block keeps as they are, whatever blank lines follow; else quoted."""
    margin = " " * indent
    if "\n" not in text:
        return [_quoted(text)]
    if text[0] in " \t\n" or text.endswith("\n\n") or _NOT_IN_A_BLOCK.search(text):
        return _quoted_lines(text, margin)
    marker = "|" if text.endswith("\n") else "|-"
    return [marker, *(margin + line if line else "" for line in text.removesuffix("\n").split("\n"))]


def _quoted_lines(text: str, margin: str) -> list[str]:
    """Quoted, one line of text to a line of the file; a backslash before a blank keeps it."""
    first, *rest = [_escaped(line) for line in re.findall(r"[^\n]*\n|[^\n]+$", text)]
    lines = [f'"{first}', *(f"{margin}{chr(92) if line[:1] == ' ' else ''}{line}" for line in rest)]
    return [*(f"{line}\\" for line in lines[:-1]), f'{lines[-1]}"']


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return _ESCAPED.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(_scalar(item) for item in value)}]"
    return json.dumps(value)


def _float(value: float) -> str:
    """YAML takes `1e-07` for text; it wants a point."""
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
