"""Matching with a time limit. Python's regular expressions hold the interpreter's lock, so that a thread would not help: a
pattern that backtracks without end stops the whole worker. It runs in a process of its own instead, which can be killed."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from ratchet._processes.child_process import PipedProcess, begin_piped
from workflows.rules.scoring.objective_score import ScoringFailed

LONGEST_MATCH = 5.0
"""Seconds for one match; starting the process is part of the first."""

LARGEST_LINE = 64 * 1024 * 1024
_PROGRAM = Path(__file__).with_name("pattern_process.py")


class BoundedMatching:
    """One matching process per worker, started when first needed and again after it had to be killed."""

    def __init__(self, timeout: float = LONGEST_MATCH) -> None:
        self._timeout = timeout
        self._process: PipedProcess | None = None
        self._turn = asyncio.Lock()

    async def search(self, pattern: str, text: str, *, full_match: bool) -> bool:
        return bool(await self._ask(f"pattern {pattern!r}", "search", pattern, text, full_match))

    async def extract(self, pattern: str, text: str) -> str | None:
        found = await self._ask(f"pattern {pattern!r}", "extract", pattern, text)
        return None if found is None else str(found)

    async def compare(self, measure: str, *texts: Any) -> float:
        """How much texts have in common, by `levenshtein`, `rouge` or `bleu`."""
        return float(await self._ask(f"scorer {measure!r}", measure, *texts))

    async def schema_problem(self, schema: Any, value: Any) -> str | None:
        problem = await self._ask("the JSON Schema", "schema_problem", schema, value)
        return None if problem is None else str(problem)

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _ask(self, what: str, *request: Any) -> Any:
        line = json.dumps(request).encode() + b"\n"
        async with self._turn:
            answered = False
            try:
                async with asyncio.timeout(self._timeout):
                    process = await self._running()
                    process.stdin.write(line)
                    await process.stdin.drain()
                    reply = await process.stdout.readline()
                answered = reply.endswith(b"\n")
            except TimeoutError:
                raise ScoringFailed(f"{what} took longer than {self._timeout:g} s on one output; simplify it") from None
            except (ConnectionError, ValueError) as error:
                raise ScoringFailed(f"{what} could not be applied: {error}") from None
            finally:
                # Also when cancelled: an answer that nobody read would be taken for the next one's.
                if not answered:
                    await asyncio.shield(self.close())
        if not answered:
            raise ScoringFailed(f"{what} could not be applied: the matching process died")
        answer = json.loads(reply)
        if "error" in answer:
            raise ScoringFailed(f"{what} cannot be used: {answer['error']}")
        return answer["result"]

    async def _running(self) -> PipedProcess:
        if self._process is None or self._process.returncode is not None:
            # In a session of its own, as Ctrl-C is for the worker; this one ends with its input.
            self._process = await begin_piped(sys.executable, "-I", str(_PROGRAM), longest_line=LARGEST_LINE)
        return self._process
