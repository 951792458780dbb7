"""`compress` in whole runs: what nobody needs goes, what somebody needs stays, and the rest is confirmed on fresh answers."""

from __future__ import annotations

import json
from typing import Any

from clients.demo.model_server import SimulatedModel
from clients.demo.tickets import LABELS
from clients.reports.load import facts_of
from clients.reports.text.boxes import box
from ratchet.prompts import open_store
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.rewriting_runs import TICKETS, TRIAGE

NEEDED = f"Choose exactly one of these labels: {', '.join(LABELS)}.\n"
NEEDLESS = (
    "Take pride in your work and keep the brand in mind, whatever you do and whomever you may be talking to on this day.\n",
    "Remember that every customer matters to us, and that we are here because of them and not the other way round.\n",
)
PROMPT = "You sort support tickets.\n" + NEEDLESS[0] + NEEDED + NEEDLESS[1]


def compressing(server: SimulatedModel, **parts: Any) -> dict[str, Any]:
    items = [json.loads(line) for line in TICKETS.read_text().splitlines()]
    return {
        "name": "compressing",
        "configuration": {"prompt": {"value": PROMPT, "change": "text"}, "model": TRIAGE},
        "target": {
            "kind": "chat",
            "base_url": server.base_url,
            "messages": [
                {"role": "system", "content": "{{factors.prompt}}"},
                {"role": "user", "content": "{{input.ticket}}"},
            ],
        },
        "dataset": {"items": items, "splits": "none"},
        "scorers": [{"kind": "exact", "name": "label"}],
        "objective": {"metric": "label"},
        "optimizer": {"name": "compress", "strategies": ["ablation"], "min_section_tokens": 5},
        "judgement": {"margin": 0.1},
        "seed": 7,
    } | parts


async def test_needless_lines_go_needed_ones_stay_and_the_rest_is_confirmed_afresh(
    engines: Engines, server: SimulatedModel
) -> None:
    result = await engines.run(compressing(server))
    assert (result["status"], result["stop_reason"]) == ("completed", "completed")
    compressed = result["best_configuration"]["prompt"]
    assert NEEDED in compressed
    assert not any(line in compressed for line in NEEDLESS)
    report, confirmation = result["compression"], result["confirmation"]
    [changed] = report["modifications"]
    assert (changed["section_path"], changed["proposed_body"]) == ("prompt", compressed)
    assert report["total_token_reduction"] == report["tokens_before"] - report["tokens_after"] > 0
    assert {edit["kept"] for edit in report["edits"]} == {True, False}
    assert report["rejected"] == [edit for edit in report["edits"] if not edit["kept"]]
    assert all(edit["regression_count"] for edit in report["edits"] if edit["reason"].startswith("alone: worse"))
    assert confirmation["how"] == "fresh_answers"
    assert report["confirmed"] == confirmation["judged"]["accepted"]
    assert confirmation["explanation"].startswith("confirmed with fresh answers to the same samples: ")


async def test_no_configuration_is_measured_twice_before_the_confirmation(engines: Engines, server: SimulatedModel) -> None:
    result = await engines.run(compressing(server, name="once"))
    async with engines.database.connection() as connection:
        trials = await connection.fetch("SELECT purpose, config_hash FROM trials WHERE run_id = $1", result["optimization_id"])
    searched = [row["config_hash"] for row in trials if row["purpose"] in ("baseline", "candidate")]
    assert len(searched) == len(set(searched))
    assert [row["purpose"] for row in trials].count("confirmation") == 2
    assert result["spend"]["samples"] == len(trials) * 120 * 3


async def test_held_back_samples_confirm_where_there_are_some_and_the_search_survives_new_executions(
    engines: Engines, server: SimulatedModel
) -> None:
    spec = compressing(server, name="held-back", execution={"max_rounds_per_execution": 1})
    spec["dataset"]["splits"] = {"validation": 0.6, "test": 0.4}
    result = await engines.run(spec)
    assert result["status"] == "completed"
    assert result["confirmation"]["how"] == "test_split"
    assert result["compression"]["edits"]


async def test_the_report_tells_what_became_of_every_edit(engines: Engines, server: SimulatedModel) -> None:
    result = await engines.run(compressing(server, name="told", replicates=1))
    stored = await StoreReader(engines.database).runs.report(result["optimization_id"])
    assert stored is not None
    rows = [row.strip("║").strip() for row in box(facts_of(stored)).splitlines()]
    found = result["compression"]
    assert any(f"{found['tokens_before']} → {found['tokens_after']} tokens" in row for row in rows)
    marks = [row[0] for row in rows if row[1:].startswith(" prompt, ablation: ")]
    assert marks == ["+" if edit["kept"] else "-" for edit in found["edits"]]


async def test_a_model_rewrites_sections_shorter_and_what_it_made_longer_is_not_tried(
    engines: Engines, server: SimulatedModel
) -> None:
    writer = {"kind": "model", "model": "simulated-reflector", "base_url": server.base_url}
    configuration = {
        "prompt": {"value": PROMPT, "change": "text"},
        "model": TRIAGE,
        "terse": {"value": f"{NEEDED}{NEEDED.replace('exactly ', '')}".strip(), "change": "text"},
    }
    target = compressing(server)["target"]
    target["messages"][0]["content"] = "{{factors.prompt}}{{factors.terse}}"
    result = await engines.run(
        compressing(
            server,
            name="rewritten",
            configuration=configuration,
            target=target,
            optimizer={"name": "compress", "strategies": [], "proposer": writer, "min_section_tokens": 5},
        )
    )
    assert result["status"] == "completed"
    report = result["compression"]
    assert {edit["strategy"] for edit in report["edits"]} == {"rewritten"}
    assert result["spend"]["tokens"] > 0
    shorter = result["best_configuration"]["prompt"]
    assert len(shorter) < len(PROMPT) and not any(line.strip() in shorter for line in NEEDLESS)
    assert report["total_token_reduction"] == report["tokens_before"] - report["tokens_after"] > 0


async def test_what_was_compressed_is_released(engines: Engines, server: SimulatedModel) -> None:
    release = {"prompt": "tests/compressed", "mode": "automatic"}
    spec = compressing(server, name="shipped", release=release, judgement={"margin": 0.2})
    spec["dataset"]["splits"] = {"validation": 0.5, "test": 0.5}
    result = await engines.run(spec)
    assert result["confirmation"]["judged"]["accepted"]
    assert (result["release"]["status"], result["release"]["prompt"]) == ("released", "tests/compressed")
    async with await open_store("postgres", database_url=engines.addresses.database_url) as prompts:
        released = await prompts.resolve("tests/compressed", tag="stable")
    assert released.render({}).text.strip() == result["best_configuration"]["prompt"].strip()
    [told] = await StoreReader(engines.database).releases.listed(run_id=result["optimization_id"])
    assert told.status == "released" and told.version == "1.1.0"
