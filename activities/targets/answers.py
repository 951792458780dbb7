"""What a target may return, checked once, at the border: text, a JSON value, or an `Output` with finite numbers."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from activities.targets.faults import CandidateFault
from ratchet import Output
from ratchet._formats.canonical import NotCanonical, canonical_json, is_scalar, normalize
from workflows.model.failures import cut, described, shorten
from workflows.model.run.amounts import MOST_COST, MOST_MILLISECONDS, MOST_TOKENS

LARGEST_OUTPUT = 1024 * 1024
"""Characters of an output's canonical JSON."""

LARGEST_TRACE = 256 * 1024
_WANTED = "return text, a number, a list, a mapping or an Output"


def output_from(returned: Any) -> Output:
    """What was returned as an `Output` in canonical form; anything unusable is the candidate's fault."""
    try:
        return _read(returned)
    except CandidateFault as fault:
        raise _with_its_bill(fault, returned) from None
    except Exception as error:  # mappings, numbers and texts of its own may raise whatever they like when they are read
        why = f"output is unusable: reading it raised {described(error)}"
        raise _with_its_bill(CandidateFault(why), returned) from None


def _with_its_bill(fault: CandidateFault, returned: Any) -> CandidateFault:
    """An answer came, so it was paid for; what of its bill can be read is told with the fault."""
    fault.billed = "yes"
    with contextlib.suppress(Exception):
        fault.tokens = _count(returned.tokens)
    with contextlib.suppress(Exception):
        fault.cost = _finite("cost", returned.cost, MOST_COST) or 0.0
    with contextlib.suppress(Exception):
        fault.latency_ms = _finite("latency_ms", returned.latency_ms, MOST_MILLISECONDS)
    return fault


def _read(returned: Any) -> Output:
    if isinstance(returned, Output):
        output = returned
    elif isinstance(returned, str | Mapping | int | float | list | tuple) or is_scalar(returned):
        output = Output(value=returned)
    elif returned is None:
        raise CandidateFault(f"target returned nothing; {_WANTED}")
    else:
        raise CandidateFault(f"target returned a {type(returned).__name__}; {_WANTED}")
    return replace(
        output,
        value=usable_value(output.value),
        tokens=_count(output.tokens),
        cached_tokens=min(_count(output.cached_tokens), _count(output.tokens)),
        cost=_finite("cost", output.cost, MOST_COST) or 0.0,
        latency_ms=_finite("latency_ms", output.latency_ms, MOST_MILLISECONDS),
        ttft_ms=_finite("ttft_ms", output.ttft_ms, MOST_MILLISECONDS),
        trace=_kept(output.trace),
        overlay_hash=None if output.overlay_hash is None else str(output.overlay_hash),
    )


def usable_value(value: Any) -> Any:
    """An answer's value in canonical form; one that JSON cannot carry, or that is too large, is the candidate's fault."""
    if not fits(value, LARGEST_OUTPUT):
        raise CandidateFault(
            f"output is unusable: it has more than {LARGEST_OUTPUT:,} characters, which is what is kept at most"
        )
    try:
        normalized = normalize(value)
        size = len(normalized) if isinstance(normalized, str) else len(canonical_json(normalized))
    except NotCanonical as error:
        raise CandidateFault(f"output is unusable: {error}") from None
    except RecursionError:
        raise CandidateFault("output is unusable: it is nested too deeply") from None
    if size > LARGEST_OUTPUT:
        raise CandidateFault(f"output is unusable: it has {size:,} characters, at most {LARGEST_OUTPUT:,} are kept")
    return normalized


def fits(value: Any, most: int) -> bool:
    """Whether the value's JSON can have so few characters. Says so of one of any size without looking at all of it."""
    pending = [value]
    while pending and most >= 0:
        one = pending.pop()
        if isinstance(one, str):
            most -= len(one)
        elif isinstance(one, Mapping):
            most -= 3 * len(one)
            pending += [*one, *one.values()] if most >= 0 else []
        elif isinstance(one, list | tuple):
            most -= 1 + len(one)
            pending += one if most >= 0 else []
        else:
            most -= 1
    return most >= 0


def _count(tokens: Any) -> int:
    try:
        count = operator.index(int(tokens) if isinstance(tokens, float) and tokens.is_integer() else tokens)
    except TypeError:
        raise CandidateFault(f"target returned tokens={_shown(tokens)}; give a whole number") from None
    if not 0 <= count <= MOST_TOKENS:
        raise CandidateFault(f"target returned tokens={_shown(count)}; give a number from 0 to {MOST_TOKENS:,}")
    return count


def _finite(name: str, value: Any, most: float) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise CandidateFault(f"target returned {name}={_shown(value)}; give a number") from None
    if not math.isfinite(number) or not 0 <= number <= most:
        raise CandidateFault(f"target returned {name}={number}; give a finite number from 0 to {most:g}")
    return number


def _shown(value: Any) -> str:
    """Whatever a target may have returned; Python refuses to write numbers of more than some thousand digits."""
    return (
        "a number of very many digits" if isinstance(value, int) and value.bit_length() > 1_000 else shorten(repr(value), 200)
    )


def _kept(trace: Any) -> Any:
    """The trace in canonical form; one that JSON cannot carry is kept as text, a huge one only in part."""
    if trace is None:
        return None
    if not fits(trace, LARGEST_TRACE * 8):
        return f"(a trace of more than {LARGEST_TRACE * 8:,} characters, which is not kept)"
    try:
        normalized = normalize(trace)
        text = canonical_json(normalized)
    except (NotCanonical, RecursionError):
        return shorten(repr(trace).encode("utf-8", "replace").decode("utf-8").replace("\x00", ""))
    return normalized if len(text) <= LARGEST_TRACE else cut(text, LARGEST_TRACE)
