"""A spec that is checked as `ratchet check` checks it."""

from __future__ import annotations

from pathlib import Path

from clients.checks.findings import Checked, check_spec

ITEMS = "{items: [{input: {q: 1}, expected: 1}], splits: none}"
"""What the spec of `spec_texts` says of its samples."""


async def checked(directory: Path, text: str, *, endpoints: bool = False) -> Checked:
    path = directory / "spec.yaml"
    path.write_text(text)
    return await check_spec(path, endpoints=endpoints)
