"""What `compress` reports: which sections became shorter, which edits were not, and what it comes to."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from ratchet._frozen import Payload

Strategy = Literal["whitespace", "duplicates", "examples", "ablation"]
"""A way to make a section shorter that needs no model."""


class Modification(Payload):
    """One section of the winner that is shorter than the baseline's."""

    path: str
    original_hash: str
    """Of the section as the baseline has it: sha256 of a text, the content hash of anything else."""
    body: JsonValue
    """The section as it is now."""
    strategies: tuple[str, ...] = ()
    """What made it shorter."""
    token_reduction: int
    baseline_pass_rate: float | None = None
    candidate_pass_rate: float | None = None
    """Of the whole winner, on the samples of the search; of a single edit alone, see `edits`."""


class EditReport(Payload):
    """One edit that was tried, and what became of it."""

    path: str
    strategy: str
    token_reduction: int
    kept: bool
    pass_rate: float | None = None
    """Of the baseline with this edit alone."""
    regression_count: int | None = None
    """Samples that the baseline passes in every replicate, and the baseline with this edit alone does not."""
    candidate_id: str | None = None
    """None when it was never measured."""
    reason: str = ""
    """Why it was kept or rejected."""


class Compression(Payload):
    """The report of a compression. What is claimed of the winner stands in the result's confirmation."""

    modifications: tuple[Modification, ...] = ()
    edits: tuple[EditReport, ...] = ()
    """Every edit, the largest saving first."""
    tokens_before: int = 0
    tokens_after: int = 0
    total_token_reduction: int = 0
    """Of all sections together; edits of one section may overlap, so this is no sum of edits."""
    baseline_pass_rate: float | None = None
    candidate_pass_rate: float | None = None
    confirmed: bool | None = None
    """Whether fresh answers showed the winner to be not worse; None when that was not asked."""
    has_modifications: bool = False

    @property
    def rejected(self) -> tuple[EditReport, ...]:
        """Edits that the winner does not have."""
        return tuple(edit for edit in self.edits if not edit.kept)
