"""What is removed of a run at the command line: who looks for it is told, and who holds a run keeps it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from clients.embedded.stack import StackAddresses
from store.connection import Database
from store.write.retention.removals import Removals
from tests.support.command_bench import Bench
from tests.support.store_examples import PostgresServer
from workflows.rules.retention_policy import DueRemoval, Removed


@pytest.fixture
def stack_url(unserved_stack: StackAddresses) -> str:
    return unserved_stack.database_url


@pytest.fixture
async def empty_store(postgres: PostgresServer, unserved_stack: StackAddresses) -> AsyncIterator[dict[str, str]]:
    """Servers whose database has no tables, by the names of their variables."""
    name = await postgres.new_database("template0")
    yield {"DATABASE_URL": postgres.url(name), "TEMPORAL_ADDRESS": unserved_stack.temporal_address}
    await postgres.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def remove(url: str, run_id: str, removed: Removed, policy: str) -> bool:
    """What the cleanup does of one run; it would not stop at ours, of all that share the servers."""

    async def carried_out() -> bool:
        database = await Database.open(url, most_connections=1)
        try:
            return await Removals(database).carry_out(DueRemoval(run_id, removed, policy, 0, 0))
        finally:
            await database.close()

    return asyncio.run(carried_out())


def test_of_a_run_whose_texts_and_answers_were_removed_everything_else_is_told(bench: Bench, stack_url: str) -> None:
    bench.write(name="retained")
    told = bench.facts("run", "spec.yaml")
    run_id, calls = told["run_id"], len(bench.calls)

    due = bench.facts("retention", "--policy", "texts=1h,size=1MB")
    assert (due["policy"], due["removed_before"]) == ("texts=1h,size=1MB", [])
    assert all(one["run_id"] != run_id for one in due["due"]), "it is too young for any rule"
    shown = bench.ratchet("retention")
    assert "No policy is stated, so nothing is ever removed." in shown.stdout

    held = bench.facts("hold", run_id, "--reason", "case 7", "--by", "ann")
    assert (held["hold"]["label"], held["hold"]["set_by"], held["hold"]["reason"]) == ("legal", "ann", "case 7")
    assert not remove(stack_url, run_id, "texts", "texts=30d")
    refused = bench.ratchet("delete", run_id, "--yes")
    assert refused.returncode == 2
    assert "held for 'legal' by ann since" in refused.stderr
    assert "held: legal, by ann since" in bench.ratchet("retention").stdout
    assert "legal, by ann since" in bench.ratchet("report", run_id).stdout
    assert bench.ratchet("hold", run_id, "--lift").returncode == 0
    assert "is not held for 'legal'" in bench.ratchet("hold", run_id, "--lift").stderr

    assert remove(stack_url, run_id, "texts", "texts=30d")
    gone = "The texts of its answers were removed on"
    answers = bench.ratchet("answers", f"{run_id}/baseline")
    assert answers.returncode == 0, answers.stderr
    assert gone in answers.stdout and "by the policy texts=30d; scores, verdicts and decisions stay." in answers.stdout
    assert answers.stdout.count("its text was removed by a policy") == 3
    assert gone in bench.facts("answers", f"{run_id}/baseline")["removed"]
    for shape in ("text", "markdown", "json"):
        report = bench.ratchet("report", run_id, "--format", shape)
        assert report.returncode == 0 and "by the policy texts=30d" in " ".join(report.stdout.split())
    assert gone in " ".join(bench.ratchet("status", run_id).stdout.split())
    replayed = bench.ratchet("replay", run_id)
    assert replayed.returncode == 0 and ": no difference" in replayed.stdout, replayed.stdout
    refused = bench.ratchet("rescore", run_id, "--spec", "spec.yaml")
    assert refused.returncode == 2
    assert f"there is nothing to rescore: {gone}" in refused.stderr

    assert remove(stack_url, run_id, "answers", "answers=180d")
    gone = "Its answers and their scores were removed on"
    answers = bench.ratchet("answers", f"{run_id}/baseline")
    assert answers.returncode == 0 and "0 answers" in answers.stdout and gone in answers.stdout
    assert gone in " ".join(bench.ratchet("report", run_id).stdout.split())
    page = bench.ratchet("report", run_id, "--format", "html")
    assert page.returncode == 0 and gone in page.stdout
    replayed = bench.ratchet("replay", run_id)
    assert replayed.returncode == 0, replayed.stdout
    assert f"Not recomputed: {gone}" in replayed.stdout and ": no difference" in replayed.stdout
    compared = bench.ratchet("answers", run_id, "--changed-from", "baseline")
    assert compared.returncode == 0 and gone in compared.stdout

    assert len(bench.calls) == calls, "until here, nothing was asked again"
    again = bench.ratchet("retry", run_id, "--json")
    assert "What they were is asked again, and paid again." in again.stderr
    assert len(bench.calls) == 2 * calls
    report = bench.ratchet("report", json.loads(again.stdout)["run_id"], "--format", "markdown")
    assert "what 1 earlier run had answered was removed by a policy, and asked and paid again" in report.stdout


def test_a_policy_that_cannot_be_meant_is_named(bench: Bench) -> None:
    refused = bench.ratchet("retention", "--policy", "text=30d")
    assert refused.returncode == 2
    assert "--policy: 'text=30d' is no rule; write texts, answers, runs or size" in refused.stderr
    assert bench.ratchet("hold", "nobody").returncode == 2


def test_a_backup_holds_what_a_restore_brings_back_and_decides_again(bench: Bench, empty_store: dict[str, str]) -> None:
    bench.write(name="kept")
    run_id = bench.facts("run", "spec.yaml")["run_id"]
    made = bench.facts("backup", "kept.zip")
    assert made["rows"]["runs"] >= 1 and made["rows"]["answers"] >= 3
    file = bench.directory / "kept.zip"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "exists; give the name of a new file" in bench.ratchet("backup", "kept.zip").stderr

    elsewhere = replace(bench, servers=empty_store)
    restored = elsewhere.ratchet("restore", "kept.zip", "--replay", "1")
    assert restored.returncode == 0, restored.stderr
    assert "1 of " in restored.stdout and "gone through again: no difference." in restored.stdout
    assert elsewhere.facts("answers", run_id)["total"] == 3
    again = elsewhere.ratchet("restore", "kept.zip")
    assert again.returncode == 2
    assert "nothing was restored: the database is not empty: there are rows in" in again.stderr


def test_what_is_no_backup_is_refused_before_anything_is_started(bench: Bench) -> None:
    (bench.directory / "none.zip").write_text("PK not really")
    assert "is no backup, or was cut off" in bench.ratchet("restore", "none.zip").stderr
