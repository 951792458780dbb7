"""The token of the HTTP side: given by the environment, or made once and kept where only its owner reads it."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clients.commands.context import CommandError
from clients.embedded.home import Home
from clients.private_files import FILE_MODE, close_to_others
from clients.settings import SERVE_TOKEN, client_settings

if TYPE_CHECKING:
    from clients.http.security import Trust

BYTES: Final = 32
WITHOUT: Final = (
    "Without a token every user and every program on this machine can start, steer and delete runs here, read all their data, "
    "and spend your money."
)


@dataclass(frozen=True)
class Entrance:
    """How one comes in: what requests must show, and what a link must carry."""

    trust: Trust
    file: Path | None = None
    """Where the token is kept; None when the environment gave it, or when there is none."""

    def link(self, url: str) -> str:
        """The address to open. A token of the environment is known to who set it, and is not printed."""
        return url if self.file is None or self.trust.token is None else f"{url}/?token={self.trust.token}"


def entrance(home: Path, host: str, allowed_hosts: tuple[str, ...], *, no_token: bool) -> Entrance:
    """The environment's token; else on this machine the home's own one, unless it is not wanted."""
    from clients.http.security import NotTrustworthy, Trust, is_loopback

    given = client_settings().serve_token
    if given and no_token:
        raise CommandError(f"--no-token and {SERVE_TOKEN} contradict each other; leave one of them out")
    try:
        if given or no_token or not is_loopback(host):
            return Entrance(Trust.of(host, given, allowed_hosts))
        file = Home.at(home).serve_token
        return Entrance(Trust.of(host, kept_token(file), allowed_hosts), file)
    except NotTrustworthy as error:
        raise CommandError(str(error)) from None


def kept_token(file: Path) -> str:
    """The token in this file, which is made when it is not there. Delete the file, and the next server has another one."""
    Home.at(file.parent).make_logs()
    draft = file.with_suffix(f".{os.getpid()}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with open(descriptor, "w", encoding="ascii") as writing:
        writing.write(f"{secrets.token_urlsafe(BYTES)}\n")
    with contextlib.suppress(FileExistsError):
        os.link(draft, file)  # whole or not at all, and never over another one's
    draft.unlink()
    close_to_others(file, FILE_MODE)
    token = file.read_text(encoding="utf-8").strip()
    if not token.isprintable() or not token.isascii():
        raise CommandError(f"{file} holds no token; delete it, and a new one is made")
    return token
