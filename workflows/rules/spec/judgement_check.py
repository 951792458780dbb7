"""What can be wrong with how candidates are to be judged, given everything else that a spec says."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence

from ratchet._text.misspelt_names import meant
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.scoring.objective_score import is_mean_over_samples

RESOURCES = ("cost", "tokens", "latency_ms", "ttft_ms")

SHOWN = 5
"""How many names a message lists."""


def check_judgement(request: OptimizationRequest) -> Iterator[str]:
    """Every finding names the field and the fix."""
    yield from _measures(request)
    yield from _racing(request)


def _measures(request: OptimizationRequest) -> Iterator[str]:
    spec = request.judgement
    named = [(f"constraints[{place}]", constraint.measure) for place, constraint in enumerate(spec.constraints)]
    named += [(f"objectives[{place}]", objective.measure) for place, objective in enumerate(spec.objectives)]
    scores = [scorer.score_name for scorer in request.scorers]
    free = any(scorer.names_its_scores for _, scorer in placed_scorers(request.scorers))
    for where, measure in named:
        if measure not in RESOURCES and measure not in scores and not free:
            known = [*RESOURCES, *scores]
            close = meant(measure, known)
            hint = f"did you mean {close}?" if close else f"known are {', '.join(known)}"
            yield f"judgement.{where}: {measure!r} is nothing that is measured; {hint}"
        if measure == "cost" and not request.prices and any(request.target.models()):
            yield f"judgement.{where}: what a call costs is unknown without prices; add prices for the target's model"
    repeated = {one.measure for one in spec.objectives if [other.measure for other in spec.objectives].count(one.measure) > 1}
    for measure in sorted(repeated):
        yield f"judgement.objectives: {measure!r} is listed more than once; drop one"
    if request.metric in [objective.measure for objective in spec.objectives]:
        yield f"judgement.objectives: {request.metric!r} is the objective itself, which is judged in any case; drop it"


def unknown_must_pass(request: OptimizationRequest, ids: Collection[str], tags: Collection[str]) -> Iterator[str]:
    """Must-pass samples that the dataset, which has these ids and tags, does not have: no candidate would ever be asked."""
    named = request.judgement.must_pass
    if named is None:
        return
    for where, words, known in (("samples", named.samples, ids), ("tags", named.tags, tags)):
        unknown = [word for word in words if word not in known]
        if unknown:
            what = "sample with the id" if where == "samples" else "sample tagged"
            close = [match for word in unknown[:SHOWN] for match in difflib.get_close_matches(word, known, n=1)]
            hint = f"did you mean {', '.join(map(repr, dict.fromkeys(close)))}?" if close else "correct it, or drop it"
            yield f"judgement.must_pass.{where}: the dataset has no {what} {_listed(unknown)}; {hint}"


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return " or ".join(map(repr, words[:SHOWN])) + more


def _racing(request: OptimizationRequest) -> Iterator[str]:
    spec = request.judgement
    if spec.racing is None:
        return
    if request.target.runs_whole_trials:
        yield (
            "judgement.racing: an external runner runs a trial as a whole, so that nobody can look at it in between; "
            "drop racing, or use another kind of target"
        )
    if spec.test == "mann_whitney":
        yield "judgement.racing: compares sample by sample, which mann_whitney does not; drop racing, or use test: paired"
    if not is_mean_over_samples(request.objective):
        yield (
            f"judgement.racing: an objective of kind {request.objective.kind} is no mean over samples, so that some of them "
            "say little about all; drop racing, or use kind mean or success_rate"
        )
