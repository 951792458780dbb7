"""The command line as a person meets it: help, exit codes, messages, JSON; without servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from clients.cli import main
from clients.commands.begin import schema_text
from clients.testing.fake_model import fake_model
from store.connection import Database
from tests.support.forked_commands import ROOT, run_forked
from workflows.model.spec.request import spec_schema

COMMANDS = (
    *("init", "schema", "check", "demo", "run", "retry", "list", "status", "watch", "report"),
    *("stop", "cancel", "pause", "resume", "adjust", "propose", "delete", "dev", "worker", "doctor"),
    *("release", "rollback", "approve", "reject"),
)

Cli = Callable[..., subprocess.CompletedProcess[str]]


PATIENCE = 60


def environment_with(more: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), **(more or {})}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """`ratchet` as a process of its own, in a directory and an environment of its own."""

    def run(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        done = run_forked(arguments, tmp_path, environment_with(environment), PATIENCE)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def started(tmp_path: Path) -> Cli:
    """The same, by an interpreter that has loaded nothing before."""

    def run(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "clients.cli", *arguments],
            env=environment_with(environment),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    return run


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert f" {name} " in shown
    assert "Exit codes: 0 done, 1 failed, 2 bad input" in shown


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: ratchet" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--json" in shown
    assert "--home" in shown


HEAVY = ("temporalio", "asyncpg", "openai", "structlog", "numpy", "scipy", "aiohttp", "fastapi", "boto3", "optuna")


@pytest.mark.parametrize(("command", "needed"), [("--help", "typer"), ("schema", "pydantic")])
def test_starting_loads_nothing_heavy(started: Cli, command: str, needed: str) -> None:
    done = started(command, environment={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert needed in loaded
    assert loaded.isdisjoint({*HEAVY, "pydantic"} - {needed})
    assert command == "schema" or not any(name.partition(".")[0] in ("workflows", "activities", "store") for name in loaded)


def test_the_version_is_that_of_the_distribution(started: Cli) -> None:
    done = started("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ratchet-optimizer {version('ratchet-optimizer')}\n"


def test_the_schema_is_the_specs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == spec_schema() == json.loads(schema_text())


class TestInit:
    """Where a spec begins."""

    def test_it_writes_a_spec_with_data_and_schema(self, cli: Cli, tmp_path: Path) -> None:
        done = cli("init", "new")
        assert done.returncode == 0
        assert "ratchet check new/spec.yaml" in done.stdout
        spec = (tmp_path / "new" / "spec.yaml").read_text()
        assert spec.startswith("# yaml-language-server: $schema=spec.schema.json\n")
        assert yaml.safe_load(spec)["dataset"]["path"] == "tickets.jsonl"
        assert (tmp_path / "new" / "tickets.jsonl").exists()
        assert json.loads((tmp_path / "new" / "spec.schema.json").read_text()) == spec_schema()

    def test_it_never_overwrites(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "spec.yaml").write_text("mine")
        done = cli("init", "--json")
        assert json.loads(done.stdout)["kept"] == ["spec.yaml"]
        assert (tmp_path / "spec.yaml").read_text() == "mine"

    def test_it_says_when_it_cannot_write(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "taken").write_text("a file")
        done = cli("init", "taken")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("ratchet: cannot write in taken: ")


class TestErrors:
    """One message on stderr that names the field and the fix; no traceback; the right exit code."""

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["frobnicate"], "No such command 'frobnicate'. See `ratchet --help`"),
            (["run"], "Missing argument 'SPEC'. See `ratchet run --help`"),
            (["run", "--loud", "x.yaml"], "No such option: --loud"),
            (["run", "nix.yaml"], "nix.yaml: does not exist; `ratchet init` writes a spec to start from"),
            (["run", ".", "--verbosity", "loud"], "--verbosity: 'loud' is unknown; use one of minimal, summary, full"),
            (["list", "--status", "odd"], "--status: 'odd' is unknown; use one of initialized, running"),
            (["report", "x", "--format", "pdf"], "--format: 'pdf' is unknown; use one of text, markdown, html, json, yaml"),
            (["adjust", "x"], "adjust: give at least one new limit"),
            (["adjust", "x", "--wall-time", "soon"], "adjust: --wall-time: is not a duration"),
            (["adjust", "x", "--cost", "-1"], "adjust: --cost: must be at least 0 (is -1.0)"),
            (["propose", "x", "missing.yaml"], "missing.yaml: cannot be read: No such file or directory"),
            (["propose", "x", "-"], "standard input: is no mapping; write values by factor"),
            (["status", "x"], "there is no run 'x'; `ratchet list` shows those there are"),
            (["stop", "x"], "there is no run 'x'"),
            (["worker"], "DATABASE_URL is not set"),
            (["worker", "--role", "king"], "--role: 'king' is unknown; use all, workflows or evaluation"),
        ],
    )
    def test_bad_input_is_told(self, cli: Cli, arguments: list[str], told: str, tmp_path: Path) -> None:
        done = cli(*arguments)
        assert told in done.stderr
        assert done.stderr.startswith("ratchet: ")
        assert "Traceback" not in done.stderr
        assert (done.returncode, done.stdout) == (2, "")
        assert not (tmp_path / ".ratchet" / "postgres").exists(), "nothing is started just to say that something is wrong"

    def test_an_error_is_json_when_json_is_asked_for(self, cli: Cli) -> None:
        done = cli("status", "x", "--json")
        assert json.loads(done.stdout) == {
            "error": done.stderr[len("ratchet: ") :].strip(),
            "exit_code": 2,
            "close_matches": [],
        }
        assert done.returncode == 2

    def test_naming_only_one_server_is_a_mistake(self, cli: Cli) -> None:
        only_temporal = cli("list", environment={"TEMPORAL_ADDRESS": "127.0.0.1:7233"})
        only_database = cli("list", environment={"DATABASE_URL": "postgresql://u:secret@127.0.0.1:9/r"})
        assert (only_temporal.returncode, only_database.returncode) == (2, 2)
        assert "DATABASE_URL names no PostgreSQL" in only_temporal.stderr
        assert "TEMPORAL_ADDRESS names no Temporal server" in only_database.stderr
        assert "secret" not in only_database.stderr

    def test_a_server_that_is_not_there_is_exit_code_5(self, cli: Cli) -> None:
        named = {"TEMPORAL_ADDRESS": "127.0.0.1:9", "DATABASE_URL": "postgresql://u:secret@127.0.0.1:9/r"}
        done = cli("list", environment=named)
        assert done.returncode == 5
        assert "Temporal at 127.0.0.1:9 cannot be reached" in done.stderr
        assert "secret" not in done.stdout + done.stderr

    def test_check_tells_findings_before_servers(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "spec.yaml").write_text("colour: red\n")
        done = cli("check", "spec.yaml", "--json")
        facts = json.loads(done.stdout)
        assert (done.returncode, facts["ok"], facts["exit_code"]) == (2, False, 2)
        assert {"field": "colour", "line": 1, "severity": "error"}.items() <= facts["findings"][-1].items()
        assert "spec.yaml:1: colour: is not a known field" in done.stderr

    def test_check_of_a_good_spec_looks_at_the_servers_that_are_named(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text("def target(configuration, sample, context): return 1\n")
        (tmp_path / "spec.yaml").write_text(
            "configuration: {k: {value: 1, change: structured, type: integer, min: 0, max: 2}}\n"
            'target: {kind: python, ref: "mine:target"}\n'
            "dataset: {items: [{input: 1, expected: 1}], splits: none}\n"
            "objective: exact\noptimizer: {proposer: {kind: step}}\n"
        )
        good = cli("check", "spec.yaml")
        assert good.returncode == 0, good.stderr
        assert "A trial:   1 samples × 1 = 1 calls" in good.stdout
        away = cli(
            "check",
            "spec.yaml",
            "--json",
            environment={"TEMPORAL_ADDRESS": "127.0.0.1:9", "DATABASE_URL": "postgresql://x@127.0.0.1:9/y"},
        )
        assert (away.returncode, json.loads(away.stdout)["findings"]) == (5, [])

    def test_shared_options_may_come_first(self, cli: Cli) -> None:
        done = cli("--home", "elsewhere", "--json", "list")
        assert (done.returncode, json.loads(done.stdout)) == (0, {"runs": []})


def test_doctor_shows_no_values_of_variables(cli: Cli) -> None:
    nobody = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    done = cli("doctor", "--json", environment={"OPENAI_API_KEY": "sk-very-secret", **nobody})
    facts = json.loads(done.stdout)
    assert facts["ok"] is (done.returncode == 0)
    by_name = {check["name"]: check for check in facts["checks"]}
    assert by_name["OPENAI_API_KEY"] == {"name": "OPENAI_API_KEY", "status": "ok", "detail": "set", "fix": None}
    assert "DATABASE_URL" in by_name["not set"]["detail"] and "DATABASE_URL" not in by_name
    assert by_name["models (openai)"]["status"] == "warn"
    assert by_name["models (openai)"]["fix"] == "start it, or correct OPENAI_BASE_URL (or base_url)"
    assert by_name["Temporal binary"]["status"] == by_name["PostgreSQL binaries"]["status"] == "ok"
    assert "sk-very-secret" not in done.stdout + done.stderr


def test_who_only_looks_makes_no_home(cli: Cli, tmp_path: Path) -> None:
    """Folders below would take it for theirs."""
    done = cli("doctor")
    assert f"{tmp_path.resolve() / '.ratchet'} (made when it is needed)" in " ".join(done.stdout.split())
    assert cli("list").stdout.startswith("no runs in .ratchet")
    assert cli("init", "mine").returncode == 0
    assert "OPENAI_API_KEY is not set" in cli("check", "mine/spec.yaml").stderr
    assert not (tmp_path / ".ratchet").exists()


def test_what_doctor_finds_stands_in_one_column(cli: Cli) -> None:
    lines = cli("doctor").stdout.splitlines()
    found = [line for line in lines if line.startswith(("ok ", "warn ", "fail "))]
    assert len({len(line) - len(line[line.index(":") + 1 :].lstrip()) for line in found}) == 1


def test_doctor_asks_the_models_endpoint_and_names_what_is_not_set_at_once(cli: Cli) -> None:
    with fake_model("yes") as model:
        done = cli("doctor", environment={"OPENAI_BASE_URL": model.url})
    assert f"ok models (openai): {model.url} answers" in " ".join(done.stdout.split())
    assert done.stdout.count("not set:") == 1
    assert max(len(line) for line in done.stdout.splitlines() if "/" not in line) <= 120


def test_doctor_says_what_to_do(cli: Cli) -> None:
    done = cli("doctor", environment={"TEMPORAL_ADDRESS": "127.0.0.1:9", "DATABASE_URL": "postgresql://u:secret@127.0.0.1:9/r"})
    assert done.returncode == 1
    assert "fail Temporal:" in done.stdout
    assert "→ start it, or correct DATABASE_URL" in done.stdout
    assert "secret" not in done.stdout


async def test_doctor_tells_a_database_of_a_pre_release(cli: Cli, database: Database, database_url: str) -> None:
    async with database.connection() as connection:
        await connection.execute("DELETE FROM schema_migrations WHERE version > (SELECT min(version) FROM schema_migrations)")
        await connection.execute("UPDATE schema_migrations SET version = 24")
    done = cli("doctor", "--json", environment={"TEMPORAL_ADDRESS": "127.0.0.1:9", "DATABASE_URL": database_url})
    [found] = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "database"]
    assert (found["status"], found["fix"].partition(":")[0]) == ("fail", "its schema is of a pre-release")
