"""`ratchet datasets`, and runs of specs that name data of every origin, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.cli import main
from tests.support.engines import Engines
from tests.support.object_store import object_store
from tests.support.shells import Shell

CSV = "Ticket,Language,Label\n" + "".join(
    f"ticket {n},{'de' if n % 4 == 0 else 'en'},{'refund' if n % 2 else 'delivery'}\n" for n in range(24)
)
TARGET = '''
"""Says `refund` to everything, or once `k` is large enough, what is right in English."""
def target(configuration, sample, context):
    number = int(sample.input["Ticket"].split()[1])
    if configuration["k"] > 2 and sample.input["Language"] == "en":
        return "refund" if number % 2 else "delivery"
    return "refund"

def given():
    return [{"input": {"Ticket": f"ticket {n}", "Language": "en"}, "expected": "refund"} for n in range(6)]
'''


def write_spec(shell: Shell, dataset: Any) -> None:
    shell.write("sorting.py", TARGET)
    spec = {
        "name": "sorting",
        "configuration": {"k": {"value": 1, "change": "structured", "type": "integer", "min": 1, "max": 3, "step": 2}},
        "target": {"kind": "python", "ref": "sorting:target"},
        "dataset": dataset,
        "objective": "exact",
        "optimizer": {"proposer": {"kind": "step"}},
        "stop": {"max_rounds": 1},
    }
    shell.write("spec.yaml", yaml.safe_dump(spec))


@pytest.fixture
def shell(engines: Engines, tmp_path: Path) -> Shell:
    addresses = engines.addresses
    return Shell(tmp_path, {"TEMPORAL_ADDRESS": addresses.temporal_address, "DATABASE_URL": addresses.database_url})


async def test_a_dataset_is_added_listed_shown_renewed_and_deleted(shell: Shell) -> None:
    shell.write("cli tickets.csv", CSV)
    added = (await shell.ratchet("datasets", "add", "cli tickets.csv", "--json")).facts
    assert (added["name"], added["version"], added["count"]) == ("cli tickets.csv", 1, 24)
    dataset_id = added["dataset_id"]

    listed = await shell.ratchet("datasets", "list")
    [line] = [line for line in listed.out.splitlines() if "cli tickets.csv@1" in line]
    assert line.split()[0] == dataset_id[:12] and " 24 " in line
    shown = await shell.ratchet("datasets", "show", dataset_id[:12], "--samples", "1")
    assert "Input:    Language, Ticket" in shown.out
    assert "Expected: delivery (12), refund (12)" in shown.out
    assert '{"Language": "de", "Ticket": "ticket 0"} → delivery' in shown.out

    shell.write("cli tickets.csv", CSV + "ticket 24,fr,refund\n")
    renewed = await shell.ratchet("datasets", "add", "cli tickets.csv")
    assert renewed.out.startswith("cli tickets.csv@2: 25 samples\n")
    assert (await shell.ratchet("datasets", "show", "cli tickets.csv", "--json")).facts["count"] == 25
    old = (await shell.ratchet("datasets", "show", "cli tickets.csv@1", "--samples", "2", "--offset", "23", "--json")).facts
    assert (old["count"], [sample["position"] for sample in old["samples"]]) == (24, [23])

    refused = await shell.ratchet("datasets", "delete", "cli tickets.csv")
    assert refused.code == 2 and "has 2 versions; say which, e.g. cli tickets.csv@2" in refused.errors
    assert (await shell.ratchet("datasets", "delete", "cli tickets.csv@1", "--json")).facts == {
        "dataset_id": dataset_id,
        "deleted": True,
    }
    gone = await shell.ratchet("datasets", "show", dataset_id)
    assert gone.code == 2 and f"there is no dataset '{dataset_id}'; `ratchet datasets list`" in gone.errors
    assert (await shell.ratchet("datasets", "delete", "cli tickets.csv")).code == 0


async def test_columns_format_and_name_are_given_as_options(shell: Shell) -> None:
    shell.write("table.txt", "q;context;gold;topic;n\n1+1;math;2;a;x1\n1+2;math;3;b,c;x2\n")
    options = ["--format", "csv", "--delimiter", ";", "--name", "cli sums"]
    columns = ["input=q", "input=context", "expected=gold", "tags=topic", "id=n"]
    added = await shell.ratchet("datasets", "add", "table.txt", *options, *(f"--column={column}" for column in columns))
    assert added.out.startswith("cli sums@1: 2 samples\n"), added.errors
    shown = (await shell.ratchet("datasets", "show", "cli sums", "--json")).facts
    assert [(sample["item_id"], sample["input"], sample["expected"], sample["tags"]) for sample in shown["samples"]] == [
        ("x1", {"q": "1+1", "context": "math"}, "2", ["a"]),
        ("x2", {"q": "1+2", "context": "math"}, "3", ["b", "c"]),
    ]


async def test_a_file_for_each_split_is_added_as_one_dataset(shell: Shell) -> None:
    for name, count in (("train", 3), ("dev", 2), ("test", 4)):
        shell.write(f"{name}.csv", "q,label\n" + "".join(f"{name} {n},a\n" for n in range(count)))
    added = await shell.ratchet("datasets", "add", "train=train.csv", "dev=dev.csv", "test=test.csv", "--name", "cli given")
    assert added.out.startswith("cli given@1: 9 samples\n"), added.errors
    shown = await shell.ratchet("datasets", "show", "cli given", "--samples", "0")
    assert "Splits:   test (4), train (3), validation (2)" in shown.out
    for files, told in (
        (["train.csv", "test.csv"], "FILE: give one, or one for each split: train=FILE validation=FILE test=FILE"),
        (["dev=dev.csv", "valid=dev.csv"], "FILE: 'valid' and 'dev' are the same split"),
        (["train=train.csv", "test=nix.csv"], "test=FILE: there is no file 'nix.csv'"),
    ):
        refused = await shell.ratchet("datasets", "add", *files)
        assert refused.code == 2 and told in refused.errors, refused.errors


async def test_an_object_in_s3_is_added_and_run_over_with_the_credentials_of_the_environment(
    shell: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with object_store(tmp_path_factory.mktemp("objects") / "buckets") as store:
        url = store.put("tickets", "cli/remote.csv", CSV.encode())
        shell.more = {**store.environment}
        added = (await shell.ratchet("datasets", "add", url, "--json")).facts
        assert (added["name"], added["count"]) == ("remote.csv", 24)
        write_spec(shell, {"path": url})
        checked = (await shell.ratchet("check", "spec.yaml", "--json")).facts
        assert checked["dataset_id"] == added["dataset_id"]
        shell.more["AWS_ACCESS_KEY_ID"] = "somebody-else"
        refused = await shell.ratchet("check", "spec.yaml")
        assert refused.code == 2
        assert "spec.yaml:10: dataset.path: reading s3://tickets/cli/remote.csv is not allowed" in refused.errors
    away = await shell.ratchet("datasets", "add", url)
    assert away.code == 5 and "cannot be fetched now" in away.errors


async def test_a_run_over_a_table_reports_every_slice(shell: Shell) -> None:
    shell.write("tickets.csv", CSV)
    splits = {"validation": 0.5, "test": 0.5, "stratify_by": "input.Language"}
    write_spec(shell, {"path": "tickets.csv", "splits": splits, "slices": ["input.Language"]})
    checked = (await shell.ratchet("check", "spec.yaml", "--json")).facts
    assert (checked["samples"], checked["splits"]) == (24, {"validation": 12, "test": 12, "train": 0})

    done = (await shell.ratchet("run", "spec.yaml", "--json", "--output", "out")).facts
    run_id = done["run_id"]
    full = (await shell.ratchet("report", run_id, "--verbosity", "full")).out
    assert "Slices of the test samples:" in full
    assert "input.Language=de (3)" in full and "input.Language=en (9)" in full
    assert "slices:" in Path(shell.directory / done["history_file"]).read_text()
    by_label = (await shell.ratchet("report", run_id, "--slice", "expected", "--json")).facts["slices"]
    assert [part["name"] for part in by_label["slices"]] == ["expected=delivery", "expected=refund"] or [
        part["name"] for part in by_label["slices"]
    ] == ["expected=refund", "expected=delivery"]
    wrong = await shell.ratchet("report", run_id, "--slice", "language")
    assert wrong.code == 2 and "--slice: is no part of an item; write tags, expected, or a field such as" in wrong.errors

    used = await shell.ratchet("datasets", "delete", done["run_id"] and checked["dataset_id"])
    assert used.code == 2 and f"is used by run '{run_id}': delete the run first" in used.errors


async def test_the_same_content_by_path_name_or_id_is_the_same_run(shell: Shell) -> None:
    shell.write("once.csv", CSV.replace("ticket ", "once "))
    added = (await shell.ratchet("datasets", "add", "once.csv", "--json")).facts
    started = []
    for dataset in ({"path": "once.csv"}, {"name": "once.csv"}, {"id": added["dataset_id"]}):
        write_spec(shell, dataset)
        started.append((await shell.ratchet("run", "spec.yaml", "--json", "--output", "out")).facts["run_id"])
    assert len(set(started)) == 1


async def test_a_plug_in_beside_the_spec_gives_the_data(shell: Shell) -> None:
    write_spec(shell, {"ref": "sorting:given"})
    checked = await shell.ratchet("check", "spec.yaml")
    assert "Dataset:   what sorting:given gives when the run begins" in checked.out
    first = (await shell.ratchet("run", "spec.yaml", "--json", "--output", "out")).facts
    assert (first["status"], first["best_score"]) == ("completed", 1.0)
    assert (await shell.ratchet("run", "spec.yaml", "--json", "--output", "out")).facts["run_id"] == first["run_id"]
    write_spec(shell, {"ref": "sorting:nothing"})
    missing = await shell.ratchet("check", "spec.yaml")
    assert missing.code == 2 and "dataset.ref: plug-in sorting:nothing: module sorting has no 'nothing'" in missing.errors


WRONG = [
    (["add", "missing.csv"], "there is no file 'missing.csv'; correct the path"),
    (["add", "notes.docx"], "notes.docx: its ending does not say what it is; say so with --format, one of csv"),
    (["add", "broken.jsonl"], "broken.jsonl line 2: is not JSON"),
    (["add", "empty.jsonl"], "empty.jsonl is empty; give at least one sample"),
    (["add", "broken.jsonl", "--format", "xml"], "ratchet: --format: use one of 'jsonl', 'json', 'csv', 'tsv' or 'parquet'"),
    (["add", "semi.csv"], 'if a semicolon separates the columns, say so with --delimiter ";"'),
    (["add", "semi.csv", "--delimiter", "?"], "ratchet: --delimiter: use one of"),
    (["add", "plain.csv", "--column", "expected=gold"], "has no column 'gold', which --column expected=… names"),
    (["add", "broken.jsonl", "--column", "gold"], "--column: 'gold' is no PART=COLUMN; write for instance expected=label"),
    (["add", "broken.jsonl", "--column", "gold=x"], "--column: columns.gold: is not a known field"),
    (["add", "broken.jsonl", "--column", "id=a", "--column", "id=b"], "--column: id is given twice"),
    (["add", "broken.jsonl", "--name", "a@b"], "name 'a@b' has an @"),
    (["add", "http://somewhere/x.csv"], "path 'http://somewhere/x.csv' cannot be read; give a file, or an object as s3://"),
    (["show", "missing"], "there is no dataset 'missing'; `ratchet datasets list` shows those there are"),
    (["show", "'; DROP TABLE datasets; --"], "there is no dataset"),
    (["delete", "missing"], "there is no dataset 'missing'"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(case[0]) for case in WRONG])
async def test_what_is_wrong_is_one_message_and_exit_code_2(shell: Shell, arguments: list[str], message: str) -> None:
    shell.write("broken.jsonl", '{"input": 1}\n{"input": \n')
    shell.write("empty.jsonl", "\n")
    shell.write("notes.docx", "x")
    shell.write("semi.csv", "question;label\na;b\n")
    shell.write("plain.csv", "question,label\na,b\n")
    done = await shell.ratchet("datasets", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.errors.startswith("ratchet: ") and message in done.errors
    assert "Traceback" not in done.errors


async def test_where_no_data_is_nothing_is_started_to_say_so(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {})
    assert (await shell.ratchet("datasets", "list", "--json")).facts == {"datasets": []}
    assert (await shell.ratchet("datasets", "list")).out.startswith("no datasets; `ratchet datasets add FILE`")
    assert (await shell.ratchet("datasets", "show", "x")).code == 2
    assert not (tmp_path / "home" / "stack").exists()


@pytest.mark.parametrize("name", ["list", "show", "add", "delete"])
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--json" in shown and "--home" in shown
