"""Requests for new values, of a prompt whose answers were all wrong."""

from __future__ import annotations

from typing import Any

from ratchet import Record
from tests.support.suite_building import plugin
from workflows.model.run.contract import ProposalInput
from workflows.model.spec.extensions.proposers import ModelProposer, PythonProposer
from workflows.model.trial import Split

MODEL = "simulated-reflector"
PROMPT = "You sort tickets.\nTicket: {{input.ticket}}"
FAILURES = [Record({"ticket": f"I was charged twice, case {n}."}, "bug", 0.0, "expected billing", "billing") for n in range(8)]


def request(proposer: ModelProposer | PythonProposer, **more: Any) -> ProposalInput:
    given: dict[str, Any] = {
        "run_id": "run",
        "round": 1,
        "index": 0,
        "parent": "c0",
        "config_hash": "that of the run",
        "factors": ("prompt",),
        "proposer": proposer,
        "feedback": "Iteration 0: score=0.400, successRate=40.00%\n",
        "objective": "Mean exact (higher is better)",
        "limits": {"prompt": 4000},
        "split": Split.VALIDATION,
    }
    return ProposalInput(**{**given, **more})


def by_model(base_url: str | None = None, **more: Any) -> ModelProposer:
    return ModelProposer(kind="model", model=MODEL, base_url=base_url, **more)


def by_plugin(name: str, **more: Any) -> PythonProposer:
    return PythonProposer(kind="python", ref=plugin(name), **more)
