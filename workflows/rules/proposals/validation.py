"""What may be tried: checks of the whole spec before a run, and of every proposal before anything is spent on it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ratchet._formats.canonical import NotCanonical, canonical_json, content_hash, normalize
from ratchet._text.placeholders import placeholders
from ratchet._text.unfolding import Extent, Unfolding, too_far
from ratchet.domains import Domain, misfit, shown
from ratchet.optimizer import CandidateProposal
from workflows.model.failures import shorten
from workflows.model.run.candidates import ReasonCode
from workflows.model.spec.factors import LARGEST_CONFIGURATION, Configuration, Factor, FrozenFactor, JsonFactor, TextFactor
from workflows.rules.spec.value_schemas import NotApplicable, SchemaWork, value_problem

LONGEST_QUOTE = 300
"""Characters of a foreign message or name that a refusal repeats."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a proposal is kept out."""

    reason_code: ReasonCode
    message: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """A proposal that may be tried, in canonical form."""

    configuration: Configuration
    config_hash: str


@dataclass(frozen=True, slots=True)
class KnownConfigurations:
    """What is known of the run when a proposal is judged."""

    config_hashes: Collection[str]
    """Configurations that were tried in full."""
    candidate_ids: Collection[str]


def examine(
    proposal: CandidateProposal, factors: Mapping[str, Factor], known: KnownConfigurations, parent_hashes: Collection[str]
) -> Admitted | Refusal:
    """Let a proposal in, or say why not. `parent_hashes` are the configurations of its own parents."""
    try:
        configuration = normalize(proposal.configuration)
    except NotCanonical as error:
        return Refusal(ReasonCode.INVALID_SHAPE, f"configuration: {shorten(str(error), LONGEST_QUOTE)}")
    if not isinstance(configuration, dict):
        return Refusal(ReasonCode.INVALID_SHAPE, "configuration is not a mapping of factor names to values")
    shape = _shape(configuration, factors)
    if shape is not None:
        return shape
    work = SchemaWork()
    for name, factor in factors.items():
        refusal = refuse_value(name, configuration[name], factor, work)
        if refusal is not None:
            return refusal
    too_long = _unfolds_too_far(configuration)
    if too_long is not None:
        return too_long
    return _lineage_and_novelty(proposal, configuration, known, parent_hashes)


def _shape(configuration: Configuration, factors: Mapping[str, Factor]) -> Refusal | None:
    missing = [name for name in factors if name not in configuration]
    if missing:
        return Refusal(ReasonCode.MISSING_FACTOR, f"factor {missing[0]!r} is missing; a proposal names every factor")
    unknown = [name for name in configuration if name not in factors]
    if unknown:
        known = shorten(", ".join(factors), LONGEST_QUOTE)
        return Refusal(ReasonCode.UNKNOWN_FACTOR, f"factor {_quoted(unknown[0])} is unknown; known are {known}")
    size = len(canonical_json(configuration).encode())
    if size > LARGEST_CONFIGURATION:
        return Refusal(ReasonCode.TOO_LONG, f"configuration is {size:,} bytes; at most {LARGEST_CONFIGURATION:,} are allowed")
    return None


def _lineage_and_novelty(
    proposal: CandidateProposal, configuration: Configuration, known: KnownConfigurations, parent_hashes: Collection[str]
) -> Admitted | Refusal:
    strangers = [parent for parent in proposal.parent_candidate_ids if parent not in known.candidate_ids]
    if strangers:
        return Refusal(ReasonCode.UNKNOWN_PARENT, f"parent {_quoted(strangers[0])} is no candidate of this run")
    config_hash = content_hash(configuration)
    if proposal.part is not None:
        return Admitted(configuration, config_hash)
    if not proposal.resample and config_hash in known.config_hashes:
        if config_hash in parent_hashes:
            return Refusal(ReasonCode.NO_CHANGE, "the proposal equals its parent")
        return Refusal(ReasonCode.DUPLICATE, f"configuration {config_hash[:8]} was tried already")
    return Admitted(configuration, config_hash)


def _unfolds_too_far(configuration: Configuration) -> Refusal | None:
    """Texts may name each other more often than the baseline's do."""
    unfolding = Unfolding({name: [value] for name, value in configuration.items()})
    for name, value in configuration.items():
        extent = unfolding.of(value) if isinstance(value, str) else Extent()
        if extent.is_too_far:
            return Refusal(ReasonCode.TOO_LONG, f"{name}: {too_far(extent)}")
    return None


def refuse_value(name: str, value: Any, factor: Factor, work: SchemaWork | None = None) -> Refusal | None:
    """Why a factor cannot take a value, if it cannot. `work` bounds what the values of one configuration take together."""
    match factor:
        case FrozenFactor():
            return _refuse_frozen(name, value, factor)
        case TextFactor():
            return _refuse_text(name, value, factor)
        case JsonFactor():
            return _refuse_json(name, value, factor, work or SchemaWork())
        case _:
            return _refuse_misfit(name, value, factor)


def _refuse_frozen(name: str, value: Any, factor: FrozenFactor) -> Refusal | None:
    if canonical_json(value) == canonical_json(factor.value):
        return None
    return Refusal(ReasonCode.FROZEN_FACTOR_CHANGED, f"factor {name!r} is frozen, but its value was changed")


def _refuse_text(name: str, value: Any, factor: TextFactor) -> Refusal | None:
    if not isinstance(value, str):
        return _invalid(name, f"{shown(value)} is not text")
    if not value.strip():
        return Refusal(ReasonCode.EMPTY_VALUE, f"{name}: Factor value cannot be empty")
    if len(value) > factor.max_length:
        return Refusal(ReasonCode.TOO_LONG, f"{name}: Factor value exceeds max length {factor.max_length} (was {len(value)})")
    kept = placeholders(value)
    lost = [placeholder for placeholder in placeholders(factor.value) if placeholder not in kept]
    if lost:
        return Refusal(ReasonCode.PLACEHOLDER_LOST, f"{name}: placeholder {{{{{lost[0]}}}}} was lost; keep it")
    added = [placeholder for placeholder in kept if placeholder not in placeholders(factor.value)]
    if added:
        stranger = shorten(added[0], LONGEST_QUOTE)
        return _invalid(name, f"placeholder {{{{{stranger}}}}} is not in the baseline; nothing would fill it")
    return None


def _refuse_misfit(name: str, value: Any, domain: Domain) -> Refusal | None:
    wrong = misfit(domain, value)
    if wrong is None:
        return None
    return _invalid(name, wrong.problem) if wrong.wrong_kind else _out_of_range(name, wrong.problem)


def _refuse_json(name: str, value: Any, factor: JsonFactor, work: SchemaWork) -> Refusal | None:
    try:
        problem = value_problem(factor.json_schema, value, work)
    except NotApplicable as error:
        return _invalid(name, f"its schema cannot be applied: {error}")
    return None if problem is None else _out_of_range(name, f"does not satisfy its schema: {problem}")


def _out_of_range(name: str, problem: str) -> Refusal:
    return Refusal(ReasonCode.OUT_OF_RANGE, f"factor {name!r}: {problem}")


def _invalid(name: str, problem: str) -> Refusal:
    return Refusal(ReasonCode.INVALID_SHAPE, f"factor {name!r}: {problem}")


def _quoted(name: str) -> str:
    return repr(shorten(name, LONGEST_QUOTE))


def candidate_name(round_index: int, config_hash: str, taken: Collection[str]) -> str:
    """A candidate's id: from its round and content, numbered when the same content is tried again in the round."""
    name = f"r{round_index}-{config_hash[:8]}"
    if name not in taken:
        return name
    return next(f"{name}-{again}" for again in itertools.count(2) if f"{name}-{again}" not in taken)
