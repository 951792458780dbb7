"""From counted failures to mutations: by a declared table, then by padding, never by asking anybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from ratchet._formats.canonical import content_hash
from workflows.model.activities.computation import Stored
from workflows.model.spec.extensions.mutation_kinds import FailureRule, Mutation
from workflows.model.spec.factors import Configuration, Factor
from workflows.rules.proposals.mutations import mutate

LONGEST_KIND = 200
"""Characters of what a kind of failure is called."""

MOST_KINDS = 1_000


@dataclass(frozen=True, slots=True)
class Called:
    """A mutation, and what called for it."""

    mutation: Mutation
    because: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A configuration to try, how it came about, and whether it is news."""

    configuration: Configuration
    description: str
    kind: str
    components: tuple[str, ...]
    because: str
    is_new: bool
    """Neither its parent again, nor anything tried before or earlier in the round."""


def counted(stored: Stored, arguments: Mapping[str, JsonValue]) -> JsonValue:
    """What the failure classifier answered, as counts by kind of failure."""
    who, answer = f"failure classifier {arguments['classifier']}", stored.answer
    if not isinstance(answer, Mapping):
        raise ValueError(f"{who} returned a {type(answer).__name__}; return a mapping of counts by kind of failure")
    if len(answer) > MOST_KINDS:
        raise ValueError(f"{who} returned {len(answer):,} kinds of failure; at most {MOST_KINDS:,} make sense")
    return {_kind(kind, who): _count(kind, count, who) for kind, count in answer.items()}


def _kind(kind: Any, who: str) -> str:
    if not isinstance(kind, str) or not kind or len(kind) > LONGEST_KIND:
        raise ValueError(f"{who} named a failure {str(kind)[:LONGEST_KIND]!r}; use short texts")
    return kind


def _count(kind: str, count: Any, who: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(f"{who} counted {count!r} failures of kind {kind!r}; return whole numbers of 0 or more")
    return count


def called_for(failures: Mapping[str, int], table: Sequence[FailureRule], padding: Sequence[Mutation]) -> Iterator[Called]:
    """The mutations that the failures call for, in the order of the table; then the padding."""
    for rule in table:
        count = failures.get(rule.failure, 0)
        if count > rule.more_than:
            yield Called(rule.mutation, f"{rule.failure} {count} > {rule.more_than}")
    for mutation in padding:
        yield Called(mutation, "padding")


def mutants_of(
    parent: Configuration,
    called: Iterator[Called],
    factors: Mapping[str, Factor],
    tried: set[str],
    wanted: int,
) -> list[Mutant]:
    """So many new configurations as are wanted. What is no news is listed too, for the record, but does not take a place."""
    known = {*tried, content_hash(parent)}
    mutants: list[Mutant] = []
    for call in called:
        if sum(1 for mutant in mutants if mutant.is_new) == wanted:
            break
        made = mutate(parent, call.mutation, factors)
        config_hash = content_hash(made.parameters)
        changed = tuple(sorted(name for name, value in made.parameters.items() if value != parent[name]))
        mutants.append(
            Mutant(
                made.parameters, made.description, call.mutation.kind, changed, call.because, is_new=config_hash not in known
            )
        )
        known.add(config_hash)
    return mutants
