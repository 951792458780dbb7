"""A real S3 server over HTTP, on this machine: `rclone serve s3` over a folder."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KEY, SECRET = "test-key", "test-secret-of-some-length"
SECONDS_TO_START = 30.0


@dataclass(frozen=True)
class ObjectStore:
    """The server; a folder within `folder` is a bucket."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs, and nothing of what this machine's user may have set."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def put(self, bucket: str, key: str, content: bytes) -> str:
        """Store an object, and say under which path a spec names it."""
        file = self.folder / bucket / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return f"s3://{bucket}/{key}"


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """The server, for as long as the block lasts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    folder.mkdir(parents=True, exist_ok=True)
    rclone = Path(sys.executable).with_name("rclone")
    log = (folder.parent / "rclone.log").open("wb")
    process = subprocess.Popen(
        [str(rclone), "serve", "s3", "--addr", address, "--auth-key", f"{KEY},{SECRET}", "--vfs-cache-mode", "off",
         "--dir-cache-time", "0s", "--config", "/dev/null", str(folder)],
        stdout=log,
        stderr=log,
    )  # fmt: skip
    try:
        _wait_until_it_listens(address, process)
        yield ObjectStore(f"http://{address}", folder, process)
    finally:
        process.kill()
        process.wait()
        log.close()


def _wait_until_it_listens(address: str, process: subprocess.Popen[bytes]) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            assert process.poll() is None, "rclone ended"
            assert time.monotonic() < deadline, "rclone does not listen"
            time.sleep(0.05)
        else:
            return
