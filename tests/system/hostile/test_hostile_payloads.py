"""Malformed specs as raw Temporal JSON: each run fails within seconds, with one message that names the field and the fix,
and leaves nothing in the store."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.support.hostile_cases import (
    Case,
    chat,
    items,
    nested,
    number,
    patched,
    payload,
    scorers,
    target,
    text,
    without,
    wrong,
)
from tests.support.hostile_harness import Arena, Ended, as_json, raw, spec

NOT_A_SPEC: Final = {
    "no-argument": Case((), ("input", "missing", "OptimizationRequest")),
    "two-arguments": Case((as_json(spec()), as_json(spec())), ("2 inputs", "one")),
    "three-arguments": Case((as_json(spec()), as_json(1), as_json(None)), ("3 inputs", "one")),
    "two-wrong-arguments": Case((as_json("x"), as_json([])), ("2 inputs", "one")),
    "a-string": payload('"spec.yaml"', "mapping", "spec.yaml"),
    "a-number": payload("42", "mapping", "42"),
    "null": payload("null", "mapping", "null"),
    "a-list": payload("[{}]", "mapping", "a list"),
    "true": payload("true", "mapping", "true"),
    "empty-object": payload("{}", "configuration: is missing", "target: is missing", "dataset: is missing"),
    "not-json": payload("name: support-triage\nseed: 7", "JSON"),
    "no-data": payload(b"", "JSON"),
    "cut-off": payload(json.dumps(spec())[:-20], "JSON"),
    "two-documents": payload(json.dumps(spec()) + "{}", "JSON", "trailing"),
    "not-utf8": payload(b'{"name": "\xff\xfe"}', "JSON"),
    "a-binary-payload": payload(b"\x00\x01\x02", "binary/plain", "JSON", encoding="binary/plain"),
    "a-null-payload": payload(b"", "binary/null", "JSON", encoding="binary/null"),
    "an-unknown-encoding": payload("name: x", "text/yaml", "JSON", encoding="text/yaml"),
    "an-encrypted-payload": payload(b"\x9d\x01", "binary/encrypted", encoding="binary/encrypted"),
    "no-encoding": payload(json.dumps(spec()), "encoding", "JSON", encoding=None),
    "an-encoding-that-is-no-text": Case((raw("{}", "json/plain\ud800".encode("utf-8", "replace").decode()),), ("JSON",)),
    "a-protobuf-of-an-unknown-type": payload(
        b"\x08\x01", "protobuf", "JSON", encoding="binary/protobuf", messageType="no.Such"
    ),
    "a-protobuf": payload(
        b"", "protobuf", "JSON", encoding="binary/protobuf", messageType="temporal.api.common.v1.WorkflowExecution"
    ),
    "json-protobuf": payload("{]", "protobuf", "JSON", encoding="json/protobuf", messageType="x"),
    "100000-brackets": payload("[" * 100_000, "JSON"),
    "the-same-key-twice": patched('"seed": 7', '"seed": 7, "seed": 8', "'seed'", "twice"),
    "the-same-key-twice-deep-inside": patched('"min": 0', '"min": 0, "min": 5', "'min'", "twice"),
}

NUMBERS: Final = {
    "nan-in-a-budget": wrong("budget.cost", "finite", budget={"cost": float("nan")}),
    "infinity-in-a-stop-rule": wrong("stop.score", "finite", stop={"score": float("inf")}),
    "nan-in-a-sample": wrong(
        "dataset.items[0].expected", "nan is not a finite number", dataset=items({"input": 1, "expected": float("nan")})
    ),
    "nan-in-a-frozen-factor": wrong("configuration.y", "nan", configuration={**number(), "y": float("nan")}),
    "nan-in-a-number": wrong(
        "configuration.t.value",
        "finite",
        configuration={"t": {"value": float("nan"), "change": "structured", "type": "number", "min": 0, "max": 1}},
    ),
    "nan-in-a-parameter": wrong("target.parameters", "nan", target=chat(parameters={"top_p": float("nan")})),
    "nan-in-a-schema": wrong(
        "scorers[0].schema", "nan", scorers=[{"kind": "json", "name": "height", "schema": {"minimum": float("nan")}}]
    ),
    "infinite-weight": wrong("dataset.items[0].weight", "finite", dataset=items({"input": 1, "weight": float("inf")})),
    "weight-zero": wrong("dataset.items[0].weight", "more than 0", dataset=items({"input": 1, "weight": 0})),
    "an-overflowing-number": patched('"seed": 7', '"seed": 7, "budget": {"cost": 1e999}', "budget.cost", "finite"),
    "an-integer-of-400-digits": wrong("configuration.y", "308 digits", configuration={**number(), "y": 10**400}),
    "an-integer-of-5000-digits": patched('"seed": 7', f'"seed": {"9" * 5000}', "JSON", "digits"),
    "an-integer-of-5000-digits-in-a-sample": patched('"input": 1', f'"input": {"9" * 5000}', "JSON", "digits"),
    "replicates-true": wrong("replicates", "must be a number (is true)", replicates=True),
    "seed-true": wrong("seed", "must be a number (is true)", seed=True),
    "weight-true": wrong("dataset.items[0].weight", "must be a number", dataset=items({"input": 1, "weight": True})),
    "seed-too-large": wrong("seed", "less than 9,223,372,036,854,775,808", seed=2**64),
    "seed-negative": wrong("seed", "at least 0", seed=-1),
    "seed-fraction": wrong("seed", "whole number", seed=1.5),
    "replicates-endless": wrong("replicates", "1000", replicates=10**30),
    "a-range-beyond-floats": wrong("configuration.x.max", "308 digits", configuration=number(max=10**400)),
    "price-negative": wrong("prices.m.input", "0", prices={"m": {"input": -1, "output": 1}}),
    "timeout-zero": wrong("execution", "sample_timeout", "longer than 0", execution={"sample_timeout": 0}),
    "timeout-in-words": wrong("execution.sample_timeout", "duration", "90s", execution={"sample_timeout": "soon"}),
    "timeout-endless": wrong("execution.sample_timeout", "365 days", execution={"sample_timeout": 1e300}),
    "wall-time-negative": wrong("budget.wall_time", "duration", budget={"wall_time": -5}),
}

TEXTS: Final = {
    "a-prompt-of-1.9-mb": wrong("configuration", "262,144", configuration=number() | {"prompt": "x" * 1_900_000}),
    "a-text-of-1.9-mb": wrong("configuration.prompt", "max length 20000", configuration=text("x" * 1_900_000)),
    "a-text-of-1.9-mb-allowed-by-itself": wrong(
        "configuration.prompt.max_length", "200000", configuration=text("x" * 1_900_000, max_length=2_000_000)
    ),
    "a-template-of-1.9-mb": wrong(
        "optimizer.proposer.template",
        "200,000",
        configuration=text("be kind"),
        optimizer={"name": "refine", "proposer": {"kind": "model", "model": "m", "template": "x" * 1_900_000}},
    ),
    "a-message-of-1.9-mb": wrong(
        "target.messages[0].content", "200,000", target=chat(messages=[{"role": "user", "content": "x" * 1_900_000}])
    ),
    "parameters-of-1.9-mb": wrong("262,144", "smaller", target=chat(parameters={"user": ["x" * 1_000] * 1_850})),
    "a-key-of-1.9-mb": wrong("is not a known field", **{"y" * 1_900_000: 1}),
    "a-factor-name-of-1.9-mb": wrong("configuration", configuration={"y" * 1_900_000: 1}),
    "60000-unknown-fields": wrong(
        "60,000 problems", "is not a known field", "more", **{f"unknown_{number}": 1 for number in range(60_000)}
    ),
    "600000-samples-that-are-none": wrong("dataset: items has 600,000", "50,000", dataset={"items": [1] * 600_000}),
    "600000-scorers-that-are-none": wrong("scorers", "100", scorers=[1] * 600_000),
    "120000-factors": wrong("configuration", "120,000", "1,000", configuration={f"x{n}": n for n in range(120_000)}),
    "140000-factors-named-wrong": wrong("configuration", "1,000", configuration={f"-{n}": 1 for n in range(140_000)}),
    "100000-tags": wrong("100,000 problems", "dataset.items[0].tags[0]", dataset=items({"input": 1, "tags": [1] * 100_000})),
    "60000-scorers": wrong("scorers", "100", scorers=[{"kind": "exact"}] * 60_000),
    "100-scorers-of-the-same-name": wrong("scorers", "twice", scorers=[{"kind": "exact"}] * 100),
    "samples-of-1.9-mb": wrong("dataset", "524,288", "JSONL", dataset=items({"input": "x" * 1_900_000})),
    "a-lone-surrogate": wrong("surrogate", configuration=text("half a \ud83d smile")),
    "a-lone-surrogate-in-a-key": wrong("surrogate", configuration={"half\ud83d": 1}),
    "nul-in-a-prompt": wrong("configuration.prompt.value", "NUL", "remove it", configuration=text("a\x00b")),
    "nul-in-a-frozen-factor": wrong("configuration.y", "NUL", configuration=number() | {"y": "a\x00b"}),
    "nul-in-a-sample": wrong("dataset.items[0].input", "NUL", dataset=items({"input": {"ticket": "a\x00b"}})),
    "nul-in-a-sample-id": wrong("NUL", dataset=items({"id": "a\x00b", "input": 1})),
    "nul-in-a-tag": wrong("NUL", dataset=items({"input": 1, "tags": ["\x00"]})),
    "nul-in-a-message": wrong("target.messages[0].content", "NUL", target=chat(messages=[{"role": "user", "content": "\x00"}])),
    "nul-in-the-name": wrong("name", "is no name", name="a\x00b"),
    "nul-in-a-version": wrong("target.version", "NUL", target={**target("plugged:hill"), "version": "\x00"}),
    "an-empty-text": wrong("configuration.prompt", "cannot be empty", configuration=text("  \n")),
    "nested-150-deep": wrong("configuration.y", "100 levels", configuration=number() | {"y": nested(150)}),
    "nested-150-deep-in-a-sample": wrong("dataset.items[0].input", "100 levels", dataset=items({"input": nested(150)})),
    "nested-190-deep-in-parameters": wrong("target.parameters", "100 levels", target=chat(parameters={"a": nested(190)})),
    "nested-190-deep-in-a-schema": wrong(
        "scorers[0].schema", "100 levels", scorers=[{"kind": "json", "name": "height", "schema": {"enum": nested(190)}}]
    ),
    "nested-300-deep": wrong("JSON", "recursion", configuration=number() | {"y": nested(300)}),
}

FIELDS: Final = {
    "an-unknown-field": wrong("replicas", "not a known field", replicas=3),
    "an-unknown-field-inside": wrong("execution.concurency", "not a known field", execution={"concurency": 3}),
    "an-unknown-field-of-a-sample": wrong(
        "dataset.items[0].expcted", "not a known field", dataset=items({"input": 1, "expcted": 2})
    ),
    "no-configuration": without("configuration", "configuration: is missing"),
    "no-target": without("target", "target: is missing"),
    "no-dataset": without("dataset", "dataset: is missing"),
    "no-objective": without("objective", "objective: is missing"),
    "no-optimizer-and-nothing-that-changes": Case(
        (as_json({key: value for key, value in spec(configuration={"y": 1}).items() if key != "optimizer"}),),
        ("optimizer: is missing", "let a factor change"),
    ),
    "configuration-empty": wrong("configuration", "is empty", configuration={}),
    "configuration-a-list": wrong("configuration", "mapping", configuration=[1, 2]),
    "configuration-null": wrong("configuration", "mapping", configuration=None),
    "target-text": wrong("target", target="plugged:hill"),
    "target-without-kind": wrong("target", "kind", target={"ref": "plugged:hill"}),
    "target-of-an-unknown-kind": wrong("target", "'shell'", "'python'", target={"kind": "shell", "command": "true"}),
    "scorer-of-an-unknown-kind": wrong("scorers[0]", "'vibes'", "'exact'", scorers=[{"kind": "vibes"}]),
    "scorers-an-object": wrong("scorers", "list", scorers={"kind": "exact"}),
    "scorers-none": wrong("scorers", "is empty", scorers=[]),
    "scorers-named-alike": wrong("scorers", "'exact'", "twice", scorers=[{"kind": "exact"}, {"kind": "exact"}]),
    "proposer-of-an-unknown-kind": wrong(
        "optimizer.proposer", "'genius'", "'model'", optimizer={"name": "refine", "proposer": {"kind": "genius"}}
    ),
    "optimizer-unknown": wrong(
        "optimizer", "has name 'magic'; use one of 'refine'", optimizer={"name": "magic", "proposer": {"kind": "step"}}
    ),
    "objective-of-an-unknown-kind": wrong("objective.kind", "'mean'", objective={"kind": "median"}),
    "objective-of-an-unknown-metric": wrong(
        "objective.metric", "'widht'", "known are", scorers=[{"kind": "exact"}], objective={"metric": "widht"}
    ),
    "direction-unknown": wrong("objective.direction", "'maximize'", objective={"metric": "height", "direction": "up"}),
    "replicates-text": wrong("replicates", "whole number", "many", replicates="many"),
    "value-out-of-range": wrong("configuration.x", "outside", "1000", configuration=number(value=5000)),
    "value-of-the-wrong-type": wrong("configuration.x.value", "whole number", configuration=number(value="ten")),
    "choice-not-a-choice": wrong(
        "configuration.c",
        "not one of choices",
        configuration={"c": {"value": 3, "change": "structured", "type": "choice", "choices": [1, 2]}},
    ),
    "order-with-the-same-item-twice": wrong(
        "configuration.o", "twice", configuration={"o": {"value": [1, 1], "change": "structured", "type": "order"}}
    ),
    "a-schema-that-is-none": wrong(
        "configuration.j.schema",
        "JSON Schema",
        configuration={"j": {"value": 1, "change": "structured", "type": "json", "schema": {"type": "nope"}}},
    ),
    "a-pattern-that-is-none": wrong("scorers[0].pattern", "regular expression", scorers=[{"kind": "regex", "pattern": "("}]),
    "every-factor-frozen": wrong("configuration", "frozen", "change", configuration={"x": 1}),
    "a-factor-that-is-none": wrong(
        "optimizer.factors", "'y'", "known are x", optimizer={"proposer": {"kind": "step"}, "factors": ["y"]}
    ),
    "an-unknown-placeholder": wrong(
        "target.messages[0].content",
        "factors.y",
        "known are",
        target=chat(messages=[{"role": "user", "content": "{{factors.y}}"}]),
    ),
    "a-budget-without-a-price": wrong("prices", "'m'", "budget.cost", target=chat(), budget={"cost": 1}),
    "a-reserved-task-queue": wrong("execution.evaluation_task_queue", execution={"evaluation_task_queue": "/_sys/mine"}),
    "a-task-queue-with-nul": wrong("execution.evaluation_task_queue", execution={"evaluation_task_queue": "a\x00b"}),
}

PLUGINS: Final = {
    "a-plug-in-without-a-colon": wrong("target.ref", "package.module:attribute", target=target("plugged.hill")),
    "a-plug-in-that-is-code": wrong("target.ref", "package.module:attribute", target=target("os:system('true')")),
    "a-plug-in-outside-the-prefixes": wrong(
        "os:system", "does not allow module 'os'", "RATCHET_PLUGINS", target=target("os:system")
    ),
    "a-room-as-a-plug-in": wrong("worker:main", "Ratchet itself", target=target("worker:main")),
    "an-unknown-module": wrong("pluged:hill", "RATCHET_PLUGINS", target=target("pluged:hill")),
    "an-unknown-module-inside": wrong("plugged.inner:hill", "no module", target=target("plugged.inner:hill")),
    "an-unknown-attribute": wrong("plugged:hil", "has no 'hil'", target=target("plugged:hil")),
    "a-plug-in-that-is-not-callable": wrong("plugged:not_callable", "not callable", target=target("plugged:not_callable")),
    "a-target-of-the-wrong-signature": wrong(
        "plugged:takes_no_arguments", "3 positional arguments", target=target("plugged:takes_no_arguments")
    ),
    "a-scorer-of-the-wrong-signature": wrong(
        "plugged:takes_no_arguments", "2 positional arguments", scorers=scorers("plugged:takes_no_arguments")
    ),
    "an-objective-of-the-wrong-signature": wrong(
        "plugged:takes_no_arguments",
        "1 positional arguments",
        objective={"kind": "python", "metric": "height", "ref": "plugged:takes_no_arguments"},
    ),
    "a-proposer-of-the-wrong-signature": wrong(
        "plugged:takes_no_arguments",
        "3 positional arguments",
        optimizer={"name": "refine", "proposer": target("plugged:takes_no_arguments")},
    ),
    "a-plug-in-with-a-syntax-error": wrong("broken_syntax:target", "SyntaxError", target=target("broken_syntax:target")),
    "a-plug-in-that-lacks-a-package": wrong("a_module_that_is_not_installed", "install", target=target("broken_import:target")),
    "a-plug-in-that-raises-on-import": wrong(
        "raises_on_import:target", "RuntimeError", target=target("raises_on_import:target")
    ),
    "a-plug-in-that-exits-on-import": wrong("exits_on_import:target", "SystemExit", target=target("exits_on_import:target")),
    "a-plug-in-that-dies-on-import": wrong(
        "dies_on_import:target", "killed the process (exit code 9)", target=target("dies_on_import:target")
    ),
}

DATA: Final = {
    "no-samples": wrong("dataset", "items is empty", "at least one", dataset=items()),
    "no-source": wrong("dataset", "exactly one of items, path", dataset={}),
    "two-sources": wrong("dataset", "exactly one of", "items, path", dataset={**items({"input": 1}), "path": "a.jsonl"}),
    "one-id-for-two-samples": wrong(
        "items[1]", "'a'", "its own id", dataset=items({"id": "a", "input": 1}, {"id": "a", "input": 2})
    ),
    "a-sample-without-input": wrong("dataset.items[0].input", "is missing", dataset=items({"expected": 1})),
    "a-sample-that-is-none": wrong("dataset.items[0]", dataset=items("text")),
    "shares-above-one": wrong(
        "dataset.splits", "1.5", dataset={**items({"input": 1}), "splits": {"validation": 1, "test": 0.5}}
    ),
    "shares-of-nothing": wrong("dataset.splits", "both 0", dataset={**items({"input": 1}), "splits": {"test": 1}}),
    "an-unknown-dataset": wrong("dataset.id", "not in the store", "datasets add", dataset={"id": "0" * 64}),
    "a-dataset-id-that-is-none": wrong("dataset.id", "no content hash", dataset={"id": "'; DROP TABLE runs; --"}),
    "a-path-outside": wrong("dataset.path", "outside RATCHET_DATA_DIR", dataset={"path": "../../etc/passwd"}),
    "an-absolute-path": wrong("dataset.path", "outside RATCHET_DATA_DIR", dataset={"path": "/etc/passwd"}),
    "a-link-that-leads-outside": wrong("dataset.path", "outside RATCHET_DATA_DIR", dataset={"path": "link.jsonl"}),
    "a-path-with-nul": wrong("dataset.path", "NUL", dataset={"path": "a\x00b"}),
    "a-path-to-nothing": wrong("dataset.path", "no file", dataset={"path": "missing.jsonl"}),
    "a-path-to-a-folder": wrong("dataset.path", "no file", dataset={"path": "."}),
    "a-file-with-nan": wrong("nan.jsonl line 1", "a number that is none", dataset={"path": "nan.jsonl"}),
    "a-file-that-is-not-utf8": wrong("latin.jsonl line 1", "UTF-8", dataset={"path": "latin.jsonl"}),
    "a-file-with-a-key-twice": wrong("twice.jsonl line 1", "a key twice", dataset={"path": "twice.jsonl"}),
    "a-file-without-samples": wrong("empty.jsonl", "empty", dataset={"path": "empty.jsonl"}),
    "a-file-of-lists": wrong("list.jsonl line 1", "not an item", dataset={"path": "list.jsonl"}),
    "a-file-with-an-unknown-field": wrong("unknown.jsonl line 1", "a key that no item has", dataset={"path": "unknown.jsonl"}),
    "a-file-with-one-id-for-two-samples": wrong("same_id.jsonl line 2", "used before", dataset={"path": "same_id.jsonl"}),
    "a-file-nested-too-deeply": wrong("deep.jsonl line 1", "nested too deeply", dataset={"path": "deep.jsonl"}),
}


def forged(**parts: Any) -> dict[str, Any]:
    """State that nobody but Ratchet itself may hand over, in good shape."""
    trial = {"candidate_id": "r0-00000000", "config_hash": "0" * 64, "round": 0, "score": 0.5, "status": "completed"}
    return {
        "prepared": {"dataset_id": "0" * 64, "evaluation_suite_id": "s", "search_split": "all", "search_samples": 2},
        "started_at": "2020-01-01T00:00:00Z",
        "baseline": trial,
        "best": {
            "candidate_id": "r0-00000000",
            "config_hash": "0" * 64,
            "configuration": {"x": 10},
            "score": 0.5,
            "round": 0,
            "since_round": 0,
            "reference_score": 0.5,
        },
        "optimizer": {
            "best_candidate_id": "r0-00000000",
            "best_score": 0.5,
            "algorithm_data": {"last_candidate_id": "r0-00000000"},
        },
    } | parts


CARRIED: Final = {
    "carried-empty": wrong("carried", "is missing", carried={}),
    "carried-text": wrong("carried", carried="state"),
    "carried-forged": wrong("carried", "leave it out", carried=forged()),
    "carried-forged-as-stopped": wrong("carried", "leave it out", carried=forged(stop_requested="mine", round=10)),
    "carried-with-nan": wrong("carried.best.score", "finite", carried=forged(best={**forged()["best"], "score": float("nan")})),
}

CASES: Final = NOT_A_SPEC | NUMBERS | TEXTS | FIELDS | PLUGINS | DATA | CARRIED


@pytest_asyncio.fixture(scope="module")
async def ended(arena: Arena) -> dict[str, Ended]:
    return await arena.run_all({name: case.sent for name, case in CASES.items()})


@pytest.mark.parametrize("name", CASES)
async def test_a_malformed_request_fails_with_one_clear_message(name: str, ended: dict[str, Ended]) -> None:
    end = ended[name]
    assert end.status == "failed", str(end)
    assert end.type == "InvalidRequest", str(end)
    for part in CASES[name].said:
        assert part in end.message, str(end)
    assert len(end.message) <= 20_000
    assert "Traceback" not in end.message
    assert not end.rows, f"{end} left {end.rows}"


async def test_a_prompt_of_3_mb_is_refused_before_a_run_exists(arena: Arena) -> None:
    end = await arena.run([as_json(spec(configuration=text("x" * 3_000_000)))], "hostile-3-mb")
    assert end.status == "refused", str(end)
    assert "size" in end.message or "exceeds" in end.message
    assert not end.rows


RUN_IDS: Final = {"long": ("hostile-" + "i" * 990, "at most 500"), "control": ("hostile-\n-run", "control characters")}


@pytest.mark.parametrize("name", RUN_IDS)
async def test_a_run_id_that_could_name_no_trial_is_refused(name: str, arena: Arena) -> None:
    run_id, said = RUN_IDS[name]
    end = await arena.run([as_json(spec())], run_id)
    assert (end.status, end.type) == ("failed", "InvalidRequest"), str(end)
    assert "workflow id" in end.message and said in end.message
    assert not end.rows


TRIALS: Final = {
    "no-argument": Case((), ("input", "missing", "TrialInput")),
    "two-arguments": Case((as_json({}), as_json({})), ("2 inputs", "one")),
    "empty": Case((as_json({}),), ("run_id: is missing", "candidate: is missing")),
    "binary": Case((raw(b"\x00", "binary/plain"),), ("binary/plain", "JSON")),
    "of-no-run": Case(
        (
            as_json(
                {
                    "run_id": "no-such-run",
                    "trial_id": "no-such-run/r1/0",
                    "candidate": {"candidate_id": "r1-0", "config_hash": "0", "configuration": {}, "round": 1, "index": 0},
                    "split": "all",
                    "samples": 1,
                    "evaluation_task_queue": "hostile-evaluation",
                }
            ),
        ),
        ("no-such-run",),
    ),
}


@pytest.mark.parametrize("name", TRIALS)
async def test_a_trial_that_nobody_asked_for_fails_at_once(name: str, arena: Arena) -> None:
    end = await arena.run(TRIALS[name].sent, f"hostile-trial-{name}", "TrialWorkflow")
    assert end.status == "failed", str(end)
    for part in TRIALS[name].said:
        assert part in end.message, str(end)
    assert not end.rows


async def test_copies_of_a_sample_are_dropped_and_the_run_goes_on(arena: Arena) -> None:
    copies = items({"id": "a", "input": 1}, {"id": "b", "input": 2}, {"id": "a", "input": 1})
    end = await arena.run([as_json(spec(name="copies", dataset=copies))], "hostile-copies")
    assert end.status == "completed", str(end)
    assert end.result["spend"]["samples"] == 3 * 2


async def test_many_factors_with_long_names_do_not_stop_a_run(arena: Arena) -> None:
    """Activities are described by the factors they change; Temporal refuses long descriptions for ever."""
    names = {f"f{'ß' * 100}_{number}": {"value": "text", "change": "text"} for number in range(60)}
    proposer = {"kind": "python", "ref": "misbehaving:proposes_nothing"}
    end = await arena.run(
        [as_json(spec(configuration={**number(), **names}, optimizer={"name": "refine", "proposer": proposer}))],
        "hostile-long-names",
    )
    assert end.status == "completed", str(end)


async def test_large_candidates_side_by_side_do_not_exceed_one_message(arena: Arena) -> None:
    """Temporal takes 4 MB in one message, whatever the spec lets start at once."""
    wide = {"proposer": {"kind": "step"}, "candidates_per_round": 24}
    large = spec(
        configuration={"large": "x" * 250_000, **{f"x{at}": number()["x"] for at in range(24)}},
        target={"kind": "python", "ref": "misbehaving:answers"},
        optimizer=wide,
        execution={"concurrent_trials": 24},
        stop={"max_rounds": 1, "no_improvement": 0},
    )
    end = await arena.run([as_json(large)], "hostile-large-candidates")
    assert end.status == "completed", str(end)
    assert end.result["counts"]["completed"] == 1 + 24
