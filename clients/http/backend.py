"""What the paths work with: the store's read side, Temporal, and the feed of events."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from clients.http.encoded_slashes import SEGMENT
from clients.http.feed import Feed
from clients.http.override_store import PromptSource
from clients.http.routes.runs.open_runs import OpenRuns
from clients.http.shared_looks import SharedLooks
from clients.http.spec_contents import SpecReader
from clients.runs.service.servers import Servers
from store.connection import Database
from store.read.reader import StoreReader

NO_CONTROLS = r"^[^\x00-\x1f\x7f]+$"

RunId = Annotated[
    str,
    Path(
        alias="optimization_id",
        min_length=1,
        max_length=500,
        pattern=NO_CONTROLS,
        description="The run's id: its Workflow Id, percent-encoded, a slash in it as `%2F`.",
    ),
    SEGMENT,
]
CandidateId = Annotated[
    str, Path(min_length=1, max_length=500, pattern=NO_CONTROLS, description="The candidate's id."), SEGMENT
]
PromptId = Annotated[
    str,
    Path(
        alias="prompt",
        min_length=1,
        max_length=500,
        pattern=NO_CONTROLS,
        description="The prompt's name, `namespace/key`, with its slash as `%2F`.",
    ),
    SEGMENT,
]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1, description="How many to skip.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]


@dataclass(frozen=True)
class Backend:
    """One per server."""

    servers: Servers
    database: Database
    feed: Feed
    task_queue: str
    """Where runs are started."""
    open_runs: OpenRuns = field(default_factory=OpenRuns)
    prompts: PromptSource = field(default_factory=PromptSource)
    specs: SpecReader = field(default_factory=SpecReader)

    looks: SharedLooks = field(default_factory=SharedLooks)

    @cached_property
    def reader(self) -> StoreReader:
        return StoreReader(self.database)


def backend_of(request: Request) -> Backend:
    """The server's backend."""
    backend: Backend = request.app.state.backend
    return backend


Served = Annotated[Backend, Depends(backend_of)]
