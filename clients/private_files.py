"""Files and folders that only their owner reads: logs hold samples and prompts, and the home holds keys of its servers.

Nothing but the standard library is used here, so that the supervisor starts at once.
"""

import contextlib
import os
from pathlib import Path
from typing import IO, Any, Final

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def make_private_folder(folder: Path) -> None:
    """Make a folder, or take one that is there from everybody but its owner."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    close_to_others(folder, FOLDER_MODE)


def open_private(file: Path, mode: str, **options: Any) -> IO[Any]:
    """Open a file for writing that only its owner reads, whatever umask and mode it has."""
    return open(file, mode, opener=_opened, **options)


def tighten(folder: Path) -> None:
    """Take everything in a folder from everybody but its owner. Links are not followed."""
    if not folder.is_dir() or folder.is_symlink():
        return
    close_to_others(folder, FOLDER_MODE)
    for parent, folders, files in os.walk(folder):
        for name in folders:
            close_to_others(Path(parent, name), FOLDER_MODE)
        for name in files:
            close_to_others(Path(parent, name), FILE_MODE)


def _opened(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def close_to_others(path: Path, mode: int) -> None:
    """Take a file or folder from everybody but its owner. What is somebody else's, or gone meanwhile, stays as it is."""
    with contextlib.suppress(PermissionError, FileNotFoundError):
        if not path.is_symlink() and path.stat().st_mode & 0o077:
            path.chmod(mode)
