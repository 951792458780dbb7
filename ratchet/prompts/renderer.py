"""Prompts for production code: `resolve("support/triage", tag="stable")`, from memory, and as they are in force in the store.

While the store is away, the last known prompt stays in force; who cannot have that makes a renderer that is strict. It reads
the store from a thread of its own, so that it serves synchronous and asynchronous code alike. No Temporal is needed, and
between changes a prompt costs microseconds.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ratchet.experiment import current_experiment, prompt_under_test
from ratchet.prompts.addresses import open_store
from ratchet.prompts.followed import Entry, Key, Otherwise, Outage, Policy, Prompt, PromptFollower
from ratchet.prompts.prompt_errors import StoreAway, UnknownTag
from ratchet.prompts.template import PromptTemplate, prompt_part

SECONDS_OF_STALENESS = 60.0
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_TO_LOAD = 20.0
SECONDS_TO_CLOSE = 5.0


@dataclass(slots=True)
class Counters:
    """What a renderer gave out so far."""

    at_hand: int = 0
    """Prompts that were in the cache."""
    loaded: int = 0
    """Prompts that were asked for and had to be read."""
    from_source: int = 0
    """Prompts that were the source instead, because of `otherwise="source"`."""
    last_known: int = 0
    """Prompts that were older than `staleness`, because the store was away."""


class Renderer:
    """Resolves prompts, keeps them at hand, and follows their changes."""

    def __init__(
        self,
        url: str | None = None,
        *,
        database_url: str | None = None,
        sources: Iterable[PromptTemplate] = (),
        otherwise: Otherwise = "fail",
        staleness: float = SECONDS_OF_STALENESS,
        look_every: float = SECONDS_BETWEEN_LOOKS,
        strict: bool = False,
    ) -> None:
        """`url` is the store's address; default: RATCHET_OVERRIDES, as everywhere.

        Prompts that are used are looked at every `look_every` seconds, PostgreSQL announces changes at once, and what was not
        confirmed for `staleness` seconds is read again before it is given out. While the store is away, the last known prompt
        is given out however old it is, which is logged once and counted; `strict` gives out nothing older than `staleness`.

        `sources` are templates of one's own code; a tag that was made for another template than the one here is stale. When a
        tag is stale or missing, or the store is away and nothing is known that may be given out, `otherwise` says what happens:
        `fail` raises, `source` uses the source instead, logs it and counts it.
        """
        if not 0 < look_every <= staleness:
            raise ValueError(
                f"look_every is {look_every}, staleness {staleness}; look at least as often as prompts may be stale"
            )
        self.counters = Counters()
        self._open = partial(open_store, url, database_url=database_url)
        self._policy = Policy({template.name: template for template in sources}, otherwise, staleness, look_every, strict)
        self._at_hand: dict[Key, Entry] = {}
        self._outage = Outage()
        self._starting = threading.Lock()
        self._thread: _ReadingThread | None = None

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resolve(self, name: str, *, tag: str = "stable") -> Prompt:
        """The prompt as a tag puts it in force, or as a version such as `1.2.0` did.

        Under an experiment it is the prompt as the trial has it. Waits while the store is read; `aresolve` lets other tasks go
        on meanwhile.
        """
        found = self._found(name, tag)
        if found is not None:
            return found
        reading = self._running().read(self._key(name, tag))
        try:
            return self._given_out(reading.result(SECONDS_TO_LOAD))
        except NotInTime:
            reading.cancel()
            raise StoreAway(f"{name} was not read within {SECONDS_TO_LOAD:g} seconds") from None

    async def aresolve(self, name: str, *, tag: str = "stable") -> Prompt:
        """The same for asynchronous code."""
        found = self._found(name, tag)
        if found is not None:
            return found
        return self._given_out(await asyncio.wrap_future(self._running().read(self._key(name, tag))))

    def close(self) -> None:
        """Let go of the store. Resolving again opens it again."""
        with self._starting:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()
        self._at_hand.clear()

    def _found(self, name: str, tag: str) -> Prompt | None:
        """What needs no reading."""
        if current_experiment() is None:
            key = (name, tag)
        else:
            under_test = prompt_under_test(name)
            key = self._key(name, tag)
            if under_test is not None:
                return Prompt.of(under_test.template, prompt_part(under_test.configuration), key[1])
        entry = self._at_hand.get(key)
        if entry is None or not (entry.is_fresh or (self._outage.since is not None and not self._policy.strict)):
            return None
        self.counters.at_hand += 1
        entry.used = True
        return self._counted(entry)

    def _given_out(self, entry: Entry) -> Prompt:
        self.counters.loaded += 1
        return self._counted(entry)

    def _counted(self, entry: Entry) -> Prompt:
        if entry.state is None:
            return self._the_source(entry)
        if self._outage.since is not None and not entry.is_fresh:
            with self._starting:
                self.counters.last_known += 1
        return entry.prompt

    def _the_source(self, entry: Entry) -> Prompt:
        """A source in the place of what is in force; never where a trial measures something else."""
        name, tag = entry.prompt.name, entry.prompt.tag
        if _tag_under_test(name) == tag:
            raise UnknownTag(
                f"the overlay {tag} of {name}, which this trial measures, is not in the store that this code reads"
            )
        with self._starting:
            self.counters.from_source += 1
        return entry.prompt

    def _key(self, name: str, tag: str) -> Key:
        return name, _tag_under_test(name) or tag

    def _running(self) -> _ReadingThread:
        with self._starting:
            if self._thread is None or self._thread.process != os.getpid():  # a forked process has no threads
                self._thread = _ReadingThread(PromptFollower(self._open, self._policy, self._at_hand, self._outage))
                weakref.finalize(self, self._thread.close)
            return self._thread


class _ReadingThread:
    """An event loop of the renderer's own."""

    def __init__(self, follower: PromptFollower) -> None:
        self.process = os.getpid()
        self._follower = follower
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ratchet-prompts", daemon=True)
        self._thread.start()

    def read(self, key: Key) -> Future[Entry]:
        return asyncio.run_coroutine_threadsafe(self._follower.load(key), self._loop)

    def close(self) -> None:
        if self.process != os.getpid() or self._loop.is_closed():
            return
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._follower.close(), self._loop).result(SECONDS_TO_CLOSE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_TO_CLOSE)
        if not self._thread.is_alive():
            self._loop.close()


def _tag_under_test(name: str) -> str | None:
    """The tag by which the store has the prompt that the present trial measures."""
    context = current_experiment()
    return context.overrides_tag if context is not None and context.prompt == name else None


_of_the_process: list[Renderer] = []
_making = threading.Lock()


def _renderer() -> Renderer:
    """The renderer of this process, at the store that the environment names."""
    if not _of_the_process:
        with _making:
            if not _of_the_process:
                _of_the_process.append(Renderer())
    return _of_the_process[0]


def resolve(name: str, *, tag: str = "stable") -> Prompt:
    """The prompt in force, from the store that RATCHET_OVERRIDES names; see `Renderer.resolve`."""
    return _renderer().resolve(name, tag=tag)


async def aresolve(name: str, *, tag: str = "stable") -> Prompt:
    """The same for asynchronous code."""
    return await _renderer().aresolve(name, tag=tag)
