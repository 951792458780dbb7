"""What the program does: ask a model for a ticket's label. It is the same call in production and under test."""

from dataclasses import dataclass
from datetime import timedelta

from openai import APIStatusError, AsyncOpenAI
from temporalio import activity
from temporalio.exceptions import ApplicationError

PERMANENT = (400, 401, 403, 404, 422)
"""Asking again would get the same answer."""


@dataclass
class Ticket:
    """A ticket, and how the model is asked for its label."""

    text: str
    prompt: str
    model: str


class TicketActivities:
    """The model's client is given once, and shared by all calls of a worker."""

    def __init__(self, models: AsyncOpenAI) -> None:
        """Take a client that retries nothing itself: retries are Temporal's."""
        self._models = models

    @activity.defn
    async def label_ticket(self, ticket: Ticket) -> str:
        """Label one ticket, for whoever sent it."""
        return (await self._asked(ticket))[0]

    @activity.defn
    async def label_sample(self, call: dict) -> dict:
        """Label one sample, for a run: the target. What a candidate is made of comes with the call."""
        factors = call["configuration"]
        label, tokens = await self._asked(Ticket(call["sample"]["input"]["ticket"], factors["prompt"], factors["model"]))
        return {"value": label, "tokens": tokens}

    async def _asked(self, ticket: Ticket) -> tuple[str, int]:
        messages = [{"role": "system", "content": ticket.prompt}, {"role": "user", "content": ticket.text}]
        try:
            answer = await self._models.chat.completions.create(model=ticket.model, messages=messages, temperature=0, seed=7)
        except APIStatusError as error:
            wait = error.response.headers.get("retry-after", "")
            raise ApplicationError(
                str(error),
                type=f"HTTP {error.status_code}",
                non_retryable=error.status_code in PERMANENT,
                next_retry_delay=timedelta(seconds=int(wait)) if wait.isdecimal() else None,
            ) from error
        return answer.choices[0].message.content or "", answer.usage.total_tokens if answer.usage else 0
