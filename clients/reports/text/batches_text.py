"""Batches at a provider, in words: what a run waits for, and what was lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from clients.reports.formatting import duration_text
from ratchet._text.visible import one_line
from store.read.waiting_batches import WaitingBatch

SHOWN: Final = 5


def batch_text(batch: WaitingBatch, now: datetime) -> str:
    """`batch_7 at https://… : in_progress, 120 of 1,000 requests done, sent 2 h ago`"""
    named = f"{batch.provider_id or 'a batch'} at {batch.endpoint}"
    if batch.state == "lost":
        return one_line(f"{named} was lost by its provider; its {batch.requests:,} requests went again")
    if batch.sent_at is None:
        return one_line(f"{named}, of {batch.requests:,} requests, which is being sent")
    since = duration_text((now - batch.sent_at).total_seconds())
    return one_line(f"{named}: {batch.said or 'sent'}, {batch.done:,} of {batch.requests:,} requests done, sent {since} ago")


def waiting_text(batches: Sequence[WaitingBatch], now: datetime) -> str:
    """What a run waits for, as sentences of their own; empty where it waits for no batch and none was lost."""
    going_on = [batch for batch in batches if batch.state != "lost"]
    told = [f"It waits for batch {batch_text(batch, now)}" for batch in going_on[:SHOWN]]
    if len(going_on) > SHOWN:
        told.append(f"and for {len(going_on) - SHOWN} more batches")
    told += [f"Batch {batch_text(batch, now)}" for batch in batches if batch.state == "lost"][:SHOWN]
    return "\n".join(told)
