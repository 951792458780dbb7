"""Scorers of the user's: called here, or in a process of their own where they may kill it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.tracebacks import traceback_of
from activities.scorers.grades import Grade
from activities.secret_texts import without_secrets
from activities.targets.attached_files import with_contents
from activities.targets.faults import NotSent
from ratchet import Output, Sample, Score
from workflows.model.failures import described, with_traceback
from workflows.model.spec.scorers.python import PythonScorer
from workflows.rules.scoring.objective_score import ScoringFailed

if TYPE_CHECKING:
    from activities.scorers import ScorerTools

LONGEST_ISOLATED = 60.0
"""Seconds."""


async def python(scorer: PythonScorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Grade]:
    plugin = tools.plugins.resolve(scorer.ref, 2)
    try:
        sample = await with_contents(tools.files, sample)
    except NotSent as error:
        raise ScoringFailed(f"scorer {scorer.score_name!r}: {error}") from None
    try:
        if tools.isolation is not None:
            returned = await _isolated(scorer, output, sample, tools.isolation, tools)
        else:
            with tools.context.printed.heard():
                returned = await tools.calls.call(plugin, output, sample)
    except IsolatedFault as fault:
        raise ScoringFailed(with_traceback(f"scorer {scorer.score_name!r}: {fault}", fault.traceback)) from None
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        told = without_secrets(f"scorer {scorer.score_name!r} raised {described(error)}")
        raise ScoringFailed(with_traceback(told, traceback_of(error))) from error
    given = returned if isinstance(returned, list | tuple) else [returned]
    if not given:
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave no score; return a number, a Score or a list of them")
    return [Grade(part if isinstance(part, Score) else Score(scorer.score_name, part)) for part in given]


async def _isolated(
    scorer: PythonScorer, output: Output, sample: Sample, isolation: Isolation, tools: ScorerTools
) -> list[Any]:
    given = await isolation.call_scorer(tools.plugins, scorer.ref, output, sample, LONGEST_ISOLATED, tools.context.printed)
    return [Score(**part) if isinstance(part, dict) and "value" in part else part for part in given]
