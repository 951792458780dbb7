"""Where nobody keeps conversations: they are lost with their process, as all else is."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class UnkeptTurn:
    """One turn."""

    content: Any
    tokens: int
    cost: float
    results: dict[int, Any] = field(default_factory=dict)


class UnkeptTurns:
    """A conversation that only this process knows."""

    def __init__(self) -> None:
        self.key = uuid.uuid4().hex
        self.kept: tuple[UnkeptTurn, ...] = ()

    async def keep(self, turn: int, content: Any, tokens: int, cost: float, *, goes_on: bool) -> UnkeptTurn:
        return UnkeptTurn(content, tokens, cost)

    async def begin_call(self, turn: int, call: int) -> bool:
        return True

    async def keep_result(self, turn: int, call: int, result: Any) -> Any:
        return result
