"""Rows of the lineage: candidates and their parents."""

from __future__ import annotations

from pydantic import Field

from ratchet._frozen import Payload


class Node(Payload):
    """A candidate in the lineage."""

    candidate_id: str
    config_hash: str = Field(serialization_alias="mask_id")
    round: int
    index: int
    status: str | None
    """None for a candidate whose trial in full has not begun."""
    score: float | None = Field(serialization_alias="objective_score")
    rationale: str | None
    is_best: bool
    is_baseline: bool
    parts: int
    """How often it was measured on some samples only."""


class Edge(Payload):
    """From a parent to its child; a candidate may have several parents."""

    parent: str
    child: str


class Graph(Payload):
    """The true lineage; a candidate may have several parents."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
