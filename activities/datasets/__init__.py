"""Datasets: read from wherever they are kept, checked item by item, stored under the hash of their content, split by seed."""

from activities.datasets.dataset_errors import DatasetError, SourceAway
from activities.datasets.given_splits import GivenSplits, divide_as_given
from activities.datasets.ingestion import Ingested, check_items, ingest
from activities.datasets.sources import (
    FileSource,
    InlineItems,
    Layout,
    ObjectSource,
    Source,
    as_source,
    source_of,
    worker_file,
)
from activities.datasets.splits import draw_splits, split_sizes

__all__ = [
    "DatasetError",
    "FileSource",
    "GivenSplits",
    "Ingested",
    "InlineItems",
    "Layout",
    "ObjectSource",
    "Source",
    "SourceAway",
    "as_source",
    "check_items",
    "divide_as_given",
    "draw_splits",
    "ingest",
    "source_of",
    "split_sizes",
    "worker_file",
]
