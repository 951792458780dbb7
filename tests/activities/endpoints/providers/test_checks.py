"""What the check asks and tells of providers."""

from __future__ import annotations

import pytest

from activities.preparing import extras
from activities.targets.faults import Refused
from clients.checks.endpoints import check_endpoints
from tests.support.model_endpoints import served
from tests.support.provider_endpoints import PROTOCOLS, ask, asked_of, asking, environment
from tests.support.spec_building import request


@pytest.mark.parametrize("provider", PROTOCOLS)
async def test_the_check_asks_each_for_its_models(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(PROTOCOLS[provider]()) as endpoint:
        for name, value in environment(provider, endpoint).items():
            monkeypatch.setenv(name, value)
        assert await check_endpoints(asked_of(f"{provider}/simulated-echo")) == []
        if provider == "bedrock":
            return  # it lists no models where it is asked, and many that are listed elsewhere go by other names
        [problem] = await check_endpoints(asked_of(f"{provider}/unheard-of"))
        assert "does not list a model 'unheard-of'; it has simulated-agent, simulated-echo" in problem.message


async def test_the_check_tells_who_has_no_embeddings() -> None:
    similar = {"kind": "similarity", "model": "anthropic/claude"}
    told = await check_endpoints(request(target={"kind": "python", "ref": "a:b"}, scorers=[similar], objective="similarity"))
    assert any("scorers[0].model: 'anthropic/claude' is of a provider that has no embeddings" in one.message for one in told)


async def test_a_missing_package_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        extras, "OF_PROVIDERS", {"anthropic": "no_such_sdk", "google": "google.no_such_sdk", "bedrock": "no_such_sdk"}
    )
    for provider in ("anthropic", "google", "bedrock"):
        [problem] = await check_endpoints(asked_of(f"{provider}/m"))
        assert problem.message.endswith(f"run where the workers run: pip install 'ratchet-optimizer[{provider}]'")
        async with asking(provider) as (_, models):
            with pytest.raises(Refused, match="pip install"):
                await ask(models, provider)
