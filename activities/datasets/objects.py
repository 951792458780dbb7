"""Objects in S3 and what speaks its protocol. Needs the extra `s3`; credentials and address come from the environment."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from activities.datasets.dataset_errors import DatasetError, SourceAway
from activities.settings import OBJECT_MB

REGION = "us-east-1"
"""What servers expect that know of no regions."""

SECONDS_TO_CONNECT, SECONDS_WITHOUT_A_BYTE, ATTEMPTS = 5, 30, 3
TRANSIENT = {408, 429, 500, 502, 503, 504}


@contextmanager
def fetched(url: str, largest_mb: int) -> Iterator[Path]:
    """The object as a file, which is gone when the block is left. It is fetched once: what is read never changes."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    with tempfile.TemporaryDirectory(prefix="ratchet-dataset-") as folder:
        file = Path(folder) / "object"
        _fetch(url, bucket, key, file, largest_mb)
        yield file


def object_client(url: str) -> Any:
    """Make a client for S3, as the environment says."""
    with _told_of(url):
        return _client(_boto3(url))


def object_content(client: Any, url: str, most: int) -> bytes:
    """Fetch the first bytes of an object into memory, `most` at most."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    with _told_of(url):
        content: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read(most)
        return content


def _fetch(url: str, bucket: str, key: str, file: Path, largest_mb: int) -> None:
    with _told_of(url):
        client = _client(_boto3(url))
        _refuse_large(url, client.head_object(Bucket=bucket, Key=key)["ContentLength"], largest_mb)
        client.download_file(bucket, key, str(file), Callback=_BoundedDownload(url, largest_mb))


def _boto3(url: str) -> Any:
    try:
        importlib.import_module("botocore.exceptions")
        return importlib.import_module("boto3")
    except ModuleNotFoundError:
        raise DatasetError(f"dataset.path: reading {url} needs boto3; install ratchet-optimizer[s3]") from None


@contextmanager
def _told_of(url: str) -> Iterator[None]:
    """Say what boto3 raises in the words of datasets."""
    boto3 = _boto3(url)
    botocore = importlib.import_module("botocore.exceptions")
    bucket, _, key = url.removeprefix("s3://").partition("/")
    try:
        yield
    except DatasetError:
        raise
    except botocore.ClientError as error:
        raise _refused(url, bucket, key, error) from None
    except (botocore.NoCredentialsError, botocore.PartialCredentialsError):
        raise DatasetError(
            f"dataset.path: there are no credentials to read {url} with; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "
            "where the worker (for `ratchet run`: this command) is started"
        ) from None
    except (
        botocore.HTTPClientError,
        botocore.ConnectionError,
        botocore.IncompleteReadError,
        boto3.exceptions.RetriesExceededError,
    ) as error:
        raise SourceAway(f"dataset.path: {url} cannot be fetched now: {error}") from None
    except botocore.ParamValidationError:
        raise DatasetError(f"dataset.path: {url}: {bucket!r} is no name of a bucket; correct the path") from None
    except (botocore.BotoCoreError, ValueError) as error:
        raise DatasetError(f"dataset.path: {url} cannot be fetched: {error}") from None


class _BoundedDownload:
    """Ends a transfer that brings more than the object was said to have: it may have been replaced meanwhile."""

    def __init__(self, url: str, largest_mb: int) -> None:
        self._url = url
        self._largest_mb = largest_mb
        self._received = 0

    def __call__(self, count: int) -> None:
        self._received += count
        _refuse_large(self._url, self._received, self._largest_mb)


def _refuse_large(url: str, size: int, largest_mb: int) -> None:
    if size > largest_mb * 1024 * 1024:
        raise DatasetError(
            f"dataset.path: {url} has more than {largest_mb} MB; make it smaller, or raise {OBJECT_MB} where it is read"
        )


def _client(boto3: Any) -> Any:
    config = importlib.import_module("botocore.config").Config(
        connect_timeout=SECONDS_TO_CONNECT,
        read_timeout=SECONDS_WITHOUT_A_BYTE,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
    )
    session = boto3.session.Session()
    return session.client("s3", config=config, region_name=session.region_name or REGION)


def _refused(url: str, bucket: str, key: str, error: Any) -> Exception:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = error.response.get("Error", {}).get("Code", "")
    if status in TRANSIENT:
        return SourceAway(f"dataset.path: {url} cannot be fetched now: {code or status}")
    if status == 404:
        return DatasetError(
            f"dataset.path: there is no object {key!r} in bucket {bucket!r}; correct the path, or set AWS_ENDPOINT_URL "
            "when it is not at Amazon"
        )
    if status in (401, 403):
        return DatasetError(
            f"dataset.path: reading {url} is not allowed to the credentials of this process ({code}); "
            "let them read it, or correct the path"
        )
    return DatasetError(f"dataset.path: {url} cannot be fetched: {error}")
