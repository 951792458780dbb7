"""One of everything that the store keeps of what people and models say, all of it with the same word; and what it says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import asyncpg

from ratchet._encryption import EncryptionKeys
from ratchet._formats.canonical import content_hash
from ratchet.prompts import Change, OverrideStore
from ratchet.prompts.stores.postgres import PostgresBackend
from store.connection import Database
from store.encrypted_contents import contents_of
from store.read.marks import MarkedThing
from store.write.answers.judge_replies import JudgeReply
from store.write.answers.sent_batches import MeantBatch
from store.write.answers.turns import AnswerKey
from store.write.content_columns import CONTENT_TABLES
from store.write.kept_files import FileRow, put_file
from store.write.labels import Labels, NewQuestion
from store.write.marks import Marks
from store.write.proposals import ModelAnswer, ProposalOrigin
from store.write.releases import NewRelease, Settlement
from store.write.repositories import Store
from tests.support.prompt_examples import moved, template
from tests.support.store_examples import ExampleRun
from workflows.model.run.candidates import ReasonCode, Rejection
from workflows.model.run.contract import Proposed
from workflows.model.run.decisions import Decision
from workflows.model.run.first_look import FirstLook
from workflows.model.spec.release import ReleaseState
from workflows.model.trial import Conclusion

WORD = "xylophone"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def store_everything(database: Database, run_id: str) -> ExampleRun:
    """A run with all that can be said of it, a prompt that has moved, and a release that is decided."""
    store, configuration = Store(database), dict[str, Any](prompt=f"the {WORD} of {run_id}", temperature=0.5)
    run = await ExampleRun(store, database, run_id, configuration=configuration).open(
        dataset={"items": [{"input": {"q": f"{WORD} {n} of {run_id}"}, "expected": WORD} for n in range(5)]}
    )
    candidate = run.candidate("one", rationale=WORD, extra={"origin": "manual", "why": WORD})
    for trial in (run.trial(), run.trial(candidate)):
        await store.trials.begin(trial)
    per_score = {"exact": {"passed": True, "reason": WORD}}
    said: dict[str, Any] = dict.fromkeys(("output", "feedback", "printed", "scorers_printed"), WORD)
    told = run.outcome(**said, trace={WORD: 1}, per_score=per_score)
    lost: dict[str, Any] = {"scores": {}, "passed": False, "output": None, "error": WORD, "error_class": "raised"}
    failed = run.outcome(1, status="failed", **lost)
    unscored = run.outcome(2, status="unscored", fault="scorer", **(lost | {"output": WORD}))
    await store.outcomes.commit(run.shard(run.trial()), run.suite, [told, failed, unscored])
    for n, trial in enumerate((run.trial(), run.trial(candidate))):
        look = None if n else FirstLook(warnings=(WORD,))
        await store.trials.record(run.result(trial, error=WORD), Conclusion(trial=trial), [0.5] * trial.samples, look=look)
    rejection = Rejection(round=1, proposed_index=1, reason_code=ReasonCode.DUPLICATE, message=WORD)
    decision = Decision(candidate_id="one", explanation=WORD)
    record = run.round(1, rejections=(rejection,), decisions=(decision,), extra={"front": WORD})
    await store.runs.finish(run.finish(message=WORD).model_copy(update={"records": (record,)}))
    proposed = Proposed(values={"prompt": WORD}, rationale=WORD, tokens=1, cost=0.0)
    await store.proposals.store(run_id, 1, 0, proposed, ProposalOrigin(asked_of="a plug-in", asked=[WORD]))
    await store.proposals.store_configurations(run_id, {content_hash(configuration): configuration})
    await store.model_answers.keep(run_id, "of a request", ModelAnswer(1, 0, WORD, False, 1, 0.0, "a model", [WORD]))
    await _reply_in_a_batch(store, run)
    key = AnswerKey(run.config_hash, run.suite.target_fingerprint, run_id, run.item_hashes[3], 0)
    await store.turns.keep(key, 0, {"content": WORD}, 1, 0.0)
    await store.turns.keep_result(key, 0, 0, WORD)
    for kind in ("note", "tag"):
        await Marks(database).add(MarkedThing(run_id=run_id), kind, WORD if kind == "note" else "liked", "ann", "a test")
    asked = {"kind": "right_or_wrong", "words": WORD, "categories": ("right", "wrong"), "drawn": "random", "seed": 4}
    question = NewQuestion.model_validate(asked | {"candidates": ("baseline",), "purpose": "candidate", "count": 2})
    await Labels(database).ask(run_id, question, "ann", "a test")
    async with database.transaction() as connection:
        await put_file(connection, FileRow(content_hash({"file": run_id}), "text/plain", f"{WORD} {run_id}".encode()))
    await _release(store, run_id, configuration)
    await register(database.url, database.keys, run_id)
    return run


async def _reply_in_a_batch(store: Store, run: ExampleRun) -> None:
    meant = MeantBatch("key", 1, 0, 1, "execution", "openai", "http://model", "m", "scorers[0]", {"one": 0})
    sent = await store.sent_batches.mean(run.shard(first=0, last=1), meant)
    await store.sent_batches.is_over(sent, "taken", "completed", {}, {"one": JudgeReply(1, 0.0, value=WORD)})


async def _release(store: Store, run_id: str, configuration: dict[str, Any]) -> None:
    hashes = dict.fromkeys(("base_hash", "overlay_hash"), content_hash(configuration))
    state = ReleaseState(
        release_id=f"{run_id}-release",
        prompt="support/triage",
        kind="promote",
        tag="stable",
        status="pending",
        asked_at=NOON,
        changes={"prompt": WORD},
        **hashes,
    )
    first = template(sections=[{"path": "task", "body": WORD}])
    await store.releases.open(NewRelease(state, "stable", {hashes["base_hash"]: configuration}, first))
    await store.releases.settle(state.release_id, Settlement("rejected", "no", "ann", NOON))


async def register(url: str, keys: EncryptionKeys | None, name: str) -> None:
    """A prompt that has moved, under a tag that stays and under one that does not."""
    async with OverrideStore(await PostgresBackend.open(url, keys)) as prompts:
        await prompts.seed(template(f"support/{name}", sections=[{"path": "task", "body": WORD}]))
        await prompts.seed(template())
        found = await prompts.resolve("support/triage", tag="stable")
        await moved(prompts, f"{WORD} {name}", found.state.revision, change={"evidence": {"said": WORD}})
        await prompts.store(
            template(), found.state.overrides, tag=f"opt-{name}", expected=None, change=Change(), temporary=True, owner=name
        )


async def everything_said(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table with contents, decrypted."""
    async with database.connection() as connection:
        contents, found = contents_of(connection), {}
        for table in CONTENT_TABLES:
            rows = [dict(row) for row in await connection.fetch(f"SELECT * FROM {table.name} t")]
            for row in rows:
                if table.name == "files":
                    row["content"] = contents.plain_file(row["content"])
            found[table.name] = sorted(rows, key=repr)
        return found


async def stored_rows(url: str) -> dict[str, list[str]]:
    """Everything that a database holds, table by table, as it is stored."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        await connection.execute("SET bytea_output = 'escape'")
        names = [row["tablename"] for row in tables]
        return {
            name: [row["line"] for row in await connection.fetch(f'SELECT t::text AS line FROM "{name}" t')] for name in names
        }
    finally:
        await connection.close()
