"""What a prompt costs in production: from the cache, and from PostgreSQL when it is not there.

python -m benchmarks.render [--quick]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.figures import Figure, main
from clients.embedded.stack import embedded_stack
from ratchet.prompts import Overrides, PromptTemplate, Renderer, open_store
from store.connection import Database

SECTIONS = 10
GIVEN = {f"field-{number}": f"what a customer wrote, number {number}" for number in range(SECTIONS)}
FOR_EVER = 86_400.0
CALLS_AT_ONCE = 1_000


async def measure(quick: bool) -> list[Figure]:
    repeats, colds, firsts = (20, 100, 5) if quick else (200, 1000, 20)
    async with database_with_prompts(colds) as url:
        with Renderer(url, staleness=FOR_EVER, look_every=FOR_EVER) as prompts:
            cached = microseconds_of(lambda: prompts.resolve(name_of(0), tag="stable").render(GIVEN), repeats)
            awaited = await microseconds_awaited(lambda: prompts.aresolve(name_of(0), tag="stable"), repeats)
            cold = statistics.median([milliseconds_of(prompts, number) for number in range(1, colds)])
        first = statistics.median([milliseconds_of_the_first(url) for _ in range(firsts)])
    return [
        Figure(f"resolve and render from the cache, {SECTIONS} sections", cached, 20.0, "µs"),
        Figure(f"the same, awaited, {SECTIONS} sections", awaited, 20.0, "µs"),
        Figure(f"resolve and render from PostgreSQL, {SECTIONS} sections", cold, 5.0, "ms"),
        Figure("the first one of a process, connecting included", first, 100.0, "ms"),
    ]


def microseconds_of(call: Callable[[], object], repeats: int) -> float:
    """The median over many runs of many calls."""
    call()
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(CALLS_AT_ONCE):
            call()
        taken.append((time.perf_counter() - began) / CALLS_AT_ONCE)
    return statistics.median(taken) * 1e6


async def microseconds_awaited(call: Callable[[], Awaitable[object]], repeats: int) -> float:
    await call()
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(CALLS_AT_ONCE):
            prompt = await call()
            prompt.render(GIVEN)  # type: ignore[attr-defined]
        taken.append((time.perf_counter() - began) / CALLS_AT_ONCE)
    return statistics.median(taken) * 1e6


def milliseconds_of(prompts: Renderer, number: int) -> float:
    """A prompt that nobody asked for before, whose template was never read."""
    began = time.perf_counter()
    prompts.resolve(name_of(number), tag="stable").render(GIVEN)
    return (time.perf_counter() - began) * 1e3


def milliseconds_of_the_first(url: str) -> float:
    began = time.perf_counter()
    with Renderer(url) as prompts:
        prompts.resolve(name_of(0), tag="stable").render(GIVEN)
        return (time.perf_counter() - began) * 1e3


@asynccontextmanager
async def database_with_prompts(count: int) -> AsyncIterator[str]:
    """So many prompts in PostgreSQL, each with a template and an override of its own."""
    with tempfile.TemporaryDirectory(prefix="ratchet-bench-") as folder:
        async with embedded_stack(Path(folder) / "home", ui=False) as stack:
            await (await Database.open(stack.database_url)).close()
            async with await open_store(stack.database_url) as store:
                for number in range(count):
                    template = template_of(number)
                    overrides = Overrides(
                        sections={"part-3": template.override("part-3", "Shorter, {{factors.style}}: {{input.field-3}}")}
                    )
                    await store.seed(template)
                    await store.store(template, overrides, tag="stable", expected=1)
            yield stack.database_url


def name_of(number: int) -> str:
    return f"bench/prompt-{number}"


def template_of(number: int) -> PromptTemplate:
    text = f"Prompt {number} says, in {{{{factors.style}}}} words, what there is to do, and what is not to be done. " * 3
    sections = [{"path": f"part-{part}", "body": f"{text}{{{{input.field-{part}}}}}"} for part in range(SECTIONS)]
    style = {"type": "choice", "value": "plain", "choices": ["plain", "formal"]}
    return PromptTemplate.model_validate({"prompt": name_of(number), "sections": sections, "parameters": {"style": style}})


if __name__ == "__main__":
    main(f"A prompt of {SECTIONS} sections in production", measure)
