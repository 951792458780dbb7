"""Serve the API in a process of its own, ask it what needs statistics, and tell where their libraries were loaded."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

HEAVY = ("scipy", "numpy", "optuna")
loaded: dict[str, str] = {}


class Watch:
    """Notes which thread is the first to ask for a library, and whether that is one whose loop serves everybody."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in HEAVY and name not in loaded:
            looping = asyncio._get_running_loop() is not None
            serving = looping and threading.current_thread() is threading.main_thread()
            loaded[name] = "event loop" if serving else "elsewhere"
        return None


async def ask(temporal: str, namespace: str, database_url: str, paths: list[str]) -> list[int]:
    import httpx

    from clients.http.access.security import Trust
    from clients.http.app import serving_http
    from clients.runs.service.servers import Servers
    from clients.temporal import connect
    from store.connection import Database

    client, database = await connect(temporal), await Database.open(database_url)
    servers = Servers(client, database, database_url, temporal, namespace, None, embedded=True)
    try:
        async with (
            serving_http(servers, Trust.of("127.0.0.1", None), "optimization", port=0) as address,
            httpx.AsyncClient(base_url=f"{address.url}/v1/private", timeout=60) as http,
        ):
            return [(await http.get(path)).status_code for path in paths]
    finally:
        await database.close()


if __name__ == "__main__":
    sys.meta_path.insert(0, Watch())
    _, at, within, store, *wanted = sys.argv
    answered = asyncio.run(ask(at, within, store, wanted))
    print(json.dumps({"answered": answered, "loaded": loaded}))
