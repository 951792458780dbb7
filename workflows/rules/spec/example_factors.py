"""Factors of examples, and which training samples can be shown as some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from ratchet._canonical import canonical_json, normalize
from ratchet._placeholders import placeholders
from ratchet.plugins import Sample
from workflows.model.spec.factors import Factor, JsonFactor
from workflows.model.spec.optimizers.few_shot import FewShotOptimizer
from workflows.model.spec.request import OptimizationRequest

LONGEST_EXAMPLE = 4_000
"""Characters of canonical JSON."""


def example_factor(optimizer: FewShotOptimizer, factors: Mapping[str, Factor]) -> str | None:
    """The list of examples that is meant, if that is clear."""
    lists = [name for name, factor in factors.items() if _is_list(factor)]
    if optimizer.factor is not None:
        return optimizer.factor if optimizer.factor in lists else None
    return lists[0] if len(lists) == 1 else None


def _is_list(factor: Factor) -> bool:
    return isinstance(factor, JsonFactor) and isinstance(factor.value, list)


def pool_of(shown: Sequence[JsonValue], samples: Sequence[Sample], most: int) -> list[JsonValue]:
    """What can be shown: what the baseline shows, then samples in their order, each once."""
    known: dict[str, JsonValue] = {canonical_json(example): example for example in shown}
    added = 0
    for sample in samples:
        example = _as_example(sample)
        if added == most:
            break
        if example is not None and canonical_json(example) not in known:
            known[canonical_json(example)] = example
            added += 1
    return list(known.values())


def _as_example(sample: Sample) -> JsonValue:
    """A sample as it is shown. Its text is data: where it looks like a placeholder, something else would be filled in."""
    if sample.expected is None:
        return None
    example = normalize({"input": sample.input, "output": sample.expected})
    text = canonical_json(example)
    return None if len(text) > LONGEST_EXAMPLE or placeholders(text) else example


def few_shot_problems(request: OptimizationRequest, optimizer: FewShotOptimizer) -> Iterator[str]:
    """Everything that is wrong, with its field and the fix."""
    lists = [name for name, factor in request.configuration.items() if _is_list(factor)]
    if optimizer.factor is not None and optimizer.factor not in lists:
        known = ", ".join(lists) or "none"
        yield f"optimizer.factor: {optimizer.factor!r} is no list of examples that may change; known are {known}"
    elif not lists:
        yield (
            "configuration: has no list of examples; give one ({value: [], change: structured, type: json, schema: {type: "
            "array}}), or a prompt with a section of kind example"
        )
    elif optimizer.factor is None and len(lists) > 1:
        yield f"optimizer.factor: is missing, and there are several lists; name one of {', '.join(lists)}"
    splits = request.dataset.splits
    if splits is None or not splits.train or not splits.validation:
        yield (
            "dataset.splits: few_shot shows train samples and scores on validation samples; give shares for both, and for "
            "test, such as {train: 0.3, validation: 0.4, test: 0.3}"
        )
