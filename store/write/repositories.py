"""All repositories over one database, for activities that need several."""

from __future__ import annotations

from store.connection import Database
from store.read.releases import ReleaseReader
from store.read.sample_files import FileReader
from store.read.samples.evaluated_samples import EvaluatedSamples
from store.read.samples.measured_samples import MeasuredSamples
from store.read.search_history import SearchHistory
from store.read.trials import TrialReader
from store.write.answers.judge_replies import JudgeReplies
from store.write.answers.outcomes import Outcomes
from store.write.answers.sent_batches import SentBatches
from store.write.answers.turns import Turns
from store.write.answers.unscored_answers import UnscoredAnswers
from store.write.limits.budgets import Budgets
from store.write.limits.learned_rates import LearnedRates
from store.write.limits.rate_limits import RateLimits
from store.write.overlays import Overlays
from store.write.proposals import ModelAnswers, Proposals
from store.write.releases import Releases
from store.write.runs import Runs
from store.write.served_times import ServedTimes
from store.write.suites import Suites
from store.write.test_split import HeldBackSplits
from store.write.trials import Trials


class Store:
    """The store as activities see it: its methods are those of the repositories, one transaction each."""

    def __init__(self, database: Database) -> None:
        self.runs = Runs(database)
        self.suites = Suites(database)
        self.overlays = Overlays(database)
        self.held_back_splits = HeldBackSplits(database)
        self.trials = Trials(database)
        self.outcomes = Outcomes(database)
        self.turns = Turns(database)
        self.unscored_answers = UnscoredAnswers(database)
        self.sent_batches = SentBatches(database)
        self.judge_replies = JudgeReplies(database)
        self.budgets = Budgets(database)
        self.proposals = Proposals(database)
        self.model_answers = ModelAnswers(database)
        self.releases = Releases(database)
        self.release_log = ReleaseReader(database)
        self.served_times = ServedTimes(database)
        self.rate_limits = RateLimits(database)
        self.learned_rates = LearnedRates(database)
        self.search_history = SearchHistory(database)
        self.measured_samples = MeasuredSamples(database)
        self.evaluated_samples = EvaluatedSamples(database)
        self.answers = TrialReader(database)
        self.files = FileReader(database)
