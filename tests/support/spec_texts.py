"""A spec as text, and changes of it."""

from __future__ import annotations

SPEC = """name: t
configuration:
  prompt: {value: "Answer yes", change: text, max_length: 100}
target: {kind: python, ref: "mine:target"}
dataset: {items: [{input: {q: 1}, expected: 1}], splits: none}
objective: exact
optimizer: {proposer: {kind: noop}}
"""


def changed(before: str, after: str) -> str:
    assert before in SPEC
    return SPEC.replace(before, after)
