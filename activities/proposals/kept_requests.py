"""What a proposer was asked, as it is kept for people to read: without secrets, and of bounded size."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from activities.secret_texts import without_secrets
from ratchet._formats.canonical import NotCanonical, content_hash, normalize
from workflows.model.failures import cut

LARGEST_REQUEST: Final = 256 * 1024
"""Characters of JSON of one request that is kept."""

LONGEST_TEXTS: Final = (64 * 1024, 8 * 1024, 1024)
"""Characters of one text in it: the first that lets the request fit."""


def kept_request(asked: Any) -> Any:
    """The request with every text masked, and cut where all of it would be too large; it takes what JSON can say."""
    for longest in LONGEST_TEXTS:
        kept = _texts_cut(asked, longest)
        if len(json.dumps(kept, ensure_ascii=False, default=repr)) <= LARGEST_REQUEST:
            return kept
    return cut(json.dumps(_texts_cut(asked, LONGEST_TEXTS[-1]), ensure_ascii=False, default=repr), LARGEST_REQUEST)


def proposed_hash(configuration: Any) -> str | None:
    """The name of a whole configuration as it was proposed; None where it cannot be written as JSON."""
    try:
        return content_hash(normalize(configuration))
    except NotCanonical:
        return None


def _texts_cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return cut(without_secrets(value), longest)
    if isinstance(value, Mapping):
        return {without_secrets(str(name)): _texts_cut(part, longest) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_texts_cut(part, longest) for part in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return cut(without_secrets(repr(value)), longest)
