"""A run to look at over HTTP."""

from __future__ import annotations

import pytest

from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec, split_items


@pytest.fixture(scope="session")
async def finished(engines: Engines) -> str:
    """A finished run with candidates, rejections and a confirmation."""
    await engines.run(hill_spec(name="seen", dataset=split_items(), stop={"max_rounds": 6, "no_improvement": 0}), run_id="seen")
    return "seen"
