"""What a server process does between fork and exec: die with its supervisor, and stop being root where it must not be.

PostgreSQL refuses to run as root, so for root it runs as an unprivileged user. That user cannot pass a directory like
/root (mode 0700) on the way to the data or to the binaries. Opening such directories to everybody would be wrong; the
process keeps one capability instead, to search and read directories, and only if it needs it.
"""

import ctypes
import os
import pwd
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 1 << 2
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2

ON_LINUX = sys.platform == "linux"


def runs_on(pid: int, data: Path) -> bool:
    """Whether this pid is a live server of ours. A pid alone proves nothing, another process may have it by now."""
    try:
        if ON_LINUX:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()  # empty for a zombie
        else:
            command = subprocess.check_output(["ps", "-ww", "-o", "command=", "-p", str(pid)])
    except (OSError, subprocess.CalledProcessError):
        return False
    return os.fsencode(data) in command


@dataclass(frozen=True)
class ServerAccount:
    uid: int
    gid: int

    @classmethod
    def for_data_in(cls, home: Path, data: Path) -> "ServerAccount | None":
        """Who shall own and run a server that refuses root: nobody special unless we are root."""
        if os.geteuid() != 0:
            return None
        if data.exists() and data.stat().st_uid != 0:
            return cls(data.stat().st_uid, data.stat().st_gid)
        try:
            owner = pwd.getpwuid(home.stat().st_uid)
        except KeyError:  # a directory from outside a container; initdb wants a user with a name
            owner = pwd.getpwuid(0)
        if owner.pw_uid == 0:
            owner = pwd.getpwnam("nobody")
        return cls(owner.pw_uid, owner.pw_gid)

    def may_execute(self, path: Path) -> bool:
        """Whether the mode bits let this account search the directory, or execute the file."""
        found = path.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)

    def capabilities_for(self, program: Path, data: Path) -> tuple[int, ...]:
        """The capabilities to try, the weakest first; none if the account reaches everything by itself."""
        if not self.may_execute(program):
            return (CAP_DAC_OVERRIDE,)
        if all(self.may_execute(folder) for path in (program, data) for folder in path.resolve().parents):
            return ()
        return (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE)  # containers usually allow only the second


def after_fork(
    *, dies_with_parent_by: signal.Signals, account: ServerAccount | None = None, capabilities: tuple[int, ...] = ()
) -> Callable[[], None]:
    """For `subprocess.Popen(preexec_fn=…)` in a process of one thread."""
    parent = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)  # loaded before the fork

    def prepare() -> None:
        try:
            change_identity_and_fate()
        except OSError as error:
            os.write(2, f"before exec: {error}\n".encode())  # subprocess does not say why
            raise

    def change_identity_and_fate() -> None:
        if account is not None:
            if capabilities:
                _must(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
                # Without this, access(2), by which PostgreSQL looks for its own programs, ignores capabilities. Not every
                # container allows it; then only binaries below open directories are found.
                libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
            os.setgroups([])
            os.setgid(account.gid)
            os.setuid(account.uid)
            if capabilities:
                _keep_first_possible(libc, capabilities)
        if ON_LINUX:
            # after setuid, which would clear it
            _must(libc.prctl(PR_SET_PDEATHSIG, int(dies_with_parent_by), 0, 0, 0))
            if os.getppid() != parent:
                os._exit(1)

    return prepare


def _keep_first_possible(libc: ctypes.CDLL, capabilities: tuple[int, ...]) -> None:
    for capability in capabilities:
        mask = 1 << capability
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        effective_permitted_inheritable = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
        if libc.capset(ctypes.byref(header), ctypes.byref(effective_permitted_inheritable)) == 0:
            _must(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0))
            return
    raise OSError(ctypes.get_errno(), "root without CAP_DAC_READ_SEARCH and CAP_DAC_OVERRIDE cannot grant access to the home")


def _must(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")
