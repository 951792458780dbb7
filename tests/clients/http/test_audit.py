"""The audit log: who did what over HTTP and at the command line, kept before it is done, and never changed."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from clients.http.access.roles import RULES
from clients.runs.service.servers import Servers
from store.read.access.access_tokens import Role
from store.write.access.audit_log import AuditLog, Deed
from tests.support.access_tokens import holding, made_token
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.http_api import TOKEN, until
from tests.support.shells import Shell


def test_every_path_that_changes_something_has_a_name_in_the_log() -> None:
    looking = ("/codec/", "/v1/private/spec/check")  # and whatever a reader may do
    for (method, path), rule in RULES.items():
        changes_nothing = method == "GET" or rule.role in (None, Role.READ) or path.startswith(looking)
        assert (rule.action is None) == changes_nothing, path


async def test_what_a_token_did_is_told_to_admins_with_how_it_ended(guarded_url: str, servers: Servers) -> None:
    secret = await made_token(servers.database, "doer", Role.RUN)
    async with holding(guarded_url, secret) as doer, holding(guarded_url, TOKEN) as admin:
        spec = hill_spec(name="watched", stop={"max_rounds": 1})
        run_id = (await doer.post("/optimizations", json=spec)).json()["optimization_id"]
        await servers.client.get_workflow_handle(run_id).result()
        assert (await doer.post(f"/optimizations/{run_id}/stop", json={"reason": "said-in-confidence"})).status_code == 409
        assert (await doer.post(f"/optimizations/{run_id}/approve", json={})).status_code == 403
        assert (await doer.get("/audit")).status_code == 403
        lower = {**spec, "objective": {"metric": "height", "direction": "minimize"}}
        anew = (await doer.post(f"/optimizations/{run_id}/rescore", json=lower)).json()["optimization_id"]
        assert [one["action"] for one in (await admin.get("/audit", params={"run": anew})).json()] == ["start"]
        await until(doer, anew, "completed")
        entries = (await admin.get("/audit", params={"run": run_id})).json()
        assert [(one["action"], one["outcome"]) for one in entries] == [
            ("rescore", "done"),
            ("approve", "refused"),
            ("stop", "refused"),
            ("start", "done"),
        ]
        assert {(one["who"], one["role"], one["through"]) for one in entries} == {("doer", "run", "HTTP, by the token 'doer'")}
        everything = (await admin.get("/audit", params={"limit": 1000})).text
        assert secret not in everything and "said-in-confidence" not in everything
        older = (await admin.get("/audit", params={"run": run_id, "before": entries[0]["number"], "limit": 1})).json()
        assert older == entries[1:2]


async def test_what_is_done_at_the_command_line_names_the_user_of_the_operating_system(
    engines: Engines, tmp_path: Path
) -> None:
    at = engines.addresses
    shell = Shell(tmp_path, {"TEMPORAL_ADDRESS": at.temporal_address, "DATABASE_URL": at.database_url})
    run_id = str((await engines.run(hill_spec(name="erased", stop={"max_rounds": 1})))["optimization_id"])
    assert (await shell.ratchet("delete", run_id, "--yes")).code == 0
    [entry] = (await shell.ratchet("audit", "--run", run_id, "--json")).facts["entries"]
    assert (entry["who"], entry["action"], entry["outcome"], "uid" in entry["through"]) == ("local", "delete", "done", True)
    assert "delete" in (await shell.ratchet("audit", "--run", run_id)).out


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM audit_log",
        "UPDATE audit_log SET who = 'ann'",
        "UPDATE audit_log SET outcome = 'refused'",
        "UPDATE audit_log SET run_id = 'another'",
    ],
)
async def test_an_entry_that_is_told_is_never_changed(engines: Engines, change: str) -> None:
    log = AuditLog(engines.database)
    number = await log.add(Deed("bea", "a test", "stop", run_id="mine"))
    await log.end(number, "done")
    await log.end(number, "unknown")
    async with engines.database.connection() as connection:
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await connection.execute(f"{change} WHERE number = $1", number)
        row = await connection.fetchrow("SELECT who, outcome, run_id FROM audit_log WHERE number = $1", number)
    assert row is not None and tuple(row) == ("bea", "done", "mine")


async def test_nothing_is_done_that_the_log_does_not_have(guarded_url: str, engines: Engines) -> None:
    async with engines.database.connection() as connection:
        await connection.execute("ALTER TABLE audit_log ADD CONSTRAINT closed CHECK (action <> 'delete') NOT VALID")
    try:
        run_id = str((await engines.run(hill_spec(name="kept", stop={"max_rounds": 1})))["optimization_id"])
        async with holding(guarded_url, TOKEN) as admin:
            assert (await admin.delete(f"/optimizations/{run_id}")).status_code >= 500
            assert (await admin.get(f"/optimizations/{run_id}")).status_code == 200
    finally:
        async with engines.database.connection() as connection:
            await connection.execute("ALTER TABLE audit_log DROP CONSTRAINT closed")
