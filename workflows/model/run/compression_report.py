"""What `compress` reports: which sections became shorter, which edits were not, and what it comes to."""

from __future__ import annotations

from typing import Literal

from ratchet._frozen import Payload
from ratchet.prompts.modifications import Modification

Strategy = Literal["whitespace", "duplicates", "examples", "ablation"]
"""A way to make a section shorter that needs no model."""


class EditReport(Payload):
    """One edit that was tried, and what became of it."""

    section_path: str
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

    prompt: str | None = None
    """The prompt whose sections these are; None where the run had none, and sections are factors."""
    modifications: tuple[Modification, ...] = ()
    """The sections of the winner that are shorter than the baseline's; `ratchet prompts apply RUN` puts them in force."""
    edits: tuple[EditReport, ...] = ()
    """Every edit, the largest saving first."""
    rejected: tuple[EditReport, ...] = ()
    """Those that the winner does not have."""
    tokens_before: int = 0
    tokens_after: int = 0
    total_token_reduction: int = 0
    """Of all sections together; edits of one section may overlap, so this is no sum of edits."""
    baseline_pass_rate: float | None = None
    candidate_pass_rate: float | None = None
    confirmed: bool | None = None
    """Whether fresh answers showed the winner to be not worse; None when that was not asked."""
    has_modifications: bool = False
