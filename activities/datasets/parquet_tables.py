"""Parquet: typed columns, read in a process of its own, for a small file may unfold to gigabytes. Needs the extra `parquet`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from activities.datasets.dataset_errors import DatasetError
from activities.datasets.items import LONGEST
from activities.datasets.tables import Described
from workflows.model.spec.dataset import Columns

LONGEST_LINE = 8 * LONGEST
"""Bytes. JSON takes up to six for one."""

SETTINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Memory and threads of the process that reads. It gets nothing else of the environment: what it reads is somebody else's."""


def read_parquet(path: Path, name: str, columns: Columns | None) -> Iterator[Described]:
    """The items of a table, with the row of each."""
    if importlib.util.find_spec("pyarrow") is None:
        raise DatasetError(f"{name}: reading Parquet needs pyarrow; install ratchet-optimizer[parquet]")
    asked = json.dumps([str(path), name, None if columns is None else columns.model_dump(mode="json")])
    with subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.parquet_process", asked],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**SETTINGS, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
    ) as process:
        assert process.stdout is not None
        try:
            while line := process.stdout.readline(LONGEST_LINE):
                told = json.loads(line)
                if "ended" in told:
                    return
                if "wrong" in told:
                    message, unquoted = told["wrong"]
                    raise DatasetError(message, unquoted=unquoted)
                where, item, remark = told["item"]
                yield where, item, remark
        except json.JSONDecodeError:  # it died while it wrote
            pass
        finally:
            process.kill()
    raise DatasetError(f"{name}: reading it ended its process; it takes too much memory or time, or is damaged: write it anew")
