"""Releases: what a spec says of them, what is asked of the one writer of a prompt, and where a release stands."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field, JsonValue, field_validator

from ratchet._frozen import Payload, SpecPart
from ratchet._values import ShortText
from ratchet.prompts.names import PromptName, TagName
from workflows.model.spec.durations import Duration
from workflows.model.spec.prompt import STABLE

PersonName = Annotated[str, Field(pattern=r"^\S(.{0,198}\S)?$")]

CANARY = "canary"

ReleaseMode = Literal["none", "approval", "automatic"]
ReleaseKind = Literal["promote", "canary", "rollback"]
ReleaseStatus = Literal["pending", "accepted", "released", "unchanged", "rejected", "expired", "stale_base", "failed"]
DECIDED: frozenset[ReleaseStatus] = frozenset({"released", "unchanged", "rejected", "expired", "stale_base", "failed"})


def release_workflow_id(prompt: str) -> str:
    """The Workflow Id of the one writer of a prompt."""
    return f"release/{prompt}"


class ReleaseSpec(SpecPart):
    """What happens to the winner: nothing, a release once somebody approves, or a release by itself."""

    prompt: PromptName | None = None
    """The prompt that the winner becomes, e.g. `support/triage`. Default: the spec's own `prompt`."""
    tag: TagName | None = None
    """The tag that moves. It must point to the run's baseline, when the run begins and when the release is carried out.
    Default: the tag of `prompt`, else `stable`."""
    mode: ReleaseMode = "none"
    """`approval`: released once `ratchet approve RUN` says so. `automatic`: released when the confirmation on the test split
    shows no regression. `none`: only `ratchet release RUN` releases it."""
    canary: bool = False
    """Move the tag `canary` instead; `ratchet release NS/KEY --from canary` moves the real one later."""
    deadline: Duration = timedelta(days=7)
    """How long an approval is waited for; then the release is off."""
    remind: Duration = timedelta(days=1)
    """After how long a reminder is sent; 0 sends none."""
    approvers: Annotated[list[PersonName], Field(max_length=100)] = Field(default_factory=list)
    """Who may approve, by the name of a token over HTTP, or the name given with `--by`. Default: anybody who can reach the
    servers. Who has the server's own token, or reaches Temporal, can give any name. The audit log says how it is known."""

    @field_validator("deadline")
    @classmethod
    def _some_time(cls, value: timedelta) -> timedelta:
        if value <= timedelta(0):
            raise ValueError("is 0; give the time that an approval may take, e.g. 7d")
        return value


class ReleaseRequests(Payload):
    """The input of `ReleaseWorkflow`."""

    prompt: PromptName
    idle: Duration = timedelta(seconds=30)
    """How long it stays open with nothing to do."""
    releases_per_execution: int | None = None
    """Continue as new after so many; for tests."""


class ReleaseRequest(Payload):
    """What is asked of the one writer of a prompt. Asking again under the same id changes nothing."""

    release_id: Annotated[str, Field(pattern=r"^[\w.-]{1,100}$")]
    prompt: PromptName
    kind: ReleaseKind = "promote"
    tag: TagName = STABLE
    """The tag that is to move in the end; a canary moves `canary`, but is validated against this one."""
    run_id: str | None = None
    """The run whose candidate is released, against the run's baseline."""
    candidate_id: str | None = None
    config_hash: str | None = None
    """The candidate's configuration in the store."""
    version: str | None = None
    """Where a rollback goes; None is the version before."""
    from_tag: TagName | None = None
    """Release what this tag points to, against the base that it was validated with."""
    approval: bool = False
    """Wait for somebody to approve. That is a second look, not a lock: whoever asks also chooses this, and where all share one
    token, the author of a run can approve it himself under another name."""
    deadline: timedelta = timedelta(days=7)
    remind: timedelta = timedelta(0)
    approvers: tuple[str, ...] = ()
    by: PersonName = "ratchet"
    reason: ShortText = ""
    evidence: dict[str, JsonValue] = Field(default_factory=dict)


class Ruling(SpecPart):
    """What somebody says to a release that waits for approval."""

    release_id: str
    by: PersonName
    """Who says so."""
    comment: ShortText = ""
    """Why."""
    through: Annotated[ShortText, Field(max_length=200)] = ""
    """How that name was established, by the command line or the HTTP API. Empty: it was sent to Temporal by other means, and
    could be anybody's."""


class ReleaseState(Payload):
    """Where a release stands; its row in the audit log."""

    release_id: str
    prompt: str
    kind: ReleaseKind
    tag: str
    """The tag that moves."""
    status: ReleaseStatus
    message: str = ""
    version: str | None = None
    base_version: str | None = None
    base_hash: str
    overlay_hash: str
    change_class: str | None = None
    changes: dict[str, str] = Field(default_factory=dict)
    run_id: str | None = None
    candidate_id: str | None = None
    asked_by: str = ""
    asked_at: datetime
    reason: str = ""
    evidence: dict[str, JsonValue] = Field(default_factory=dict)
    approvers: tuple[str, ...] = ()
    deadline_at: datetime | None = None
    remind_at: datetime | None = None
    """When a reminder is due; None once it was sent."""
    decided_by: str | None = None
    decided_through: str = ""
    """How `decided_by` was established: by which operating system user, or by which token; empty where nobody can tell."""
    decided_at: datetime | None = None
    comment: str = ""


class ReleaseOutcome(Payload):
    """What became of the release that a run asked for, when the run ended."""

    prompt: str
    tag: str
    status: ReleaseStatus | Literal["not_asked", "unknown"]
    """`not_asked`: there was nothing to release, or something spoke against it. `unknown`: no answer came in time."""
    message: str = ""
    release_id: str | None = None
    version: str | None = None
    base_version: str | None = None


class ReleaseLog(Payload):
    """Releases of one prompt, the newest first."""

    prompt: str
    releases: tuple[ReleaseState, ...] = ()


class LoadedReleases(Payload):
    """What the store knows when a writer of a prompt begins."""

    releases: tuple[ReleaseState, ...] = ()
    """All that are undecided and the newest that are decided, the oldest first."""
    search_attributes: bool = False


class OpenRelease(Payload):
    """A request, with the time at which it was made."""

    request: ReleaseRequest
    at: datetime


class ReleaseStep(Payload):
    """A step of one release, with the time at which it is decided."""

    release_id: str
    at: datetime
    by: str = ""
    comment: str = ""
    through: str = ""


class Settle(Payload):
    """A release that ends without moving anything."""

    release_id: str
    at: datetime
    status: ReleaseStatus
    by: str
    message: str = ""
    comment: str = ""
    through: str = ""
