"""Every place where prompts are kept, for real."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from ratchet.prompts import OverrideStore, open_store
from tests.support.prompt_servers import Server, moto_server, redis_server

BACKENDS = ("file", "postgres", "s3", "redis")
SERVED = ("s3", "redis")
"""Those that need a server of their own."""

REDIS_DATABASES = 1024
_numbers = count()


@dataclass(frozen=True)
class Place:
    """Where the prompts of a test are kept."""

    kind: str
    url: str
    environment: dict[str, str] = field(default_factory=dict)
    """What another process needs to get there."""

    async def open(self) -> OverrideStore:
        return await open_store(self.url)


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with redis_server(tmp_path_factory.mktemp("redis"), "--databases", str(REDIS_DATABASES)) as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[Server]:
    with moto_server() as server:
        yield server


def object_environment(url: str) -> dict[str, str]:
    """What an S3 client needs, and nothing of what this machine's user may have set."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test-secret-of-some-length",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture
def bucket(moto: Server, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, str]]:
    """A new bucket, and the environment to get at it, which is set."""
    import boto3

    environment = object_environment(f"http://{moto.address}")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    name = f"prompts-{next(_numbers)}"
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=name)
    return name, environment


def place_of_kind(kind: str, request: pytest.FixtureRequest) -> Place:
    """A new and empty place of this kind."""
    match kind:
        case "file":
            folder: Path = request.getfixturevalue("tmp_path")
            return Place(kind, f"file:{folder / 'prompts'}")
        case "postgres":
            return Place(kind, request.getfixturevalue("database_url"))
        case "s3":
            bucket, environment = request.getfixturevalue("bucket")
            return Place(kind, f"s3://{bucket}/some/prefix", environment)
        case _:
            server: Server = request.getfixturevalue("redis")
            return Place(kind, f"redis://{server.address}/{next(_numbers) % REDIS_DATABASES}")
