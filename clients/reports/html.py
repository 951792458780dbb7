"""A run as one HTML file to keep or to send: no script, nothing loaded from anywhere. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from clients.reports.charts import lineage_chart, pareto_chart, regression_matrix, score_chart, spend_chart, turns_of
from clients.reports.compressions import compression_text, edit_text
from clients.reports.diff import FactorDifference, differences
from clients.reports.facts import Iteration, RunFacts, best_iteration, compared, decision_on, treatment
from clients.reports.formatting import counted, duration_text, objective_text, score_text
from clients.reports.gates import GateResult
from clients.reports.optimizer_notes import counted_text, lost_rounds_text, parts_text
from clients.reports.pareto_front import front_objectives, front_of, gain_text, member_name
from clients.reports.release_outcome import release_text
from clients.reports.score_differences import caution_text, confirmation_text, error_rate_text, optimism_text
from clients.reports.text.boxes import Verbosity
from clients.reports.text.progress_lines import termination
from clients.reports.text.summary import (
    adjusted_text,
    can_find,
    errors_text,
    importance_text,
    lost_text,
    reused_text,
    score_line,
)
from clients.reports.text.terminal_text import one_line, visible

ROWS: Final = 200
"""Iterations in the table of a summary; a full report lists all."""

STYLE: Final = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2024;--soft:#60646c;--line:#dfe2e6;--card:#f7f8f9;--good:#18794e;--bad:#c62a2f;
--accent:#0b68cb;--add:#d6f3e1;--del:#fde0e0}
@media(prefers-color-scheme:dark){:root{--bg:#15171a;--fg:#eceef0;--soft:#9ba1a6;--line:#33383d;--card:#1d2024;--good:#4cc38a;
--bad:#ff8b8b;--accent:#6cb3ff;--add:#123b29;--del:#4a1d1f}}
*{box-sizing:border-box}body{margin:0 auto;max-width:60rem;padding:2rem 1.25rem;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,sans-serif}h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.soft{color:var(--soft)}.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:1rem;margin:1rem 0;
overflow-x:auto}.good{color:var(--good)}.bad{color:var(--bad)}dl{display:grid;grid-template-columns:max-content 1fr;
gap:.25rem 1rem;margin:0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}pre{white-space:pre-wrap;margin:0;
overflow-wrap:anywhere;font:14px/1.5 ui-monospace,monospace}ins{background:var(--add);text-decoration:none}
del{background:var(--del)}
table{border-collapse:collapse;width:100%;font-size:.875rem}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid
var(--line);vertical-align:top}td.number{text-align:right;font-variant-numeric:tabular-nums}svg{display:block;width:100%;
height:auto;font:12px system-ui,sans-serif}svg text{fill:var(--soft)}.middle{text-anchor:middle}.end{text-anchor:end}
.grid{stroke:var(--line)}.interval{stroke:var(--soft);stroke-opacity:.5}.trial{fill:var(--soft)}.best{fill:var(--accent)}
.failed{fill:var(--bad)}.node{stroke:var(--bg);stroke-width:2}.edge,.best-line,.spend{fill:none;stroke:var(--accent)}
.edge{stroke:var(--soft);stroke-opacity:.6}.budget{stroke:var(--bad);stroke-dasharray:6}rect.fixed{fill:var(--good)}
rect.broken{fill:var(--bad)}rect.both{fill:var(--line)}rect.neither{fill:var(--soft)}
@media print{body{max-width:none}.card{break-inside:avoid}}
"""


def html(facts: RunFacts, verbosity: Verbosity = Verbosity.SUMMARY, gates: Sequence[GateResult] = ()) -> str:
    """The whole document."""
    title = f"{facts.use_case} / {facts.experiment}"
    parts = [_heading(facts, title), _verdict(facts, gates)]
    if verbosity is not Verbosity.MINIMAL:
        parts += [_section("Score over iterations", score_chart(facts)), _figures(facts)]
    parts.append(_best_value(facts))
    if verbosity is not Verbosity.MINIMAL:
        parts += [_samples(facts), _edits(facts), _front(facts), _section("Lineage", lineage_chart(facts))]
        parts += [_slices(facts), _section("Spend", spend_chart(facts)), _iterations(facts, verbosity)]
    if verbosity is Verbosity.FULL:
        parts.append(_rejections(facts))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def _text(text: str) -> str:
    return escape(one_line(text), quote=True)


def _heading(facts: RunFacts, title: str) -> str:
    when = facts.started_at.strftime("%Y-%m-%d %H:%M UTC")
    return f'<h1>{_text(title)}</h1><p class="soft">Run {_text(facts.run_id)}, started {when}</p>'


def _verdict(facts: RunFacts, gates: Sequence[GateResult]) -> str:
    lines = []
    for gate in gates:
        mark, kind = ("✓", "good") if gate.met else ("✗", "bad")
        lines.append(f'<p class="{kind}">{mark} {_text(gate.words)}</p>')
    if facts.status != "completed":
        lines.append(f'<p class="bad">{_text(facts.status.upper())}: {_text(termination(facts))}</p>')
    if facts.result is not None and facts.result.confirmation is not None:
        confirmation = facts.result.confirmation
        told = (optimism_text(confirmation), caution_text(confirmation), confirmation.explanation)
        lines.append(f"<p><strong>Confirmed:</strong> {_text(confirmation_text(confirmation, facts.direction))}</p>")
        lines += [f'<p class="soft">{_text(text)}</p>' for text in told if text]
    if score_line(facts):
        lines.append(f"<p><strong>Search:</strong> {_text(score_line(facts))}</p>")
    return f'<div class="card">{"".join(lines)}</div>' if lines else ""


def _figures(facts: RunFacts) -> str:
    spend = facts.spend
    rows = [
        ("Objective", objective_text(facts.request)),
        ("Treatment", ", ".join(treatment(facts)) or "none"),
        ("Iterations", f"{len(facts.iterations)}; {facts.counts.rejected} proposals rejected"),
        ("Counted", counted_text(facts) or ""),
        ("In part", parts_text(facts) or ""),
        ("Lost rounds", lost_rounds_text(facts) or ""),
        ("Can find", can_find(facts)),
        ("Error rate", error_rate_text(facts.request.judgement)),
        ("Release", release_text(facts)),
        (
            "Spent",
            f"{spend.cost:.4g}; {spend.tokens:,} tokens; {counted(spend.samples, 'call')}; {counted(spend.trials, 'trial')}",
        ),
        ("Errors", errors_text(facts)),
        ("Adjusted", adjusted_text(facts)),
        ("Mattered", importance_text(facts)),
        ("Reused", reused_text(facts) or ""),
        ("Lost", lost_text(facts) or ""),
        ("Compressed", _compressed(facts)),
        ("Took", _took(facts)),
        ("Ended", termination(facts)),
    ]
    listed = "".join(f"<dt>{label}</dt><dd>{_text(text)}</dd>" for label, text in rows if text)
    return f'<h2>Figures</h2><div class="card"><dl>{listed}</dl></div>'


def _compressed(facts: RunFacts) -> str:
    found = facts.result.compression if facts.result is not None else None
    return "" if found is None else compression_text(found)


def _edits(facts: RunFacts) -> str:
    found = facts.result.compression if facts.result is not None else None
    if found is None or not found.edits:
        return ""
    lines = "".join(
        f'<p class="{"good" if edit.kept else "bad"}">{"✓" if edit.kept else "✗"} {_text(edit_text(edit))}</p>'
        for edit in found.edits
    )
    return f'<h2>Edits, the largest saving first</h2><div class="card">{lines}</div>'


def _front(facts: RunFacts) -> str:
    """The chart, and the same as a table, in every objective."""
    names = front_objectives(facts)
    if len(names) < 2:
        return ""
    heads = "".join(f"<th scope=col>{_text(name)}</th>" for name in ("Candidate", *names))
    rows = "".join(
        f"<tr><td>{_text(member_name(facts, member))}</td>"
        + "".join(f'<td class="number">{_text(gain_text(member, name))}</td>' for name in names)
        + "</tr>"
        for member in front_of(facts)
    )
    told = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<h2>Pareto front, gains over the baseline</h2><div class="card">{pareto_chart(facts)}{told}</div>'


def _took(facts: RunFacts) -> str:
    return "" if facts.finished_at is None else duration_text((facts.finished_at - facts.started_at).total_seconds())


def _section(title: str, chart: str) -> str:
    return f'<h2>{title}</h2><div class="card">{chart}</div>' if chart else ""


def _samples(facts: RunFacts) -> str:
    turns = turns_of(facts)
    if not turns:
        return ""
    told = ", ".join(f"{turns.count(turn)} {turn}" for turn in ("fixed", "broken", "both", "neither"))
    words = f'<p class="soft">Baseline against best: {told} (passed by both, passed by neither).</p>'
    return f'<h2>Samples</h2><div class="card">{words}{regression_matrix(facts)}</div>'


def _slices(facts: RunFacts) -> str:
    if facts.slices is None or not facts.slices.slices:
        return ""
    heads = "".join(f"<th scope=col>{head}</th>" for head in ("Slice", "Samples", "Baseline", "Best"))
    rows = "".join(
        f'<tr><td>{_text(part.name)}</td><td class="number">{part.samples:,}</td>'
        + "".join(f'<td class="number">{"" if one is None else score_text(one)}</td>' for one in (part.baseline, part.best))
        + "</tr>"
        for part in facts.slices.slices
    )
    left = "".join(
        f'<p class="soft">…and {count:,} more values of {_text(name)}.</p>' for name, count in facts.slices.left_out.items()
    )
    told = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{left}"
    return f'<h2>Slices of the {facts.slices.split.value} samples</h2><div class="card">{told}</div>'


def _best_value(facts: RunFacts) -> str:
    best = best_iteration(facts)
    if best is None:
        return ""
    changed = differences(facts.request.baseline, best.configuration)
    told = "".join(_change(change) for change in changed) or '<div class="card">The baseline itself.</div>'
    return f"<h2>Best value</h2>{told}"


def _change(change: FactorDifference) -> str:
    marks = {"same": "{}", "removed": "<del>{}</del>", "added": "<ins>{}</ins>"}
    pieces = "".join(marks[piece.kind].format(escape(visible(piece.text), quote=True)) for piece in change.segments)
    return f'<div class="card"><p class="soft">{_text(change.factor)}</p><pre>{pieces}</pre></div>'


def _iterations(facts: RunFacts, verbosity: Verbosity) -> str:
    rows = compared(facts)
    shown = rows if verbosity is Verbosity.FULL else rows[:ROWS]
    heads = "".join(f"<th scope=col>{head}</th>" for head in ("#", "Candidate", "Score", "Passed", "Cost", "Why"))
    body = "".join(_iteration(facts, iteration) for iteration, _ in shown)
    more = f'<p class="soft">…and {len(rows) - len(shown)} more.</p>' if len(rows) > len(shown) else ""
    table = f'<div class="card"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}</div>'
    return f"<h2>Iterations, the best first</h2>{table}" if shown else ""


def _iteration(facts: RunFacts, iteration: Iteration) -> str:
    decision, statistics = decision_on(facts, iteration), iteration.statistics
    score = "" if iteration.score is None else score_text(iteration.score)
    why = decision.explanation if decision is not None and decision.explanation else iteration.rationale or ""
    numbers = (score, f"{statistics.success_count}/{statistics.sample_count}", f"{statistics.total_cost:.4g}")
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    named = f'<td class="number">{iteration.number}</td><td>{_text(iteration.candidate_id)}</td>'
    return f"<tr>{named}{cells}<td>{_text(why)}</td></tr>"


def _rejections(facts: RunFacts) -> str:
    if not facts.rejections:
        return ""
    rows = "".join(
        f'<tr><td class="number">{found.round}</td><td>{_text(found.reason_code)}</td><td>{_text(found.message)}</td></tr>'
        for found in facts.rejections
    )
    heads = "<tr><th scope=col>Round</th><th scope=col>Reason</th><th scope=col>Message</th></tr>"
    return (
        f'<h2>Rejected before any spend</h2><div class="card"><table><thead>{heads}</thead><tbody>{rows}</tbody></table></div>'
    )
