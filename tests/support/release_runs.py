"""What tests of releases share: a run that tried a prompt, and asking the prompt's one writer."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from activities.releases.requests import ask_release_writer
from ratchet._formats.canonical import content_hash
from ratchet.prompts import OverrideStore, Resolved, open_store
from store.read.reader import StoreReader
from store.write.repositories import Store
from tests.support.engines import Engines
from workflows.model.spec.release import ReleaseRequest, ReleaseState, Ruling

_numbers = itertools.count(1)

CONFIGURATION: dict[str, Any] = {
    "system": {"value": "Climb high.", "change": "text"},
    "x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10},
    "order": {"value": ["a", "b", "c"], "change": "structured", "type": "order"},
    "unit": "metre",
}


BASELINE = {
    name: factor["value"] if isinstance(factor, dict) and "value" in factor else factor
    for name, factor in CONFIGURATION.items()
}


@asynccontextmanager
async def tried_prompt(engines: Engines, spec: dict[str, Any], overrides: str = "postgres") -> AsyncIterator[Prompt]:
    """A prompt of which a run knows the baseline; nothing was released yet."""
    number = next(_numbers)
    name, run_id = f"tests/hill-{number}", f"tests-hill-{number}"
    result = await engines.run({**spec, "configuration": CONFIGURATION, "stop": {"max_rounds": 1}}, run_id=run_id)
    assert result["status"] == "completed"
    async with await open_store(overrides, database_url=engines.addresses.database_url) as prompts:
        yield Prompt(engines, name, run_id, dict(BASELINE), prompts)


@dataclass
class Prompt:
    """A prompt of its own, a finished run that tried it, and the stores to look into."""

    engines: Engines
    name: str
    run_id: str
    baseline: dict[str, Any]
    prompts: OverrideStore

    @property
    def reader(self) -> StoreReader:
        return StoreReader(self.engines.database)

    async def tried(self, **values: Any) -> str:
        """A configuration like the baseline but for these values, as if a trial had run against it; its hash."""
        configuration = {**self.baseline, **values}
        config_hash = content_hash(configuration)
        await Store(self.engines.database).overlays.store(config_hash, configuration)
        return config_hash

    async def ask(self, config_hash: str | None = None, **more: Any) -> ReleaseState:
        """Ask for a release of a configuration that the run tried, or for what else is said."""
        given = {"release_id": f"ask-{next(_numbers)}", "prompt": self.name, "by": "ann", "config_hash": config_hash, **more}
        if config_hash is not None:
            given.setdefault("run_id", self.run_id)
        request = ReleaseRequest.model_validate(given)
        return await ask_release_writer(
            self.engines.client, "optimization", self.name, "request", request, f"request-{request.release_id}"
        )

    async def rule(self, ruling: str, release_id: str, by: str = "bea", comment: str = "") -> ReleaseState:
        """Approve or reject."""
        said = Ruling(release_id=release_id, by=by, comment=comment)
        return await ask_release_writer(
            self.engines.client, "optimization", self.name, ruling, said, f"{ruling}-{next(_numbers)}"
        )

    async def stable(self, tag: str = "stable") -> Resolved:
        return await self.prompts.resolve(self.name, tag=tag)

    async def released(self, **values: Any) -> ReleaseState:
        """A candidate with these values, released at once."""
        state = await self.ask(await self.tried(**values))
        assert state.status == "released", state
        return state

    async def log(self) -> list[ReleaseState]:
        """The audit log of the prompt, the oldest first."""
        return (await self.reader.releases.listed(prompt=self.name))[::-1]
