"""Temporal over TLS, by Temporal's own variables alone: as Temporal Cloud is reached, with a certificate or with a key."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from temporalio.envconfig import ClientConfig

from clients.embedded.stack import StackAddresses
from clients.temporal import connect

LOOPBACK = "127.0.0.1"


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """One that signs itself, for the server and for clients alike."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "temporal")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, secret


@asynccontextmanager
async def in_front_of(address: str, certificate: Path, secret: Path) -> AsyncIterator[str]:
    """The same server behind TLS, for who shows a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
    context.load_cert_chain(certificate, secret)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    host, _, port = address.partition(":")

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_server, from_server = await asyncio.open_connection(host, int(port))
        await asyncio.gather(passed_on(reader, from_server), passed_on(to_server, writer))

    server = await asyncio.start_server(answer, LOOPBACK, 0, ssl=context)
    try:
        yield f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_a_certificate_of_the_environment_opens_a_server_behind_tls(
    unserved_stack: StackAddresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, secret = write_certificate(tmp_path)
    async with in_front_of(unserved_stack.temporal_address, certificate, secret) as address:
        monkeypatch.setenv("TEMPORAL_ADDRESS", address)
        monkeypatch.setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", str(certificate))
        with pytest.raises(RuntimeError):
            await connect(serves=False)
        monkeypatch.setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", str(certificate))
        monkeypatch.setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", str(secret))
        client = await connect(serves=False)
        assert await client.service_client.check_health()
        del client


def test_a_key_of_the_environment_is_never_sent_in_clear() -> None:
    told = {"TEMPORAL_ADDRESS": "n.a1b2c.tmprl.cloud:7233", "TEMPORAL_NAMESPACE": "n.a1b2c", "TEMPORAL_API_KEY": "k"}
    config = ClientConfig.load_client_connect_config(disable_file=True, override_env_vars=told)
    assert (config.get("api_key"), config.get("tls"), config.get("namespace")) == ("k", True, "n.a1b2c")
