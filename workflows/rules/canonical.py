"""Canonical form, which the public package shares: see `ratchet.canonical`."""

from ratchet.canonical import (
    DEEPEST,
    LARGEST_NUMBER,
    NotCanonical,
    canonical_json,
    content_hash,
    derive_seed,
    normalize,
    normalize_text,
)

__all__ = [
    "DEEPEST",
    "LARGEST_NUMBER",
    "NotCanonical",
    "canonical_json",
    "content_hash",
    "derive_seed",
    "normalize",
    "normalize_text",
]
