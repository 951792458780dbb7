"""Targets as a spec describes them, with all that others ask of them; one line for each kind in the registry below."""

from __future__ import annotations

from typing import Final

from workflows.model.spec.extensions.target_options import Target
from workflows.model.spec.targets.agent import AgentTarget
from workflows.model.spec.targets.chat import ChatTarget
from workflows.model.spec.targets.external import ActivityTarget, ExternalTarget
from workflows.model.spec.targets.http import HttpTarget
from workflows.model.spec.targets.python import PythonTarget

TARGETS: Final[dict[str, type[Target]]] = {
    "chat": ChatTarget,
    "agent": AgentTarget,
    "http": HttpTarget,
    "python": PythonTarget,
    "activity": ActivityTarget,
    "external": ExternalTarget,
}
"""By the word in a spec, in the order in which they are described."""
