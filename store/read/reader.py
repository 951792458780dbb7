"""All readers over one database, for clients."""

from __future__ import annotations

from store.connection import Database
from store.read.access.access_tokens import AccessTokenReader
from store.read.access.audit_log import AuditReader
from store.read.access.team_months import TeamMonthReader
from store.read.access.teams import TeamReader
from store.read.candidates import CandidateReader
from store.read.dataset_items import DatasetItemReader
from store.read.datasets import DatasetReader
from store.read.event_log import EventReader
from store.read.finds import FindReader
from store.read.labels import LabelReader
from store.read.marks import MarkReader
from store.read.outlines import OutlineReader
from store.read.prompt_runs import PromptRunReader
from store.read.proposals import ProposalReader
from store.read.releases import ReleaseReader
from store.read.runs import RunReader
from store.read.sample_files import FileReader
from store.read.samples.comparisons import ComparisonReader
from store.read.samples.matrix import MatrixReader
from store.read.samples.sent_material import SentMaterialReader
from store.read.samples.slice_scores import SliceScoreReader
from store.read.samples.slices import SliceReader
from store.read.trials import TrialReader
from store.read.waiting_batches import BatchReader


class StoreReader:
    """The store as clients see it: every look is at one moment, and touches no running workflow."""

    def __init__(self, database: Database) -> None:
        self.runs = RunReader(database)
        self.trials = TrialReader(database)
        self.candidates = CandidateReader(database)
        self.outlines = OutlineReader(database)
        self.batches = BatchReader(database)
        self.comparisons = ComparisonReader(database)
        self.matrix = MatrixReader(database)
        self.sent = SentMaterialReader(database)
        self.slices = SliceReader(database)
        self.slice_scores = SliceScoreReader(database)
        self.events = EventReader(database)
        self.datasets = DatasetReader(database)
        self.dataset_items = DatasetItemReader(database)
        self.proposals = ProposalReader(database)
        self.prompt_runs = PromptRunReader(database)
        self.releases = ReleaseReader(database)
        self.files = FileReader(database)
        self.labels = LabelReader(database)
        self.marks = MarkReader(database)
        self.finds = FindReader(database)
        self.access_tokens = AccessTokenReader(database)
        self.audit = AuditReader(database)
        self.teams = TeamReader(database)
        self.team_months = TeamMonthReader(database)
