"""Options of commands that listen for others: where, and under which names."""

from __future__ import annotations

from typing import Annotated

import typer

HostOption = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDRESS", help="Where to listen. Beyond this machine RATCHET_SERVE_TOKEN must hold a token."
    ),
]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes any that is free.")]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A name that others may call the server by; again for more."),
]
