"""Thirty thousand samples: brought into the store in bounded memory, whatever the format. They are 27 MB of text."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from store.connection import Database
from store.read.reader import StoreReader

SAMPLES = 30_000
MOST_MEGABYTES = 25
ROOT = Path(__file__).parents[3]

INGEST = textwrap.dedent(
    """
    import asyncio, json, resource, sys
    from pathlib import Path
    from activities.datasets import ingest
    from store.connection import Database

    def megabytes():
        if sys.platform == "darwin":
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024
        # Linux counts into ru_maxrss what the process had that started this one.
        return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024

    async def main():
        database = await Database.open(sys.argv[1])
        before = megabytes()
        stored = await ingest(database, Path(sys.argv[2]))
        print(json.dumps({"id": stored.dataset_id, "count": stored.count, "megabytes": megabytes() - before}))
        await database.close()

    asyncio.run(main())
    """
)
WRITE = textwrap.dedent(
    """
    import csv, json, sys
    path, count = sys.argv[1], int(sys.argv[2])
    rows = ((f"t{n}", f"ticket {n} " * 80, f"class {n % 7}") for n in range(count))
    form = path.rpartition(".")[2]
    if form == "parquet":  # one row group as large as the file
        import pyarrow, pyarrow.parquet
        names = ("id", "ticket", "expected")
        pyarrow.parquet.write_table(pyarrow.table(dict(zip(names, zip(*rows)))), path, row_group_size=count)
        sys.exit()
    with open(path, "w", newline="") as file:
        if form == "csv":
            writer = csv.writer(file)
            writer.writerows([("id", "ticket", "expected"), *rows])
            sys.exit()
        items = (json.dumps({"id": a, "input": {"ticket": b}, "expected": c}) for a, b, c in rows)
        if form == "json":
            file.write("[")
            for n, item in enumerate(items):
                file.write(("," if n else "") + item)
            file.write("]")
        else:
            file.writelines(item + "\\n" for item in items)
    """
)


def python(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "parquet"])
async def test_it_takes_bounded_memory(
    database: Database, database_url: str, reader: StoreReader, tmp_path: Path, form: str
) -> None:
    file = tmp_path / f"tickets.{form}"
    python(WRITE, str(file), str(SAMPLES))
    told = json.loads(python(INGEST, database_url, str(file)))
    assert told["count"] == SAMPLES
    print(told)
    assert told["megabytes"] < MOST_MEGABYTES
    [last] = await reader.datasets.samples(told["id"], offset=SAMPLES - 1)
    assert (last.item_id, last.expected) == (f"t{SAMPLES - 1}", f"class {(SAMPLES - 1) % 7}")
