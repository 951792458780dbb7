"""What a run shall improve, on which tickets, and what it may spend."""

import json
import os
from pathlib import Path

TICKET_QUEUE = "tickets"
PROMPT = "You are a support assistant. Sort the ticket."
MODEL = os.environ.get("TICKET_MODEL", "gpt-5-mini")
PROPOSER = os.environ.get("PROPOSER_MODEL", "gpt-5")
TICKETS = [json.loads(line) for line in Path(__file__).with_name("tickets.jsonl").read_text("utf-8").splitlines()]

SPEC = {
    "name": "ticket-prompt",
    "configuration": {"prompt": {"value": PROMPT, "change": "text", "max_length": 2000}, "model": MODEL},
    "target": {"kind": "activity", "activity": "label_sample", "task_queue": TICKET_QUEUE, "timeout": "60s"},
    "dataset": {"items": TICKETS, "splits": "none"},
    "scorers": [{"kind": "exact", "name": "label"}],
    "objective": {"metric": "label"},
    "optimizer": {"name": "refine", "proposer": {"kind": "model", "model": PROPOSER}},
    "stop": {"max_rounds": 8, "score": 0.99},
    "budget": {"samples": 500},
    "seed": 7,
}
