"""Credentials, which Bedrock takes from the environment only."""

from __future__ import annotations

import pytest

from tests.support.bedrock_endpoint import CREDENTIALS


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let boto3 find these."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
