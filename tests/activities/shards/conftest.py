"""Plug-ins of the tests as if nobody had called them."""

from __future__ import annotations

import threading

import pytest

from tests.support import evaluation_plugins


@pytest.fixture(autouse=True)
def fresh_plugins() -> None:
    evaluation_plugins.calls.clear()
    evaluation_plugins.in_flight = evaluation_plugins.most_in_flight = 0
    evaluation_plugins.release = threading.Event()
