"""What each path needs: one table, by which every request is let in or refused before any of our code reads its body.

A path that is not in the table is for admins alone, so that one that is forgotten is closed, not open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import structlog
from starlette.datastructures import Headers, QueryParams
from starlette.types import Scope

from clients.http.access.callers import CALLER, Callers, HttpCaller, NotAdmitted
from clients.http.access.security import Refusal
from clients.http.encoded_slashes import decoded_segment
from clients.http.errors import MAY_BE_AWAY, Problem
from clients.http.missing_names import no_dataset, no_prompt
from clients.http.missing_run import unknown_run
from store.connection import is_away
from store.read.access.access_tokens import Role
from store.read.reader import StoreReader
from store.write.access.audit_log import AuditLog, Deed

log = structlog.get_logger("http.access")

RUNS: Final = "/v1/private/optimizations"
RUN: Final = f"{RUNS}/{{optimization_id}}"
PROMPTS: Final = "/v1/private/prompts"
PROMPT: Final = f"{PROMPTS}/{{prompt}}"
DATASETS: Final = "/v1/private/datasets"
DATASET: Final = f"{DATASETS}/{{dataset_id}}"
SESSION: Final = "/v1/private/session"
SPEC: Final = "/v1/private/spec"
SEARCH: Final = "/v1/private/search"
TEAMS: Final = "/v1/private/teams"


@dataclass(frozen=True)
class PathRule:
    """Who may use one path with one method."""

    role: Role | None
    """The least role that it needs; None lets everybody in."""
    action: str | None = None
    """What the audit log calls it; None for what changes nothing."""
    runs: tuple[str, ...] = ()
    """Parameters of its query that name runs as well."""
    entrants: tuple[str, ...] = ()
    """Parameters of its query that name runs or candidates of runs, as RUN/CANDIDATE."""
    datasets: tuple[str, ...] = ()
    """Parameters of its query that name datasets as well."""


ADMINS_ONLY: Final = PathRule(Role.ADMIN)

_READ = (
    ("GET", "/v1/private/openapi.json"),
    ("GET", SESSION),
    ("GET", "/v1/private/events"),
    ("GET", "/v1/private/files/{digest}"),
    ("GET", SEARCH),
    ("GET", f"{SPEC}/schema"),
    ("GET", f"{SPEC}/templates"),
    ("GET", f"{TEAMS}/months"),
    ("GET", f"{TEAMS}/{{team}}/months"),
    ("GET", PROMPTS),
    ("GET", PROMPT),
    *(("GET", f"{PROMPT}/{part}") for part in ("content", "differences", "history")),
    ("POST", f"{PROMPT}/render"),
    ("GET", DATASETS),
    ("GET", DATASET),
    *(("GET", f"{DATASET}/{part}") for part in ("copies", "download", "samples", "use")),
    ("GET", RUNS),
    ("GET", RUN),
    *(
        ("GET", f"{RUN}/{part}")
        for part in (
            *("candidates/{candidate_id}", "events", "graph", "history", "log", "marks"),
            *("questions", *(f"questions/{{question_id}}{part}" for part in ("", "/agreement", "/items", "/labels"))),
            *(
                "factors",
                "outline",
                "proposals",
                "rejections",
                "rejections/{round}/{proposed_index}",
                "releases",
                "replay",
                "report",
            ),
            *("replay", "report", "rounds", "slices", "slices/scores", "spec"),
            *("trials", *(f"trials/{{candidate_id}}{part}" for part in ("", "/items", "/sent", "/slices"))),
        )
    ),
)
_STEER = {
    ("POST", RUNS): "start",
    ("POST", f"{SPEC}/start"): "start",
    ("DELETE", RUN): "delete",
    ("POST", f"{RUN}/experiments"): "announce",
    ("POST", f"{RUN}/proposals"): "propose",
    **{("POST", f"{RUN}/{part}"): part for part in ("adjust", "cancel", "pause", "rescore", "resume", "retry", "stop")},
    ("POST", DATASETS): "store dataset",
    ("POST", f"{RUN}/marks"): "mark",
    ("PUT", f"{RUN}/marks/{{number}}"): "mark",
    ("DELETE", f"{RUN}/marks/{{number}}"): "unmark",
    ("POST", f"{RUN}/questions"): "ask",
    ("DELETE", f"{RUN}/questions/{{question_id}}"): "remove question",
    ("PUT", f"{RUN}/questions/{{question_id}}/items/{{position}}/label"): "label",
    ("DELETE", f"{RUN}/questions/{{question_id}}/items/{{position}}/label"): "unlabel",
    ("POST", f"{RUN}/questions/{{question_id}}/dataset"): "store dataset",
}

RULES: Final[Mapping[tuple[str, str], PathRule]] = {
    ("POST", SESSION): PathRule(None),
    ("DELETE", SESSION): PathRule(None),
    **dict.fromkeys(_READ, PathRule(Role.READ)),
    ("GET", "/v1/private/comparison"): PathRule(Role.READ, entrants=("of",)),
    ("GET", "/v1/private/report"): PathRule(Role.READ, runs=("of",)),
    ("GET", f"{DATASET}/differences"): PathRule(Role.READ, datasets=("against",)),
    ("GET", f"{RUN}/comparison"): PathRule(Role.READ, runs=("against_run",)),
    **dict.fromkeys((("GET", f"{RUN}/matrix{part}") for part in ("", "/answers")), PathRule(Role.READ, entrants=("other",))),
    **{path: PathRule(Role.RUN, action) for path, action in _STEER.items()},
    ("POST", f"{SPEC}/check"): PathRule(Role.RUN),  # it imports plug-ins, and changes nothing
    ("POST", f"{PROMPT}/release"): PathRule(Role.RELEASE, "release"),
    ("POST", f"{PROMPT}/rollback"): PathRule(Role.RELEASE, "rollback"),
    ("POST", f"{RUN}/release"): PathRule(Role.RELEASE, "release"),
    ("POST", f"{RUN}/approve"): PathRule(Role.RELEASE, "approve"),
    ("POST", f"{RUN}/reject"): PathRule(Role.RELEASE, "reject"),
    ("GET", "/v1/private/audit"): PathRule(Role.ADMIN),
    ("PUT", f"{TEAMS}/{{team}}/budget"): PathRule(Role.ADMIN, "budget"),
    ("POST", "/codec/encode"): PathRule(Role.ADMIN),
    ("POST", "/codec/decode"): PathRule(Role.ADMIN),  # of payloads of all teams
}
"""Every path of the API by its method, as the OpenAPI document writes it."""


@dataclass(frozen=True)
class MatchedPath:
    """What a request is about."""

    rule: PathRule
    parameters: Mapping[str, str]
    """What its path names, e.g. `optimization_id`."""


def matched(method: str, path: str) -> MatchedPath:
    """The rule for a request. What no rule is for is for admins."""
    for pattern, rule in _patterns(method):
        found = pattern.fullmatch(path)
        if found is not None:
            return MatchedPath(rule, {name: decoded_segment(value) for name, value in found.groupdict().items()})
    return MatchedPath(ADMINS_ONLY, {})


def methods_at(path: str) -> set[str]:
    """Every method that a path of the API takes."""
    return {method for method in {of for of, _ in RULES} if any(one.fullmatch(path) for one, _ in _patterns(method))}


@cache
def _patterns(method: str) -> tuple[tuple[re.Pattern[str], PathRule], ...]:
    return tuple(_compiled(method))


def _compiled(method: str) -> Iterator[tuple[re.Pattern[str], PathRule]]:
    for (of, path), rule in RULES.items():
        if of == method:
            yield re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path.replace(".", r"\."))), rule


class Ownership:
    """Keeps teams apart: what another team has is not there, whichever path asks for it."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader

    async def refusal(self, team: str, path: MatchedPath, query: QueryParams) -> Refusal | None:
        """Why a team gets no answer about what a request names."""
        named = [run_id for run_id in [path.parameters.get("optimization_id")] if run_id is not None]
        named += [run_id for parameter in path.rule.runs for run_id in query.getlist(parameter)]
        named += [await self._run_of(entrant) for parameter in path.rule.entrants for entrant in query.getlist(parameter)]
        owners = await self._reader.teams.of_runs(named) if named else {}
        for run_id, owner in owners.items():
            if owner != team:
                error = unknown_run(run_id)
                return error.status, Problem(field=error.field, message=str(error))
        other = path.parameters.get("team", team)
        if other != team:
            return 404, Problem(field="team", message=f"there is no team {other[:100]!r}")
        digest = path.parameters.get("digest")
        if digest is not None and not await self._reader.teams.has_file(team, digest):
            return 404, Problem(field="digest", message=f"there is no image with sha256 {digest[:64]}")
        prompt = path.parameters.get("prompt")
        if prompt is not None and await self._reader.teams.of_prompt(prompt) != team:
            return 404, Problem(field="prompt", message=no_prompt(prompt))
        datasets = [path.parameters["dataset_id"]] if "dataset_id" in path.parameters else []
        for dataset_id in [*datasets, *(one for parameter in path.rule.datasets for one in query.getlist(parameter))]:
            if not await self._reader.teams.has_dataset(team, dataset_id):
                return 404, Problem(field="dataset_id", message=no_dataset(dataset_id))
        return None

    async def _run_of(self, entrant: str) -> str:
        """The run of RUN or RUN/CANDIDATE, told apart as the comparison does."""
        run_id = entrant.rpartition("/")[0]
        return entrant if not run_id or await self._reader.runs.is_known(entrant) else run_id


class PathAdmission:
    """Lets in who has the role that a path needs, and whose team has what it names. Who asked for more than his role is
    written into the audit log."""

    def __init__(self, callers: Callers, audit: AuditLog, ownership: Ownership) -> None:
        self._callers = callers
        self._audit = audit
        self._ownership = ownership

    async def refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Why a request is not let in; who is let in is noted in the request's scope."""
        path = matched(scope["method"], scope["path"])
        needed = path.rule.role
        if needed is None:
            return None
        try:
            caller = await self._callers.of(headers)
            if not caller.role.covers(needed):
                return await self._too_little(caller, path, needed)
            if caller.sees_only is not None:
                foreign = await self._ownership.refusal(caller.sees_only, path, QueryParams(scope["query_string"]))
                if foreign is not None:
                    return foreign
        except NotAdmitted as error:
            return 401, Problem(field="Authorization", message=str(error))
        except MAY_BE_AWAY as error:
            if not is_away(error):
                raise
            log.warning("tokens cannot be looked up", error=repr(error))
            told = "who knows this token, the store or its issuer, cannot be reached just now; send the request again"
            return 503, Problem(message=told)
        scope[CALLER] = caller
        return None

    async def _too_little(self, caller: HttpCaller, path: MatchedPath, needed: Role) -> Refusal:
        if path.rule.action is not None:
            await self._audit.add(deed_of(caller, path), "refused")
        told = f"this needs a token with the role {needed.value!r}, and yours, {caller.name!r}, has {caller.role.value!r}"
        return 403, Problem(field="Authorization", message=f"{told}; ask an admin for another")


def deed_of(caller: HttpCaller, path: MatchedPath) -> Deed:
    """What a request is about to do, as the audit log has it."""
    named = path.parameters
    return deed_by(caller, path.rule.action or "", named.get("optimization_id"), subject=named.get("team"))


def deed_by(caller: HttpCaller, action: str, run_id: str | None, *, subject: str | None = None) -> Deed:
    """What a caller does to a run, or to something else."""
    role = caller.role.value if caller.is_named else None
    return Deed(caller.name, caller.through, action, role, run_id, subject=subject, team=caller.sees_only)
