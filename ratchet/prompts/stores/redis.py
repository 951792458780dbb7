"""Prompts in Redis: each move of a tag is one script, which Redis runs as a whole. Nothing expires.

The keys of a prompt share a hash tag, so that they stay together in a cluster:

    ratchet:{support/triage}:history:stable     every state of a tag; the last one is in force
    ratchet:{support/triage}:tags               the tags there are
    ratchet:{support/triage}:versions           the state that introduced each version
    ratchet:{support/triage}:templates          templates by hash
    ratchet:prompts                             the prompts there are
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ratchet.prompts.overrides import TagState
from ratchet.prompts.prompt_errors import StoreAway, StoreRefused, VersionTaken

PROMPTS = "ratchet:prompts"
SECONDS_TO_CONNECT, SECONDS_TO_ANSWER = 5.0, 10.0

_log = logging.getLogger("ratchet.prompts")

_SWAP = """
local history, tags, versions = KEYS[1], KEYS[2], KEYS[3]
local state, revision, tag, version, content = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
if redis.call('LLEN', history) + 1 ~= revision then
  return {'lost'}
end
if version ~= '' then
  local kept = redis.call('HGET', versions, version)
  if kept and string.sub(kept, 1, #content) ~= content then
    return {'taken', string.sub(kept, #content + 1)}
  end
  if not kept then
    redis.call('HSET', versions, version, content .. state)
  end
end
redis.call('RPUSH', history, state)
redis.call('SADD', tags, tag)
return {'moved'}
"""


_PURGE = """
local history, tags = KEYS[1], KEYS[2]
if redis.call('LLEN', history) ~= tonumber(ARGV[1]) then
  return 0
end
redis.call('DEL', history)
redis.call('SREM', tags, ARGV[2])
return 1
"""


class RedisBackend:
    """Prompts in a Redis server."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url
        self._swap = client.register_script(_SWAP)
        self._purge = client.register_script(_PURGE)

    @classmethod
    async def open(cls, url: str) -> RedisBackend:
        try:
            redis = importlib.import_module("redis.asyncio")
        except ModuleNotFoundError:
            raise StoreRefused("prompts in Redis need redis; install ratchet-optimizer[redis]") from None
        try:
            client = redis.Redis.from_url(
                url, socket_connect_timeout=SECONDS_TO_CONNECT, socket_timeout=SECONDS_TO_ANSWER, decode_responses=True
            )
        except ValueError as error:
            raise StoreRefused(f"{_place(url)} is no address of a Redis server: {error}") from None
        backend = cls(client, url)
        try:
            with _told(url):
                await client.ping()
            await backend._check_that_it_keeps()
        except BaseException:
            await backend.close()
            raise
        return backend

    async def close(self) -> None:
        await self._client.aclose()
        # Else the pool imports more of redis as it is garbage-collected: within a workflow, if one runs at that moment.
        self._client.connection_pool.reset()

    async def current(self, name: str, tag: str) -> TagState | None:
        with _told(self._url):
            state = await self._client.lindex(_key(name, "history", tag), -1)
        return None if state is None else TagState.model_validate_json(state)

    async def swap(self, state: TagState) -> bool:
        keys = [_key(state.name, "history", state.tag), _key(state.name, "tags"), _key(state.name, "versions")]
        arguments = [state.model_dump_json(), state.revision, state.tag, state.version or "", _content(state)]
        with _told(self._url):
            outcome = await self._swap(keys=keys, args=arguments)
        if outcome[0] == "taken":
            raise VersionTaken.by(TagState.model_validate_json(outcome[1]))
        return bool(outcome[0] == "moved")

    async def purge(self, state: TagState) -> bool:
        keys = [_key(state.name, "history", state.tag), _key(state.name, "tags")]
        with _told(self._url):
            return bool(await self._purge(keys=keys, args=[state.revision, state.tag]))

    async def history(self, name: str, tag: str) -> list[TagState]:
        with _told(self._url):
            states = await self._client.lrange(_key(name, "history", tag), 0, -1)
        return [TagState.model_validate_json(state) for state in states]

    async def tags(self, name: str) -> list[TagState]:
        with _told(self._url):
            tags = await self._client.smembers(_key(name, "tags"))
        states = [await self.current(name, tag) for tag in sorted(tags)]
        return [state for state in states if state is not None]

    async def versions(self, name: str) -> list[TagState]:
        with _told(self._url):
            kept = await self._client.hvals(_key(name, "versions"))
        return [TagState.model_validate_json(each[each.index("{") :]) for each in kept]

    async def keep_template(self, name: str, template_hash: str, content: str) -> None:
        with _told(self._url):
            # First the name: a prompt without a template is nothing, a template without a name would be lost.
            await self._client.sadd(PROMPTS, name)
            await self._client.hsetnx(_key(name, "templates"), template_hash, content)

    async def template(self, name: str, template_hash: str) -> str | None:
        with _told(self._url):
            content: str | None = await self._client.hget(_key(name, "templates"), template_hash)
        return content

    async def templates(self, name: str) -> list[str]:
        with _told(self._url):
            return sorted(await self._client.hkeys(_key(name, "templates")))

    async def names(self) -> list[str]:
        with _told(self._url):
            names = await self._client.smembers(PROMPTS)
            return [name for name in names if await self._client.exists(_key(name, "templates"))]

    async def _check_that_it_keeps(self) -> None:
        """Refuse a server that evicts what it was given; warn of one that a restart empties."""
        exceptions = importlib.import_module("redis.exceptions")
        try:
            facts = await self._client.info()
        except exceptions.ResponseError:  # a server that does not tell
            return
        policy = str(facts.get("maxmemory_policy", ""))
        if policy.startswith("allkeys"):
            raise StoreRefused(
                f"{_place(self._url)} evicts keys when its memory is full (maxmemory-policy {policy}), prompts included; "
                "set maxmemory-policy to noeviction, or use another server"
            )
        if facts.get("aof_enabled") == 0:
            _log.warning(
                "%s keeps no append-only file: a crash may lose its newest prompts; set appendonly yes", _place(self._url)
            )


def _key(name: str, *parts: str) -> str:
    return ":".join((f"ratchet:{{{name}}}", *parts))


def _content(state: TagState) -> str:
    return f"{state.template_hash}{state.config_hash}"


def _place(url: str) -> str:
    """An address without user and password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Errors of the client, as errors of this store."""
    errors = importlib.import_module("redis.exceptions")
    try:
        yield
    except (errors.AuthenticationError, errors.AuthorizationError, errors.NoPermissionError) as error:
        raise StoreRefused(f"{_place(url)} refuses the login: {error}") from None
    except (
        errors.ConnectionError,
        errors.TimeoutError,
        errors.BusyLoadingError,
        errors.ReadOnlyError,
        errors.TryAgainError,
        OSError,
    ) as error:
        raise StoreAway(f"{_place(url)} does not answer: {error or type(error).__name__}") from None
    except errors.ResponseError as error:
        raise StoreRefused(f"{_place(url)}: {error}") from None
