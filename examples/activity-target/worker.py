"""A worker of somebody else: it answers samples for Ratchet, and knows nothing else of it."""

import asyncio

from temporalio import activity
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker


@activity.defn(name="answerTicket")
async def answer_ticket(call: dict) -> dict:
    prompt, ticket = call["configuration"]["system_prompt"], call["sample"]["input"]["ticket"]
    label = "billing" if "invoice" in ticket and "invoice" in prompt else "other"
    return {"value": label, "tokens": 12}


async def main() -> None:
    client = await Client.connect(**{"target_host": "localhost:7233", **ClientConfig.load_client_connect_config()})
    await Worker(client, task_queue="tickets", activities=[answer_ticket]).run()


if __name__ == "__main__":
    asyncio.run(main())
