"""The token of the HTTP side: given by the environment, or made once and kept where only its owner reads it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clients.commands.context import CommandError
from clients.credentials import new_secret
from clients.embedded.home import Home
from clients.private_files import FILE_MODE, close_to_others
from clients.settings import OIDC_ISSUER, SERVE_TOKEN, ClientSettings, client_settings

if TYPE_CHECKING:
    from clients.http.access.oidc import OidcIssuer
    from clients.http.access.security import Trust

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
    from clients.http.access.security import NotTrustworthy, Trust, is_loopback

    given, issuer = client_settings().serve_token, issuer_of(client_settings())
    for name, is_given in ((SERVE_TOKEN, bool(given)), (OIDC_ISSUER, issuer is not None)):
        if is_given and no_token:
            raise CommandError(f"--no-token and {name} contradict each other; leave one of them out")
    try:
        if given or no_token or not is_loopback(host):
            return Entrance(replace(Trust.of(host, given, allowed_hosts), issuer=issuer))
        file = Home.at(home).serve_token
        return Entrance(replace(Trust.of(host, kept_token(file), allowed_hosts), issuer=issuer), file)
    except NotTrustworthy as error:
        raise CommandError(str(error)) from None


def issuer_of(settings: ClientSettings) -> OidcIssuer | None:
    """The issuer of JWTs that the environment names, if it does."""
    if not settings.oidc_issuer:
        return None
    try:
        from clients.http.access.oidc import OidcIssuer, is_safe
    except ModuleNotFoundError as error:
        raise CommandError(f"{OIDC_ISSUER}: needs the package {error.name!r}; install ratchet-optimizer[oidc]") from None
    from store.read.access.access_tokens import Role

    if not is_safe(settings.oidc_issuer):
        raise CommandError(f"{OIDC_ISSUER}: must be an address with https, as the issuer writes it")
    if not settings.oidc_audience:
        raise CommandError("RATCHET_OIDC_AUDIENCE: is not set; say what JWTs are made out for, or anybody's would be taken")
    roles: dict[str, Role] = {}
    for pair in filter(None, (part.strip() for part in settings.oidc_roles.split(","))):
        value, _, role = pair.rpartition("=")
        if not value or role not in list(Role):
            raise CommandError(f"RATCHET_OIDC_ROLES: {pair[:100]!r} is no VALUE=ROLE; a role is {', '.join(Role)}")
        roles[value] = Role(role)
    if not roles:
        raise CommandError("RATCHET_OIDC_ROLES: is not set, so nobody would have a role; write e.g. ml-team=run,leads=release")
    claims = settings.oidc_role_claim, settings.oidc_team_claim or None, settings.oidc_name_claim
    return OidcIssuer(settings.oidc_issuer, settings.oidc_audience, roles, *claims)


def kept_token(file: Path) -> str:
    """The token in this file, which is made when it is not there. Delete the file, and the next server has another one."""
    Home.at(file.parent).make_logs()
    draft = file.with_suffix(f".{os.getpid()}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with open(descriptor, "w", encoding="ascii") as writing:
        writing.write(f"{new_secret()}\n")
    with contextlib.suppress(FileExistsError):
        os.link(draft, file)  # whole or not at all, and never over another one's
    draft.unlink()
    close_to_others(file, FILE_MODE)
    token = file.read_text(encoding="utf-8").strip()
    if not token.isprintable() or not token.isascii():
        raise CommandError(f"{file} holds no token; delete it, and a new one is made")
    return token
