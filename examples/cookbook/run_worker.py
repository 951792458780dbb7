"""Serve the program's task queue until Ctrl-C."""

import asyncio
import gc

from openai import AsyncOpenAI
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker
from ticket_activities import TicketActivities
from ticket_spec import TICKET_QUEUE
from ticket_workflows import ImprovePrompt, LabelTicket

from ratchet.temporal import RatchetPlugin


async def main() -> None:
    """Connect as Temporal's own variables say, and serve."""
    connection = {"target_host": "localhost:7233", **ClientConfig.load_client_connect_config()}
    client = await Client.connect(**connection, plugins=[RatchetPlugin()])
    tickets = TicketActivities(AsyncOpenAI(max_retries=0))
    activities = [tickets.label_ticket, tickets.label_sample]
    await Worker(client, task_queue=TICKET_QUEUE, workflows=[LabelTicket, ImprovePrompt], activities=activities).run()


if __name__ == "__main__":
    asyncio.run(main())
    gc.collect()  # the SDK's native futures must be gone before the interpreter is
