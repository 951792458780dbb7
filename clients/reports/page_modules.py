"""The page's modules as one script, and its styles as one sheet, so that a report is a file by itself.

A browser loads no module beside a page that it opened from a file. So every module becomes a function that is called once,
after those it imports. Nothing is parsed but `import` and `export` as the page writes them; whatever else begins with these
words is an error.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[1] / "page"
ENTRY: Final = "app.js"
IN_A_REPORT: Final = {"source.js": "report_source.js"}
"""Modules that another one stands in for."""
NOT_IN_A_REPORT: Final = frozenset(
    {"start/new_run.js", "prompts/screen.js", "datasets/screen.js", "labels/screen.js", "views/matrix.js"}
)
"""Modules that are loaded when they are first shown, which takes a server. The others are in the report."""

_IMPORT: Final = re.compile(
    r'^import (?:\* as (?P<all>\w+)|\{ (?P<names>[\w, ]+) \}) from "(?P<module>\.{1,2}/[\w./]+)";\n', re.M
)
_LATE: Final = re.compile(r'\bimport\("(?P<module>\.{1,2}/[\w./]+)"\)')
_EXPORT: Final = re.compile(r"^export (?P<what>(?:async )?(?:function\*?|const|class) (?P<name>\w+))", re.M)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*", re.M)
_SHEET: Final = re.compile(r'<link rel="stylesheet" href="/page/([^"]+)">')


class NotUnderstood(ValueError):
    """A module of the page says `import` or `export` in a way that is not known here."""


def page_script() -> str:
    """Put all modules that a report needs into one script."""
    texts = {ENTRY: ""}
    needs: dict[str, set[str]] = {}
    shown_late: set[str] = set()
    while missing := texts.keys() - needs.keys():
        for module in sorted(missing):
            text = (PAGE / module).read_text(encoding="utf-8")
            needs[module] = {_resolved(module, found["module"]) for found in _IMPORT.finditer(text)}
            texts[module] = _as_function(module, text)
            late = {_resolved(module, found["module"]) for found in _LATE.finditer(text)} - NOT_IN_A_REPORT
            shown_late |= late
            texts |= dict.fromkeys((needs[module] | late) - texts.keys(), "")
    needs[ENTRY] |= shown_late  # it may show them at once
    in_order = TopologicalSorter(needs).static_order()
    return "\n".join(["const modules = {};", *(texts[module] for module in in_order)])


def page_styles() -> str:
    """Put the sheets together, in the order in which the page names them."""
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    return "\n".join((PAGE / sheet).read_text(encoding="utf-8") for sheet in _SHEET.findall(index))


def _resolved(module: str, written: str) -> str:
    path = (PAGE / module).parent.joinpath(written).resolve().relative_to(PAGE).as_posix()
    return IN_A_REPORT.get(path, path)


def _as_function(module: str, text: str) -> str:
    exported = ", ".join(found["name"] for found in _EXPORT.finditer(text))

    def imported(found: re.Match[str]) -> str:
        names = found["all"] or f"{{ {found['names'].replace(' as ', ': ')} }}"
        return f'const {names} = modules["{_resolved(module, found["module"])}"];\n'

    def late(found: re.Match[str]) -> str:
        path = _resolved(module, found["module"])
        return found[0] if path in NOT_IN_A_REPORT else f'Promise.resolve(modules["{path}"])'

    inside = _EXPORT.sub(lambda found: found["what"], _LATE.sub(late, _IMPORT.sub(imported, text)))
    if left := _LEFT.search(inside):
        raise NotUnderstood(f"{module}: {left[0]}")
    return f'modules["{module}"] = (() => {{\n{inside}return {{ {exported} }};\n}})();\n'
