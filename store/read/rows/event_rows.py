"""Rows of events: what happened, in full and as it is passed on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ratchet._frozen import Payload


class EventRow(Payload):
    """Something that happened; `id` is the SSE event id, `key` names the happening itself."""

    id: int
    run_id: str
    key: str = ""
    type: str
    payload: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class WireEvent:
    """An event for those who only pass it on: its payload is JSON text."""

    id: int
    key: str
    type: str
    payload: str
    created_at: datetime
