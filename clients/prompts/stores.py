"""The override store that the command line reads: the one that RATCHET_OVERRIDES names, else the PostgreSQL of the servers."""

from __future__ import annotations

import difflib
import getpass
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from clients.commands.context import CommandError, Context
from clients.runs.service.servers import ServersAway, has_data, reach_servers
from clients.settings import client_settings
from ratchet.prompts import OverrideStore, PromptError, StoreAway, StoreRefused, open_store

POSTGRES = "postgres"


@asynccontextmanager
async def reach_prompts(context: Context, url: str | None = None) -> AsyncIterator[OverrideStore]:
    """The store at an address, else the one in use. Embedded servers run as long as the block, where they are needed."""
    address = url or client_settings().overrides
    with prompt_errors():
        if address != POSTGRES:
            async with await open_store(address) as store:
                yield store
            return
        async with (
            reach_servers(context.home) as servers,
            await open_store(POSTGRES, database_url=servers.database_url) as store,
        ):
            yield store


def anything_there(context: Context) -> bool:
    """Whether there can be any prompts, so that nothing is started just to find nothing."""
    return client_settings().overrides != POSTGRES or has_data(context.home)


@contextmanager
def prompt_errors(where: str = "") -> Iterator[None]:
    """What a store or a file refuses, as commands tell it."""
    try:
        yield
    except StoreAway as error:
        raise ServersAway(f"the store of prompts does not answer: {error}") from None
    except StoreRefused as error:
        raise ServersAway(str(error)) from None
    except PromptError as error:
        raise CommandError(f"{where}: {error}" if where else str(error)) from None


async def existing(store: OverrideStore, name: str) -> None:
    """Raise an error that suggests what was probably meant, unless there is such a prompt."""
    names = await store.names()
    if name not in names:
        raise unknown_prompt(name, names)


def unknown_prompt(name: str, names: list[str]) -> CommandError:
    """There is no such prompt; the closest names are suggested."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "`ratchet prompts list` shows those there are"
    return CommandError(f"there is no prompt {name!r}; {hint}", facts={"close_matches": close})


def user() -> str:
    """Who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
