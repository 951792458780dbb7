"""`meta_prompt`: texts written from what the run has found out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet._frozen import SpecPart
from workflows.model.spec.proposers import ModelProposer, PythonProposer


class MetaPromptOptimizer(SpecPart):
    """Rewrites texts from the history: the proposer reads a hall of fame, the best candidates with their scores, and what the
    newest ones still got wrong. Every candidate of a round is measured in full."""

    name: Literal["meta_prompt"]
    proposer: Annotated[ModelProposer | PythonProposer, Field(discriminator="kind")]
    """Who writes. A model's request shows `{{hall_of_fame}}`; a template of your own may show it, too. A callable is given the
    failures and the values of the candidate that it starts from."""
    factors: list[str] | None = None
    """The texts to rewrite, all in one request. Default: every text that may change; with a callable, every such factor."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 4
    """How many candidates a round writes and measures side by side: every other one from the best, the rest from others of the
    hall of fame."""
    hall_of_fame: Annotated[int, Field(ge=1, le=20)] = 5
    """How many of the best candidates are kept in it."""
