"""Importing the library costs little: production code imports it to render a prompt."""

from __future__ import annotations

import sys

import pytest

import ratchet
from tests.support.loaded_modules import ENGINE, ROOMS, WITHOUT_TEMPORAL, loaded_by

MODULES_OF_OUR_OWN = 3
"""`ratchet`, the experiment, the types of plug-ins."""


def test_the_types_of_plugins_need_nothing_that_is_installed() -> None:
    loaded = loaded_by("import ratchet; ratchet.Sample, ratchet.current_experiment()")
    assert len([name for name in loaded if name.partition(".")[0] == "ratchet"]) == MODULES_OF_OUR_OWN
    assert {name.partition(".")[0] for name in loaded} - {"ratchet"} <= set(sys.stdlib_module_names)


def test_experiments_are_declared_with_nothing_that_is_installed() -> None:
    loaded = loaded_by(
        "import ratchet; ratchet.use_case, ratchet.criterion, ratchet.experiment.measure, ratchet.experiment.Captor"
    )
    assert "ratchet._declared.declarations" in loaded
    assert {name.partition(".")[0] for name in loaded} - {"ratchet"} <= set(sys.stdlib_module_names)


def test_a_run_needs_the_engine_and_says_so_where_it_is_missing() -> None:
    loaded_by(WITHOUT_TEMPORAL)
    assert "temporalio" in loaded_by("import ratchet; ratchet.optimize, ratchet.start, ratchet.Result")


@pytest.mark.parametrize(
    "program",
    [
        "from ratchet import *",
        "import ratchet.prompts",
        "import ratchet.domains, ratchet; ratchet.text(''), ratchet.SpecError('')",
    ],
)
def test_nothing_of_the_library_loads_the_engine(program: str) -> None:
    loaded = {name.partition(".")[0] for name in loaded_by(program)}
    assert "pydantic" in loaded
    assert not loaded & (ENGINE | ROOMS)


def test_the_optimizer_protocol_comes_when_it_is_asked_for() -> None:
    assert set(ratchet.__all__) <= set(dir(ratchet))
    assert all(getattr(ratchet, name) is not None for name in ratchet.__all__)
    assert "ratchet.optimizer" in loaded_by("from ratchet import Optimizer")
    with pytest.raises(AttributeError, match="no attribute 'Optimiser'"):
        ratchet.Optimiser  # type: ignore[attr-defined]  # noqa: B018
