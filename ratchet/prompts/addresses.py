"""Override stores by their address, as `RATCHET_OVERRIDES` says it."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from ratchet._encryption import EncryptionKeys, EncryptionSettings
from ratchet._environment import DATABASE_URL, OVERRIDES, BadSetting, settings_from
from ratchet.prompts.prompt_errors import StoreRefused
from ratchet.prompts.store import OverrideStore

VARIABLE = OVERRIDES.name
FORMS = "postgres, postgresql://…, s3://bucket/prefix, file:dir or redis://…"


async def open_store(url: str | None = None, *, database_url: str | None = None) -> OverrideStore:
    """The store at an address. Default: what RATCHET_OVERRIDES says, and `postgres` where it says nothing.

    `postgres` is the database at `database_url`, or at DATABASE_URL. In PostgreSQL prompts are encrypted where the environment
    has keys.
    """
    url = url or os.environ.get(VARIABLE) or "postgres"
    scheme, _, rest = url.partition(":")
    match scheme:
        case "postgres" | "postgresql":
            try:
                from ratchet.prompts.stores.postgres import PostgresBackend
            except ModuleNotFoundError:
                raise StoreRefused("prompts in PostgreSQL need asyncpg; install ratchet-optimizer[postgres]") from None
            return OverrideStore(await PostgresBackend.open(url if rest else _database(database_url), _keys()))
        case "file" if rest:
            from ratchet.prompts.stores.documents import DocumentBackend
            from ratchet.prompts.stores.local import LocalDocuments

            return OverrideStore(DocumentBackend(await LocalDocuments.open(_folder(rest))))
        case "s3" if rest.strip("/"):
            from ratchet.prompts.stores.documents import DocumentBackend
            from ratchet.prompts.stores.s3 import S3Documents

            bucket, _, prefix = rest.strip("/").partition("/")
            return OverrideStore(DocumentBackend(await S3Documents.open(bucket, prefix)))
        case "redis" | "rediss" | "unix" if rest:
            from ratchet.prompts.stores.redis import RedisBackend

            return OverrideStore(await RedisBackend.open(url))
    raise StoreRefused(f"{VARIABLE}: {shown_address(url)} is no address of a store; write {FORMS}")


def shown_address(url: str) -> str:
    """An address without what is secret in it."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url if len(url) <= 100 else url[:99] + "…"
    return f"{parts.scheme}://…@{parts.netloc.rpartition('@')[2]}{parts.path}"


def _keys() -> EncryptionKeys | None:
    try:
        return settings_from(EncryptionSettings, os.environ).keys
    except BadSetting as error:
        raise StoreRefused(str(error)) from None


def _database(database_url: str | None) -> str:
    url = database_url or os.environ.get(DATABASE_URL.name)
    if not url:
        raise StoreRefused(f"{DATABASE_URL.name} is not set; set it, or let {VARIABLE} name a store: {FORMS}")
    return url


def _folder(rest: str) -> str:
    """`file:dir`, `file:/dir` and `file:///dir` name folders."""
    return unquote(urlsplit(f"file:{rest}").path) if rest.startswith("//") else rest
