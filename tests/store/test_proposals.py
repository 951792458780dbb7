"""What proposers were asked, read back with what became of it, and the texts of proposals that were kept out."""

from __future__ import annotations

from typing import Any

from ratchet._formats.canonical import content_hash
from store.read.reader import StoreReader
from store.write.proposals import ModelAnswer, ProposalOrigin
from tests.support.store_examples import ExampleRun
from workflows.model.run.candidates import ReasonCode, Rejection
from workflows.model.run.contract import CommitRounds, Proposed

LONG = {"prompt": "Sort it, and say why, at length.", "temperature": 0.5}
TOO_MUCH = {"prompt": "x" * 50, "temperature": 9.0}


def rejection(index: int, configuration: dict[str, Any], **more: Any) -> Rejection:
    return Rejection(
        round=1,
        proposed_index=index,
        reason_code=ReasonCode.TOO_LONG,
        message="too long",
        proposed_hash=content_hash(configuration),
        **more,
    )


async def asked(example: ExampleRun) -> ExampleRun:
    """A run with a candidate and a rejection that a model wrote, one that failed, and one of a user's optimizer."""
    run = await example.open()
    for name in ("baseline", "a"):
        trial = run.trial(run.candidate(name, parent_candidate_ids=() if name == "baseline" else ("baseline",)))
        await run.store.trials.begin(trial)
        await run.answer_everything(trial)
        await run.record(trial)
    made: dict[int, dict[str, Any]] = {0: run.candidate("a").configuration, 1: LONG}
    for index, configuration in made.items():
        answer = ModelAnswer(1, index, f"answer {index}", False, 7, 0.1, "gpt", [{"role": "user", "content": f"asked {index}"}])
        await run.store.model_answers.keep(run.run_id, f"request {index}", answer)
        origin = ProposalOrigin(run.config_hash, content_hash(configuration), "gpt")
        values = {"prompt": configuration["prompt"]}
        await run.store.proposals.store(run.run_id, 1, index, Proposed(values=values, rationale="why", tokens=7), origin)
    failed = ModelAnswer(1, 2, "nothing of use", True, 9, 0.2, "gpt", [{"role": "user", "content": "asked 2"}])
    await run.store.model_answers.keep(run.run_id, "request 2", failed)
    await run.store.proposals.store_configurations(run.run_id, {content_hash(TOO_MUCH): TOO_MUCH})
    rejections = (
        rejection(1, LONG, parent_candidate_ids=("a",)),
        rejection(2, TOO_MUCH),
        rejection(3, {"prompt": "of a person"}),
        rejection(4, run.candidate("a").configuration, config_hash=run.candidate("a").config_hash),
    )
    await run.store.runs.commit_rounds(
        CommitRounds(run_id=run.run_id, records=(run.round(0), run.round(1, rejections=rejections)))
    )
    return run


async def test_each_place_tells_what_was_asked_and_what_became_of_it(example: ExampleRun, reader: StoreReader) -> None:
    run = await asked(example)
    page = await reader.proposals.page(run.run_id, round=1)
    assert page is not None and page.total == 3
    assert [[call.asked[0]["content"] for call in place.calls] for place in page.items] == [
        ["asked 0"],
        ["asked 1"],
        ["asked 2"],
    ]
    became = [(place.candidate_ids, place.rejected, place.values is None) for place in page.items]
    assert became == [(("a",), (4,), False), ((), (1,), False), ((), (), True)]
    assert [place.parent_candidate_id for place in page.items] == ["baseline", "baseline", None]
    assert (page.items[2].tokens, page.items[2].calls[0].cut_off) == (9, True)


async def test_places_come_in_pages_and_by_round_and_candidate(example: ExampleRun, reader: StoreReader) -> None:
    run = await asked(example)
    second = await reader.proposals.page(run.run_id, offset=1, limit=1)
    of_candidate = await reader.proposals.page(run.run_id, candidate="a")
    elsewhere = await reader.proposals.page(run.run_id, round=2)
    assert second is not None and (second.total, [place.index for place in second.items]) == (3, [1])
    assert of_candidate is not None and [place.index for place in of_candidate.items] == [0]
    assert elsewhere is not None and (elsewhere.total, elsewhere.items) == (0, ())
    assert await reader.proposals.page("unknown") is None


async def test_what_was_kept_out_has_its_text_whoever_wrote_it(example: ExampleRun, reader: StoreReader) -> None:
    run = await asked(example)
    by_model, by_optimizer, by_person, again = [await reader.proposals.rejected(run.run_id, 1, index) for index in (1, 2, 3, 4)]
    assert by_model is not None and (by_model.values, by_model.reference_id) == ({"prompt": LONG["prompt"]}, "a")
    assert (by_model.rationale, by_model.asked_index) == ("why", 1)
    assert by_optimizer is not None and (by_optimizer.configuration, by_optimizer.reference_id) == (TOO_MUCH, "baseline")
    assert by_person is not None and (by_person.configuration, by_person.values) == (None, None)
    assert again is not None and again.configuration == run.candidate("a").configuration
    assert await reader.proposals.rejected(run.run_id, 1, 9) is None
    assert [one.rejection.proposed_index for one in await reader.proposals.all_rejected(run.run_id, 2)] == [1, 2]
