"""HTML that is safe by the way it is made: every text in it is escaped, unless it is HTML that was made here."""

from __future__ import annotations

import html
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from ratchet._text.visible import visible

NO_MATHEMATICS: Final = "tex2jax_ignore mathjax_ignore"
"""Classes by which notebooks know what is not to be set as formulas: prices have dollar signs, too."""

VOID: Final = frozenset({"br", "line", "path", "circle"})
"""Elements that hold nothing."""


class Markup(str):
    """Finished HTML."""

    __slots__ = ()


Part = str | None
"""What stands in an element: HTML as it is, other text escaped, None not at all."""


def element(name: str, /, *parts: Part | Iterable[Part], **attributes: str | float | None) -> Markup:
    """Write an element; `class_` is the attribute `class`, and `data_kind` is `data-kind`."""
    told = "".join(
        f' {attribute.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for attribute, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{told}/>" if name != "br" else "<br>")
    return Markup(f"<{name}{told}>{joined(*parts)}</{name}>")


def joined(*parts: Part | Iterable[Part]) -> Markup:
    """Put pieces one behind the other."""
    flat = (one for part in parts for one in ((part,) if part is None or isinstance(part, str) else part))
    return Markup("".join(one if isinstance(one, Markup) else escaped(one) for one in flat if one is not None))


def escaped(text: str) -> Markup:
    """Show a text instead of obeying it, be it HTML or what hides and reorders text."""
    return Markup(html.escape(visible(text), quote=True))


def cell(*parts: Part | Iterable[Part], label: str) -> str:
    """Write what stands below a cell, with its style; `label` is for those who hear it."""
    style = Markup(f"<style>{_style()}</style>")
    return style + element("div", *parts, class_=f"ratchet {NO_MATHEMATICS}", role="region", aria_label=label)


def pill(text: str, kind: str | None = None) -> Markup:
    """Write a word that is seen first; `kind` is good, warn, bad or accent."""
    return element("span", text, class_="pill", data_kind=kind)


def rows(pairs: Iterable[tuple[str, Part]]) -> Markup:
    """List names with what belongs to each."""
    listed = ((element("dt", name), element("dd", text)) for name, text in pairs)
    return element("dl", *listed)


@cache
def _style() -> str:
    return Path(__file__).with_name("cell.css").read_text(encoding="utf-8")
