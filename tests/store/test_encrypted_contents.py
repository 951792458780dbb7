"""Contents in PostgreSQL: encrypted with keys, read in both forms, and refused by name where a key is missing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from activities.datasets import InlineItems, ingest
from ratchet._content_tokens import MARK
from ratchet._encryption import EncryptionKeys
from ratchet._files import references_in
from store.connection import Database, StoreAway
from store.encrypted_contents import Contents, size_of_file
from store.read.datasets import DatasetReader
from store.read.sample_files import FileReader
from store.read.trials import TrialReader
from store.schema import StoreError
from store.write.datasets import Datasets
from store.write.proposals import ModelAnswer
from store.write.repositories import Store
from store.write.retention.removals import Removals
from tests.support.pictures import png
from tests.support.store_examples import ExampleRun
from workflows.model.run.contract import Proposed
from workflows.model.spec.dataset import Item
from workflows.rules.retention_policy import DueRemoval

OLD = EncryptionKeys({"old": bytes(32)})
NEW = EncryptionKeys({"new": bytes(range(32)), "old": bytes(32)})
ITEMS = [
    Item(input={"q": "a secret", "of": {"kind": "one", "all": [1, 2]}}, expected="yes"),
    Item(input={"q": "another secret", "of": {"kind": "two"}}, expected={"a": None, "b": "a secret"}),
    Item(input="a bare secret", expected="yes", tags=["bare"]),
]


@pytest.fixture
async def encrypted(database_url: str) -> AsyncIterator[Database]:
    database = await Database.open(database_url, keys=OLD, most_connections=2)
    yield database
    await database.close()


async def stored_text(url: str) -> str:
    """Everything that the database holds, as text."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        rows = [await connection.fetch(f'SELECT t::text AS line FROM "{table["tablename"]}" t') for table in tables]
        return "\n".join(row["line"] for of_table in rows for row in of_table)
    finally:
        await connection.close()


async def told_of(database: Database, dataset_id: str) -> dict[str, Any]:
    """All that is asked of a dataset."""
    datasets, reader = Datasets(database), DatasetReader(database)
    detail = await reader.load(dataset_id)
    assert detail is not None
    fields = ("input.q", "input.of", "input.of.all.1", "input.nothing", "expected", "expected.a", "tags")
    return {
        "contents": await datasets.contents(dataset_id),
        "strata": {field: await datasets.strata(dataset_id, field) for field in fields},
        "samples": await reader.samples(dataset_id),
        "counted": (detail.input_fields, detail.expected, detail.tags),
    }


async def test_a_dataset_is_encrypted_and_answers_every_question_as_a_plain_one_does(
    encrypted: Database, database_url: str, shared_database: Database
) -> None:
    dataset_id = (await ingest(encrypted, InlineItems(ITEMS))).dataset_id
    assert (await ingest(shared_database, InlineItems(ITEMS))).dataset_id == dataset_id  # hashes are of what is said
    assert "secret" not in await stored_text(database_url)
    assert await told_of(encrypted, dataset_id) == await told_of(shared_database, dataset_id)


async def test_a_file_is_encrypted_and_read_by_its_hash(encrypted: Database, tmp_path: Any) -> None:
    (tmp_path / "a.png").write_bytes(png())
    await ingest(encrypted, InlineItems([Item(input={"$file": "a.png"})], folder=tmp_path))
    async with encrypted.connection() as connection:
        digest, stored = await connection.fetchrow("SELECT digest, content FROM files")  # type: ignore[misc]
        [row] = await connection.fetch("SELECT input FROM samples")
    assert png()[:8] not in stored
    file = await FileReader(encrypted).load(digest)
    assert file is not None
    assert file.content == png()
    assert await FileReader(encrypted).unknown(references_in(json.loads(row["input"]))) is None
    assert size_of_file(len(stored), stored[:100]) == len(png())


async def test_answers_scores_and_what_proposers_said_are_encrypted_and_read_as_they_were(
    encrypted: Database, database_url: str
) -> None:
    configuration: dict[str, Any] = {"prompt": "a secret", "temperature": 0.5}
    run = await ExampleRun(Store(encrypted), encrypted, configuration=configuration).open()
    store, shard, details = run.store, run.shard(), {"exact": {"passed": False, "reason": "a secret"}}
    texts: dict[str, Any] = dict.fromkeys(("output", "feedback", "printed", "scorers_printed"), "a secret")
    told = run.outcome(**texts, trace={"a secret": 1}, per_score=details)
    failed = run.outcome(1, status="failed", scores={}, passed=False, output=None, error="a secret", error_class="timeout")
    await store.outcomes.commit(shard, run.suite, [told, failed])
    proposed = Proposed(values={"prompt": "a secret"}, rationale="a secret", tokens=1, cost=0.0)
    assert await store.proposals.store(run.run_id, 1, 0, proposed) == proposed
    answer = ModelAnswer(1, 0, "a secret", False, 1, 0.0)
    assert await store.model_answers.keep(run.run_id, "of a request", answer) == answer

    assert "secret" not in await stored_text(database_url)
    records = await store.evaluated_samples.records(run.run_id, run.suite.split, run.config_hash, 10, worst_first=False)
    assert {(record.output, record.feedback) for record in records} == {("a secret", "a secret"), (None, "a secret")}
    assert await store.evaluated_samples.first_error(run.run_id, run.suite.split, run.config_hash) == "a secret"
    work = await store.outcomes.missing(shard)
    assert work.configuration == configuration
    assert work.found == 2


async def test_what_was_written_before_and_with_another_key_is_read(database_url: str, example: ExampleRun) -> None:
    """Switching it on and changing the key need no migration."""
    await example.store.overlays.store(*plain_overlay(1))
    for keys, number in ((OLD, 2), (NEW, 3)):
        database = await Database.open(database_url, keys=keys, most_connections=2)
        await Store(database).overlays.store(*plain_overlay(number))
        for earlier in range(1, number + 1):
            config_hash, configuration = plain_overlay(earlier)
            assert await Store(database).overlays.load(config_hash) == configuration
        await database.close()


def plain_overlay(number: int) -> tuple[str, dict[str, Any]]:
    from ratchet._formats.canonical import content_hash

    configuration = {"prompt": f"a secret of {number} parts"}
    return content_hash(configuration), configuration


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (None, "encrypted contents: this was encrypted with key 'old', and neither RATCHET_ENCRYPTION_KEYS nor"),
        (EncryptionKeys({"new": bytes(32)}), "key 'old' is missing.*RATCHET_ENCRYPTION_KEYS holds new"),
        (EncryptionKeys({"old": bytes(range(32))}), "another key of that id"),
    ],
)
async def test_a_process_without_the_key_is_refused_before_it_reads_anything(
    encrypted: Database, database_url: str, keys: EncryptionKeys | None, told: str
) -> None:
    with pytest.raises(StoreError, match=told):
        await Database.open(database_url, keys=keys)


async def test_a_content_whose_key_is_not_here_yet_waits_for_a_process_that_has_it(
    encrypted: Database, database_url: str
) -> None:
    newer = await Database.open(database_url, keys=NEW, most_connections=1)
    config_hash, configuration = plain_overlay(1)
    await Store(newer).overlays.store(config_hash, configuration)
    await newer.close()
    with pytest.raises(StoreAway, match="key 'new' is missing"):
        await Store(encrypted).overlays.load(config_hash)
    other, more = plain_overlay(2)
    await Store(encrypted).overlays.store(other, more)  # the connection is as good as before
    assert await Store(encrypted).overlays.load(other) == more


async def test_text_that_looks_encrypted_is_text(encrypted: Database) -> None:
    """Somebody who knows how contents are marked has nothing decrypted, and stops nobody from reading."""
    forged = f"{MARK}:old:{'A' * 60}"
    async with encrypted.connection() as connection:
        for text in (forged, f"first\n{forged}"):
            read = await connection.fetchval("SELECT $1::text", text)
            assert read.replace("＄", "$") == text
        assert await connection.fetchval("SELECT ($1::text[])[1]", [forged]) == forged
        assert json.loads(await connection.fetchval("SELECT $1::jsonb", json.dumps({MARK: "no token"}))) == {MARK: "no token"}


async def test_texts_that_a_query_joins_are_read_one_by_one(encrypted: Database) -> None:
    contents = Contents(OLD)
    async with encrypted.connection() as connection:
        joined = await connection.fetchval(
            "SELECT concat_ws(E'\\n', $1::text, $2::text, $3::text)", contents.text("one\ntwo"), "plain", contents.text("three")
        )
    assert joined == "one\ntwo\nplain\nthree"


async def test_queries_look_into_what_is_readable_and_readers_see_the_whole(encrypted: Database) -> None:
    stored = Contents(OLD).json({"stop": {"rounds": 3}, "prompt": "secret"}, {"stop": {"rounds": 3}})
    assert "secret" not in stored
    async with encrypted.connection() as connection:
        assert await connection.fetchval("SELECT ($1::jsonb #>> '{stop,rounds}')::int", stored) == 3
        assert json.loads(await connection.fetchval("SELECT $1::jsonb", stored)) == {"stop": {"rounds": 3}, "prompt": "secret"}


def test_without_keys_contents_are_stored_as_they_are() -> None:
    plain = Contents(None)
    assert plain.text("a\x00b") == "a␀b"
    assert plain.json({"a": 1}, {"a": 1}) == '{"a":1}'
    assert plain.json_text('{"b": 1}') == '{"b": 1}'
    assert plain.file(b"bytes") == plain.plain_file(b"bytes") == b"bytes"
    assert Contents(OLD).text("") == ""


async def test_texts_that_a_policy_removes_are_gone_though_encrypted(encrypted: Database) -> None:
    run = await ExampleRun(Store(encrypted), encrypted).open()
    await run.store.trials.begin(run.trial())
    details = {"exact": {"passed": True, "reason": "a secret reason", "labels": ["a", "b"]}}
    outcomes = [
        run.outcome(pair.position, pair.replicate, per_score=details)
        for pair in (await run.store.outcomes.missing(run.shard())).pairs
    ]
    await run.store.outcomes.commit(run.shard(), run.suite, outcomes)
    await run.store.runs.finish(run.finish())
    assert await Removals(encrypted, at_once=3).carry_out(DueRemoval(run.run_id, "texts", "texts=1d", 0, 0))
    page = await TrialReader(encrypted).items(run.run_id, "baseline")
    assert page is not None and len(page.items) == 10
    assert {item.output for item in page.items} == {None}
    assert all(item.score_details == {"exact": {"passed": True, "labels": ["a", "b"]}} for item in page.items)
