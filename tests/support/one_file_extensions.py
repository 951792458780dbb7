"""Kinds that Ratchet does not have, known for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support import one_file_optimizer
from tests.support.one_file_scorer import NearScorer
from tests.support.one_file_target import LineTarget
from workflows.model.spec.scorers import SCORERS
from workflows.model.spec.targets import TARGETS
from workflows.optimizers import OPTIMIZERS


@contextmanager
def known_extensions() -> Iterator[None]:
    """An optimizer, a scorer and a target, each by one line in its registry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(OPTIMIZERS, "halving", one_file_optimizer.KIND)
        patch.setitem(SCORERS, "near", NearScorer)
        patch.setitem(TARGETS, "line", LineTarget)
        yield
