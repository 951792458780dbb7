"""A real OpenID Connect issuer over HTTP: its discovery document, its keys, and the JWTs that it signs."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec

AUDIENCE = "ratchet-tests"


@dataclass
class LocalIssuer:
    """Signs with the newest of its keys."""

    url: str = ""
    keys: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=dict)
    asked_for_keys: int = 0

    def change_key(self) -> None:
        """Publish another key, and no other any more."""
        self.keys = {f"key-{len(self.keys)}-{time.monotonic_ns()}": ec.generate_private_key(ec.SECP256R1())}

    def token(self, sign_with: Any = None, algorithm: str = "ES256", **claims: Any) -> str:
        """A JWT about somebody; what is given replaces claims, None takes them away."""
        [(name, key)] = self.keys.items()
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ann@example.com", "exp": time.time() + 600, "groups": ["ml-team"]}
        given = {claim: value for claim, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(given, key if sign_with is None else sign_with, algorithm=algorithm, headers={"kid": name})

    async def _about(self, _request: web.Request) -> web.Response:
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    async def _published(self, _request: web.Request) -> web.Response:
        self.asked_for_keys += 1
        public = [
            {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": name, "use": "sig", "alg": "ES256"}
            for name, key in self.keys.items()
        ]
        return web.json_response({"keys": public})


@asynccontextmanager
async def local_issuer() -> AsyncIterator[LocalIssuer]:
    """An issuer that answers on this machine."""
    issuer = LocalIssuer()
    issuer.change_key()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", issuer._about)
    app.router.add_get("/keys", issuer._published)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield issuer
    finally:
        await runner.cleanup()
