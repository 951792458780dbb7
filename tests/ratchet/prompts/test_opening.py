"""Stores by their address: what cannot keep prompts is refused with a reason, and secrets are not shown."""

from __future__ import annotations

import asyncio
import builtins
import gc
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

from ratchet.prompts import StoreAway, StoreRefused, open_store
from tests.support.object_store import object_store
from tests.support.prompt_examples import NAME, moved, template
from tests.support.prompt_servers import Server, forgetful_proxy, free_port, redis_server
from tests.support.store_examples import PostgresServer

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url", ["", "nothing", "ftp://host/x", "file:", "s3:", "s3://", "redis:", f"mysql://me:{SECRET}@host/db", "POSTGRES"]
)
async def test_an_address_that_is_none_is_refused_with_those_there_are(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_OVERRIDES", url or "?")
    with pytest.raises(StoreRefused, match=r"RATCHET_OVERRIDES: .*postgresql://…, s3://bucket/prefix, file:dir") as refused:
        await open_store()
    assert SECRET not in str(refused.value)


async def test_the_environment_names_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    monkeypatch.setenv("RATCHET_OVERRIDES", f"file:{tmp_path}/here")
    async with await open_store() as store:
        await store.seed(template())
    assert (tmp_path / "here/support/triage/stable.json").is_file()

    monkeypatch.delenv("RATCHET_OVERRIDES")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(StoreRefused, match="DATABASE_URL is not set"):
        await open_store()
    monkeypatch.setenv("DATABASE_URL", database_url)
    async with await open_store() as store:
        assert await store.names() == []


@pytest.mark.parametrize("form", ["file:{}", "file://{}"])
async def test_a_folder_is_made_and_may_be_written_as_a_url(tmp_path: Path, form: str) -> None:
    async with await open_store(form.format(tmp_path / "deep/er")) as store:
        await store.seed(template())
    assert (tmp_path / "deep/er/support/triage/stable.json").is_file()


async def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreRefused, match="cannot be a folder of prompts"):
        await open_store(f"file:{tmp_path / 'file'}")


async def test_the_layout_of_a_folder_is_the_documented_one(tmp_path: Path) -> None:
    async with await open_store(f"file:{tmp_path}") as store:
        await store.seed(template())
        await moved(store, "Be kind.", 1, version="1.0.1")
    files = sorted(file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file())
    assert files == [
        ".lock",
        "support/triage/.history/stable/0000000001.json",
        f"support/triage/.templates/{template().hash}.json",
        "support/triage/.versions/1.0.0.json",
        "support/triage/.versions/1.0.1.json",
        "support/triage/stable.json",
    ]
    text = (tmp_path / "support/triage/stable.json").read_text()
    assert text.startswith('{\n  "ns": "support",')
    assert text.endswith("}\n")
    assert '"version": 2' in text
    assert template().section("rules/tone").hash in text


class TestS3:
    async def test_a_server_that_ignores_conditions_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with object_store(tmp_path / "objects") as server:
            (server.folder / "prompts").mkdir()
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            with pytest.raises(StoreRefused, match=r"s3://prompts/: the server ignores If-None-Match.*PostgreSQL, in Redis"):
                await open_store("s3://prompts")
            assert [file for file in (server.folder / "prompts").rglob("*") if file.is_file()] == []

    @pytest.mark.usefixtures("bucket")
    async def test_a_bucket_that_is_not_there_is_named(self) -> None:
        with pytest.raises(StoreRefused, match=r"s3://no-such-bucket/x: NoSuchBucket; create the bucket"):
            await open_store("s3://no-such-bucket/x")

    async def test_where_deletions_ignore_conditions_a_temporary_tag_leaves_a_mark_of_its_end(
        self, bucket: tuple[str, object], moto: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with forgetful_proxy(moto) as url:
            monkeypatch.setenv("AWS_ENDPOINT_URL", url)
            async with await open_store(f"s3://{bucket[0]}") as store:
                await store.seed(template())
                await moved(store, "Tried.", None, tag="opt-1", temporary=True, owner="run-1")
                await store.delete(NAME, tag="opt-1", expected=1)
                assert [state.tag for state in await store.list_tags(NAME)] == ["stable"]
                assert [state.deleted for state in await store.history(NAME, "opt-1")] == [True]
                again = await moved(store, "Back.", None, tag="opt-1", temporary=True, owner="run-2")
                assert (await store.resolve(NAME, tag="opt-1")).state == again

    async def test_the_proof_leaves_nothing_behind(self, bucket: tuple[str, object]) -> None:
        await (await open_store(f"s3://{bucket[0]}/deep/prefix")).close()
        listed = boto3.client("s3", region_name="us-east-1").list_objects_v2(Bucket=bucket[0])
        assert listed["KeyCount"] == 0

    async def test_a_server_that_is_away_may_come_back(
        self, bucket: tuple[str, object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
        with pytest.raises(StoreAway, match="does not answer"):
            await open_store("s3://prompts")


class TestRedis:
    async def test_a_server_that_evicts_is_refused(self, tmp_path: Path) -> None:
        with (
            redis_server(tmp_path, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as server,
            pytest.raises(StoreRefused, match=r"evicts keys when its memory is full .*set maxmemory-policy to noeviction"),
        ):
            await open_store(f"redis://{server.address}")

    async def test_a_server_that_a_crash_empties_is_warned_of(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with redis_server(tmp_path, "--appendonly", "no") as server, caplog.at_level(logging.WARNING, "ratchet.prompts"):
            await (await open_store(f"redis://:@{server.address}")).close()
        assert "set appendonly yes" in caplog.text

    async def test_a_wrong_password_is_refused_and_not_shown(self, tmp_path: Path) -> None:
        with redis_server(tmp_path, "--requirepass", "right") as server, pytest.raises(StoreRefused) as refused:
            await open_store(f"redis://:{SECRET}@{server.address}")
        assert SECRET not in str(refused.value)

    async def test_nothing_expires_and_all_survives_a_killed_server(self, tmp_path: Path) -> None:
        with redis_server(tmp_path, "--appendfsync", "always") as server:
            async with await open_store(f"redis://{server.address}") as store:
                await store.seed(template())
                await moved(store, "Be kind.", 1, version="1.0.1")
                history = await store.history(NAME, "stable")
                keys = await store.backend._client.keys("*")  # type: ignore[attr-defined]
                assert {await store.backend._client.ttl(key) for key in keys} == {-1}  # type: ignore[attr-defined]
            server.process.kill()
        with redis_server(tmp_path) as server:
            async with await open_store(f"redis://{server.address}") as store:
                assert await store.history(NAME, "stable") == history
                assert (await store.resolve(NAME, tag="1.0.1")).configuration["section:rules/tone"] == "Be kind."

    async def test_a_server_that_is_away_may_come_back(self) -> None:
        with pytest.raises(StoreAway, match="does not answer"):
            await open_store(f"redis://me:{SECRET}@127.0.0.1:{free_port()}")


class TestPostgres:
    async def test_a_database_that_is_not_set_up_is_refused_with_how(self, postgres: PostgresServer) -> None:
        name = await postgres.new_database(template="template0")
        with pytest.raises(StoreRefused, match=r'"prompt_tags" does not exist; let a Ratchet worker or `ratchet doctor` set'):
            await open_store(postgres.url(name))

    async def test_a_server_that_is_away_may_come_back(self) -> None:
        with pytest.raises(StoreAway) as away:
            await open_store(f"postgresql://me:{SECRET}@127.0.0.1:{free_port()}/db")
        assert SECRET not in str(away.value)

    async def test_the_history_is_only_added_to(self, database_url: str) -> None:
        import asyncpg

        async with await open_store(database_url) as store:
            await store.seed(template())
        connection = await asyncpg.connect(database_url)
        for statement in ("DELETE FROM prompt_changes", "UPDATE prompt_versions SET version = '9.9.9'"):
            with pytest.raises(asyncpg.RaiseError, match="only added"):
                await connection.execute(statement)
        await connection.close()

    async def test_a_connection_that_was_cut_is_replaced(self, database_url: str) -> None:
        import asyncpg

        async with await open_store(database_url) as store:
            await store.seed(template())
            connection = await asyncpg.connect(database_url)
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ratchet-prompts'"
                " AND datname = current_database()"
            )
            await connection.close()
            async with asyncio.timeout(20):
                while True:
                    try:
                        assert (await store.resolve(NAME, tag="stable")).state.revision == 1
                        break
                    except StoreAway:
                        await asyncio.sleep(0.01)


async def test_what_is_left_of_a_closed_store_imports_nothing_as_it_is_collected(
    redis: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be collected within a workflow, where an import is made anew, and slow."""
    store = await open_store(f"redis://{redis.address}")
    await store.names()
    await store.close()
    imported: list[str] = []

    def noted(name: str, *rest: Any) -> Any:
        imported.append(name)
        return real(name, *rest)

    real = builtins.__import__
    del store
    monkeypatch.setattr(builtins, "__import__", noted)
    gc.collect()
    monkeypatch.undo()
    assert [name for name in imported if name.startswith("redis")] == []


def test_importing_the_public_package_imports_no_client_and_no_room() -> None:
    heavy = ("asyncpg", "boto3", "botocore", "redis", "bpe_openai", "temporalio", "yaml", "workflows", "activities", "clients")
    program = (
        "import sys, ratchet, ratchet.prompts\n"
        f"print([name for name in {heavy} if any(m == name or m.startswith(name + '.') for m in sys.modules)])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
