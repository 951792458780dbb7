"""What models cost."""

from __future__ import annotations

from ratchet._frozen import SpecPart
from workflows.model.run.numbers import Cost


class Price(SpecPart):
    """What a model costs per million tokens."""

    input: Cost
    """Per million tokens read."""
    output: Cost
    """Per million tokens written."""
    cached_input: Cost | None = None
    """Per million tokens read from the provider's cache. Default: the price of `input`."""
