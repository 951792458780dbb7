"""Logs: structlog, one JSON object a line (or readable lines for a person), with the ids of run and trial, the attempt, and the
trace where there is one.

Workflow code logs through `workflow.logger`, activity code through structlog or `activity.logger`; all of it comes out here, in
one shape. What a workflow says while it replays was said before, and is dropped.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import re
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from temporalio import activity, workflow

from clients.private_files import open_private
from clients.traces import TRACING

FACTS = "facts"
"""`workflow.logger.info("…", extra={"facts": {…}})`: the one extra field that is kept, unfolded."""

_TRIAL = re.compile(r"(.+?)/(?:confirm/|part/|noise/)?r\d+/[^/]+(?:/\d+\.\d+)?")
"""The workflow id of a trial, and the run's id in it, which may have slashes of its own."""

MOST_BYTES = 20 * 1024 * 1024
"""A log file is turned over at this size; three old ones are kept."""


def configure_logs(
    *,
    file: Path | None = None,
    form: Literal["json", "text"] = "json",
    level: str = "INFO",
    making: Callable[[], None] | None = None,
) -> None:
    """Send everything this process logs to a file, or to stderr when none is given.

    With `making`, which makes its folder, the file is opened when there is something to log, and not before.
    """
    workflow.logger.workflow_info_on_message = False
    activity.logger.activity_info_on_message = False
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        add_whereabouts,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    renderer: Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False, default=repr)
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(allow=(FACTS,)), unfold_facts, *shared],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        if making is None:
            file.parent.mkdir(parents=True, exist_ok=True)
        handler = _PrivateFile(file, making)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in ("httpx", "httpx2", "httpcore", "httpcore2", "openai", "aiohttp.access", "asyncio"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A log that only its owner reads: samples, prompts and tracebacks are in it."""

    def __init__(self, file: Path, making: Callable[[], None] | None) -> None:
        self._making = making
        super().__init__(file, maxBytes=MOST_BYTES, backupCount=3, encoding="utf-8", delay=making is not None)

    def _open(self) -> TextIOWrapper:
        if self._making is None:
            return self._opened()
        try:
            self._making()
            return self._opened()
        except OSError:  # a place that cannot be written; nothing we log is worth failing for
            return open(os.devnull, "w", encoding="utf-8")

    def _opened(self) -> TextIOWrapper:
        opened = open_private(Path(self.baseFilename), self.mode, encoding=self.encoding, errors=self.errors)
        assert isinstance(opened, TextIOWrapper)
        return opened


def unfold_facts(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """What workflow code says beside its message, as fields of their own."""
    facts = event.pop(FACTS, None)
    return {**event, **facts} if isinstance(facts, dict) else event


def add_whereabouts(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add run, trial and attempt of the workflow or activity that is speaking, and the span that it is traced by."""
    if workflow.in_workflow():
        if workflow.unsafe.is_replaying():
            raise structlog.DropEvent
        info = workflow.info()
        return {**event, **_whereabouts(info.workflow_id, info.workflow_type), "attempt": info.attempt, **TRACING.ids()}
    if activity.in_activity():
        doing = activity.info()
        named = {"activity": doing.activity_type, "attempt": doing.attempt}
        return {**event, **_whereabouts(doing.workflow_id or "", doing.workflow_type), **named, **TRACING.ids()}
    elsewhere = {name: event.get(name) for name in ("run_id", "trial_id", "attempt")}
    return {**event, **elsewhere, **TRACING.ids()}


def _whereabouts(workflow_id: str, workflow_type: str | None) -> dict[str, str | None]:
    trial = _TRIAL.fullmatch(workflow_id) if workflow_type == "TrialWorkflow" else None
    return {
        "run_id": (trial[1] if trial else workflow_id) or None,
        "trial_id": workflow_id if trial else None,
        "workflow_id": workflow_id or None,
    }
