"""Checks of whole specs, outside of the event loop: one at a time, so that many hostile specs hold up nobody but each other.

Everything in a check is bounded, so it ends by itself; the deadline is for what nobody thought of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.check import check_request

LONGEST_CHECK: Final = 60.0
"""Seconds, waiting for others included."""

MOST_WAITING: Final = 100
"""Checks that wait for their turn; one more is to come again."""

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


class Busy(Exception):
    """Too many specs are checked already. Coming again helps."""

    def __init__(self) -> None:
        super().__init__("too many specs are being checked just now; send it again in a moment")


class TakesTooLong(Exception):
    """A check that does not end in time."""

    def __init__(self) -> None:
        super().__init__(f"the spec took longer than {LONGEST_CHECK:g} s to check; make it smaller")


class _Checks:
    """One thread of this process: more of them would only share the interpreter's lock."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ratchet-spec-check")
        self._open = 0

    async def run(self, check: Callable[[], _Found]) -> _Found:
        if self._open > MOST_WAITING:
            raise Busy
        self._open += 1
        running = self._thread.submit(check)
        running.add_done_callback(self._closed)
        try:
            async with asyncio.timeout(LONGEST_CHECK):
                return await asyncio.wrap_future(running)
        except TimeoutError:
            raise (Busy if running.cancelled() else TakesTooLong)() from None

    def _closed(self, _done: object) -> None:
        self._open -= 1


_checks = _Checks()


async def checked_apart(check: Callable[_Given, _Found], *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
    """Run a piece of a check in the thread for checks. Raises Busy and TakesTooLong, and what the check raises."""
    return await _checks.run(lambda: check(*args, **kwargs))


async def problems_of(request: OptimizationRequest) -> list[str]:
    """Everything that is wrong with a spec. Raises Busy."""
    try:
        return await checked_apart(check_request, request)
    except TakesTooLong as error:
        return [str(error)]
