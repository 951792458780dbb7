"""`ratchet prompts`, and releases from the command line: asked for, looked at, approved, rolled back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients.prompts.stores import user
from ratchet.prompts import PromptTemplate, open_store
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.release_runs import CONFIGURATION
from tests.support.shells import Shell

Spec = Callable[..., dict[str, Any]]
EXAMPLES = Path(__file__).parents[3] / "examples"
ITEMS = {"items": [{"id": f"s{n}", "input": n} for n in range(12)], "splits": {"validation": 0.5, "test": 0.5}}

TRIAGE = """\
prompt: support/triage
sections:
  - {path: task, body: "You label tickets, in {{factors.tone}} words.", accepts_overrides: false}
  - {path: labels, body: "Use billing or bug.\\nNever [bold]shout[/].\\n"}
  - {path: question, body: "Ticket: {{input.ticket}}"}
parameters:
  tone: {type: choice, value: plain, choices: [plain, warm]}
"""


class TestWithoutAnyServer:
    """Prompts in local files need neither Temporal nor PostgreSQL."""

    @pytest.fixture
    def shell(self, tmp_path: Path) -> Shell:
        shell = Shell(tmp_path, {"RATCHET_OVERRIDES": "file:prompts"})
        shell.write("triage.yaml", TRIAGE)
        return shell

    async def test_a_prompt_is_seeded_once_listed_and_shown(self, shell: Shell) -> None:
        assert "no prompts" in (await shell.ratchet("prompts", "list")).out
        seeded = (await shell.ratchet("prompts", "seed", "triage.yaml", "--by", "ann", "--json")).facts
        assert (seeded["prompt"], seeded["version"], seeded["seeded"]) == ("support/triage", "1.0.0", True)
        again = (await shell.ratchet("prompts", "seed", "triage.yaml")).out
        assert "stable is there already, at 1.0.0, and stays as it is" in again
        [listed] = (await shell.ratchet("prompts", "list", "--json")).facts["prompts"]
        assert (listed["prompt"], listed["versions"]) == ("support/triage", ["1.0.0"])
        shown = (await shell.ratchet("prompts", "show", "support/triage")).out
        assert "by ann: seed" in shown
        assert "── labels (text, " in shown and "tone = plain  one of plain, warm" in shown
        assert not (shell.directory / "home" / "postgres").exists()

    async def test_a_prompt_is_rendered_as_production_would_and_a_missing_input_is_told(self, shell: Shell) -> None:
        await shell.ratchet("prompts", "seed", "triage.yaml")
        rendered = await shell.ratchet("prompts", "render", "support/triage", "--input", "ticket=[red]late[/] {{x}}")
        assert rendered.out == (
            "You label tickets, in plain words.\n\nUse billing or bug.\nNever [bold]shout[/].\n\n\nTicket: [red]late[/] {{x}}\n"
        )
        missing = await shell.ratchet("prompts", "render", "support/triage")
        assert (missing.code, missing.errors) == (
            2,
            "ratchet: support/triage: nothing fills {{input.ticket}}; give it, e.g. --input ticket=…\n",
        )

    async def test_versions_go_out_and_come_in_again_elsewhere(self, shell: Shell) -> None:
        await shell.ratchet("prompts", "seed", "triage.yaml")
        assert (await shell.ratchet("prompts", "export", "support/triage", "out")).code == 0
        other = Shell(shell.directory, {"RATCHET_OVERRIDES": "file:other"})
        assert "version 1.0.0 came in; stable is 1.0.0" in (await other.ratchet("prompts", "import", "out")).out
        assert "no versions came in; stable is 1.0.0" in (await other.ratchet("prompts", "import", "out")).out
        assert [tag["tag"] for tag in (await other.ratchet("prompts", "tags", "support/triage", "--json")).facts["tags"]] == [
            "stable"
        ]
        await other.ratchet("prompts", "export", "support/triage", "again")
        for name in ("prompt_v1.0.0.yaml", "versions.json"):
            assert (shell.directory / "out" / name).read_bytes() == (shell.directory / "again" / name).read_bytes()

    async def test_a_policy_from_elsewhere_comes_in_with_its_mutations_and_shows_its_parameters(self, shell: Shell) -> None:
        first = (EXAMPLES / "nethack" / "prompt_v1.0.0.yaml").read_text()
        step = "{version: v1.0.1, prev_version: v1.0.0, description: Increased health_threshold}"
        second = first.replace("version: v1.0.0", "version: v1.0.1", 1).replace("threshold: 0.3", "threshold: 0.4")
        shell.write("prompt_v1.0.0.yaml", first)
        shell.write("prompt_v1.0.1.yaml", second.replace("mutation_history: []", f"mutation_history:\n  - {step}"))
        came = await shell.ratchet("prompts", "import", ".", "--name", "games/nethack")
        assert "games/nethack: 2 versions came in; stable is 1.0.1" in came.out
        rendered = (await shell.ratchet("prompts", "render", "games/nethack", "--mutations")).out
        assert '"health_threshold": 0.4,' in rendered
        mutations = "\n\nRECENT MUTATIONS\n- v1.0.0 → v1.0.1: Increased health_threshold\n"
        assert (await shell.ratchet("prompts", "render", "games/nethack")).out == rendered.replace(mutations, "\n") != rendered
        assert (await shell.ratchet("prompts", "show", "games/nethack")).out.endswith(mutations)

    async def test_a_version_with_other_content_stops_an_import_before_anything_is_written(self, shell: Shell) -> None:
        await shell.ratchet("prompts", "seed", "triage.yaml")
        await shell.ratchet("prompts", "export", "support/triage", "out")
        file = shell.directory / "out" / "prompt_v1.0.0.yaml"
        file.write_text(file.read_text().replace("billing", "invoices"))
        refused = await shell.ratchet("prompts", "import", "out")
        assert refused.code == 2
        assert "has a version 1.0.0 already, with other content; versions never change" in refused.errors

    async def test_nothing_in_a_prompt_or_a_name_is_taken_for_markup(self, shell: Shell) -> None:
        shell.write("triage.yaml", TRIAGE.replace("Use billing", "[link=x]\\e[31mUse[/] billing"))
        await shell.ratchet("prompts", "seed", "triage.yaml", "--reason", "[bold]why[/]")
        assert "[link=x]␛[31mUse[/] billing or bug." in (await shell.ratchet("prompts", "show", "support/triage")).out
        assert "[bold]why[/]" in (await shell.ratchet("prompts", "tags", "support/triage")).out

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["show", "support/triag"], "did you mean support/triage?"),
            (["show", "support/triage", "--tag", "canary"], "has no tag 'canary'; it has stable"),
            (["show", "support/triage", "--tag", "9.0.0"], "has no version 9.0.0; it has 1.0.0"),
            (["show", "../etc"], "is not allowed"),
            (["tags", "support/other"], "there is no prompt 'support/other'"),
            (["seed", "nothing.yaml"], "nothing.yaml cannot be read: No such file or directory"),
            (["seed", "bad.yaml"], "bad.yaml: sections[0].body: is missing"),
            (["import", "nowhere"], "there is no file and no folder 'nowhere'"),
            (["diff", "support/triage", "stable", "no-run"], "nor is 'no-run' a finished run"),
            (["render", "support/triage", "--input", "ticket"], "'ticket' is no NAME=VALUE"),
        ],
    )
    async def test_bad_input_is_told(self, shell: Shell, arguments: list[str], told: str) -> None:
        async with await open_store(f"file:{shell.directory / 'prompts'}") as store:
            await store.seed(PromptTemplate.from_yaml(TRIAGE))
        shell.write("bad.yaml", "prompt: a/b\nsections: [{path: x}]\n")
        answer = await shell.ratchet("prompts", *arguments)
        assert answer.code == 2
        assert told in answer.errors
        assert "Traceback" not in answer.errors


@pytest.fixture
def shell(engines: Engines, tmp_path: Path) -> Shell:
    addresses = engines.addresses
    return Shell(tmp_path, {"TEMPORAL_ADDRESS": addresses.temporal_address, "DATABASE_URL": addresses.database_url})


async def finished(engines: Engines, spec: Spec, prompt: str, **parts: Any) -> str:
    """A run whose search found something better than its baseline; its id."""
    release = {"prompt": prompt, **parts.pop("release", {})}
    given = {"configuration": CONFIGURATION, "dataset": ITEMS, "stop": {"max_rounds": 12, "no_improvement": 0}, **parts}
    result = await engines.run(spec(name=prompt.replace("/", "-"), release=release, **given))
    found = result["unproven"]["score"] if result["unproven"] else result["best_score"]
    assert found > result["baseline_score"]
    return str(result["optimization_id"])


async def test_a_run_waits_is_looked_at_approved_and_rolled_back(shell: Shell, engines: Engines, spec: Spec) -> None:
    run = await finished(engines, spec, "cli/approved", release={"mode": "approval"})
    assert f"ratchet approve {run}" in (await shell.ratchet("status", run)).out
    assert "waits for approval" in (await shell.ratchet("report", run)).out
    seen = await shell.ratchet("prompts", "diff", "cli/approved", f"{run}@baseline", run)
    assert f"cli/approved: {run}@baseline → {run} (patch)" in seen.out
    assert "- 10 " in seen.out
    approved = await shell.ratchet("approve", run, "--by", "bea", "--comment", "fine")
    assert approved.out == "cli/approved: stable (new) → 1.0.1 (patch), by bea\n"
    [kept] = await StoreReader(engines.database).releases.listed(run_id=run)
    assert re.fullmatch(r"command line, as (\S+ \()?uid \d+\)? on \S+", kept.decided_through)
    assert "cli/approved: stable (new) → 1.0.1 (patch), by bea" in (await shell.ratchet("status", run)).out
    again = await shell.ratchet("approve", run)
    assert again.code == 2
    assert f"{run} has no release that waits for approval; its last one: cli/approved" in again.errors
    back = await shell.ratchet("rollback", "cli/approved", "--reason", "[red]fell[/]", "--json")
    assert (back.facts["status"], back.facts["version"]) == ("released", "1.0.0")
    log = (await shell.ratchet("prompts", "releases", "cli/approved")).out
    assert "[red]fell[/]" in log and "1.0.1 → 1.0.0" in log


async def test_a_rejected_release_can_be_asked_for_again_by_hand(shell: Shell, engines: Engines, spec: Spec) -> None:
    run = await finished(engines, spec, "cli/rejected", release={"mode": "approval"})
    assert "rejected by ann: no" in (await shell.ratchet("reject", run, "--by", "ann", "--comment", "no")).out
    canary = await shell.ratchet("release", run, "--canary")
    assert canary.out == f"cli/rejected: canary (new) → 1.0.1 (patch), by {user()}\n"
    promoted = await shell.ratchet("release", "cli/rejected", "--from", "canary", "--json")
    assert (promoted.facts["tag"], promoted.facts["version"]) == ("stable", "1.0.1")


async def test_a_regression_is_released_by_nobody_who_does_not_say_so(shell: Shell, engines: Engines, spec: Spec) -> None:
    target = {"kind": "python", "ref": "plugged:hill_of_the_searched"}
    run = await finished(engines, spec, "cli/regressed", target=target)
    refused = await shell.ratchet("release", run, "--json")
    assert refused.code == 3
    assert "the confirmation shows a regression" in refused.facts["error"]
    forced = await shell.ratchet("release", run, "--force", "--json")
    assert forced.facts["status"] == "released"


async def test_a_stale_base_is_an_error_that_changes_nothing(shell: Shell, engines: Engines, spec: Spec) -> None:
    one = await finished(engines, spec, "cli/stale")
    other = await finished(engines, spec, "cli/stale", seed=8)
    assert (await shell.ratchet("release", one)).code == 0
    stale = await shell.ratchet("release", other, "--json")
    assert (stale.code, stale.facts["status"], stale.facts["exit_code"]) == (1, "stale_base", 1)
    assert "is not what this was compared with" in stale.errors


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["release", "no-such-run"], "there is no run 'no-such-run'"),
        (["approve", "no-such-run"], "there is no run 'no-such-run'"),
        (["rollback", "cli/nothing"], "cli/nothing has no tag 'stable', so there is nothing to roll back"),
        (["rollback", "nothing"], "NS/KEY: prompt 'nothing' is not allowed"),
        (["release", "cli/nothing", "--from", "canary"], "cli/nothing has no tag 'canary'"),
        (["release", "cli/nothing", "--from", "canary", "--canary"], "leave --canary and --prompt out"),
        (["rollback", "cli/nothing", "--by", " "], "--by: "),
    ],
)
async def test_a_wrong_request_is_told(shell: Shell, arguments: list[str], told: str) -> None:
    answer = await shell.ratchet(*arguments, "--json")
    assert answer.code == 2
    assert told in json.loads(answer.out)["error"]


async def test_a_run_without_a_prompt_is_released_to_the_one_that_is_named(shell: Shell, engines: Engines, spec: Spec) -> None:
    result = await engines.run(spec(name="no-prompt", configuration=CONFIGURATION))
    run = str(result["optimization_id"])
    refused = await shell.ratchet("release", run)
    assert (refused.code, "say which with --prompt NAMESPACE/KEY" in refused.errors) == (2, True)
    done = await shell.ratchet("release", run, "--prompt", "cli/named", "--by", "ann")
    assert done.out == "cli/named: stable (new) → 1.0.1 (patch), by ann\n"
    assert "nothing confirmed it: the dataset has no test split" in done.errors
