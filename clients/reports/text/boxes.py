"""The boxes on the terminal: 68 columns whatever is in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from pydantic import JsonValue
from rich.cells import cell_len

from clients.reports.comparisons.score_differences import difference_text, error_rate_text
from clients.reports.compressions import compression_text, edit_text
from clients.reports.facts import (
    Iteration,
    RunFacts,
    best_iteration,
    compared,
    decision_on,
    errors_met,
    fixed_factors,
    plan_of,
    slices_to_tell,
    steps,
    treatment,
)
from clients.reports.formatting import counted, objective_text, telling_apart
from clients.reports.headline import Headline, headline_of
from clients.reports.optimizer_notes import counted_text, lost_rounds_text, parts_text
from clients.reports.pareto_front import front_objectives, front_of, gain_text, member_name
from clients.reports.release_outcome import release_text
from clients.reports.removal_notes import hold_text, removal_text
from clients.reports.text.progress_lines import iteration_text, termination
from clients.reports.text.summary import (
    adjusted_text,
    can_find,
    errors_text,
    exceeded_text,
    first_look_text,
    importance_text,
    lost_text,
    means_text,
    reused_text,
    score_interval,
    score_line,
    spent_text,
)
from clients.reports.text.terminal_text import ellipsized, one_line, padded, visible, without_zero_width, wrapped
from ratchet._formats.canonical import canonical_json
from workflows.model.failures import split_traceback
from workflows.model.spec.factors import Configuration
from workflows.rules.scoring.slices import Slice, Slices

COLUMNS: Final = 68
INNER: Final = COLUMNS - 2
LABEL: Final = 18
VALUE: Final = 60
"""Columns of a factor's value."""
BESIDE_LABEL: Final = INNER - 2 - LABEL - 2
LINE: Final = INNER - 4
LONGEST_FIXED_FACTOR: Final = 60
FIXED_FACTOR_ROWS: Final = 6
SLICE_NAME: Final = 38
ENTRIES: Final = 8
"""Edits, and members of a Pareto front, that a summary lists."""


class Verbosity(StrEnum):
    """How much a box says."""

    MINIMAL = "minimal"
    SUMMARY = "summary"
    FULL = "full"


def _mode(facts: RunFacts) -> str:
    """What the run was for: to measure one configuration, to explore several, or to optimize."""
    optimizer = facts.request.optimizer
    if not optimizer.is_comparison:
        return "OPTIMIZE"
    return "EXPLORE" if optimizer.looks_further else "MEASURE"


def box(facts: RunFacts, verbosity: Verbosity = Verbosity.SUMMARY) -> str:
    """The run's report. Plain text: print it without markup."""
    heading = _hanging(f"{_mode(facts)}: {facts.use_case} / {facts.experiment}")
    found = headline_of(facts)
    leads = _headline(found)
    if verbosity is Verbosity.MINIMAL:
        ending = [] if best_iteration(facts) else [*_status(facts), *_termination(facts)]
        return _drawn([heading, leads, [*_treatment(facts), *ending, *_best_value(facts)]])
    blocks = [heading, [*leads, *_spent(facts)], _setting(facts, verbosity), _outcome(facts, found, verbosity)]
    if verbosity is Verbosity.FULL and facts.iterations:
        blocks.append([row for step in steps(facts) for row in _hanging(iteration_text(step))])
        blocks += _decisions(facts)
    blocks += _edits(facts, verbosity) + _front(facts, verbosity)
    if facts.request.optimizer.is_comparison:
        blocks.append(_compared(facts))
    slices = slices_to_tell(facts, in_full=verbosity is Verbosity.FULL)
    if slices is not None:
        blocks.append(_slices(slices))
    return _drawn([*blocks, _best_value(facts), *(_unproven(facts) if verbosity is Verbosity.FULL else [])])


def _headline(found: Headline) -> list[str]:
    """What the run comes to; where the search's winner does not hold, what it was and why not."""
    return [*_hanging(found.words), *(row for name, text in found.beside for row in _labelled(f"{name}:", text))]


def _spent(facts: RunFacts) -> list[str]:
    """What the run took, and by whose prices, where it took anything that costs."""
    spend, prices = facts.spend, facts.versions.get("prices", "")
    rows = _labelled("Spent:", spent_text(facts)) if spend.cost or spend.tokens else []
    return [*rows, *(_labelled("Prices:", prices) if prices else [])]


def _setting(facts: RunFacts, verbosity: Verbosity) -> list[str]:
    rows = FIXED_FACTOR_ROWS if verbosity is Verbosity.SUMMARY else None
    return [
        *_prompt(facts),
        *_treatment(facts),
        *_labelled("Fixed factors:", _fixed_factors(facts), rows),
        *_labelled("Objective:", objective_text(facts.request)),
        *_optimizer(facts),
    ]


def _outcome(facts: RunFacts, found: Headline, verbosity: Verbosity) -> list[str]:
    best = best_iteration(facts)
    running = f" ({facts.counts.running} running)" if facts.result is None and facts.counts.running else ""
    several = f", in {counted(facts.round, 'round')}" if facts.round and len(facts.iterations) != facts.round + 1 else ""
    rows = _plan(facts, verbosity) + _labelled("Iterations:", f"{len(facts.iterations)}{several}{running}")
    beside = (("Counted:", counted_text(facts)), ("In part:", parts_text(facts)), ("Lost rounds:", lost_rounds_text(facts)))
    rows += [row for label, text in beside if text for row in _labelled(label, text)]
    if verbosity is Verbosity.FULL:
        rows += _labelled("Rejections:", _rejections(facts))
    rows += _labelled("First look:", first_look_text(facts)) if first_look_text(facts) else []
    rows += _labelled("Errors:", errors_text(facts)) if errors_met(facts) else []
    rows += _status(facts)
    rows += _labelled("Best iteration:", str(best.number) if best else "none")
    rows += _labelled("Score:", score_line(found)) if score_line(found) else []
    if verbosity is Verbosity.FULL and score_interval(facts):
        rows += _labelled("Interval:", score_interval(facts))
    rows += _labelled("Means:", means_text(facts)) if means_text(facts) else []
    if facts.result is not None and facts.result.compression is not None:
        rows += _labelled("Compressed:", compression_text(facts.result.compression))
    told = (("Mattered:", importance_text(facts)), ("Release:", release_text(facts)))
    rows += [row for label, text in told if text for row in _labelled(label, text)]
    return rows + _reused(facts) + _termination(facts)


def _plan(facts: RunFacts, verbosity: Verbosity) -> list[str]:
    found = plan_of(facts)
    if found is None:
        return []
    if verbosity is not Verbosity.FULL:
        return _labelled("Can find:", can_find(facts))
    return _labelled("Can find:", found.words) + _labelled("Error rate:", error_rate_text(facts.request.judgement))


def _reused(facts: RunFacts) -> list[str]:
    """Said only where there is something to say."""
    told = (
        ("Adjusted:", adjusted_text(facts)),
        ("Reused:", reused_text(facts)),
        ("Lost:", lost_text(facts)),
        ("Removed:", removal_text(facts.removals)),
        ("Held:", hold_text(facts.legal_holds)),
        ("Exceeded:", exceeded_text(facts)),
    )
    return [row for label, text in told if text for row in _labelled(label, text)]


def _optimizer(facts: RunFacts) -> list[str]:
    """Said where nobody had to choose it."""
    why = facts.request.why_its_optimizer
    return [] if why is None else _labelled("Optimizer:", f"{facts.request.optimizer.name}, {why}")


def _prompt(facts: RunFacts) -> list[str]:
    return [] if facts.request.prompt is None else _labelled("Prompt:", facts.request.prompt.described)


def _treatment(facts: RunFacts) -> list[str]:
    """`Treatment factors:` would fill the label's column to its last place, so that several are labelled more briefly."""
    factors = treatment(facts)
    if len(factors) > 1:
        return _labelled("Treatment:", ", ".join(factors))
    return _labelled("Treatment factor:", factors[0] if factors else "none")


def _status(facts: RunFacts) -> list[str]:
    """Said only when it is not what everybody hopes for."""
    return [] if facts.status == "completed" else _labelled("Status:", facts.status.upper())


def _termination(facts: RunFacts) -> list[str]:
    """Why it ended; where a plug-in raised stands below, a row for each frame."""
    if not facts.is_over:
        return []
    message, where = split_traceback(termination(facts))
    return _labelled("Termination:", message) + [row for line in where.splitlines() for row in _hanging(line)]


def _decisions(facts: RunFacts) -> list[list[str]]:
    """Why each candidate was kept or dropped."""
    told = [
        f"  {iteration.number}: {decision.explanation}"
        for iteration in facts.iterations
        if (decision := decision_on(facts, iteration)) is not None and decision.explanation and iteration.round
    ]
    return [["Decisions:", *(row for text in told for row in _hanging(one_line(text)))]] if told else []


def _edits(facts: RunFacts, verbosity: Verbosity) -> list[list[str]]:
    """What was tried to make texts shorter, `+` for what was kept; the largest saving first."""
    found = facts.result.compression if facts.result is not None else None
    if found is None or not found.edits:
        return []
    told = [f"{'+' if edit.kept else '-'} {edit_text(edit)}" for edit in found.edits]
    return [["Edits:", *_first_of(told, verbosity)]]


def _front(facts: RunFacts, verbosity: Verbosity) -> list[list[str]]:
    """Candidates that no other one beats in every objective, with what each gained over the baseline."""
    names = front_objectives(facts)
    if len(names) < 2:
        return []
    told = [
        f"{member_name(facts, member)}: {', '.join(f'{name} {gain_text(member, name)}' for name in names)}"
        for member in front_of(facts)
    ]
    return [["Pareto front, gains over the baseline:", *_first_of(told, verbosity)]]


def _first_of(texts: Sequence[str], verbosity: Verbosity) -> list[str]:
    """A row or more for each text; a summary has room for a few."""
    shown = texts if verbosity is Verbosity.FULL else texts[:ENTRIES]
    rows = [f"  {row}" for text in shown for row in _hanging(text, LINE - 2)]
    left = len(texts) - len(shown)
    return [*rows, f"  and {left} more; --verbosity full lists them"] if left else rows


def _rejections(facts: RunFacts) -> str:
    if not facts.rejections:
        return "0"
    reasons = Counter(rejection.reason_code.value for rejection in facts.rejections)
    return f"{len(facts.rejections)} ({', '.join(f'{reason} {count}' for reason, count in reasons.most_common())})"


def _compared(facts: RunFacts) -> list[str]:
    """One row per configuration, the best first: its score, the difference to the baseline, and what it changes."""
    found = compared(facts)
    if not found:
        return ["Compared:         nothing, no configuration has a score"]
    scores = telling_apart(*(iteration.score or 0.0 for iteration, _ in found))
    apart = [difference_text(difference) if difference else "" for _, difference in found]
    wide, wider = max(map(len, scores)), max(map(len, apart))
    rows = ["Compared:"]
    for (iteration, _), score, difference in zip(found, scores, apart, strict=True):
        changes = ", ".join(f"{name}={_brief(iteration.configuration[name])}" for name in _changes(iteration, facts))
        beside = f"{difference:<{wider}}  " if wider else ""
        rows += _hanging(f"  {score:>{wide}}  {beside}{changes or 'the baseline'}")
    return rows


def _changes(iteration: Iteration, facts: RunFacts) -> list[str]:
    baseline = facts.request.baseline
    return [name for name, value in iteration.configuration.items() if canonical_json(value) != canonical_json(baseline[name])]


def _slices(slices: Slices) -> list[str]:
    """One row per slice: `billing (12)   0.50 → 0.75`."""
    rows = [f"Slices of the {slices.split.value} samples:" if slices.split != "all" else "Slices:"]
    for part in slices.slices:
        named = ellipsized(one_line(f"{part.name} ({part.samples:,})"), SLICE_NAME)
        rows.append(f"  {padded(named, SLICE_NAME)}  {' → '.join(_slice_scores(part)) or 'no answer'}")
    more = [f"{count:,} more values of {field}" for field, count in slices.left_out.items()]
    return rows + ([f"  and {', '.join(more)}"] if more else [])


def _slice_scores(part: Slice) -> list[str]:
    return telling_apart(*(score for score in (part.baseline, part.best) if score is not None))


def _fixed_factors(facts: RunFacts) -> str:
    fixed = fixed_factors(facts)
    return ", ".join(f"{name}={_brief(value)}" for name, value in fixed.items()) or "none"


def _brief(value: JsonValue) -> str:
    """A value within a list of values; quoted where it would be taken for more than one."""
    bare = isinstance(value, str) and value == value.strip() and value and not set(value) & set(',="')
    text = str(value) if bare else json.dumps(value, ensure_ascii=False)
    return ellipsized(one_line(text), LONGEST_FIXED_FACTOR)


def _best_value(facts: RunFacts) -> list[str]:
    best, factors = best_iteration(facts), treatment(facts)
    if best is None:
        return _labelled("Best value:", "none" if facts.is_over else "none yet")
    if not factors:
        return _labelled("Best value:", "the baseline")
    if len(factors) == 1:
        return ["Best value:", *_value_rows(best.configuration[factors[0]], indent=2)]
    return ["Best values:", *(row for name in factors for row in _named_value(name, best.configuration))]


def _unproven(facts: RunFacts) -> list[list[str]]:
    """What the search's winner would have changed, where it does not hold."""
    found = facts.result.unproven if facts.result is not None else None
    if found is None:
        return []
    changed = (name for name in treatment(facts) if found.configuration[name] != facts.request.baseline[name])
    return [["Unproven:", *(row for name in changed for row in _named_value(name, found.configuration))]]


def _named_value(name: str, configuration: Configuration) -> list[str]:
    value = configuration[name]
    text = visible(_text(value))
    if "\n" not in text and cell_len(f"{name}: {text}") <= VALUE:
        return [f"  {name}: {text}"]
    return [*(f"  {row}" for row in wrapped(f"{name}:", VALUE)), *_value_rows(value, indent=4)]


def _value_rows(value: JsonValue, indent: int) -> list[str]:
    width = VALUE + 2 - indent
    return [" " * indent + row for line in visible(_text(value)).split("\n") for row in wrapped(line, width)]


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    compact = json.dumps(value, ensure_ascii=False)
    return compact if len(compact) <= VALUE // 2 else json.dumps(value, ensure_ascii=False, indent=2)


def _labelled(label: str, value: str, most: int | None = None) -> list[str]:
    rows = wrapped(one_line(value), BESIDE_LABEL)
    if most is not None and len(rows) > most:
        rows = [*rows[: most - 1], ellipsized(f"{rows[most - 1]} …", BESIDE_LABEL)]
    return [f"{label if number == 0 else '':<{LABEL}}{row}" for number, row in enumerate(rows)]


def _hanging(text: str, width: int = LINE) -> list[str]:
    """A long line, its further rows set in."""
    first, *rest = wrapped(one_line(text), width)
    further = wrapped(" ".join(rest), width - 2) if rest else []
    return [first, *(f"  {row}" for row in further)]


def _drawn(blocks: Iterable[Sequence[str]]) -> str:
    rule = "═" * INNER
    inside = f"\n╠{rule}╣\n".join("\n".join(_row(content) for content in block) for block in blocks)
    return f"╔{rule}╗\n{inside}\n╚{rule}╝"


def _row(content: str) -> str:
    """One row. Where a character joins with its neighbours so that widths do not add up, it is shown as a mark."""
    for text in (content, without_zero_width(content)):
        row = f"║{padded(f'  {text}', INNER)}║"
        if cell_len(row) == COLUMNS:
            return row
    return f"║{padded(f'  {ellipsized(without_zero_width(content), LINE)}', INNER)}║"
