"""What a run without a search measured, as files to keep and to compare by diff.

A single configuration is a specification, `specs/{use case}.yaml`: what the use case is known to reach. Several are an
exploration, `explorations/{use case}/{configuration}.yaml`, one file each, which differ where the configurations do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from clients.reports.facts import Iteration, RunFacts
from clients.reports.history.files import file_name, put_whole
from clients.reports.history.stored_baselines import StoredSample, sample_lines
from ratchet._formats.yaml_text import yaml_text
from ratchet._text.placeholders import as_text
from workflows.rules.scoring.objective_score import describe_objective

SPECIFICATIONS: Final = "specs"
EXPLORATIONS: Final = "explorations"

LONGEST_CONFIGURATION_NAME: Final = 60
"""Characters; what is longer is named by its hash."""

_BARE: Final = frozenset({"objective", "status"})
_FLAT: Final = frozenset({"samples"})
_COMMENTS: Final = {
    "useCaseId": "A measurement of Ratchet's: one factor suit, and what it reached",
    "factorSuit": "The factor suit",
    "objective": "How it was judged",
    "datasetId": "On what",
    "statistics": "What it reached",
    "samples": "What every sample reached: later measurements are compared with it, sample by sample",
    "runId": "Which run measured it",
}


def write_measurements(
    facts: RunFacts, folder: Path, samples: Mapping[str, StoredSample] | None = None, *, name: str | None = None
) -> list[Path]:
    """Write what a run without a search measured, and return the paths. A newer measurement replaces an older one; files of
    somebody else's are left alone. A single configuration is written with its `samples`, so that it can be compared with, and
    under `name` where that shall not be the use case."""
    if not facts.request.optimizer.is_comparison or not facts.iterations:
        return []
    use_case = file_name(facts.use_case)
    if not facts.request.optimizer.looks_further:
        files = {folder / SPECIFICATIONS / f"{file_name(name or facts.use_case)}.yaml": facts.iterations[0]}
    else:
        home = folder / EXPLORATIONS / use_case
        files = {home / f"{name}.yaml": iteration for name, iteration in _named(facts)}
    return [put_whole(path, _text(_document(facts, iteration, samples or {}))) for path, iteration in files.items()]


def _text(document: Mapping[str, Any]) -> str:
    return yaml_text(document, bare=_BARE, flat=_FLAT, comments=_COMMENTS)


def write_baseline(path: Path, document: Mapping[str, Any], samples: Mapping[str, StoredSample]) -> Path:
    """Write a measurement that no run made."""
    return put_whole(path, _text({**document, "samples": sample_lines(samples)}))


def _named(facts: RunFacts) -> Iterator[tuple[str, Iteration]]:
    """Every configuration by what is different in it; by its hash, too, where that is too long or says the same twice."""
    taken: set[str] = set()
    for iteration in facts.iterations:
        changed = {name: value for name, value in iteration.configuration.items() if value != facts.request.baseline.get(name)}
        name = file_name("_".join(f"{factor}-{as_text(value)}" for factor, value in changed.items()) or "baseline")
        if len(name) > LONGEST_CONFIGURATION_NAME or name.casefold() in taken:
            name = f"{file_name('_'.join(changed))[:LONGEST_CONFIGURATION_NAME]}-{iteration.config_hash[:8]}"
        taken.add(name.casefold())
        yield name, iteration


def _document(facts: RunFacts, iteration: Iteration, samples: Mapping[str, StoredSample]) -> dict[str, Any]:
    request = facts.request
    document = {
        "useCaseId": facts.use_case,
        "factorSuit": iteration.configuration,
        "objective": facts.direction.upper(),
        "scorerDescription": describe_objective(request.objective, request.metric),
        "datasetId": facts.dataset_id,
        "evaluationSuiteId": facts.evaluation_suite_id,
        "replicates": iteration.replicates,
        "statistics": iteration.statistics.model_dump(mode="json", by_alias=True, exclude={"errors"}),
        "score": iteration.score,
        "scoreInterval": None if iteration.low is None else {"low": iteration.low, "high": iteration.high},
        "status": iteration.status.value,
        "failureReason": iteration.failure_reason,
        "runId": facts.run_id,
        "experimentId": facts.experiment,
    }
    return document | ({"samples": sample_lines(samples)} if samples else {})
