"""What a spec says of an activity of one's own that scores or proposes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from ratchet._frozen import SpecPart
from ratchet._values import CanonicalMapping, ShortText
from workflows.model.spec.durations import PositiveDuration
from workflows.model.spec.targets.at_most import AtMost
from workflows.model.spec.task_queues import TaskQueue


@dataclass(frozen=True, slots=True)
class OwnActivity:
    """An activity of the user's, as a spec names it."""

    field: str
    """The field that names its task queue."""
    task_queue: str
    activity: str


class CalledActivity(SpecPart):
    """An activity of any name on any task queue of the namespace, in any language."""

    activity: Annotated[ShortText, Field(min_length=1, max_length=200)]
    """The activity's name, as its worker registers it."""
    task_queue: TaskQueue
    """Where that worker polls. It must be in RATCHET_ACTIVITY_QUEUES of the workers that serve workflows; `ratchet run` on
    embedded servers allows it."""
    timeout: PositiveDuration = timedelta(seconds=60)
    """The longest one attempt may take."""
    heartbeat: PositiveDuration | None = None
    """The activity heartbeats at least this often, so that a lost worker is noticed this soon. Default: it does not heartbeat,
    and a lost worker looks like an attempt that takes too long."""
    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """How often it is called when it fails with a retryable error or takes too long."""
    patience: PositiveDuration = timedelta(minutes=10)
    """How long a call waits for a worker that takes it."""
    execution_params: CanonicalMapping = Field(default_factory=dict)
    """Passed through to the activity, untouched."""
    at_most: AtMost | None = None
    """What one call takes at most, where it says what it takes (`tokens`, `cost`): so much of a budget is set aside before.
    Default: nothing is; what it says that it took counts all the same."""
    version: ShortText | None = None
    """Names the code behind the activity; another version is another one, whose results are not mixed with these."""
