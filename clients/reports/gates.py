"""Gates: what a finished run must have reached, written as a condition over its figures.

    verdict in (better, not_worse) and cost <= 2.50

A bare word that is no figure stands for itself, so verdicts and statuses need no quotes. What is not known (there is no
verdict where nothing was confirmed) meets no condition.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from clients.reports.facts import RunFacts, best_iteration
from clients.reports.headline import headline_of
from ratchet.optimizer import StopReason
from workflows.model.spec.judgement import Verdict

FIGURES: Final = {
    "improved": "true when the winner's verdict was confirmed as its rule asks: better, or not worse where texts get shorter",
    "verdict": "better, not_worse, worse or inconclusive: the search's winner against the baseline, confirmed",
    "score": "the result's score: the winner's as confirmed, or the baseline's where nothing holds",
    "baseline_score": "the baseline's score on the same answers",
    "improvement": "confirmed gain of the result over the baseline, positive when it got better; 0 where nothing holds",
    "effect": "gain of the search's winner over the baseline in the confirmation, whether it holds or not",
    "low": "lower end of the effect's interval",
    "high": "upper end of the effect's interval",
    "p_value": "of the verdict",
    "search_score": "the best score in the search, which is the best of many",
    "search_baseline": "the baseline's score in the search",
    "cost": "what was paid",
    "tokens": "paid tokens",
    "samples": "paid target calls",
    "trials": "trials run",
    "coverage": "share of the result's samples that have an answer",
    "status": "completed, failed, cancelled or terminated",
    "stop_reason": "why the run ended",
}
"""Every figure that a gate may name."""

WORDS: Final = frozenset(
    {
        *(verdict.value for verdict in Verdict),
        *(reason.value for reason in StopReason),
        "completed",
        "failed",
        "cancelled",
        "terminated",
    }
)

_COMPARED: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_COMPUTED: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
LONGEST: Final = 1_000

_WORDED: Final = {"verdict": "better", "status": "completed", "stop_reason": "completed", "improved": True}
PLAUSIBLE: Final[dict[str, Any]] = {name: _WORDED.get(name, 0.5) for name in FIGURES}
"""What figures may look like: with these a gate is tried before it is needed."""


class BadGate(Exception):
    """A condition that cannot be read."""


class _NotKnown(Exception):
    """The condition needs a figure that this run does not have."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether a run meets a gate, and the figures that decided it."""

    gate: str
    met: bool
    figures: Mapping[str, Any]
    missing: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """`gate not met: verdict == better (verdict = worse)`"""
        told = [f"{name} = {_shown(value)}" for name, value in self.figures.items()]
        told += [f"{name} is not known" for name in self.missing]
        return f"gate {'met' if self.met else 'not met'}: {self.gate}" + (f" ({', '.join(told)})" if told else "")


def check_gate(gate: str) -> None:
    """Refuse what cannot be evaluated, before any money is spent."""
    with contextlib.suppress(ZeroDivisionError):
        _computed(gate, _parsed(gate), PLAUSIBLE)


def meets(gate: str, facts: RunFacts) -> GateResult:
    """Judge a run by a gate."""
    tree, known = _parsed(gate), figures_of(facts)
    named = [name for name in FIGURES if name in _names(tree)]
    missing = tuple(name for name in named if known[name] is None)
    figures = {name: known[name] for name in named if known[name] is not None}
    try:
        met = bool(_computed(gate, tree, known))
    except (_NotKnown, ZeroDivisionError):
        met = False
    return GateResult(gate, met, figures, missing)


def figures_of(facts: RunFacts) -> dict[str, Any]:
    """The figures by name; None where there is none."""
    found, result, best = headline_of(facts), facts.result, best_iteration(facts)
    sign = 1.0 if facts.direction == "maximize" else -1.0
    low, high = found.low, found.high
    if low is not None and high is not None:
        low, high = sorted((sign * low, sign * high))
    gain = None
    if found.score is not None and found.baseline_score is not None:
        gain = sign * (found.score - found.baseline_score)
    return {
        "improved": found.holds if facts.is_over else None,
        "verdict": found.verdict.value if found.verdict else None,
        "score": found.score,
        "baseline_score": found.baseline_score,
        "improvement": gain,
        "effect": None if found.difference is None else sign * found.difference,
        "low": low,
        "high": high,
        "p_value": found.p_value,
        "search_score": found.in_search.best_score,
        "search_baseline": found.in_search.baseline_score,
        "cost": facts.spend.cost,
        "tokens": facts.spend.tokens,
        "samples": facts.spend.samples,
        "trials": facts.spend.trials,
        "coverage": best.statistics.coverage if best else None,
        "status": facts.status,
        "stop_reason": result.stop_reason.value if result else None,
    }


def _computed(gate: str, tree: ast.expr, known: Mapping[str, Any]) -> Any:
    try:
        return _evaluated(tree, known)
    except TypeError as error:
        raise BadGate(f"{gate!r} cannot be computed: {error}") from None


def _parsed(gate: str) -> ast.expr:
    if len(gate) > LONGEST:
        raise BadGate(f"the gate has {len(gate):,} characters; at most {LONGEST:,} are read")
    try:
        tree = ast.parse(gate.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        told = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadGate(f'{gate!r} is no condition: {told}; write for example "verdict in (better, not_worse)"') from None
    for part in ast.walk(tree):
        _refuse_unless_known(part, gate)
    return tree


def _refuse_unless_known(part: ast.AST, gate: str) -> None:
    match part:
        case ast.Name(id=name) if name not in FIGURES and name not in WORDS:
            close = difflib.get_close_matches(name, [*FIGURES, *WORDS], n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; figures are {', '.join(FIGURES)}"
            raise BadGate(f"{gate!r} names {name!r}, which is no figure{hint}")
        case ast.Constant(value=bool() | int() | float() | str()):
            return
        case ast.BoolOp() | ast.Compare() | ast.Name() | ast.Tuple() | ast.List() | ast.Set():
            return
        case ast.UnaryOp(op=ast.Not() | ast.USub()) | ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            return
        case ast.And() | ast.Or() | ast.Not() | ast.USub() | ast.Load() | ast.operator():
            return
        case ast.cmpop() if type(part) in _COMPARED:
            return
    raise BadGate(f"{gate!r} has a part that a gate cannot have ({type(part).__name__}); compare figures with and, or, not, in")


def _names(tree: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}


def _evaluated(part: ast.expr, known: Mapping[str, Any]) -> Any:
    """The value of a part. Nothing is ever executed: what can stand here was checked by name."""
    match part:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _figure(name, known)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return [_evaluated(one, known) for one in parts]
        case ast.UnaryOp(op=ast.Not(), operand=one):
            return not _evaluated(one, known)
        case ast.UnaryOp(operand=one):
            return -_evaluated(one, known)
        case ast.BinOp(left=left, op=op, right=right):
            return _COMPUTED[type(op)](_evaluated(left, known), _evaluated(right, known))
        case ast.BoolOp(op=op, values=parts):
            return _joined(op, parts, known)
        case ast.Compare():
            return _compared(part, known)
    raise AssertionError(part)


def _figure(name: str, known: Mapping[str, Any]) -> Any:
    if name not in FIGURES:
        return name
    if known[name] is None:
        raise _NotKnown(name)
    return known[name]


def _joined(op: ast.boolop, parts: list[ast.expr], known: Mapping[str, Any]) -> bool:
    """What is not known decides nothing: `or` may be met, and `and` not met, by another part alone."""
    decides = isinstance(op, ast.Or)
    unknown: _NotKnown | None = None
    for part in parts:
        try:
            if bool(_evaluated(part, known)) is decides:
                return decides
        except _NotKnown as error:
            unknown = error
    if unknown is not None:
        raise unknown
    return not decides


def _compared(part: ast.Compare, known: Mapping[str, Any]) -> bool:
    values = [_evaluated(one, known) for one in (part.left, *part.comparators)]
    return all(_COMPARED[type(op)](one, other) for op, one, other in zip(part.ops, values[:-1], values[1:], strict=True))


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
