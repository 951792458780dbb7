"""What a target may return, checked once, at the border: text, a JSON value, or an `Output` with finite numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from activities.targets.faults import CandidateFault
from ratchet import Output
from workflows.model.failures import cut, described, shorten
from workflows.rules.canonical import NotCanonical, canonical_json, normalize

LARGEST_OUTPUT = 1024 * 1024
"""Characters of an output's canonical JSON."""

LARGEST_TRACE = 256 * 1024
MOST_TOKENS = 2**53


def output_from(returned: Any) -> Output:
    """What was returned as an `Output` in canonical form; anything unusable is the candidate's fault."""
    try:
        return _read(returned)
    except CandidateFault:
        raise
    except Exception as error:  # mappings, numbers and texts of its own may raise whatever they like when they are read
        raise CandidateFault(f"output is unusable: reading it raised {described(error)}") from None


def _read(returned: Any) -> Output:
    if isinstance(returned, Output):
        output = returned
    elif isinstance(returned, str | Mapping):
        output = Output(value=returned)
    elif returned is None:
        raise CandidateFault("target returned nothing; return text, a mapping or an Output")
    else:
        raise CandidateFault(f"target returned a {type(returned).__name__}; return text, a mapping or an Output")
    return replace(
        output,
        value=_usable(output.value),
        tokens=_count(output.tokens),
        cost=_finite("cost", output.cost) or 0.0,
        latency_ms=_finite("latency_ms", output.latency_ms),
        ttft_ms=_finite("ttft_ms", output.ttft_ms),
        trace=_kept(output.trace),
        overlay_hash=None if output.overlay_hash is None else str(output.overlay_hash),
    )


def _usable(value: Any) -> Any:
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


def _count(tokens: Any) -> int:
    try:
        count = operator.index(int(tokens) if isinstance(tokens, float) and tokens.is_integer() else tokens)
    except TypeError:
        raise CandidateFault(f"target returned tokens={tokens!r}; give a whole number") from None
    if not 0 <= count <= MOST_TOKENS:
        raise CandidateFault(f"target returned tokens={count}; give a number of 0 or more")
    return count


def _finite(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise CandidateFault(f"target returned {name}={value!r}; give a number") from None
    if not math.isfinite(number) or number < 0:
        raise CandidateFault(f"target returned {name}={number}; give a finite number of 0 or more")
    return number


def _kept(trace: Any) -> Any:
    """The trace in canonical form; one that JSON cannot carry is kept as text, a huge one only in part."""
    if trace is None:
        return None
    try:
        normalized = normalize(trace)
        text = canonical_json(normalized)
    except (NotCanonical, RecursionError):
        return shorten(repr(trace).encode("utf-8", "replace").decode("utf-8").replace("\x00", ""))
    return normalized if len(text) <= LARGEST_TRACE else cut(text, LARGEST_TRACE)
