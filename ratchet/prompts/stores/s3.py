"""Documents in S3 and what speaks its protocol, written by conditional requests.

Servers exist that ignore the conditions and overwrite. So a store is opened only after the server has proved, on an object of
its own, that it keeps them. Credentials and address come from the environment.
"""

from __future__ import annotations

import asyncio
import importlib
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from ratchet.prompts.prompt_errors import StoreAway, StoreRefused

REGION = "us-east-1"
"""What servers expect that know of no regions."""

SECONDS_TO_CONNECT, SECONDS_WITHOUT_A_BYTE, ATTEMPTS = 5, 20, 3
MOST_REQUESTS_AT_ONCE = 16
MOST_CONFLICTS = 8
SECONDS_AFTER_A_CONFLICT = 0.05

_CONDITION_FAILED, _CONFLICT, _NOT_IMPLEMENTED = 412, 409, 501
_TRANSIENT = (408, 429, 500, 502, 503, 504)

Result = TypeVar("Result")


class S3Documents:
    """Documents under a prefix of a bucket."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self.removes = False  # until the server has proved that it can
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._threads = ThreadPoolExecutor(MOST_REQUESTS_AT_ONCE, thread_name_prefix="ratchet-prompts-s3")

    @classmethod
    async def open(cls, bucket: str, prefix: str) -> S3Documents:
        documents = cls(await asyncio.to_thread(_client), bucket, prefix)
        try:
            await documents._in_thread(documents._prove_conditions)
        except BaseException:
            await documents.close()
            raise
        return documents

    async def close(self) -> None:
        self._threads.shutdown(wait=False)
        self._client.close()

    async def check(self, folders: list[str]) -> None:
        """A bucket has no folders."""

    async def read(self, path: str) -> tuple[bytes, str] | None:
        return await self._in_thread(partial(self._read, path))

    async def create(self, path: str, content: bytes) -> bool:
        return await self._in_thread(partial(self._put, path, content, IfNoneMatch="*"))

    async def replace(self, path: str, content: bytes, seen: str) -> bool:
        return await self._in_thread(partial(self._put, path, content, IfMatch=seen))

    async def remove(self, path: str, seen: str) -> bool:
        return await self._in_thread(partial(self._remove, path, seen))

    async def files(self, folder: str) -> list[str]:
        return await self._in_thread(partial(self._files, folder))

    async def folders_with(self, child: str) -> list[str]:
        keys = await self._in_thread(partial(self._keys, ""))
        return sorted({key.split(f"/{child}/")[0] for key in keys if f"/{child}/" in key})

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _read(self, path: str) -> tuple[bytes, str] | None:
        with self._told():
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + path)
            except self._client.exceptions.NoSuchKey:
                return None
            return answer["Body"].read(), answer["ETag"]

    def _put(self, path: str, content: bytes, **condition: str) -> bool:
        """Write if the condition holds. A conflict with another writer decides nothing yet."""
        for _ in range(MOST_CONFLICTS):
            with self._told():
                status = self._status_of_put(path, content, condition)
            if status != _CONFLICT:
                return status == 200
            time.sleep(random.uniform(0, SECONDS_AFTER_A_CONFLICT))
        raise StoreAway(f"{self._place} has {MOST_CONFLICTS} times met other writers of {path}; try again")

    def _status_of_put(self, path: str, content: bytes, condition: dict[str, str]) -> int:
        try:
            self._client.put_object(
                Bucket=self._bucket, Key=self._prefix + path, Body=content, ContentType="application/json", **condition
            )
        except self._client.exceptions.ClientError as error:
            status = _status(error)
            missing = status == 404 and "IfMatch" in condition and _code(error) == "NoSuchKey"
            if status in (_CONDITION_FAILED, _CONFLICT) or missing:
                return _CONDITION_FAILED if missing else status
            raise
        return 200

    def _remove(self, path: str, seen: str) -> bool:
        with self._told():
            try:
                self._client.delete_object(Bucket=self._bucket, Key=self._prefix + path, IfMatch=seen)
            except self._client.exceptions.ClientError as error:
                if _status(error) in (404, _CONFLICT, _CONDITION_FAILED, _NOT_IMPLEMENTED):
                    return False
                raise
        return True

    def _files(self, folder: str) -> list[str]:
        below = f"{folder}/"
        return [name for key in self._keys(below, delimiter="/") if (name := key.removeprefix(below))]

    def _keys(self, below: str, delimiter: str = "") -> list[str]:
        """All keys that begin like this, without our prefix; with a delimiter, only those without another one."""
        with self._told():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + below, Delimiter=delimiter
            )
            return [entry["Key"].removeprefix(self._prefix) for page in pages for entry in page.get("Contents", [])]

    def _prove_conditions(self) -> None:
        """Refuse a server that would let one writer overwrite another."""
        path = f".proof/{uuid4().hex}"
        try:
            self._demand(self._put(path, b"first", IfNoneMatch="*"), "refuses to create an object that does not exist")
            first = self._read(path)
            self._demand(first is not None, "loses what was just written")
            assert first is not None
            self._demand(not self._put(path, b"intruder", IfNoneMatch="*"), "ignores If-None-Match")
            self._demand(self._put(path, b"second", IfMatch=first[1]), "refuses If-Match with the right ETag")
            self._demand(not self._put(path, b"intruder", IfMatch=first[1]), "ignores If-Match")
            second = self._read(path)
            self._demand(second is not None and second[0] == b"second", "does not read what was written last")
            self.removes = not self._remove(path, first[1]) and self._read(path) is not None
        finally:
            with self._told():
                self._client.delete_object(Bucket=self._bucket, Key=self._prefix + path)

    def _demand(self, kept: bool, fault: str) -> None:
        if not kept:
            raise StoreRefused(
                f"{self._place}: the server {fault}, so two writers could overwrite each other; "
                "keep prompts on a server with conditional writes (Amazon S3 has them), in PostgreSQL, in Redis or in a folder"
            )

    @property
    def _place(self) -> str:
        return f"s3://{self._bucket}/{self._prefix.rstrip('/')}"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the client, as errors of this store."""
        errors = importlib.import_module("botocore.exceptions")
        try:
            yield
        except errors.ClientError as error:
            status, code = _status(error), _code(error)
            if status in _TRANSIENT:
                raise StoreAway(f"{self._place} does not answer: {code or status}") from None
            if status == _NOT_IMPLEMENTED:
                self._demand(False, "does not implement conditional writes")
            fix = (
                "create the bucket, or set AWS_ENDPOINT_URL when it is not at Amazon" if status == 404 else "look at its policy"
            )
            raise StoreRefused(f"{self._place}: {code or status}; {fix}") from None
        except (errors.NoCredentialsError, errors.PartialCredentialsError):
            raise StoreRefused(
                f"{self._place}: there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from None
        except (errors.HTTPClientError, errors.ConnectionError, errors.IncompleteReadError) as error:
            raise StoreAway(f"{self._place} does not answer: {error}") from None
        except (errors.BotoCoreError, ValueError) as error:
            raise StoreRefused(f"{self._place}: {error}") from None


def _client() -> Any:
    try:
        boto3 = importlib.import_module("boto3")
    except ModuleNotFoundError:
        raise StoreRefused("prompts in S3 need boto3; install ratchet-optimizer[s3]") from None
    config = importlib.import_module("botocore.config").Config(
        connect_timeout=SECONDS_TO_CONNECT,
        read_timeout=SECONDS_WITHOUT_A_BYTE,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=MOST_REQUESTS_AT_ONCE,
    )
    session = boto3.session.Session()
    return session.client("s3", config=config, region_name=session.region_name or REGION)


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
