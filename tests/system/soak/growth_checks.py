"""Nothing grows and nothing is left: memory of the steady worker, connections, processes, files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tests.system.soak.recorded_history import History, Violation

WARM_UP = 0.5
"""The share of a soak in which every kind of run is met for the first time: what grows in it is not looked at."""

FEWEST_POINTS = 120
"""Ten minutes of soak: what is shorter says nothing of growth."""
MOST_GROWTH = 0.15
"""Of its mean, over the time looked at, for what counts as flat."""


def memory_and_connections_are_flat(history: History) -> Iterator[Violation]:
    """Fitted by a line over the time after the warm-up, they end hardly higher than they began."""
    points = [point for point in history.series if point["at"] >= WARM_UP * history.series[-1]["at"]]
    for name in ("steady_rss_mb", "connections"):
        found = [(point["at"], point[name]) for point in points if point.get(name) is not None]
        if len(found) < FEWEST_POINTS:
            continue
        growth, mean = growth_of(found)
        if growth > MOST_GROWTH * mean and growth > 5:
            yield Violation("not flat", name, f"grew by {growth:.1f} over {mean:.1f} on the mean")


def growth_of(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """How much the fitted line rises over all of the time, and the mean."""
    times, values = [at for at, _ in points], [value for _, value in points]
    middle, mean = math.fsum(times) / len(times), math.fsum(values) / len(values)
    spread = math.fsum((at - middle) ** 2 for at in times)
    slope = math.fsum((at - middle) * (value - mean) for at, value in points) / spread if spread else 0.0
    return slope * (times[-1] - times[0]), mean


def nothing_is_left(history: History) -> Iterator[Violation]:
    """No process, and no connection, outlives the workers; of files only what a killed process could not take away."""
    for name in ("processes", "connections"):
        if history.left_over.get(name):
            yield Violation("left over", name, f"{history.left_over[name]}")
    files, killed = history.left_over.get("files", []), history.left_over.get("killed_workers", 0)
    if len(files) > 3 * killed:
        yield Violation("left over", "files", f"{len(files)} after {killed} killed workers, such as {files[:3]}")
