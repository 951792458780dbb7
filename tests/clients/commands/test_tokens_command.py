"""`ratchet tokens` and `ratchet teams`: who may use the page and the HTTP API, and whose runs they see."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.engines import Engines
from tests.support.shells import Shell


@pytest.fixture
def shell(engines: Engines, tmp_path: Path) -> Shell:
    addresses = engines.addresses
    return Shell(tmp_path, {"TEMPORAL_ADDRESS": addresses.temporal_address, "DATABASE_URL": addresses.database_url})


async def test_a_token_is_told_once_listed_and_revoked(shell: Shell) -> None:
    made = await shell.ratchet("tokens", "create", "ci", "--role", "run", "--expires", "30d", "--json")
    secret = made.facts["token"]
    assert (made.facts["name"], made.facts["role"], len(secret) > 40) == ("ci", "run", True)
    again = await shell.ratchet("tokens", "create", "ci", "--role", "admin")
    assert (again.code, "revoke it first" in again.errors) == (2, True)
    listed = await shell.ratchet("tokens", "list", "--json")
    [token] = [one for one in listed.facts["tokens"] if one["name"] == "ci"]
    assert (token["state"], secret in listed.out) == ("valid", False)
    assert "valid" in (await shell.ratchet("tokens", "list")).out
    assert (await shell.ratchet("tokens", "revoke", "ci")).code == 0
    assert (await shell.ratchet("tokens", "revoke", "ci")).code == 2


async def test_what_is_no_name_no_role_and_no_time_is_refused_by_name(shell: Shell) -> None:
    for given, told in (
        (("two words", "--role", "read"), "NAME"),
        (("local", "--role", "read"), "NAME"),
        (("ann", "--role", "owner"), "--role: 'owner' is unknown; use read, run, release, admin"),
        (("ann", "--role", "read", "--expires", "-1d"), "--expires"),
        (("ann", "--role", "read", "--expires", "0"), "--expires"),
    ):
        refused = await shell.ratchet("tokens", "create", *given)
        assert (refused.code, told in refused.errors) == (2, True), refused.errors


async def test_a_team_is_made_with_its_prompts_and_runs_are_started_for_it(shell: Shell) -> None:
    made = await shell.ratchet("teams", "create", "support", "--prompts", "tickets")
    assert (made.code, made.out) == (0, "made the team support, with the prompts tickets/…\n")
    assert (await shell.ratchet("teams", "create", "sales", "--prompts", "tickets")).code == 2
    [team] = [one for one in (await shell.ratchet("teams", "list", "--json")).facts["teams"] if one["team"] == "support"]
    assert team["namespaces"] == ["tickets"]
    token = await shell.ratchet("tokens", "create", "sam", "--role", "run", "--team", "support", "--json")
    assert token.facts["team"] == "support"
    for given, told in (
        (("tokens", "create", "eve", "--role", "admin", "--team", "support"), "--team: an admin sees all teams"),
        (("tokens", "create", "eve", "--role", "run", "--team", "nobody"), "ratchet teams create nobody"),
        (("teams", "create", "Two Words"), "TEAM"),
        (("teams", "create", "sales", "--prompts", "a/b"), "--prompts"),
    ):
        refused = await shell.ratchet(*given)
        assert (refused.code, told in refused.errors) == (2, True), refused.errors


async def test_a_team_is_given_a_budget_for_each_month_and_it_is_shown(shell: Shell) -> None:
    assert (await shell.ratchet("teams", "create", "thrifty")).code == 0
    made = await shell.ratchet("teams", "budget", "thrifty", "--cost", "100", "--samples", "500")
    assert made.out.startswith("thrifty has 500 of 500 calls and 100.0 of 100.0 of cost left for 20")
    assert (await shell.ratchet("teams", "budget", "thrifty", "--samples", "0", "--tokens", "9000")).code == 0
    shown = (await shell.ratchet("teams", "show", "thrifty", "--json")).facts
    assert shown["month"]["budget"] == {"samples": 0, "tokens": 9000, "cost": 100.0}
    assert shown["month"]["left"] == {"samples": None, "tokens": 9000, "cost": 100.0}
    assert "9,000 of 9,000 tokens" in (await shell.ratchet("teams", "list")).out
    for given, told in (
        (("budget", "thrifty"), "give --cost, --tokens or --samples"),
        (("budget", "thrifty", "--cost", "-1"), "--cost: "),
        (("budget", "thrifty", "--cost", "nan"), "--cost: "),
        (("budget", "nobody", "--cost", "1"), "there is no team 'nobody'"),
        (("show", "nobody"), "there is no team 'nobody'"),
    ):
        refused = await shell.ratchet("teams", *given)
        assert (refused.code, told in refused.errors) == (2, True), refused.errors
    taken_away = await shell.ratchet("teams", "budget", "thrifty", "--cost", "0", "--tokens", "0")
    assert taken_away.out == "thrifty has no budget\n"


async def test_a_spec_is_another_run_for_another_team(shell: Shell) -> None:
    assert (await shell.ratchet("teams", "create", "crew")).code == 0
    spec = {
        "name": "crewed",
        "configuration": {"k": {"value": 1, "change": "structured", "type": "integer", "min": 0, "max": 9}},
        "target": {"kind": "python", "ref": "crewed:answer"},
        "dataset": {"items": [{"input": n, "expected": "yes"} for n in range(8)]},
        "objective": "exact",
        "optimizer": {"proposer": {"kind": "step"}},
    }
    shell.write("spec.yaml", yaml.safe_dump(spec))
    shell.write("crewed.py", "def answer(configuration, sample, context):\n    return 'yes'\n")
    ours = (await shell.ratchet("run", "spec.yaml", "--dry-run", "--json")).facts
    theirs = (await shell.ratchet("run", "spec.yaml", "--dry-run", "--json", "--team", "crew")).facts
    assert ours["run_id"] != theirs["run_id"]
    crew = Shell(shell.directory, shell.servers, {"RATCHET_TEAM": "crew"})
    assert "left for" not in (await crew.ratchet("check", "spec.yaml")).errors
    assert (await shell.ratchet("teams", "budget", "crew", "--samples", "9")).code == 0
    assert "warning: team crew has 9 of 9 target calls left for 20" in (await crew.ratchet("check", "spec.yaml")).errors
    refused = await shell.ratchet("run", "spec.yaml", "--detach", "--team", "nobody")
    assert (refused.code, "ratchet teams create nobody" in refused.errors) == (2, True)
