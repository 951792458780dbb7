"""The matrix: what filters let through is what the answers say, page by page, whether trials kept their states or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ratchet._encryption import EncryptionKeys
from store.connection import Database
from store.read.reader import StoreReader
from store.read.samples.matrix import MatrixFilter, NoSample
from store.read.samples.matrix_columns import UnknownColumn
from store.read.samples.matrix_rows import Matrix
from store.read.samples.measured_samples import MeasuredSamples
from store.write.repositories import Store
from tests.support.store_examples import ExampleRun
from workflows.model.trial import Conclusion, TrialInput
from workflows.rules.scoring.tally import Tally

MADE: dict[str, str] = {"baseline": "pppnnnf", "one": "pnpnpnp", "two": "npppnnf"}
"""Sample by sample: passed, not, or failed."""
ITEMS = [
    {"id": f"s{n}", "input": {"text": f'Number "{n}" 100%', "kind": "odd" if n % 2 else "even"}, "expected": n, "tags": tags}
    for n, tags in enumerate([["a"], ["a", "b"], [], ["b"], [], ["a"], []])
]


async def measured(run: ExampleRun) -> list[TrialInput]:
    """Three candidates that differ; nothing is kept of their samples' states."""
    drawn = await run.values("SELECT id FROM suite_items ORDER BY position")
    trials = []
    for place, (name, made) in enumerate(MADE.items()):
        trial = run.trial(run.candidate(name, index=place))
        await run.store.trials.begin(trial)
        at = {n: drawn.index(f"s{n}") for n in range(len(made))}
        given = [run.outcome(at[n], 0, float(what == "p"), output=f"{name} {n}") for n, what in enumerate(made) if what != "f"]
        lost: dict[str, Any] = {
            "status": "failed",
            "scores": {},
            "per_score": {},
            "output": None,
            "error": "it broke",
            "error_class": "raised",
        }
        given += [run.outcome(at[n], 0, 0.0, **lost) for n, what in enumerate(made) if what == "f"]
        await run.store.outcomes.commit(run.shard(trial), run.suite, given)
        await run.record(trial, made.count("p") / len(made))
        trials.append(trial)
    return trials


async def keep_states(run: ExampleRun, trials: list[TrialInput]) -> None:
    for trial in trials:
        tally = Tally(run.suite)
        await MeasuredSamples(run.database).tally(tally, trial.candidate.config_hash, 0, 1)
        result = run.result(trial, 0.25, paid_samples=11)  # another end than before, so that it is recorded
        await run.store.trials.record(result, Conclusion(trial=trial), tally.means, None, tally.states)


async def opened(example: ExampleRun) -> ExampleRun:
    return await example.open(dataset={"items": ITEMS}, replicates=1)


async def kept(reader: StoreReader, run: ExampleRun, **wanted: Any) -> list[str]:
    found = await reader.matrix.page(run.run_id, list(MADE), wanted=MatrixFilter(**wanted))
    assert found is not None
    assert found.total == len(found.items)
    return [row.item_id for row in found.items]


async def all_filters(reader: StoreReader, run: ExampleRun) -> dict[str, list[str]]:
    asked: dict[str, dict[str, Any]] = {
        "all": {},
        "fixed": {"kept": "fixed"},
        "fixed by two": {"kept": "fixed", "of": "two"},
        "broken": {"kept": "broken"},
        "broken by one": {"kept": "broken", "of": "one"},
        "failed": {"kept": "failed"},
        "failed by one": {"kept": "failed", "of": "one"},
        "disagree": {"kept": "disagree"},
        "tag": {"slice": "b"},
        "field": {"field": "input.kind", "slice": "input.kind=odd", "kept": "disagree"},
        "no such slice": {"slice": "z"},
        "quoted": {"search": '"3" 100%'},
        "to the letter": {"search": "1__%"},
        "id": {"search": "S4"},
        "answer": {"search": "ONE 2"},
        "what went wrong": {"search": "broke"},
    }
    return {name: sorted(await kept(reader, run, **wanted)) for name, wanted in asked.items()}


EXPECTED = {
    "all": ["s0", "s1", "s2", "s3", "s4", "s5", "s6"],
    "fixed": ["s3", "s4", "s6"],
    "fixed by two": ["s3"],
    "broken": ["s0", "s1"],
    "broken by one": ["s1"],
    "failed": ["s6"],
    "failed by one": [],
    "disagree": ["s0", "s1", "s3", "s4", "s6"],
    "tag": ["s1", "s3"],
    "field": ["s1", "s3"],
    "no such slice": [],
    "quoted": ["s3"],
    "to the letter": [],
    "id": ["s4"],
    "answer": ["s2"],
    "what went wrong": ["s6"],
}


async def test_filters_let_through_what_the_answers_say_with_states_and_without(
    example: ExampleRun, reader: StoreReader
) -> None:
    run = await opened(example)
    trials = await measured(run)
    assert await all_filters(reader, run) == EXPECTED
    await keep_states(run, trials)
    states = await run.values("SELECT sample_states FROM trials ORDER BY candidate_id")
    assert [sorted(of_trial) for of_trial in states] == [[0, 0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 2]]
    assert await all_filters(reader, run) == EXPECTED
    await run.execute("DELETE FROM scores")  # which filters do not need any more
    assert await all_filters(reader, run) == EXPECTED


async def test_pages_follow_each_other_and_show_what_was_answered(example: ExampleRun, reader: StoreReader) -> None:
    run = await opened(example)
    await keep_states(run, await measured(run))
    pages: list[Matrix] = []
    after = -1
    while True:
        page = await reader.matrix.page(run.run_id, after=after, limit=3)
        assert page is not None
        pages.append(page)
        if page.next_after is None:
            break
        after = page.next_after
    rows = [row for page in pages for row in page.items]
    assert [row.position for row in rows] == list(range(7))
    assert [page.total for page in pages] == [7, 7, 7]
    assert [column.candidate_id for column in pages[0].columns] == ["baseline", "one", "two"]
    assert pages[0].columns[0].is_baseline
    named = {row.item_id: row for row in rows}
    cell = named["s6"].cells[0]
    assert (cell.passes, cell.failed, cell.excerpt, cell.score) == (False, True, "it broke", 0.0)
    assert [one.excerpt for one in named["s1"].cells] == ["baseline 1", "one 1", "two 1"]
    assert named["s1"].input == 'kind: odd\ntext: Number "1" 100%'
    jumped = await reader.matrix.page(run.run_id, after=1, skip=2, limit=2)
    assert jumped is not None
    assert [row.position for row in jumped.items] == [4, 5]
    beyond = await reader.matrix.page(run.run_id, after=99)
    assert beyond is not None
    assert (beyond.total, beyond.items, beyond.next_after) == (7, (), None)


async def test_a_search_looks_into_the_answers_of_as_many_columns_as_it_can(
    example: ExampleRun, reader: StoreReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await opened(example)
    await measured(run)
    for most, columns, samples in ((21, 3, ["s3"]), (14, 2, []), (1, 1, [])):
        monkeypatch.setattr("store.read.samples.matrix.MOST_SEARCHED_ANSWERS", most)
        page = await reader.matrix.page(run.run_id, list(MADE), wanted=MatrixFilter(search="two 3"))
        assert page is not None
        assert (page.columns_searched, [row.item_id for row in page.items]) == (columns, samples)
    everything = await reader.matrix.page(run.run_id, list(MADE))
    assert everything is not None and everything.columns_searched == 0


async def test_one_sample_is_told_in_full_and_what_is_not_there_is_named(example: ExampleRun, reader: StoreReader) -> None:
    run = await opened(example)
    await keep_states(run, await measured(run))
    long = "x" * 40_000
    await run.execute(f"UPDATE answers SET output = to_json('{long}'::text) WHERE output::text = '\"one 2\"'")
    page = await reader.matrix.page(run.run_id, ["two", "one"], wanted=MatrixFilter(search="s2"))
    assert page is not None
    assert len(page.items[0].cells[1].excerpt or "") <= 300
    told = await reader.matrix.answers(run.run_id, page.items[0].position, ["two", "one"])
    assert told is not None
    assert [one.candidate_id for one in told.candidates] == ["two", "one"]
    assert (told.candidates[0].answers[0].output, told.candidates[1].answers[0].output) == ("two 2", long)
    assert await reader.matrix.answers(run.run_id, "s2", ["two", "one"]) == told
    with pytest.raises(NoSample):
        await reader.matrix.answers(run.run_id, "2", ["one"])
    with pytest.raises(UnknownColumn):
        await reader.matrix.page(run.run_id, ["nobody"])
    with pytest.raises(NoSample):
        await reader.matrix.answers(run.run_id, 99, ["one"])
    assert await reader.matrix.page("nowhere") is None
    unmeasured = await ExampleRun(run.store, run.database, run_id="fresh").open()
    nothing = await reader.matrix.page(unmeasured.run_id, wanted=MatrixFilter("disagree"))
    assert nothing is not None
    assert (nothing.columns, nothing.total, nothing.samples) == ((), 0, 5)


@pytest.fixture
async def encrypted(database_url: str) -> AsyncIterator[Database]:
    database = await Database.open(database_url, keys=EncryptionKeys({"old": bytes(32)}), most_connections=2)
    yield database
    await database.close()


async def test_encrypted_contents_are_shown_and_searched_by_id_alone(encrypted: Database) -> None:
    run = await opened(ExampleRun(Store(encrypted), encrypted))
    await measured(run)
    reader = StoreReader(encrypted)
    page = await reader.matrix.page(run.run_id, wanted=MatrixFilter(slice="a", search="s"))
    assert page is not None
    assert (page.searched, page.columns_searched, page.total) == ("ids", 0, 3)
    assert "Number" in (page.items[0].input or "")
    assert page.items[0].cells[0].excerpt == f"baseline {page.items[0].item_id[1:]}"
    unseen = await reader.matrix.page(run.run_id, wanted=MatrixFilter(search="Number"))
    assert unseen is not None
    assert unseen.total == 0


@pytest.mark.parametrize("keeps", [True, False])
async def test_candidates_of_another_run_stand_beside_those_of_this_one(
    example: ExampleRun, reader: StoreReader, store: Store, database: Database, keeps: bool
) -> None:
    run = await opened(example)
    await keep_states(run, await measured(run))
    other = await ExampleRun(store, database, run_id="triage-2").open(
        dataset={"items": [*reversed(ITEMS[1:]), {"id": "new", "input": 1}]}, replicates=1
    )
    drawn = await database_values(database, "SELECT id FROM suite_items WHERE run_id = 'triage-2' ORDER BY position")
    trial = other.trial(other.candidate("two"))
    await other.store.trials.begin(trial)
    passing = {"s1", "new"}
    given = [other.outcome(place, 0, float(name in passing), output=f"theirs {name}") for place, name in enumerate(drawn)]
    await other.store.outcomes.commit(other.shard(trial), other.suite, given)
    await other.record(trial, 0.5)
    if keeps:
        await keep_states(other, [trial])

    page = await reader.matrix.page(run.run_id, ["baseline"], others=[("triage-2", "two")])
    assert page is not None and [one.optimization_id for one in page.columns] == [run.run_id, "triage-2"]
    found = {row.item_id: row.cells[1] for row in page.items}
    assert {name: cell.passes for name, cell in found.items()} == {
        "s0": None,
        "s1": True,
        "s2": False,
        "s3": False,
        "s4": False,
        "s5": False,
        "s6": False,
    }
    assert (found["s1"].excerpt, found["s0"].excerpt) == ("theirs s1", None)
    for wanted, names in (
        (MatrixFilter("broken"), ["s2"]),
        (MatrixFilter("broken", of="triage-2/two"), ["s2"]),
        (MatrixFilter("fixed", of="triage-2/two"), []),
        (MatrixFilter("disagree"), ["s2"]),
    ):
        filtered = await reader.matrix.page(run.run_id, ["baseline"], others=[("triage-2", "two")], wanted=wanted)
        assert filtered is not None and [row.item_id for row in filtered.items] == names, wanted
    place = next(row.position for row in page.items if row.item_id == "s1")
    opened_answer = await reader.matrix.answers(run.run_id, place, [], others=[("triage-2", "two")])
    assert opened_answer is not None
    [theirs] = opened_answer.candidates
    assert (theirs.optimization_id, theirs.answers[0].output) == ("triage-2", "theirs s1")
    assert theirs.score == found["s1"].score == (1.0 if keeps else 0.5)
    with pytest.raises(UnknownColumn):
        await reader.matrix.page(run.run_id, others=[("triage-2", "nobody")])


async def database_values(database: Database, statement: str) -> list[Any]:
    async with database.connection() as connection:
        return [row[0] for row in await connection.fetch(statement)]
