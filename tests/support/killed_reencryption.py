"""A process that encrypts contents anew, and kills itself after so many batches: `URL BATCHES KEYS`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import count

from ratchet._encryption import read_keys
from store.connection import Database
from store.write.reencryption import Reencryption


async def carry_out(url: str, batches: int, keys: str) -> None:
    """One row at a time, so that there are many batches."""
    numbers = count(1)

    def die(table: str, rows: int) -> None:
        if next(numbers) == batches:
            os.kill(os.getpid(), signal.SIGKILL)

    database = await Database.open(url, keys=read_keys(keys, "KEYS"), most_connections=2)
    await Reencryption(database, rows_at_once=1).carry_out(die)


if __name__ == "__main__":
    asyncio.run(carry_out(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
