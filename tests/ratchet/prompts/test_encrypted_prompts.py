"""Prompts in PostgreSQL where the environment has keys: encrypted, read with them, and refused by the variable without."""

from __future__ import annotations

from base64 import b64encode

import asyncpg
import pytest

from ratchet.prompts import StoreRefused, open_store
from tests.support.prompt_examples import moved, template

VARIABLE = "RATCHET_ENCRYPTION_KEYS"
OLD, OTHER = (f"old:{b64encode(bytes([number]) * 32).decode()}" for number in range(2))
NEW = f"new:{b64encode(bytes([2]) * 32).decode()}"


async def test_prompts_are_read_with_the_keys_and_refused_without_by_name(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_store(database_url) as plain:
        await plain.seed(template("support/before"))
        await plain.seed(template())
    monkeypatch.setenv(VARIABLE, OLD)
    async with await open_store(database_url) as store:
        found = await store.resolve("support/triage", tag="stable")
        await moved(store, "Be a xylophone.", found.state.revision)
        assert (await store.resolve("support/before", tag="stable")).template == template("support/before")

    connection = await asyncpg.connect(database_url)
    states = [str(row["state"]) for row in await connection.fetch("SELECT state FROM prompt_changes ORDER BY revision")]
    await connection.close()
    assert [state.startswith('{"$encrypted":"old:') for state in states] == [False, False, True]
    assert not [state for state in states if "xylophone" in state]

    monkeypatch.setenv(VARIABLE, f"{NEW},{OLD}")
    async with await open_store(database_url) as store:
        seen = await store.resolve("support/triage", tag="stable")
        assert seen.state.overrides.sections["rules/tone"].body == "Be a xylophone."

    monkeypatch.delenv(VARIABLE)
    async with await open_store(database_url) as store:
        assert (await store.resolve("support/before", tag="stable")).state.revision == 1  # it was stored in clear
        with pytest.raises(StoreRefused, match=f"encrypted with key 'old', and neither {VARIABLE} nor"):
            await store.resolve("support/triage", tag="stable")
        with pytest.raises(StoreRefused, match=VARIABLE):  # nothing is added in clear beside it
            await store.seed(template("support/after"))


async def test_who_has_another_key_of_that_id_writes_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, OLD)
    async with await open_store(database_url) as store:
        await store.seed(template())
    monkeypatch.setenv(VARIABLE, OTHER)
    async with await open_store(database_url) as store:
        with pytest.raises(StoreRefused, match="holds another key of that id"):
            await store.seed(template("support/after"))
    monkeypatch.setenv(VARIABLE, "old:too-short")
    with pytest.raises(StoreRefused, match="the key 'old'"):
        await open_store(database_url)
