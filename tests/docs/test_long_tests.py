"""What `make test` leaves out is there to be run by `make test-all`."""

from __future__ import annotations

import re

import pytest

from tests.support.documents import ROOT
from tests.support.long_tests import LONG


@pytest.mark.parametrize("pattern", LONG)
def test_a_long_test_that_is_named_exists(pattern: str) -> None:
    path, _, name = pattern.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    exact = re.split(r"[*\[]", name)[0]
    assert f"def {exact}" in text
