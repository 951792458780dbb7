"""What every benchmark shares: figures and their targets, the table and the JSON lines, the stack to measure on."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from temporalio.client import Client

from activities.settings import DatasetSettings, Settings
from clients.embedded.stack import StackAddresses, embedded_stack
from clients.logs import configure_logs
from clients.temporal import connect
from worker import serving

PLUGINS = Path(__file__).parent / "plugins"


@dataclass(frozen=True)
class Figure:
    """One measured number and what it must reach; without a target it is shown for comparison."""

    name: str
    value: float
    at_most: float | None = None
    unit: str = ""
    at_least: float | None = None
    low: float | None = None
    high: float | None = None
    """Where the true value lies, but for one case in a thousand; then it is the lower bound that must not exceed `at_most`."""

    @property
    def holds(self) -> bool:
        lowest = self.value if self.low is None else self.low
        return (self.at_most is None or lowest <= self.at_most) and (self.at_least is None or self.value >= self.at_least)

    @property
    def target(self) -> str:
        limits = [(">=", self.at_least), ("<=", self.at_most)]
        told = ", ".join(f"{relation} {limit:.4g}" for relation, limit in limits if limit is not None)
        return f"{told} by its lower bound" if self.low is not None and told else told

    @property
    def bounds(self) -> str:
        return "" if self.low is None or self.high is None else f"[{self.low:.3f}, {self.high:.3f}]"

    def as_json(self) -> str:
        return json.dumps(
            {
                "figure": self.name,
                "value": round(self.value, 4),
                "unit": self.unit,
                **(
                    {"bounds": [round(self.low, 4), round(self.high, 4)]}
                    if self.low is not None and self.high is not None
                    else {}
                ),
                "target": self.target,
                "holds": self.holds,
            }
        )


@dataclass(frozen=True)
class Bench:
    """The embedded stack with a worker in this process."""

    stack: StackAddresses
    client: Client
    data: Path

    def write_dataset(self, name: str, samples: int) -> None:
        """A JSONL file where the worker may read it."""
        lines = [json.dumps({"id": f"s{number:05}", "input": number}) for number in range(samples)]
        (self.data / name).write_text("\n".join(lines))

    async def run(self, run_id: str, spec: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = await self.client.execute_workflow(
            "OptimizationWorkflow", spec, id=run_id, task_queue="optimization"
        )
        return result


@asynccontextmanager
async def bench_stack() -> AsyncIterator[Bench]:
    """A stack of its own, with default persistence, in a folder that is thrown away."""
    async with AsyncExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-bench-")))
        stack = await exits.enter_async_context(embedded_stack(folder / "home", ui=False))
        client = await connect(stack.temporal_address)
        data = folder / "data"
        data.mkdir()
        settings = Settings(
            stack.database_url,
            plugins="bench_plugins,rule_plugins",
            plugin_path=PLUGINS,
            grace=timedelta(seconds=1),
            datasets=DatasetSettings(data_dir=data),
        )
        await exits.enter_async_context(serving(client, settings))
        yield Bench(stack, client, data)


def main(title: str, measure: Callable[..., Awaitable[list[Figure]]], *, parts: Sequence[str] = ()) -> None:
    """Run one benchmark as a script. `measure` takes whether to be quick and, where there are parts, which one to measure."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--quick", action="store_true", help="under 60 seconds")
    if parts:
        parser.add_argument("--only", choices=parts, help="measure this part alone")
    options = parser.parse_args()
    configure_logs(form="text", level="ERROR")
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        figures = runner.run(_awaited(measure(**vars(options))))
    gc.collect()
    show(title, figures)
    sys.exit(0 if all(figure.holds for figure in figures) else 1)


async def _awaited(work: Awaitable[list[Figure]]) -> list[Figure]:
    return await work


def show(title: str, figures: list[Figure]) -> None:
    """The table for people, then the lines for machines."""
    table = Table(title=title, title_justify="left")
    for heading in ("figure", "measured", "target", ""):
        table.add_column(heading)
    for figure in figures:
        measured = " ".join(filter(None, (f"{figure.value:.3f}", figure.bounds, figure.unit)))
        verdict = "" if not figure.target else "holds" if figure.holds else "MISSED"
        table.add_row(figure.name, measured, figure.target.replace("<=", "≤").replace(">=", "≥"), verdict)
    Console(width=110).print(table)
    for figure in figures:
        print(figure.as_json())
