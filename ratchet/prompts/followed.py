"""Prompts at hand: read from a store once, then followed, so that none is staler than is allowed.

Where the store announces changes they are seen at once, elsewhere by looking again and again. While the store cannot be read,
the last known prompts stay in force, unless the policy is strict. All of it happens in one event loop; the prompts at hand may
be looked up from any thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import JsonValue

from ratchet.prompts.compiled import Rendered, Rendering
from ratchet.prompts.names import is_version
from ratchet.prompts.overrides import Announcing, Resolved, TagState
from ratchet.prompts.prompt_errors import (
    PromptError,
    StaleTag,
    StoreAway,
    StoreRefused,
    UnknownPrompt,
    UnknownTag,
    UnknownVersion,
)
from ratchet.prompts.store import OverrideStore
from ratchet.prompts.template import PARAMETER, PromptTemplate, effective_hash

SECONDS_BEFORE_LISTENING_AGAIN = 1.0

SECONDS_BEFORE_THE_LAST_KNOWN = 2.0
"""So long a store is waited for that does not answer, where a prompt is at hand that was in force before."""

MOST_AT_HAND = 1_000
"""Prompts that are kept although nobody asks for them, to have them when the store is away."""

_CANNOT_BE_READ = (StoreAway, StoreRefused)
"""The store says nothing at all; whatever was in force before is the best that is known."""

_IS_NOT_THERE = (StaleTag, UnknownPrompt, UnknownTag, UnknownVersion)
"""The store answers, and has no such thing."""

Otherwise = Literal["fail", "source"]
Key = tuple[str, str]
"""A prompt's name, and a tag or a version."""

_log = logging.getLogger("ratchet.prompts")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with what is in force, ready to be rendered."""

    name: str
    tag: str
    hash: str
    """Of the configuration in force; a target that is measured echoes it as `Output.overlay_hash`."""
    version: str | None
    revision: int | None
    from_source: bool
    """Whether this is the source, because the tag is missing or stale, or because the store is away."""
    template: PromptTemplate
    configuration: Mapping[str, JsonValue]
    """Every factor with its value: `section:<path>` and `param:<name>`."""
    _rendering: Rendering

    @classmethod
    def of(cls, template: PromptTemplate, configuration: Mapping[str, Any], tag: str, state: TagState | None = None) -> Prompt:
        return cls(
            name=template.name,
            tag=tag,
            hash=effective_hash(configuration) if state is None else state.config_hash,
            version=None if state is None else state.version,
            revision=None if state is None else state.revision,
            from_source=False,
            template=template,
            configuration=configuration,
            _rendering=template.rendering(configuration),
        )

    def render(self, given: Any = None) -> Rendered:
        """For one input, whose names are those of `{{input.…}}`. One that is missing is an error."""
        return self._rendering.render(given)

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """The typed values beside the text, by name."""
        values = self.configuration.items()
        return {name.removeprefix(PARAMETER): value for name, value in values if name.startswith(PARAMETER)}


@dataclass(frozen=True, slots=True)
class Policy:
    """How fresh prompts must be, and what happens where there is none."""

    sources: Mapping[str, PromptTemplate]
    otherwise: Otherwise
    staleness: float
    look_every: float
    strict: bool = False
    """Whether nothing older than `staleness` is given out even while the store cannot be read."""


@dataclass(slots=True)
class Outage:
    """Whether the store can be read, as far as is known; told once when that changes."""

    since: float | None = None

    def begins(self, error: Exception, strict: bool) -> None:
        if self.since is None:
            self.since = time.monotonic()
            meanwhile = "none that is too old is given out" if strict else "the last known ones stay in force"
            _log.warning("prompts cannot be read, %s until they can be: %s", meanwhile, error)

    def ends(self) -> None:
        if self.since is not None:
            _log.warning("prompts can be read again, after %.0f seconds", time.monotonic() - self.since)
            self.since = None


@dataclass(slots=True)
class Entry:
    """A prompt at hand."""

    prompt: Prompt
    state: TagState | None
    """None for a source."""
    good_until: float
    used: bool = True
    """Whether anybody asked for it since it was looked at last."""

    @property
    def is_fresh(self) -> bool:
        return self.good_until > time.monotonic()


class PromptFollower:
    """Reads prompts, and looks after those that are used."""

    def __init__(
        self, opened: Callable[[], Awaitable[OverrideStore]], policy: Policy, at_hand: dict[Key, Entry], outage: Outage
    ) -> None:
        self._opened = opened
        self._policy = policy
        self._at_hand = at_hand
        self._outage = outage
        self._opening = asyncio.Lock()
        self._store: OverrideStore | None = None
        self._loading: dict[Key, asyncio.Task[Entry]] = {}
        self._following: list[asyncio.Task[None]] = []

    async def load(self, key: Key) -> Entry:
        """The prompt from the store, or the last known one where the store does not answer soon.

        Who asked from another thread may have looked before a reading ended that has ended by now: it answers him, too.
        """
        read_by_now = self._still_good(key)
        if read_by_now is not None:
            return read_by_now
        loading = self._begun(key)
        known = self._last_known(key)
        if known is not None:
            done, _ = await asyncio.wait({loading}, timeout=SECONDS_BEFORE_THE_LAST_KNOWN)
            if not done:
                self._outage.begins(StoreAway(f"{key[0]} was asked for and is not there yet"), self._policy.strict)
                return known
        return await asyncio.shield(loading)

    def _begun(self, key: Key) -> asyncio.Task[Entry]:
        """The reading of a prompt; many who ask at once are answered by one."""
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.create_task(self._load(key))
            loading.add_done_callback(lambda done: self._loaded(key, done))
        return loading

    async def close(self) -> None:
        tasks = [*self._following, *self._loading.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._store is not None:
            await self._store.close()

    def _loaded(self, key: Key, done: asyncio.Task[Entry]) -> None:
        self._loading.pop(key, None)
        if not done.cancelled():
            done.exception()  # those who waited were told; if nobody waits any longer, nobody needs to be

    async def _load(self, key: Key) -> Entry:
        began = time.monotonic()
        try:
            entry = self._entry(await self._resolved(key), key, began)
        except _IS_NOT_THERE as error:
            self._outage.ends()
            entry = self._source(key, error, began)
        except _CANNOT_BE_READ as error:
            self._outage.begins(error, self._policy.strict)
            known = self._still_good(key) or self._last_known(key)
            if known is None and isinstance(error, StoreRefused):
                raise
            entry = known or self._source(key, error, began)
        else:
            self._outage.ends()
        self._at_hand[key] = entry
        return entry

    async def _resolved(self, key: Key) -> Resolved:
        name, reference = key
        store = await self._open_store()
        return await store.resolve(name, tag=reference, template=self._policy.sources.get(name))

    def _entry(self, resolved: Resolved, key: Key, began: float) -> Entry:
        prompt = Prompt.of(resolved.template, resolved.configuration, key[1], resolved.state)
        good_for = float("inf") if is_version(key[1]) else self._policy.staleness
        return Entry(prompt, resolved.state, began + good_for)

    def _still_good(self, key: Key) -> Entry | None:
        entry = self._at_hand.get(key)
        return entry if entry is not None and entry.is_fresh else None

    def _last_known(self, key: Key) -> Entry | None:
        """What was in force when the store was read last, if that may be given out."""
        entry = self._at_hand.get(key)
        return None if self._policy.strict or entry is None or entry.state is None else entry

    def _source(self, key: Key, error: Exception, began: float) -> Entry:
        """The source in the tag's place, if that is what the policy says."""
        name, tag = key
        template = self._policy.sources.get(name)
        if self._policy.otherwise != "source" or template is None:
            raise error
        before = self._at_hand.get(key)
        if before is None or before.state is not None:
            _log.warning("the source of %s is used instead of tag %s: %s", name, tag, error)
        made = Prompt.of(template, template.configuration(), tag)
        prompt = Prompt(**{**{each: getattr(made, each) for each in Prompt.__slots__}, "from_source": True})
        return Entry(prompt, None, began + self._policy.look_every)

    async def _open_store(self) -> OverrideStore:
        async with self._opening:
            if self._store is None:
                self._store = await self._opened()
                self._following = [asyncio.create_task(self._look_again_and_again()), asyncio.create_task(self._listen())]
            return self._store

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self._policy.look_every)
            self._let_go()
            used = [key for key, entry in self._at_hand.items() if entry.used]
            await self._look(used if self._outage.since is None else used or list(self._at_hand)[:1])

    def _let_go(self) -> None:
        """Forget what nobody asked for lately, but not what may be needed when the store is away."""
        unused = [key for key, entry in self._at_hand.items() if not entry.used and not entry.is_fresh]
        kept = 0 if self._policy.strict else MOST_AT_HAND
        for key in unused[: max(0, len(unused) - kept)]:
            self._at_hand.pop(key, None)

    async def _listen(self) -> None:
        """Follow what the store announces; what moved before anybody listened is looked at first."""
        store = await self._open_store()
        if not isinstance(store.backend, Announcing):
            return
        while True:
            try:
                async with store.backend.changes() as moved:
                    await self._look(list(self._at_hand))
                    while (name := await moved.get()) is not None:
                        await self._look([key for key in self._at_hand if key[0] == name])
            except StoreAway as error:
                _log.info("changes of prompts are not announced for a while: %s", error)
            await asyncio.sleep(SECONDS_BEFORE_LISTENING_AGAIN)

    async def _look(self, keys: list[Key]) -> None:
        for key in keys:
            try:
                await self._look_at(key)
            except _CANNOT_BE_READ as error:
                self._outage.begins(error, self._policy.strict)
                return
            except PromptError:
                self._at_hand.pop(key, None)  # whoever asks next is told why

    async def _look_at(self, key: Key) -> None:
        entry = self._at_hand.get(key)
        if entry is None or entry.good_until == float("inf"):
            return
        entry.used = False
        began = time.monotonic()
        store = await self._open_store()
        if entry.state is None or await store.current(*key) != entry.state:
            (await asyncio.shield(self._begun(key))).used = False
        else:
            self._outage.ends()
            entry.good_until = began + self._policy.staleness
