"""Parts of a search's samples that configurations were measured on first."""

from __future__ import annotations

from pydantic import Field

from ratchet._frozen import Payload


class MeasuredPart(Payload):
    """Some samples of the search's split that a configuration was measured on, to decide whether it is worth all of them."""

    config_hash: str
    """The hash of the configuration."""
    round: int = Field(default=0, ge=0)
    """The round in which it was measured; 0 for what was measured before the run."""
    first: int = Field(ge=0)
    """The place of the first of them."""
    count: int | None = Field(default=None, ge=0)
    """How many; all the rest where this is null."""
