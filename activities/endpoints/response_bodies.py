"""Bodies of responses, bounded before anybody reads them: endless ones, and small ones that unpack into gigabytes.

The clients of chat models would read, and unpack, whatever they are sent.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import httpx2

from activities.targets.faults import BROKEN_ANSWER, CandidateFault

LARGEST_ANSWER_BYTES = 8 * 1024 * 1024
"""Unpacked. A larger answer is of no use, and reading it would hold up everything else in this process."""

LARGEST_ERROR_BYTES = 64 * 1024
"""Unpacked. Of an error's body the rest is not read."""

UNPACKED_AT_ONCE_BYTES = 256 * 1024
ENCODINGS = "gzip, deflate"
"""What is asked for, and understood."""

_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


async def bound_the_body(response: httpx2.Response) -> None:
    """Let the client read no more of a response than fits; a hook of the client's, called before it reads."""
    encoding = response.headers.pop("content-encoding", "").strip().lower()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, encoding, is_answer=response.status_code < 400)


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends, or fails, at its bound."""

    def __init__(self, packed: httpx2.AsyncByteStream, encoding: str, *, is_answer: bool) -> None:
        self._packed = packed
        self._encoding = encoding
        self._is_answer = is_answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for part in unpacked(self._packed, self._encoding):
                size += len(part)
                refuse_too_large(size if self._is_answer else 0)
                if not self._is_answer and size > LARGEST_ERROR_BYTES:
                    return
                yield part
        except CandidateFault:
            if self._is_answer:  # what an error says is read as far as it can be
                raise

    async def aclose(self) -> None:
        await self._packed.aclose()


def refuse_too_large(size: int) -> None:
    """Refuse an answer of more bytes than fit."""
    if size > LARGEST_ANSWER_BYTES:
        raise CandidateFault(f"output is unusable: the answer has more than {LARGEST_ANSWER_BYTES:,} bytes", billed="yes")


async def unpacked(packed: AsyncIterator[bytes] | httpx2.AsyncByteStream, encoding: str) -> AsyncIterator[bytes]:
    """The body as it was before it was packed, in parts of bounded size."""
    if encoding in ("", "identity"):
        async for part in packed:
            yield part
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise _broken(f"it is packed as {encoding[:40]!r}, which was not asked for")
    unpacking = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        async for part in packed:
            while part and not unpacking.eof:
                yield unpacking.decompress(part, UNPACKED_AT_ONCE_BYTES)
                part = unpacking.unconsumed_tail
    except zlib.error as error:
        raise _broken(f"it cannot be unpacked ({error})") from None
    if not unpacking.eof:
        raise _broken("it ends in the middle of what is packed")


def _broken(why: str) -> CandidateFault:
    return CandidateFault(f"the answer cannot be read: {why}", kind=BROKEN_ANSWER, billed="yes")


async def lines(body: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The lines of a text in UTF-8 as they come. Only `\\n` ends one: JSON may hold every other character that ends lines."""
    begun: list[bytes] = []
    async for part in body:
        *ended, rest = part.split(b"\n")
        for line in ended:
            yield b"".join([*begun, line]).decode("utf-8", "replace")
            begun.clear()
        begun.append(rest)
    yield b"".join(begun).decode("utf-8", "replace")
