"""Metrics as Prometheus reads them: the text that a process shows, by name and labels."""

from __future__ import annotations

import random
import re
import socket
import urllib.request
from dataclasses import dataclass

SERIES = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
PARTS_OF_HISTOGRAMS = re.compile(r"_(bucket|sum|count)$")


@dataclass(frozen=True)
class Series:
    """One series."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Scrape:
    """What one process shows."""

    series: tuple[Series, ...]

    def sum(self, name: str, **labels: str) -> float:
        """The sum of all series of a name that have these labels."""
        return sum(one.value for one in self.series if one.name == name and labels.items() <= one.labels.items())

    @property
    def names(self) -> set[str]:
        return {one.name for one in self.series}

    def values(self, name: str, label: str) -> set[str]:
        return {one.labels[label] for one in self.series if one.name == name and label in one.labels}


def scraped(url: str) -> Scrape:
    """Read what a process shows now."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return read_scrape(answer.read().decode())


def read_scrape(text: str) -> Scrape:
    found = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            parts = SERIES.match(line)
            assert parts is not None, line
            found.append(Series(parts[1], dict(LABEL.findall(parts[2] or "")), float(parts[3])))
    return Scrape(tuple(found))


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody has."""
    for first in random.sample(range(10_000, 19_000, count), 100):  # below those that servers of tests choose
        sockets = [socket.socket() for _ in range(count)]
        try:
            for port, one in enumerate(sockets, start=first):
                one.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise AssertionError("there are no free ports")
