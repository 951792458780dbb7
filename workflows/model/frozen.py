"""The two kinds of type in this vocabulary, which the public package shares: see `ratchet.frozen`."""

from ratchet.frozen import Payload, SpecPart

__all__ = ["Payload", "SpecPart"]
