"""The way to an upstream: through the proxy that the environment names, and with its certificates."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ctxwrap.service.serve.upstream import UpstreamTransport


async def _status_and_line(url: str, monkeypatch: pytest.MonkeyPatch, tls: ssl.SSLContext | None) -> tuple[int, str]:
    """Ask for `url`, in which PORT stands for that of a server; its status, and the first line that it was sent."""
    lines: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines.append(head.decode().splitlines()[0])
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        transport = UpstreamTransport()
        request = httpx.Request("GET", url.replace("PORT", str(port)))
        request.extensions["timeout"] = {"connect": 20.0, "read": 20.0}
        try:
            response = await transport.handle_async_request(request)
            await response.aclose()
        finally:
            await transport.aclose()
    return response.status_code, lines[0]


def test_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://models.example/v1/models"
    assert asyncio.run(_status_and_line(url, monkeypatch, None)) == (204, f"GET {url} HTTP/1.1")


def test_upstream_in_no_proxy_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    url = "http://127.0.0.1:PORT/v1/models"
    assert asyncio.run(_status_and_line(url, monkeypatch, None)) == (204, "GET /v1/models HTTP/1.1")


def _self_signed(directory: Path) -> Path:
    """A file with a certificate for 127.0.0.1 and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = directory / "certificate.pem"
    path.write_bytes(secret + certificate.public_bytes(encoding))
    return path


def test_certificate_of_the_environment_is_trusted_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = _self_signed(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    url = "https://127.0.0.1:PORT/v1/models"
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(_status_and_line(url, monkeypatch, tls))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert asyncio.run(_status_and_line(url, monkeypatch, tls)) == (204, "GET /v1/models HTTP/1.1")
