"""New values: from a model that is shown what went wrong, or from a plug-in; paid for once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from temporalio.exceptions import ApplicationError

from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugins
from clients.demo.model_server import SimulatedModel
from ratchet import Sample
from store.read.reader import StoreReader
from tests.support import evaluation_plugins
from tests.support.activity_attempts import activity_environment
from tests.support.anthropic_endpoint import AnthropicEndpoint, usage
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.model_endpoints import served
from tests.support.proposal_requests import FAILURES, MODEL, PROMPT, by_model, by_plugin, request
from tests.support.suite_building import PLUGINS, plugin, suite
from workflows.model.failures import INVALID_REQUEST, PERMANENT_TARGET_ERROR, PROPOSER_FAILED
from workflows.model.run.contract import ProposalInput, Proposed
from workflows.model.trial import Split

pytestmark = pytest.mark.usefixtures("measured_runs")


def rewritten_run(**factors: Any) -> MeasuredRun:
    """A run whose answers were all wrong."""
    shown = [Sample(f"s{n}", failure.inputs, failure.expected) for n, failure in enumerate(FAILURES)]
    configuration = {"prompt": PROMPT, "temperature": 0.5, **factors}
    return MeasuredRun(suite("echo", split=Split.VALIDATION), shown, configuration, records=FAILURES)


async def proposed(run: MeasuredRun, wanted: ProposalInput, environment: Mapping[str, str] | None = None) -> Proposed:
    async with evaluation(run, environment=environment) as evaluating:
        asked = wanted.model_copy(update={"config_hash": run.config_hash})
        return await activity_environment().run(evaluating.propose_values, asked)


async def failure(run: MeasuredRun, wanted: ProposalInput, environment: Mapping[str, str] | None = None) -> ApplicationError:
    with pytest.raises(ApplicationError) as raised:
        await proposed(run, wanted, environment)
    assert await run.count("proposals") == 0
    return raised.value


class TestModels:
    async def test_a_better_text_comes_back_with_its_price(self, server: SimulatedModel) -> None:
        prices = {MODEL: {"input": 1.0, "output": 2.0}}
        answer = await proposed(rewritten_run(), request(by_model(server.base_url), prices=prices))
        assert set(answer.values) == {"prompt"}
        assert answer.values["prompt"] != PROMPT
        assert "{{input.ticket}}" in str(answer.values["prompt"])
        assert answer.tokens > 100
        assert answer.cost > 0

    async def test_every_text_is_written_and_nothing_else(self, server: SimulatedModel) -> None:
        run = rewritten_run(greeting="Hello, {{input.name}}!", stops=["a"])
        answer = await proposed(run, request(by_model(server.base_url), factors=("prompt", "temperature", "greeting", "stops")))
        assert set(answer.values) == {"prompt", "greeting"}
        assert server.calls == 1

    async def test_a_template_that_speaks_of_one_factor_is_sent_for_each(self, server: SimulatedModel) -> None:
        template = "Improve {{factor.name}}:\n<current_value>{{factor.value}}</current_value>\n{{form}}"
        run = rewritten_run(greeting="Hello, {{input.name}}!")
        await proposed(run, request(by_model(server.base_url, template=template), factors=("prompt", "greeting")))
        assert server.calls == 2

    async def test_a_retry_does_not_pay_again(self, server: SimulatedModel) -> None:
        run = rewritten_run()
        first = await proposed(run, request(by_model(server.base_url)))
        again = await proposed(run, request(by_model(server.base_url)))
        assert first == again
        assert server.calls == 1

    async def test_an_answer_outlasts_a_store_that_is_away(self, server: SimulatedModel) -> None:
        run = rewritten_run()
        run.database.refused_transactions_left = 2
        await proposed(run, request(by_model(server.base_url)))
        assert server.calls == 1
        assert await run.count("proposals") == 1

    async def test_a_model_that_is_down_is_a_failure_that_may_pass(self, server: SimulatedModel) -> None:
        server.simulate({"status": 500})
        error = await failure(rewritten_run(), request(by_model(server.base_url)))
        assert (error.type, error.non_retryable) == (PROPOSER_FAILED, False)
        assert error.message.startswith("LLM mutation failed: ")
        assert "HTTP 500" in error.message

    async def test_an_empty_answer_is_one_too(self, server: SimulatedModel) -> None:
        server.simulate({"lie": "null_content"})
        error = await failure(rewritten_run(), request(by_model(server.base_url)))
        assert error.message.startswith("LLM mutation failed: the model gave an empty answer")

    async def test_a_wrong_key_is_final(self, server: SimulatedModel) -> None:
        server.simulate({"status": 401})
        error = await failure(rewritten_run(), request(by_model(server.base_url)), {"OPENAI_API_KEY": "sk-secret"})
        assert (error.type, error.non_retryable) == (PERMANENT_TARGET_ERROR, True)
        assert "sk-secret" not in error.message

    async def test_a_long_retry_after_delays_the_retry(self, server: SimulatedModel) -> None:
        server.simulate({"status": 429, "retry_after": "200"})
        error = await failure(rewritten_run(), request(by_model(server.base_url)))
        assert error.next_retry_delay is not None
        assert error.next_retry_delay.total_seconds() > 190

    async def test_a_configuration_without_text_is_a_mistake_in_the_spec(self, server: SimulatedModel) -> None:
        error = await failure(rewritten_run(), request(by_model(server.base_url), factors=("temperature",)))
        assert (error.type, error.non_retryable) == (INVALID_REQUEST, True)


class ScriptedModel:
    """An endpoint that gives its answers one after the other, and remembers what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[list[dict[str, Any]]] = []

    async def reply(self, received: web.Request) -> web.Response:
        self.asked.append((await received.json())["messages"])
        content = self.answers[min(len(self.asked), len(self.answers)) - 1]
        usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        return web.json_response({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})


@asynccontextmanager
async def scripted(*answers: str) -> AsyncIterator[tuple[ScriptedModel, str]]:
    model = ScriptedModel(*answers)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", model.reply)
    async with TestServer(app) as server:
        yield model, str(server.make_url("/v1"))


GOOD = "<new_value>Sort the ticket: {{input.ticket}}</new_value>"


class TestRepair:
    async def test_a_model_is_shown_what_was_wrong_and_asked_again(self) -> None:
        async with scripted("<new_value>Sort it.</new_value>", GOOD) as (model, url):
            answer = await proposed(rewritten_run(), request(by_model(url)))
        assert answer.values == {"prompt": "Sort the ticket: {{input.ticket}}"}
        assert answer.tokens == 200
        [_, second] = model.asked
        assert [message["role"] for message in second] == ["user", "assistant", "user"]
        assert "placeholder {{input.ticket}} was lost; keep it" in second[-1]["content"]

    async def test_what_was_asked_and_answered_is_kept_for_people_to_read(self) -> None:
        async with scripted("<new_value>Sort it.</new_value>", GOOD) as (model, url):
            run = rewritten_run()
            await proposed(run, request(by_model(url)))
        page = await StoreReader(run.database).proposals.page("run", round=1)
        assert page is not None and page.total == 1
        [place] = page.items
        assert [call.asked for call in place.calls] == model.asked
        assert [call.answer for call in place.calls] == ["<new_value>Sort it.</new_value>", GOOD]
        assert (place.asked_of, place.values, place.tokens) == (MODEL, {"prompt": "Sort the ticket: {{input.ticket}}"}, 200)

    async def test_what_a_plug_in_was_called_with_is_kept_and_secrets_are_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTHER_API_KEY", "hunter2-hunter2")
        run = rewritten_run(note="the key is hunter2-hunter2")
        await proposed(run, request(by_plugin("longer")))
        page = await StoreReader(run.database).proposals.page("run")
        assert page is not None
        [place] = page.items
        assert place.calls == () and place.values is not None
        assert place.asked["factors"] == ["prompt"]
        assert place.asked["current"] == {"prompt": PROMPT, "temperature": 0.5, "note": "the key is (hidden)"}
        assert place.asked["records"][0]["output"] == "bug"

    async def test_what_stays_wrong_is_left_to_the_validator(self) -> None:
        async with scripted("<new_value>Sort it.</new_value>") as (model, url):
            answer = await proposed(rewritten_run(), request(by_model(url, repairs=1)))
        assert answer.values == {"prompt": "Sort it."}
        assert len(model.asked) == 2

    async def test_what_stays_unusable_is_a_failure_for_good_and_says_what_it_took(self) -> None:
        async with scripted("<new_value>") as (model, url):
            error = await failure(rewritten_run(), request(by_model(url)))
        assert (error.type, error.non_retryable, error.details) == (PROPOSER_FAILED, True, (None, [300, 0.0]))
        assert error.message == "LLM mutation failed: the answer was cut off before the new text ended"
        assert len(model.asked) == 3

    async def test_a_chatty_answer_goes_back_and_never_becomes_the_text_as_a_whole(self) -> None:
        chatty = "The failures show what is missing.\n```\nSort it: {{input.ticket}}\n```\nIs that of help?"
        async with scripted(chatty, GOOD) as (model, url):
            answer = await proposed(rewritten_run(), request(by_model(url)))
        assert answer.values == {"prompt": "Sort the ticket: {{input.ticket}}"}
        assert "only what is there is used" in model.asked[1][-1]["content"]
        async with scripted(chatty) as (model, url):
            error = await failure(rewritten_run(), request(by_model(url)))
        assert (error.type, error.non_retryable, len(model.asked)) == (PROPOSER_FAILED, True, 3)

    async def test_a_template_that_asks_for_no_tags_is_answered_with_the_text(self) -> None:
        async with scripted("Sort: {{input.ticket}}") as (model, url):
            wanted = request(by_model(url, template="Improve {{factor.name}}: {{factor.value}}"))
            answer = await proposed(rewritten_run(), wanted)
        assert (answer.values, len(model.asked)) == ({"prompt": "Sort: {{input.ticket}}"}, 1)

    @pytest.mark.parametrize(
        "lie", [{"lie": "malformed_json"}, {"lie": "empty_choices"}, {"lie": "null_content"}, {"status": 400}]
    )
    async def test_an_answer_that_cannot_be_understood_is_one_of_the_tries(
        self, server: SimulatedModel, lie: dict[str, Any]
    ) -> None:
        server.simulate(lie)
        error = await failure(rewritten_run(), request(by_model(server.base_url)))
        assert (error.type, error.non_retryable) == (PROPOSER_FAILED, True)
        assert server.calls == (1 if "status" in lie else 3)

    async def test_an_attempt_that_died_between_two_answers_pays_only_for_the_second(self) -> None:
        async with scripted("<new_value>Sort it.</new_value>", GOOD) as (model, url):
            run = rewritten_run()
            await proposed(run, request(by_model(url)))
            await run.forget_proposals()
            again = await proposed(run, request(by_model(url)))
        assert len(model.asked) == 2
        assert (again.values, again.tokens) == ({"prompt": "Sort the ticket: {{input.ticket}}"}, 200)

    async def test_the_same_request_of_a_later_round_is_put_in_other_words_and_never_paid_for_twice(self) -> None:
        async with scripted(GOOD) as (model, url):
            run = rewritten_run()
            for number in (1, 2, 3):
                await proposed(run, request(by_model(url), round=number))
            await run.forget_proposals()
            again = await proposed(run, request(by_model(url), round=2))
        texts = [messages[0]["content"] for messages in model.asked]
        assert len(set(texts)) == 3
        assert "You answered this once before" in texts[1]
        assert "You answered this 2 times before" in texts[2]
        assert again.tokens == 100

    async def test_requests_that_are_alike_side_by_side_have_answers_of_their_own(self) -> None:
        async with scripted(GOOD) as (model, url):
            run = rewritten_run()
            alike = by_model(url, template="Improve this: {{texts}}")
            for number in (0, 1):
                await proposed(run, request(alike, index=number, batch_position=number))
        assert [messages[0]["content"] for messages in model.asked] == [model.asked[0][0]["content"]] * 2

    async def test_what_they_share_is_a_message_of_its_own_that_the_provider_is_told_to_keep(self) -> None:
        said = {"content": [{"type": "text", "text": GOOD}], "stop_reason": "end_turn", "usage": usage(9, 3)}
        async with served(AnthropicEndpoint(answering=lambda _: web.json_response(said))) as endpoint:
            told = {"ANTHROPIC_BASE_URL": endpoint.url}
            run, natively = rewritten_run(prompt=f"{PROMPT} Be kind." + " So be it." * 500), by_model()
            natively = natively.model_copy(update={"model": "anthropic/m"})
            for number in (0, 1):
                await proposed(run, request(natively, index=number, batch_position=number, side_by_side=2), told)
            await proposed(run, request(natively, index=2, round=2), told)
        (kept, rest), (again, other), alone = (body["messages"][0]["content"] for body in endpoint.bodies)
        assert kept == again and kept["cache_control"] and "So be it." in kept["text"]
        assert "1 other texts" in other["text"] and "1 other texts" not in rest["text"]
        assert len(alone) == 1 and "cache_control" not in alone[0], "keeping what nobody asks for again costs more"


class TestPlugins:
    async def test_one_is_given_the_current_values_and_what_went_wrong(self) -> None:
        answer = await proposed(rewritten_run(), request(by_plugin("longer", examples=3)))
        assert answer.values == {"prompt": f"{PROMPT} (3 records)"}

    async def test_async_ones_work_and_values_are_normalized(self) -> None:
        answer = await proposed(rewritten_run(), request(by_plugin("longer_async")))
        assert answer.values == {"prompt": f"{PROMPT}\nmore"}

    @pytest.mark.parametrize(
        ("name", "texts"),
        [
            ("numbered_proposer", ["candidate 0 of seed 10", "candidate 1 of seed 11"]),
            ("index_only", ["candidate 0", "candidate 1"]),
        ],
    )
    async def test_one_that_asks_for_them_is_told_its_place_and_a_seed(self, name: str, texts: list[str]) -> None:
        given = [await proposed(rewritten_run(), request(by_plugin(name), index=n, seed=10 + n)) for n in range(2)]
        assert [answer.values["prompt"] for answer in given] == texts

    async def test_one_may_look_at_every_new_value_itself(self) -> None:
        evaluation_plugins.calls.clear()
        answer = await proposed(rewritten_run(), request(by_plugin("careful")))
        assert evaluation_plugins.calls == [answer.values["prompt"]] == [f"{PROMPT} and more"]
        again = request(by_plugin("careful"), configuration={"prompt": f"{PROMPT} and more", "temperature": 0.5})
        error = await failure(rewritten_run(), again)
        assert error.type == PROPOSER_FAILED
        assert "raised ValueError: said it twice" in error.message

    async def test_it_does_so_in_a_process_of_its_own_too(self) -> None:
        async def isolated(prompt: str) -> Any:
            told = {"configuration": {"prompt": prompt}, "records": [], "factors": ["prompt"], "offered": {}}
            return await Isolation().call(Plugins([PLUGINS]), plugin("careful"), "proposer", told)

        assert await isolated("Sort.") == {"mapping": {"prompt": "Sort. and more"}}
        with pytest.raises(IsolatedFault, match="raised ValueError: said it twice"):
            await isolated("Sort. and more")

    async def test_a_retry_does_not_call_it_again(self) -> None:
        evaluation_plugins.calls.clear()
        run = rewritten_run()
        await proposed(run, request(by_plugin("longer")))
        await proposed(run, request(by_plugin("longer")))
        assert evaluation_plugins.calls == ["longer"]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("raising_proposal", "raised RuntimeError: out of ideas"),
            ("bad_proposal", "nan is not a finite number"),
            ("no_mapping", "returned a str; return a mapping"),
        ],
    )
    async def test_one_that_fails_may_be_tried_again(self, name: str, text: str) -> None:
        error = await failure(rewritten_run(), request(by_plugin(name)))
        assert (error.type, error.non_retryable) == (PROPOSER_FAILED, False)
        assert text in error.message
        assert plugin(name) in error.message
