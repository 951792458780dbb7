"""What is in datasets, as people look through it: samples page by page, what versions differ in, and what says the same."""

# ruff: noqa: S608 (only constants of this module are put into statements; every value is a parameter)

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal

from ratchet._frozen import Payload
from store.connection import Connection, Database
from store.encoding import decoded
from store.encrypted_contents import contents_of
from store.read.samples.excerpts import MOST_STORED_BYTES, excerpt_column, excerpt_of
from store.read.samples.sample_changes import SampleChange, changes_between
from store.read.samples.search_patterns import patterns_of

SAMPLES_AT_ONCE: Final = 500
"""Of all that a dataset has."""
MOST_SHOWN: Final = 100
"""Samples of each kind that a difference names, and groups of copies; the counts are of all."""
_SHORTEST_COPY: Final = 2
Searched = Literal["contents", "ids"]


class ListedDataset(Payload):
    """A dataset in the list."""

    dataset_id: str
    name: str
    """As it was first brought."""
    versions: tuple[str, ...]
    """`tickets@2`: the names that stand for it."""
    count: int
    runs: int
    created_at: datetime


class DatasetPage(Payload):
    """Some of the datasets."""

    total: int
    items: tuple[ListedDataset, ...]


class NamedVersion(Payload):
    """A version of a name that a dataset has, too."""

    name: str
    version: int
    dataset_id: str
    count: int
    created_at: datetime


class UsingRun(Payload):
    """A run over a dataset."""

    optimization_id: str
    name: str
    status: str
    started_at: datetime
    splits: dict[str, int]
    """How many samples it drew for each."""


class DatasetUse(Payload):
    """The versions beside a dataset, and the runs over it."""

    versions: tuple[NamedVersion, ...]
    """Of all names that stand for it; the newest first."""
    runs: tuple[UsingRun, ...]
    """The newest first, at most a hundred."""


class DatasetSample(Payload):
    """One sample."""

    position: int
    item_id: str
    input: Any
    expected: Any
    weight: float
    tags: tuple[str, ...]
    splits: tuple[str, ...]
    """Those that it names itself; else runs draw them."""


class SamplePage(Payload):
    """Some samples of a dataset."""

    total: int
    """How many the filters let through."""
    searched: Searched
    """Where the search looked: contents that are encrypted cannot be searched."""
    items: tuple[DatasetSample, ...]
    next_after: int | None
    """The position to go on after; null when this was the last page."""


class NamedSample(Payload):
    """A sample by its id, and how its input begins."""

    item_id: str
    position: int
    input: str | None


class ChangedSample(NamedSample):
    """A sample that says something else under the same id."""

    changes: tuple[SampleChange, ...] | None
    """Part by part; null where it is too long to be looked into."""


class DatasetDifference(Payload):
    """What a dataset has that another has not, and the other way round.

    Samples are the same where id, contents, weight and tags are.
    """

    before: str
    after: str
    same: int
    added: int
    removed: int
    changed: int
    """Samples of the same id that say something else."""
    added_samples: tuple[NamedSample, ...]
    removed_samples: tuple[NamedSample, ...]
    changed_samples: tuple[ChangedSample, ...]


class SampleCopies(Payload):
    """Samples that say the same: runs count them as one."""

    samples: tuple[NamedSample, ...]
    count: int


class DatasetCopies(Payload):
    """Groups of samples with the same input and expected answer."""

    groups: int
    extra: int
    """Samples that add nothing: all but one of each group."""
    items: tuple[SampleCopies, ...]
    """The largest groups first."""


class DatasetItemReader:
    """Datasets, looked through."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, *, team: str | None, search: str | None = None, offset: int = 0, limit: int = 50) -> DatasetPage:
        """Datasets of a team, or of all teams, the newest first; by a part of a name or the beginning of an id."""
        wanted = """
            WITH wanted AS MATERIALIZED (
                SELECT d.* FROM datasets d
                WHERE ($1::text IS NULL OR team_has_dataset($1, d.dataset_id))
                  AND ($2::text IS NULL OR d.name ILIKE $2 OR starts_with(d.dataset_id, $3) OR EXISTS (
                      SELECT FROM dataset_versions v WHERE v.dataset_id = d.dataset_id AND v.name ILIKE $2))
            )
        """
        pattern = None if search is None else patterns_of(search).in_text
        async with self._database.snapshot() as connection:
            total = await connection.fetchval(
                f"{wanted} SELECT count(*) FROM wanted WHERE $3::text IS NULL OR true", team, pattern, search
            )
            rows = await connection.fetch(
                f"""
                {wanted}
                SELECT w.dataset_id, w.name, w.count, w.created_at,
                       (SELECT count(*) FROM runs r WHERE r.dataset_id = w.dataset_id
                        AND ($1::text IS NULL OR team_of_run(r.run_id) = $1)) AS runs,
                       ARRAY(SELECT v.name || '@' || v.version FROM dataset_versions v WHERE v.dataset_id = w.dataset_id
                             ORDER BY v.name, v.version) AS versions
                FROM wanted w ORDER BY w.created_at DESC, w.dataset_id OFFSET $4 LIMIT $5
                """,
                *(team, pattern, search, offset, limit),
            )
        return DatasetPage(
            total=total, items=tuple(ListedDataset(**{**row, "versions": tuple(row["versions"])}) for row in rows)
        )

    async def exists(self, dataset_id: str) -> bool:
        """Whether a dataset is in the store."""
        async with self._database.connection() as connection:
            return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM datasets WHERE dataset_id = $1)", dataset_id))

    async def use(self, dataset_id: str, team: str | None) -> DatasetUse:
        """The versions of its names that a team has, and the team's runs over it."""
        async with self._database.snapshot() as connection:
            versions = await connection.fetch(
                """
                SELECT v.name, v.version, v.dataset_id, d.count, v.created_at
                FROM dataset_versions v JOIN datasets d USING (dataset_id)
                WHERE v.name IN (SELECT name FROM dataset_versions WHERE dataset_id = $1)
                  AND ($2::text IS NULL OR team_has_dataset($2, v.dataset_id))
                ORDER BY v.name, v.version DESC LIMIT 1000
                """,
                dataset_id,
                team,
            )
            runs = await connection.fetch(
                """
                SELECT r.run_id AS optimization_id, r.name, r.status, r.started_at,
                       (SELECT coalesce(json_object_agg(s.split, s.samples), '{}') FROM suites s
                        WHERE s.run_id = r.run_id) AS splits
                FROM runs r
                WHERE r.dataset_id = $1 AND ($2::text IS NULL OR team_of_run(r.run_id) = $2)
                ORDER BY r.started_at DESC, r.run_id LIMIT 100
                """,
                dataset_id,
                team,
            )
        return DatasetUse(
            versions=tuple(NamedVersion(**row) for row in versions),
            runs=tuple(UsingRun(**decoded(row, "splits")) for row in runs),
        )

    async def samples(
        self,
        dataset_id: str,
        *,
        search: str | None = None,
        tag: str | None = None,
        split: str | None = None,
        after: int = -1,
        limit: int = 50,
    ) -> SamplePage:
        """Samples behind a position, in their order."""
        async with self._database.snapshot() as connection:
            encrypts = contents_of(connection).encrypts
            in_text, in_json = (None, None) if search is None else patterns_of(search)
            filters = """
                FROM samples
                WHERE dataset_id = $1 AND ($2::text IS NULL OR $2 = ANY(tags)) AND ($3::text IS NULL OR $3 = ANY(splits))
                  AND ($4::text IS NULL OR item_id ILIKE $4
                       OR $5::text IS NOT NULL AND (input::text ILIKE $5 OR expected::text ILIKE $5))
            """
            given = (dataset_id, tag, split, in_text, None if encrypts else in_json)
            total = await connection.fetchval(f"SELECT count(*) {filters}", *given)
            rows = await connection.fetch(
                f"SELECT position, item_id, input, expected, weight, tags, splits {filters} AND position > $6"
                " ORDER BY position LIMIT $7",
                *(*given, after, limit),
            )
        items = tuple(_sample(row) for row in rows)
        return SamplePage(
            total=total,
            searched="ids" if encrypts else "contents",
            items=items,
            next_after=items[-1].position if len(items) == limit else None,
        )

    async def pages(self, dataset_id: str) -> AsyncIterator[list[DatasetSample]]:
        """All samples in their order, so many at once."""
        after = -1
        while True:
            async with self._database.snapshot() as connection:
                rows = await connection.fetch(
                    "SELECT position, item_id, input, expected, weight, tags, splits FROM samples"
                    " WHERE dataset_id = $1 AND position > $2 ORDER BY position LIMIT $3",
                    *(dataset_id, after, SAMPLES_AT_ONCE),
                )
            if not rows:
                return
            yield [_sample(row) for row in rows]
            after = rows[-1]["position"]

    async def difference(self, before: str, after: str) -> DatasetDifference:
        """What two datasets differ in, sample by sample."""
        given = """
            WITH one AS (SELECT item_id, item_hash, position FROM samples WHERE dataset_id = $1),
                 other AS (SELECT item_id, item_hash, position FROM samples WHERE dataset_id = $2),
                 gone AS (SELECT * FROM one WHERE item_hash NOT IN (SELECT item_hash FROM other)),
                 came AS (SELECT * FROM other WHERE item_hash NOT IN (SELECT item_hash FROM one)),
                 changed AS (SELECT * FROM came WHERE item_id IN (SELECT item_id FROM gone)),
                 added AS (SELECT * FROM came WHERE item_id NOT IN (SELECT item_id FROM gone)),
                 removed AS (SELECT * FROM gone WHERE item_id NOT IN (SELECT item_id FROM came))
        """
        async with self._database.snapshot() as connection:
            counts = await connection.fetchrow(
                f"{given} SELECT (SELECT count(*) FROM one) - (SELECT count(*) FROM gone) AS same,"
                " (SELECT count(*) FROM added) AS added, (SELECT count(*) FROM removed) AS removed,"
                " (SELECT count(*) FROM changed) AS changed",
                before,
                after,
            )
            named: dict[str, Any] = {}
            for kind, of in (("added", after), ("removed", before), ("changed", after)):
                found = await connection.fetch(
                    f"{given} SELECT position FROM {kind} ORDER BY position LIMIT $3", before, after, MOST_SHOWN
                )
                named[f"{kind}_samples"] = await _named(connection, of, [row["position"] for row in found])
            named["changed_samples"] = await _changed(connection, before, after, named["changed_samples"])
        return DatasetDifference(before=before, after=after, **dict(counts or {}), **named)

    async def copies(self, dataset_id: str) -> DatasetCopies:
        """Samples that say the same, whatever their ids, weights and tags."""
        async with self._database.snapshot() as connection:
            groups = await _same_contents(connection, dataset_id)
            shown = groups[:MOST_SHOWN]
            names = await _named(connection, dataset_id, sorted(position for group in shown for position in group[:MOST_SHOWN]))
        by_position = {sample.position: sample for sample in names}
        return DatasetCopies(
            groups=len(groups),
            extra=sum(len(group) - 1 for group in groups),
            items=tuple(
                SampleCopies(samples=tuple(by_position[position] for position in group[:MOST_SHOWN]), count=len(group))
                for group in shown
            ),
        )


async def _same_contents(connection: Connection, dataset_id: str) -> list[list[int]]:
    """The places of samples with the same content, the largest groups first."""
    if not contents_of(connection).encrypts:
        rows = await connection.fetch(
            "SELECT array_agg(position ORDER BY position) AS places FROM samples WHERE dataset_id = $1"
            " GROUP BY sha256(convert_to(input::text || E'\\n' || expected::text, 'UTF8')) HAVING count(*) >= $2"
            " ORDER BY count(*) DESC, min(position)",
            dataset_id,
            _SHORTEST_COPY,
        )
        return [row["places"] for row in rows]
    places: dict[bytes, list[int]] = defaultdict(list)
    for row in await connection.fetch(
        "SELECT position, input, expected FROM samples WHERE dataset_id = $1 ORDER BY position", dataset_id
    ):
        places[sha256(f"{row['input']}\n{row['expected']}".encode()).digest()].append(row["position"])
    found = [group for group in places.values() if len(group) >= _SHORTEST_COPY]
    return sorted(found, key=lambda group: (-len(group), group[0]))


async def _changed(
    connection: Connection, before: str, after: str, samples: Sequence[NamedSample]
) -> tuple[ChangedSample, ...]:
    """The same samples with what changed of each."""
    found: dict[str, dict[str, DatasetSample]] = {}
    for dataset_id in (before, after):
        rows = await connection.fetch(
            "SELECT position, item_id, input, expected, weight, tags, splits FROM samples"
            " WHERE dataset_id = $1 AND item_id = ANY($2)"
            f" AND pg_column_size(input) + coalesce(pg_column_size(expected), 0) <= {MOST_STORED_BYTES}",
            dataset_id,
            [sample.item_id for sample in samples],
        )
        found[dataset_id] = {row["item_id"]: _sample(row) for row in rows}
    changed = []
    for sample in samples:
        one, other = (found[dataset_id].get(sample.item_id) for dataset_id in (before, after))
        parts = ("input", "expected", "weight", "tags")
        changes = (
            None
            if one is None or other is None
            else changes_between({part: getattr(one, part) for part in parts}, {part: getattr(other, part) for part in parts})
        )
        changed.append(ChangedSample(**sample.model_dump(), changes=changes))
    return tuple(changed)


def _sample(row: Any) -> DatasetSample:
    return DatasetSample(**{**decoded(row, "input", "expected"), "tags": tuple(row["tags"]), "splits": tuple(row["splits"])})


async def _named(connection: Connection, dataset_id: str, positions: Sequence[int]) -> tuple[NamedSample, ...]:
    rows = await connection.fetch(
        f"SELECT item_id, position, {excerpt_column(connection, 'input')} AS input FROM samples"
        " WHERE dataset_id = $1 AND position = ANY($2) ORDER BY position",
        dataset_id,
        list(positions),
    )
    return tuple(
        NamedSample(item_id=row["item_id"], position=row["position"], input=excerpt_of(connection, row["input"]))
        for row in rows
    )
