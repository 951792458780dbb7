"""Better texts from a model: asked for together, shown what was wrong with an unusable answer, paid for once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from temporalio.exceptions import ApplicationError

from activities.budget.lease import BudgetLease
from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatAnswer, ChatModels
from activities.endpoints.gate import ClosedForLong
from activities.plugins.loader import invalid
from activities.proposals.kept_requests import kept_request
from activities.proposals.reflection_answer import Found, problems_of, read_answer
from activities.proposals.reflection_prompt import (
    AGAIN,
    REPAIR,
    Material,
    asks_for_tags,
    form,
    request_text,
    takes_all_texts,
    template_of,
)
from activities.shards.outcome_batches import until_back
from activities.targets.attached_files import AttachedFiles
from activities.targets.faults import CandidateFault, Refused, Unreachable
from ratchet._formats.canonical import content_hash
from ratchet._text.placeholders import as_text, substitute
from store.write.proposals import ModelAnswer, ModelAnswers
from workflows.model.failures import PERMANENT_TARGET_ERROR, PROPOSER_FAILED, cut, shorten
from workflows.model.run.contract import ProposalInput, Proposed
from workflows.model.spec.extensions.proposers import ModelProposer
from workflows.model.spec.factors import Configuration
from workflows.model.spec.prices import Price
from workflows.rules.spec.shared_beginnings import is_marked_for_caches

LONGEST_CALL = 240.0
"""Seconds for one answer of a model that writes proposals; they think longer than targets do."""

LONGEST_QUOTED = 50_000
"""Characters of an unusable answer that the model is shown again."""

Talk = list[dict[str, Any]]


class Reflecting:
    """One proposal of a model: as many calls as it takes, each answer kept as it comes."""

    def __init__(
        self,
        answers: ModelAnswers,
        models: ChatModels,
        is_away: Callable[[BaseException], bool],
        request: ProposalInput,
        proposer: ModelProposer,
        budget_lease: BudgetLease | None,
        context: CallContext,
        files: AttachedFiles,
    ) -> None:
        """`files` are those that have their marks in what the model is shown."""
        self._answers = answers
        self._models = models
        self._is_away = is_away
        self._request = request
        self._proposer = proposer
        self._budget_lease = budget_lease
        self._context = context
        self._files = files
        self._beginning = ""
        """What the requests begin with that are made side by side."""
        self.tokens = 0
        self.cost = 0.0

    async def proposed(self, configuration: Configuration, material: Material) -> Proposed:
        """New values of all texts among the factors; other factors are left as they are."""
        named = {name: configuration.get(name) for name in self._request.factors}
        texts = {name: value for name, value in named.items() if isinstance(value, str)}
        if not texts:
            raise invalid("optimizer.proposer of kind model needs a factor with `change: text` to write")
        together = len(texts) == 1 or takes_all_texts(template_of(self._request, self._proposer))
        found = [
            await self._rewritten(some, material) for some in ([texts] if together else [{one: texts[one]} for one in texts])
        ]
        rationales = [part.rationale for part in found if part.rationale]
        return Proposed(
            values={name: value for part in found for name, value in part.values.items()},
            rationale=shorten("\n".join(rationales), 2_000) or None,
            tokens=self.tokens,
            cost=self.cost,
        )

    async def _rewritten(self, texts: Mapping[str, str], material: Material) -> Found:
        """What the model makes of the texts. What it gets wrong to the last is for the validator to say."""
        talk: Talk = [{"role": "user", "content": request_text(self._request, self._proposer, texts, material)}]
        self._beginning = self._shared_beginning(texts, material)
        tagged = asks_for_tags(template_of(self._request, self._proposer))
        found, problems = Found(), list[str]()
        for _ in range(1 + self._proposer.repairs):
            try:
                answer = await self._answered(talk)
            except CandidateFault as fault:  # it came and was paid for: another try like any that cannot be used
                self.tokens, self.cost = self.tokens + fault.tokens, self.cost + fault.cost
                found, problems = Found(), [str(fault)]
                continue
            found = read_answer(answer.text, texts, cut_off=answer.cut_off, tagged=tagged)
            problems = problems_of(found, texts, self._request.limits)
            if not problems:
                return found
            talk, tagged = [*talk, *_correction(answer.text, problems, texts)], True
        usable = {name: value for name, value in found.values.items() if value}
        if usable:
            return found
        raise ApplicationError(f"LLM mutation failed: {problems[0]}", type=PROPOSER_FAILED, non_retryable=True)

    def _shared_beginning(self, texts: Mapping[str, str], material: Material) -> str:
        """What all requests for these texts begin with that the round makes, where the provider wants to be told."""
        place = self._models.lists.model_place(self._proposer.model, self._proposer.base_url)
        if self._request.side_by_side < 2 or not is_marked_for_caches(place.provider, place.name):
            return ""
        beside = (self._request.model_copy(update={"batch_position": position}) for position in (0, 1))
        first, second = (request_text(request, self._proposer, texts, material) for request in beside)
        pairs = zip(first, second, strict=False)
        return first[: next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))]

    async def _answered(self, talk: Talk) -> ModelAnswer:
        """The answer to this request. One that an earlier proposal paid for is worth nothing new: the model is told so."""
        place = (self._request.round, self._request.index)
        asked, times = talk, 0
        while True:
            key = self._key(asked)
            known = await until_back(lambda key=key: self._answers.load(self._request.run_id, key), self._is_away)  # type: ignore[misc]
            if known is None or (known.round, known.index) == place:
                break
            times += 1
            again = substitute(AGAIN, {"times": "once" if times == 1 else f"{times} times"})
            asked = [*talk[:-1], {**talk[-1], "content": talk[-1]["content"] + again}]
        answer = known or await self._kept(key, await self._ask(asked), asked)
        self.tokens, self.cost = self.tokens + answer.tokens, self.cost + answer.cost
        return answer

    def _key(self, talk: Talk) -> str:
        """Names a request. What is asked for side by side are answers of their own, however alike the requests are."""
        proposer = self._proposer
        named = {"model": proposer.model, "base_url": proposer.base_url, "parameters": proposer.parameters}
        return content_hash({**named, "messages": talk, "position": self._request.batch_position})

    async def _kept(self, key: str, answer: ChatAnswer, asked: Talk) -> ModelAnswer:
        """It is paid for: a store that is away is waited for."""
        kept = ModelAnswer(
            round=self._request.round,
            index=self._request.index,
            text=as_text(answer.value),
            cut_off=answer.finish_reason == "length",
            tokens=answer.tokens,
            cost=answer.cost,
            cached_tokens=answer.cached,
            asked_of=self._proposer.model,
            asked=await asyncio.to_thread(kept_request, asked),
        )
        answers, run_id, budget_lease = self._answers, self._request.run_id, self._budget_lease
        if budget_lease is None:
            return await until_back(lambda: answers.keep(run_id, key, kept), self._is_away)
        return await until_back(
            lambda: budget_lease.written_with(lambda name, balance: answers.keep(run_id, key, kept, (name, balance))),
            self._is_away,
        )

    async def _ask(self, talk: Talk) -> ChatAnswer:
        asked = parted(talk, self._beginning)
        try:
            return await self._models.ask(
                base_url=self._proposer.base_url,
                model=self._proposer.model,
                messages=self._files.sent(asked),
                parameters=self._proposer.parameters,
                stream=False,
                timeout=LONGEST_CALL,
                prices={model: Price.model_validate(price) for model, price in self._request.prices.items()},
                context=self._context,
                shared=lambda: 1 if self._beginning else 0,
            )
        except Refused as error:
            raise ApplicationError(f"LLM mutation failed: {error}", type=PERMANENT_TARGET_ERROR, non_retryable=True) from error
        except ClosedForLong as error:
            raise ApplicationError(
                f"LLM mutation failed: {error}", type=PROPOSER_FAILED, next_retry_delay=timedelta(seconds=error.seconds)
            ) from error
        except (CandidateFault, Unreachable) as error:
            if isinstance(error, CandidateFault) and error.billed == "yes":
                raise
            said_no = isinstance(error, CandidateFault) and error.billed == "no"
            raise ApplicationError(f"LLM mutation failed: {error}", type=PROPOSER_FAILED, non_retryable=said_no) from error


def parted(talk: Talk, beginning: str) -> Talk:
    """The talk with the beginning of its first message as a message of its own, which a provider can keep in its cache."""
    first = talk[0]["content"]
    rest = first[len(beginning) :] if beginning and first.startswith(beginning) else ""
    if not rest.strip():
        return talk
    return [{**talk[0], "content": beginning}, {**talk[0], "content": rest}, *talk[1:]]


def _correction(answer: str, problems: Sequence[str], texts: Mapping[str, str]) -> Talk:
    told = substitute(REPAIR, {"problems": "; ".join(problems[:5]), "form": form(texts)})
    return [{"role": "assistant", "content": cut(answer, LONGEST_QUOTED)}, {"role": "user", "content": told}]
