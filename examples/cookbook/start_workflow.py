"""Have the prompt improved, and label a ticket with what came of it."""

import asyncio
import gc

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.envconfig import ClientConfig
from ticket_activities import Ticket
from ticket_spec import MODEL, SPEC, TICKET_QUEUE
from ticket_workflows import ImprovePrompt, LabelTicket

from ratchet.temporal import RatchetPlugin

TICKET = "Your payment form says that my card was charged twice."


async def main() -> None:
    """Start the workflow, or find the one that was started before; kill anything meanwhile, and call this again."""
    connection = {"target_host": "localhost:7233", **ClientConfig.load_client_connect_config()}
    client = await Client.connect(**connection, plugins=[RatchetPlugin()])
    improving = await client.start_workflow(
        ImprovePrompt.run,
        SPEC,
        id="improve-ticket-prompt",
        task_queue=TICKET_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    found = await improving.result()
    print(f"{found['before']:.2f} -> {found['after']:.2f}\n{found['prompt']}\n")
    ticket = Ticket(TICKET, found["prompt"], MODEL)
    print(await client.execute_workflow(LabelTicket.run, ticket, id="label-ticket", task_queue=TICKET_QUEUE))


if __name__ == "__main__":
    asyncio.run(main())
    gc.collect()  # the SDK's native futures must be gone before the interpreter is
