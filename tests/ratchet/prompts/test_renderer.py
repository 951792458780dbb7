"""The renderer: what production code gets, how soon it sees changes, and what happens when there is nothing to get."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from ratchet import ExperimentContext
from ratchet._text.placeholders import UnknownPlaceholder
from ratchet.experiment import PromptUnderTest, in_experiment
from ratchet.prompts import (
    OverrideStore,
    Prompt,
    Renderer,
    StaleTag,
    StoreAway,
    StoreRefused,
    UnknownPrompt,
    UnknownTag,
    aresolve,
    effective_hash,
    followed,
    open_store,
    renderer,
    resolve,
)
from store.connection import Database
from tests.support.prompt_examples import NAME, moved, template
from tests.support.prompt_places import Place
from tests.support.prompt_servers import Detour, free_port
from tests.support.store_examples import PostgresServer

GIVEN = {"ticket": "Lost."}
SOON = 10.0
NEVER = 3600.0


def tone_of(prompt: Prompt) -> str:
    return str(prompt.configuration["section:rules/tone"])


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class TestResolving:
    async def test_synchronous_and_asynchronous_code_get_the_same(self, place: Place, store: OverrideStore) -> None:
        await store.seed(template())
        await moved(store, "Be kind.", 1, version="1.0.1")
        with Renderer(place.url) as prompts:
            prompt = await asyncio.to_thread(prompts.resolve, NAME, tag="stable")
            assert await prompts.aresolve(NAME) is prompt
            assert prompts.resolve(NAME) is prompt
            assert (prompts.counters.loaded, prompts.counters.at_hand, prompts.counters.from_source) == (1, 2, 0)

            resolved = await store.resolve(NAME, tag="stable")
            assert prompt.render(GIVEN).text == resolved.render(GIVEN).text
            assert (prompt.hash, prompt.version, prompt.revision) == (resolved.hash, "1.0.1", 2)
            assert prompt.parameters["labels"] == ["billing", "shipping", "bug"]
            assert not prompt.from_source
            assert tone_of(prompts.resolve(NAME, tag="1.0.0")) == "Be brief."

    async def test_what_an_input_lacks_is_an_error(self, place: Place, store: OverrideStore) -> None:
        await store.seed(template())
        with Renderer(place.url) as prompts, pytest.raises(UnknownPlaceholder, match=r"input\.ticket"):
            (await prompts.aresolve(NAME)).render({})

    async def test_many_who_ask_at_once_are_answered_by_one_reading(self, place: Place, store: OverrideStore) -> None:
        await store.seed(template())
        with Renderer(place.url) as prompts, ThreadPoolExecutor(16) as threads:
            from_threads = [threads.submit(prompts.resolve, NAME) for _ in range(16)]
            found = await asyncio.gather(*(prompts.aresolve(NAME) for _ in range(16)))
            found += [await asyncio.wrap_future(each) for each in from_threads]
            assert len({id(prompt) for prompt in found}) == 1

    async def test_who_asks_as_the_reading_ends_is_answered_by_it(self, place: Place, store: OverrideStore) -> None:
        await store.seed(template())
        with Renderer(place.url) as prompts:
            reading = prompts._running().read
            first = await asyncio.wrap_future(reading((NAME, "stable")))
            asked_before_it_was_at_hand = await asyncio.wrap_future(reading((NAME, "stable")))
            assert asked_before_it_was_at_hand.prompt is first.prompt

    async def test_the_process_has_one_renderer_where_the_environment_says(
        self, place: Place, store: OverrideStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await store.seed(template())
        monkeypatch.setenv("RATCHET_OVERRIDES", place.url)
        monkeypatch.setattr(renderer, "_of_the_process", [])
        assert resolve(NAME, tag="stable") is await aresolve(NAME)
        renderer._of_the_process[0].close()

    def test_looking_more_rarely_than_prompts_may_be_stale_is_refused(self) -> None:
        with pytest.raises(ValueError, match="look at least as often as prompts may be stale"):
            Renderer("file:x", staleness=1, look_every=2)


class TestChanges:
    async def test_a_change_is_seen_within_the_staleness_that_is_allowed(self, place: Place, store: OverrideStore) -> None:
        await store.seed(template())
        with Renderer(place.url, staleness=0.2, look_every=0.2) as prompts:
            assert tone_of(prompts.resolve(NAME)) == "Be brief."
            await moved(store, "Be kind.", 1)
            await asyncio.to_thread(wait_until, lambda: tone_of(prompts.resolve(NAME)) == "Be kind.")

    async def test_what_is_used_is_looked_at_before_it_is_stale(self, place: Place, store: OverrideStore) -> None:
        await store.seed(template())
        with Renderer(place.url, staleness=NEVER, look_every=0.05) as prompts:
            prompts.resolve(NAME)
            await moved(store, "Be kind.", 1)
            await asyncio.to_thread(wait_until, lambda: tone_of(prompts.resolve(NAME)) == "Be kind.")
            assert prompts.counters.loaded == 1

    async def test_postgresql_announces_changes_at_once(self, database_url: str) -> None:
        async with await open_store(database_url) as store:
            await store.seed(template())
            with Renderer(database_url, staleness=NEVER, look_every=NEVER) as prompts:
                prompts.resolve(NAME)
                await asyncio.to_thread(wait_until_it_listens, database_url)
                for revision in (1, 2, 3):
                    await moved(store, f"Revision {revision}.", revision)
                    await asyncio.to_thread(wait_until, lambda: tone_of(prompts.resolve(NAME)) == f"Revision {revision}.")  # noqa: B023
                await store.delete(NAME, tag="stable", expected=4)

                def is_told() -> bool:
                    try:
                        prompts.resolve(NAME)
                    except UnknownTag:
                        return True
                    return False

                await asyncio.to_thread(wait_until, is_told)

    async def test_what_moved_while_nobody_listened_is_seen_when_somebody_does_again(self, database_url: str) -> None:
        async with await open_store(database_url) as store:
            await store.seed(template())
            with Renderer(database_url, staleness=NEVER, look_every=NEVER) as prompts:
                prompts.resolve(NAME)
                await asyncio.to_thread(wait_until_it_listens, database_url)
                await cut_connections(database_url)
                await moved_when_it_can_be(store, "Be kind.")
                await asyncio.to_thread(wait_until, lambda: tone_of(prompts.resolve(NAME)) == "Be kind.")

    async def test_versions_are_read_once(self, place: Place, store: OverrideStore) -> None:
        await store.seed(template())
        with Renderer(place.url, staleness=0.02, look_every=0.01) as prompts:
            first = prompts.resolve(NAME, tag="1.0.0")
            prompts.resolve(NAME)
            await moved(store, "Be kind.", 1)
            await asyncio.to_thread(wait_until, lambda: tone_of(prompts.resolve(NAME)) == "Be kind.")
            assert prompts.resolve(NAME, tag="1.0.0") is first


class TestWhatIsNotThere:
    async def test_a_missing_tag_is_an_error(self, place: Place, store: OverrideStore) -> None:
        with Renderer(place.url, sources=[template()]) as prompts:
            with pytest.raises(UnknownPrompt):
                prompts.resolve(NAME)
            await store.seed(template())
            with pytest.raises(UnknownTag):
                await prompts.aresolve(NAME, tag="canary")
            assert prompts.resolve(NAME).revision == 1

    async def test_a_missing_tag_is_the_source_if_the_policy_says_so_logged_once_and_counted(
        self, place: Place, store: OverrideStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        with (
            caplog.at_level(logging.WARNING, "ratchet.prompts"),
            Renderer(place.url, sources=[template()], otherwise="source", staleness=0.1, look_every=0.05) as prompts,
        ):
            prompt = prompts.resolve(NAME)
            assert prompt.from_source
            assert prompt.render(GIVEN).text == template().render(template().configuration(), GIVEN).text
            assert (prompt.hash, prompt.version, prompt.revision) == (effective_hash(template().configuration()), None, None)
            await asyncio.to_thread(wait_until, lambda: prompts.resolve(NAME).from_source and prompts.counters.loaded >= 3)
            counters = prompts.counters
            assert counters.from_source == counters.loaded + counters.at_hand
            assert caplog.text.count("the source of support/triage is used instead of tag stable") == 1

            await store.seed(template())
            await asyncio.to_thread(wait_until, lambda: not prompts.resolve(NAME).from_source)

    async def test_a_tag_for_another_template_than_ones_own_is_stale(
        self, place: Place, store: OverrideStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        await store.seed(template())
        own = template(sections=[{"path": "task", "body": "Written anew: {{input.ticket}}"}], parameters={})
        with Renderer(place.url, sources=[own]) as prompts, pytest.raises(StaleTag, match="was made for template"):
            prompts.resolve(NAME)
        with Renderer(place.url, sources=[own], otherwise="source") as prompts:
            assert prompts.resolve(NAME).render(GIVEN).text == "Written anew: Lost."
        assert "was made for template" in caplog.text

    async def test_a_prompt_without_a_source_fails_whatever_the_policy(self, place: Place, store: OverrideStore) -> None:
        with Renderer(place.url, otherwise="source") as prompts, pytest.raises(UnknownPrompt):
            prompts.resolve(NAME)

    def test_a_store_that_cannot_be_is_an_error_whatever_the_policy(self) -> None:
        with Renderer("ftp://x", sources=[template()], otherwise="source") as prompts, pytest.raises(StoreRefused):
            prompts.resolve(NAME)

    def test_a_store_that_is_away_fails_or_gives_way_to_the_source(self) -> None:
        url = f"postgresql://me@127.0.0.1:{free_port()}/db"
        with Renderer(url, sources=[template()]) as prompts, pytest.raises(StoreAway):
            prompts.resolve(NAME)
        with Renderer(url, sources=[template()], otherwise="source") as prompts:
            assert prompts.resolve(NAME).from_source


class TestOutages:
    async def test_a_strict_renderer_outlives_an_outage_as_long_as_prompts_may_be_stale_and_comes_back(
        self, mortal_postgres: PostgresServer
    ) -> None:
        url = mortal_postgres.url("postgres")
        await (await Database.open(url)).close()
        async with await open_store(url) as store:
            await store.seed(template())
        with Renderer(url, staleness=2.0, look_every=0.05, strict=True) as prompts:
            prompts.resolve(NAME)
            mortal_postgres.kill()
            died = time.monotonic()
            while time.monotonic() < died + 1.0:
                assert tone_of(prompts.resolve(NAME)) == "Be brief."
                await asyncio.sleep(0.05)

            def is_away() -> bool:
                try:
                    prompts.resolve(NAME)
                except StoreAway:
                    return True
                return False

            await asyncio.to_thread(wait_until, is_away)
            mortal_postgres.start()
            await mortal_postgres.until_it_answers()
            await asyncio.to_thread(wait_until, lambda: not is_away())

    async def test_the_last_known_prompt_is_not_refused_while_postgresql_is_away(
        self, mortal_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The three lines of the README, with nothing but the bounds made short."""
        url = mortal_postgres.url("postgres")
        await (await Database.open(url)).close()
        store = await open_store(url)
        if (await store.current(NAME, "stable")) is None:
            await store.seed(template())
        await store.close()
        with Renderer(url, staleness=0.1, look_every=0.05) as prompts, caplog.at_level(logging.INFO, "ratchet.prompts"):
            monkeypatch.setattr(renderer, "_of_the_process", [prompts])
            known = await aresolve(NAME, tag="stable")
            mortal_postgres.kill()
            while prompts.counters.last_known < 500:
                assert (await aresolve(NAME, tag="stable")).hash == known.hash
            assert resolve(NAME).render(GIVEN).text == known.render(GIVEN).text
            with pytest.raises(StoreAway):
                await aresolve("never/known")

            mortal_postgres.start()
            await mortal_postgres.until_it_answers()
            async with await open_store(url) as store:
                state = await store.current(NAME, "stable")
                assert state is not None
                await moved(store, "Said after the outage.", state.revision)
            await asyncio.to_thread(wait_until, lambda: tone_of(prompts.resolve(NAME)) == "Said after the outage.")
        assert caplog.text.count("the last known ones stay in force until they can be") == 1
        assert caplog.text.count("prompts can be read again") == 1

    async def test_a_prompt_that_nobody_asked_for_lately_is_not_forgotten_when_the_store_goes_away(
        self, place: Place, store: OverrideStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await store.seed(template())
        async with closable(place, monkeypatch) as (url, close):
            with Renderer(url, staleness=0.05, look_every=0.02) as prompts:
                known = await prompts.aresolve(NAME)
                entry = prompts._at_hand[NAME, "stable"]
                await asyncio.to_thread(wait_until, lambda: not entry.used and not entry.is_fresh)
                close()
                while not prompts.counters.last_known:
                    assert (await prompts.aresolve(NAME)).hash == known.hash

    async def test_a_store_that_never_answers_does_not_hold_up_who_has_a_prompt_at_hand(
        self, place: Place, store: OverrideStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await store.seed(template())
        with Renderer(place.url, staleness=NEVER, look_every=NEVER) as prompts:
            known = await prompts.aresolve(NAME)

            async def never(*_: object, **__: object) -> None:
                await asyncio.Event().wait()

            monkeypatch.setattr(OverrideStore, "resolve", never)
            monkeypatch.setattr(followed, "SECONDS_BEFORE_THE_LAST_KNOWN", 0.01)
            prompts._at_hand[NAME, "stable"].good_until = 0.0
            assert await prompts.aresolve(NAME) is known
            prompts._at_hand[NAME, "stable"].good_until = 0.0
            assert prompts.resolve(NAME) is known


class TestExperiments:
    async def test_a_trial_gets_what_it_measures_whatever_the_tag_says(self, place: Place, store: OverrideStore) -> None:
        await store.seed(template())
        configuration = {**template().configuration(), "section:rules/tone": "Candidate.", "model": "big"}
        context = ExperimentContext("t", "n", overrides_tag="f" * 64, prompt=NAME)
        with Renderer(place.url) as prompts:
            assert tone_of(prompts.resolve(NAME)) == "Be brief."
            with in_experiment(context, PromptUnderTest(template(), configuration)):
                prompt = prompts.resolve(NAME)
                assert tone_of(prompt) == "Candidate."
                assert "model" not in prompt.configuration
                assert (await prompts.aresolve(NAME)).hash == prompt.hash
            assert tone_of(prompts.resolve(NAME)) == "Be brief."

    async def test_code_elsewhere_reads_the_overlay_that_the_headers_name(self, place: Place, store: OverrideStore) -> None:
        await store.seed(template())
        await store.seed(template("other/prompt"))
        overlay = await moved(store, "Candidate.", None, tag="a" * 64, temporary=True, owner="run-1")
        with Renderer(place.url, sources=[template()], otherwise="source") as prompts:
            with in_experiment(ExperimentContext("t", "n", overrides_tag="a" * 64, prompt=NAME)):
                assert (await prompts.aresolve(NAME)).hash == overlay.config_hash
                assert tone_of(prompts.resolve(NAME, tag="stable")) == "Candidate."
                assert prompts.resolve("other/prompt").tag == "stable"
                assert prompts.resolve("other/prompt").tag == "stable"
            with in_experiment(ExperimentContext("t", "n", overrides_tag="b" * 64, prompt=NAME)):
                for _ in range(2):
                    with pytest.raises(UnknownTag, match="which this trial measures, is not in the store"):
                        prompts.resolve(NAME)


class TestProcesses:
    def test_a_renderer_leaves_no_thread_behind(self, tmp_path: object) -> None:
        prompts = Renderer(f"file:{tmp_path}")
        with pytest.raises(UnknownPrompt):
            prompts.resolve(NAME)
        assert reading_threads() == 1
        prompts.close()
        assert reading_threads() == 0
        with pytest.raises(UnknownPrompt):
            prompts.resolve(NAME)
        del prompts
        gc.collect()
        wait_until(lambda: reading_threads() == 0)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    async def test_a_forked_server_reads_by_itself(self, tmp_path: object) -> None:
        async with await open_store(f"file:{tmp_path}") as store:
            await store.seed(template())
        with Renderer(f"file:{tmp_path}") as prompts:
            prompts.resolve(NAME)
            answers = multiprocessing.get_context("fork").SimpleQueue()

            def child() -> None:
                answers.put((prompts.resolve(NAME).revision, prompts.resolve(NAME, tag="1.0.0").revision))

            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            assert await asyncio.to_thread(answers.get) == (1, 1)
            process.join(SOON)
            assert process.exitcode == 0


@asynccontextmanager
async def closable(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, Callable[[], object]]]:
    """The address of the same store, and what takes it away from there."""
    if place.kind == "file":
        folder = Path(place.url.removeprefix("file:"))
        yield place.url, lambda: folder.rename(folder.with_name("elsewhere"))
        return
    endpoint = place.environment.get("AWS_ENDPOINT_URL", place.url)
    port = urlsplit(endpoint).port
    assert port
    async with Detour(port) as detour:
        url = place.url.replace(f":{port}", f":{detour.port}")
        if place.kind == "s3":
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{detour.port}")
        yield url, detour.close


def reading_threads() -> int:
    return sum(thread.name == "ratchet-prompts" for thread in threading.enumerate())


def wait_until_it_listens(url: str) -> None:
    """Until the renderer's own connection is there to be told."""

    async def listening() -> bool:
        connection = await asyncpg.connect(url)
        try:
            return bool(
                await connection.fetchval(
                    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
                )
            )
        finally:
            await connection.close()

    wait_until(lambda: asyncio.run(listening()))


async def cut_connections(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.close()


async def moved_when_it_can_be(store: OverrideStore, text: str) -> None:
    async with asyncio.timeout(SOON):
        while True:
            try:
                await moved(store, text, 1, change={"id": "once"})
                return
            except StoreAway:
                await asyncio.sleep(0.01)
