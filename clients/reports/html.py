"""Runs as an HTML file to keep or to send: the page itself, with the answers it would ask the server for.

It needs no server and no network, and its policy lets it reach none. What users and models wrote is data inside of it, which
the page shows as text.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from clients.reports.compressions import edit_text
from clients.reports.facts import RunFacts
from clients.reports.figures import figures
from clients.reports.gates import GateResult
from clients.reports.page_modules import page_script, page_styles
from clients.reports.text.terminal_text import one_line

_DOCUMENT: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="generator" content="Ratchet report">
<title>{title}</title>
<style>{styles}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<div id="app"></div>
<noscript><p class="notice">This report needs JavaScript. <code>ratchet report</code> shows the same as text.</p></noscript>
<script type="application/json" id="report">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


@dataclass(frozen=True)
class ReportedRun:
    """A run of a report, with how it fared at the gates."""

    facts: RunFacts
    gates: Sequence[GateResult] = ()

    @property
    def title(self) -> str:
        return f"{self.facts.use_case} / {self.facts.experiment}"

    def words(self) -> dict[str, Any]:
        """What the report says of it beside the server's answers."""
        result = self.facts.result
        compression = result.compression if result is not None else None
        return {
            "gates": [{"met": gate.met, "words": gate.words} for gate in self.gates],
            "figures": figures(self.facts),
            "edits": [{"kept": edit.kept, "text": edit_text(edit)} for edit in compression.edits] if compression else [],
        }


def html(facts: RunFacts, answers: Mapping[str, str], gates: Sequence[GateResult] = (), home: str | None = None) -> str:
    """Write one run as a document; `answers` are JSON texts by the paths that the page asks for, `home` a file beside it that
    lists it."""
    run = ReportedRun(facts, gates)
    own: dict[str, Any] = {"run_id": facts.run_id, "home": home, "pairs": [], "runs": {facts.run_id: run.words()}}
    return _document(run.title, own, answers)


def html_of_several(
    runs: Sequence[ReportedRun],
    answers: Mapping[str, str],
    pairs: Sequence[Mapping[str, Any]],
    files: Mapping[str, str] | None = None,
) -> str:
    """Write several runs as a document that begins with their list; `files` are those that have the runs, where it has not."""
    own = {
        "run_id": None,
        "files": files,
        "pairs": list(pairs),
        "runs": {} if files is not None else {one.facts.run_id: one.words() for one in runs},
    }
    return _document(f"{len(runs)} runs", own, answers)


def _document(title: str, own: Mapping[str, Any], answers: Mapping[str, str]) -> str:
    script, styles = page_script(), page_styles()
    return _DOCUMENT.format(
        policy=_policy(script, styles),
        title=escape(one_line(title), quote=True),
        styles=styles,
        data=_inert(_data(own, answers)),
        script=script,
    )


def _data(own: Mapping[str, Any], answers: Mapping[str, str]) -> str:
    told = ",".join(f"{json.dumps(path)}:{answer}" for path, answer in answers.items())
    return f'{json.dumps({**own, "written_at": datetime.now(UTC).isoformat()})[:-1]}, "answers": {{{told}}}}}'


def _inert(data: str) -> str:
    """Write JSON so that nothing ends the element it is in: `<` stands in texts only, where it may be written otherwise."""
    return data.replace("<", "\\u003c")


def _policy(script: str, styles: str) -> str:
    """Run this script and wear these styles, nothing else; load nothing, send nothing."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
