"""The statistics of judgement: pure functions over stored outcomes, with scipy and numpy.

Run by activities only. Workflow code decides on the evidence with `workflows.rules.verdicts`, so that a new version of a
library cannot break the replay of a run.
"""

from workflows.rules.judgement.answers import TrialAnswers, answers_of
from workflows.rules.judgement.comparing import compare, compare_unpaired, evidence_of
from workflows.rules.judgement.constraints import check_constraints
from workflows.rules.judgement.intervals import interval_of_score
from workflows.rules.judgement.noise import design, estimate_noise, plan
from workflows.rules.judgement.racing import race
from workflows.rules.judgement.strict import broken_must_pass, false_rejection_rate, strict_counts

__all__ = [
    "TrialAnswers",
    "answers_of",
    "broken_must_pass",
    "check_constraints",
    "compare",
    "compare_unpaired",
    "design",
    "estimate_noise",
    "evidence_of",
    "false_rejection_rate",
    "interval_of_score",
    "plan",
    "race",
    "strict_counts",
]
