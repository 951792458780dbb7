"""A run as one HTML file to keep or to send: the page itself, with the answers it would ask the server for.

It needs no server and no network, and its policy lets it reach none. What users and models wrote is data inside of it, which
the page shows as text.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

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


def html(facts: RunFacts, answers: Mapping[str, str], gates: Sequence[GateResult] = ()) -> str:
    """The whole document; `answers` are JSON texts by the paths that the page asks for."""
    script, styles = page_script(), page_styles()
    return _DOCUMENT.format(
        policy=_policy(script, styles),
        title=escape(one_line(f"{facts.use_case} / {facts.experiment}"), quote=True),
        styles=styles,
        data=_inert(_data(facts, answers, gates)),
        script=script,
    )


def _data(facts: RunFacts, answers: Mapping[str, str], gates: Sequence[GateResult]) -> str:
    compression = facts.result.compression if facts.result is not None else None
    own = {
        "run_id": facts.run_id,
        "written_at": datetime.now(UTC).isoformat(),
        "gates": [{"met": gate.met, "words": gate.words} for gate in gates],
        "figures": figures(facts),
        "edits": [{"kept": edit.kept, "text": edit_text(edit)} for edit in compression.edits] if compression else [],
    }
    told = ",".join(f"{json.dumps(path)}:{answer}" for path, answer in answers.items())
    return f'{json.dumps(own)[:-1]}, "answers": {{{told}}}}}'


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
