"""Names of task queues, as a spec gives them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_TASK_QUEUE = re.compile(r"[A-Za-z0-9][\w./:-]{0,199}")


def _is_task_queue(value: str) -> str:
    if not _TASK_QUEUE.fullmatch(value):
        raise ValueError(
            "is no task queue; start with a letter or digit, go on with letters, digits and _ . / : -, at most 200 characters"
        )
    return value


TaskQueue = Annotated[str, AfterValidator(_is_task_queue)]
"""What Temporal does not take as a task queue would be tried for ever."""
