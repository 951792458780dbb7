"""The statistics of judgement: pure functions over stored outcomes, with scipy and numpy.

Run by activities only. Workflow code decides on the evidence with `workflows.rules.decisions.verdicts`, so that a new
version of a library cannot break the replay of a run.
"""

from workflows.rules.statistics.comparison import compare, compare_unpaired, evidence_of
from workflows.rules.statistics.constraints import check_constraints
from workflows.rules.statistics.intervals import interval_of_score
from workflows.rules.statistics.noise import design, estimate_noise, plan
from workflows.rules.statistics.races import race
from workflows.rules.statistics.strict import broken_must_pass, false_rejection_rate, strict_counts
from workflows.rules.statistics.trial_answers import TrialAnswers, answers_of

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
