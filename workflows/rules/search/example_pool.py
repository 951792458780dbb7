"""Which training samples can be shown as examples."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from ratchet._formats.canonical import canonical_json, normalize
from ratchet._text.placeholders import placeholders
from ratchet.plugins import Sample

LONGEST_EXAMPLE = 4_000
"""Characters of canonical JSON."""


def pool_of(shown: Sequence[JsonValue], samples: Sequence[Sample], most: int) -> list[JsonValue]:
    """What can be shown: what the baseline shows, then samples in their order, each once."""
    known: dict[str, JsonValue] = {canonical_json(example): example for example in shown}
    added = 0
    for sample in samples:
        example = _as_example(sample)
        if added == most:
            break
        if example is not None and canonical_json(example) not in known:
            known[canonical_json(example)] = example
            added += 1
    return list(known.values())


def _as_example(sample: Sample) -> JsonValue:
    """A sample as it is shown. Its text is data: where it looks like a placeholder, something else would be filled in."""
    if sample.expected is None:
        return None
    example = normalize({"input": sample.input, "output": sample.expected})
    text = canonical_json(example)
    return None if len(text) > LONGEST_EXAMPLE or placeholders(text) else example
