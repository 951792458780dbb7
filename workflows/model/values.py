"""Values in canonical form, which the public package shares: see `ratchet.values`."""

from ratchet.values import (
    LONGEST_TEXT,
    CanonicalInteger,
    CanonicalMapping,
    CanonicalValue,
    PathText,
    ShortText,
    Text,
    canonical_text,
)

__all__ = [
    "LONGEST_TEXT",
    "CanonicalInteger",
    "CanonicalMapping",
    "CanonicalValue",
    "PathText",
    "ShortText",
    "Text",
    "canonical_text",
]
