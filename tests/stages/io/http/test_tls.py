"""The HTTP client and TLS: whom it trusts, and servers that break the handshake."""

import asyncio
import re
import socket
import ssl
from asyncio import StreamReader, StreamWriter
from pathlib import Path

import pytest

from rollup_node.stages.io.http import client as http_client
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.endpoint_errors import EndpointError, NoAnswerError, tls_code
from rollup_node.stages.messages.codes import Code
from tests.support.processes.stage_runner import run_within
from tests.support.servers.certificates import Certificate, certificate, client_context, server_context
from tests.support.servers.raw_http import LIMIT, OK, Serve, serving

AUTHORITY = certificate("authority")


async def answer(reader: StreamReader, writer: StreamWriter) -> None:
    """One request."""
    await reader.readuntil(b"{}")
    writer.write(OK)
    writer.close()


async def ask(port: int, host: str = "127.0.0.1", timeout: float = 20.0) -> bytes:
    """Return the body of an answer, whose client trusts AUTHORITY."""
    client = HttpClient(f"https://{host}:{port}/", "name", tls=lambda: client_context(AUTHORITY))
    try:
        return (await client.post(b"{}", timeout, LIMIT)).body
    finally:
        await client.close()


def error_of(serve: Serve, context: ssl.SSLContext | None, timeout: float = 20.0) -> EndpointError:
    async def main() -> EndpointError:
        async with serving(serve, context) as port:
            with pytest.raises(EndpointError) as caught:
                await ask(port, timeout=timeout)
            return caught.value

    return run_within(30, main)


@pytest.mark.parametrize(
    ("served", "text"),
    [
        (certificate("server"), "self-signed certificate"),
        (certificate("server", certificate("stranger")), "unable to get local issuer certificate"),
        (certificate("server", AUTHORITY, valid_days=-1), "certificate has expired"),
        (
            certificate("server", AUTHORITY, "127.0.0.9"),
            "IP address mismatch, certificate is not valid for '127.0.0.1'.",
        ),
    ],
)
def test_certificates_that_are_not_accepted(served: Certificate, text: str) -> None:
    error = error_of(answer, server_context(served))
    assert str(error) == f"name: cannot connect (TLS: certificate not accepted, {text})"
    assert tls_code(str(error)) is Code.TLS_CERTIFICATE


async def test_the_host_name_is_sent_and_checked() -> None:
    names: list[str | None] = []
    context = server_context(certificate("server", AUTHORITY))
    context.sni_callback = lambda _, name, __: names.append(name)
    context.set_alpn_protocols(["http/1.1", "h2"])
    other = server_context(certificate("server", AUTHORITY, host="elsewhere.example"))
    async with serving(answer, context) as port:
        assert await ask(port, "localhost") == await ask(port) == b"{}"
    async with serving(answer, other) as port:
        with pytest.raises(EndpointError, match="Hostname mismatch, certificate is not valid for 'localhost'"):
            await ask(port, "localhost")
    assert names == ["localhost", None]


async def test_the_authorities_of_the_system_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the file that OpenSSL reads; with them http/1.1 is negotiated."""
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.pem)
    context = server_context(certificate("server", AUTHORITY))
    context.set_alpn_protocols(["h2", "http/1.1"])
    protocols: list[str | None] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        protocols.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await answer(reader, writer)

    try:
        async with serving(serve, context) as port:
            client = HttpClient(f"https://127.0.0.1:{port}/", "name")
            http_client._system_tls.cache_clear()
            with pytest.raises(EndpointError, match="unable to get local issuer certificate"):
                await client.post(b"{}", 20, LIMIT)
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            http_client._system_tls.cache_clear()
            assert (await client.post(b"{}", 20, LIMIT)).body == b"{}"
            await client.close()
    finally:
        http_client._system_tls.cache_clear()
    assert protocols == ["http/1.1"]


def test_a_server_that_closes_within_the_handshake_stalls_or_speaks_no_tls() -> None:
    async def close(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.close()

    async def reset(reader: StreamReader, writer: StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    async def drips(_: StreamReader, writer: StreamWriter) -> None:
        """A record of the handshake, byte by byte."""
        writer.write(b"\x16\x03\x03\x40\x00")
        while True:
            writer.write(b"\x02")
            await writer.drain()
            await asyncio.sleep(0.01)

    async def plain(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    for serve, text, timeout, code in (
        (close, "closed by the server in the TLS handshake)", 20.0, None),
        (reset, "Connection reset by peer)", 20.0, None),
        (drips, "no answer in time)", 0.2, None),
        (plain, "TLS: the port does not speak TLS (", 20.0, Code.TLS_PORT),
    ):
        error = error_of(serve, None, timeout)
        assert str(error).startswith(f"name: cannot connect ({text}") and not isinstance(error, NoAnswerError)
        assert tls_code(str(error)) is code


def test_errors_after_the_handshake() -> None:
    """Records that are damaged, as by a middlebox: the text is OpenSSL's. With TLS 1.3 a server that refuses the
    client's certificate says so then."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.transport._ssl_protocol._transport.write(b"no TLS record at all")  # type: ignore[attr-defined]
        await reader.read()

    context = server_context(certificate("server", AUTHORITY))
    assert str(error_of(serve, context)).startswith("name: the connection failed (TLS: ")
    context.verify_mode = ssl.CERT_REQUIRED
    assert re.search(r"^name: .*(TLS: |closed|reset)", str(error_of(answer, context)))
