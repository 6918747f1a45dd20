"""Which proxy the environment names for a URL, and proxies that do what they should, or anything else [LHD31]."""

import asyncio
import base64
import socket
from asyncio import StreamReader, StreamWriter

import pytest
from aiohttp import web
from yarl import URL

from rollup_node.stages.io.http import client as http_client
from rollup_node.stages.io.http import proxies
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.http.proxies import proxy_name, proxy_of
from tests.support.servers.certificates import BEHIND_A_PROXY, certificate, client_context, server_context
from tests.support.servers.http_listener import app_for_every_path
from tests.support.servers.raw_http import (
    OK,
    Proxy,
    Serve,
    Server,
    Tls,
    ask,
    behind_proxy,
    over_both,
    proxied,
    serving,
    tls,
    url_of,
)

HTTP, HTTPS = "http://p:1", "http://s:2"


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://a.b:8545", {"HTTP_PROXY": HTTP, "HTTPS_PROXY": HTTPS}, HTTP),
        ("https://a.b", {"HTTP_PROXY": HTTP, "HTTPS_PROXY": HTTPS}, HTTPS),
        ("https://a.b", {"HTTP_PROXY": HTTP}, None),
        ("http://a.b", {"HTTPS_PROXY": HTTPS, "ALL_PROXY": HTTP}, None),
        ("ws://a.b", {"http_proxy": HTTP}, HTTP),
        ("wss://a.b", {"https_proxy": HTTPS}, HTTPS),
        ("http://a.b", {"HTTP_PROXY": HTTP, "http_proxy": HTTPS}, HTTP),
        ("http://a.b", {"HTTP_PROXY": "", "http_proxy": HTTPS}, HTTPS),
        ("http://a.b", {"HTTP_PROXY": "p:1"}, HTTP),
        ("http://a.b", {"HTTP_PROXY": "https://u:p@p:1/x"}, "https://u:p@p:1/x"),
        ("http://a.b", {"HTTP_PROXY": "socks5://p:1"}, ""),
        ("http://a.b", {"HTTP_PROXY": "http://[p"}, ""),
        ("http:///x", {"HTTP_PROXY": HTTP}, None),
    ],
)
def test_which_proxy_the_environment_names(url: str, environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_of(URL(url), environ) == (None if proxy is None else URL(proxy))
    assert (proxy_name(URL("http://user:secret@p:1/path")), proxy_name(URL())) == ("p:1", "no URL of HTTP")


DIRECT = {
    "": ("localhost", "LOCALHOST.:8545", "127.0.0.1", "127.8.9.9:80", "[::1]:8545", "[::ffff:127.0.0.1]"),
    **{"*": ("a.b",), "x, A.B": ("a.b",), "a.b": ("c.a.b",), ".a.b": ("c.a.b",), "*.a.b": ("c.a.b",)},
    **{"a.b:80": ("a.b",), "a.b:8545,,": ("a.b:8545",), "10.0.0.0/8": ("10.1.2.3",), "10.9.9.9/8": ("10.1.2.3",)},
    **{"10.1.2.3": ("10.1.2.3",), "fd00::1": ("[fd00::1]",), "[fd00::1]:80": ("[fd00::1]:80",)},
}
"""Hosts by the exceptions for which they are asked without a proxy, and others."""
PROXIED = {
    **{"": ("0.0.0.0",), "a.b": ("ca.b",), ".a.b": ("a.b",), "*.a.b": ("a.b",), "a.b:80": ("a.b:8545",)},
    **{"10.0.0.0/8,fd00::/8": ("11.1.2.3",), "10.0.0.0/8": ("a.b",), "10.0.0.0/99": ("10.1.2.3",)},
    **{"10.1.2.3:80": ("10.1.2.3:81",), "10.1.2.3": ("110.1.2.3",), "[fd00::1]:80": ("[fd00::1]:81",)},
    **{":80": ("a.b",), ". ,*.": ("a.b",)},
}


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_which_hosts_are_asked_without_a_proxy(name: str) -> None:
    for expected, table in ((None, DIRECT), (URL(HTTP), PROXIED)):
        for exceptions, hosts in table.items():
            for host in hosts:
                environ = {"HTTP_PROXY": HTTP, name: exceptions}
                assert proxy_of(URL(f"http://{host}"), environ) == expected, (host, exceptions)


async def ask_behind(url: URL, timeout: float = 20.0) -> bytes:
    client = HttpClient(url, "name", lambda: {"X-Key": "key"}, tls)
    try:
        return await ask(client, timeout)
    finally:
        await client.close()


@over_both
async def test_what_a_proxy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(OK, OK)
    async with behind_proxy(server, monkeypatch, login="me:se%40cret@") as (url, proxy):
        client = HttpClient(url.with_user("own"), "name", lambda: {"X-Key": "key"}, tls)
        assert await ask(client) == await ask(client) == b"{}"
        await client.close()
    assert [number for number, _ in server.requests] == [1, 1], "over one connection"
    (head,), login = proxy.heads, base64.b64encode(b"me:se@cret")
    own = b"Authorization: Basic " + base64.b64encode(b"own:")
    host = f"{BEHIND_A_PROXY}:{url.port}".encode()
    assert b"\r\nProxy-Authorization: Basic " + login + b"\r\n" in head and b"\r\nHost: " + host + b"\r\n" in head
    if url.scheme == "http":
        assert head.startswith(b"POST http://" + host + b"/a%20b?c=d HTTP/1.1\r\n") and own in head
        return
    assert head.startswith(b"CONNECT " + host + b" HTTP/1.1\r\n")
    assert b"key" not in head and own not in head
    for _, request in server.requests:
        assert request.startswith(b"POST /a%20b?c=d HTTP/1.1\r\n") and b"Proxy" not in request and own in request


async def test_a_proxy_over_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a server over TCP, and for one over TLS."""
    authority = certificate("authority")
    monkeypatch.setattr(http_client, "_system_tls", lambda: client_context(authority))
    context = server_context(certificate("proxy", authority))
    for inner in (None, context):
        async with serving(Server(OK).serve, inner) as port:
            proxy = Proxy(port)
            async with proxied(proxy.serve, monkeypatch, context=context):
                client = HttpClient(f"http{'s' if inner else ''}://{BEHIND_A_PROXY}:{port}/", "name")
                assert await ask(client) == b"{}"
                await client.close()
        assert len(proxy.heads) == 1


# --- proxies that do not do what they should -------------------------------------------------------------------------

CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


def sending(data: bytes, then_closes: bool = False) -> Serve:
    async def serve(_: StreamReader, writer: StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if then_closes:
            writer.close()

    return serve


async def endless(_: StreamReader, writer: StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X: y\r\n" * 1000)
        await writer.drain()


async def nothing(reader: StreamReader, _: StreamWriter) -> None:
    await reader.read(-1)


async def drip(_: StreamReader, writer: StreamWriter) -> None:
    while True:
        writer.write(b"H")
        await writer.drain()
        await asyncio.sleep(0.01)


BEFORE = {"https": "name: cannot connect (through the proxy 127.0.0.1:PORT: ", "http": "name: "}


@pytest.mark.parametrize(
    ("protocol", "serve", "text"),
    [
        ("https", sending(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"), "it answers HTTP status 407 Proxy"),
        ("https", sending(b"HTTP/1.1 403 " + b"x" * 500 + b"\r\nA: b\r\n\r\n"), "it answers HTTP status 403 xxx"),
        ("https", sending(b"SSH-2.0-x\r\n\r\n"), "its answer is not HTTP)"),
        ("https", sending(CONNECTED + b"more"), "it sends bytes after its answer)"),
        ("https", sending(CONNECTED + b""), "no answer in time)"),
        ("https", endless, f"its answer has more than {proxies.MAX_HEAD} bytes)"),
        ("https", nothing, "no answer in time)"),
        ("https", drip, "no answer in time)"),
        ("https", sending(b"", then_closes=True), "it closed the connection)"),
        ("https", sending(CONNECTED, then_closes=True), ""),
        ("http", sending(b"HTTP/1.1 407 X\r\nContent-Length: 0\r\n\r\n"), "the proxy 127.0.0.1:PORT wants a login"),
        ("http", endless, "the connection failed (too many bytes of headers)"),
        ("http", nothing, "no answer within 0.3 s"),
    ],
)
async def test_a_tunnel_that_is_none_and_a_proxy_of_plain_http(
    protocol: str, serve: Serve, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is an error that shows neither the login nor more than a line of the answer; its connection is closed."""

    async def connected(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await serve(reader, writer)
        await reader.read(-1)

    async with asyncio.timeout(20), proxied(connected, monkeypatch, "me:secret@") as port:
        client = HttpClient(f"{protocol}://behind.invalid/", "name")
        with pytest.raises(EndpointError) as caught:
            await ask(client, 0.3 if "in time" in text or "0.3" in text else 20.0)
        await client.close()
    error = str(caught.value).replace(str(port), "PORT")
    assert error.startswith(BEFORE[protocol] + text) and len(error) < 250 and "secret" not in error


async def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, text in (
        ("http://127.0.0.1:1", r"through the proxy 127\.0\.0\.1:1: Connection refused"),
        ("socks5://127.0.0.1:1", "the proxy that the environment names is no URL of HTTP"),
    ):
        monkeypatch.setenv("HTTP_PROXY", value)
        with pytest.raises(EndpointError, match=rf"^name: cannot connect \({text}\)$"):
            await ask_behind(URL("http://behind.invalid/"))
        client = JsonRpcClient("ws://behind.invalid/")
        with pytest.raises(EndpointError, match=rf"^behind\.invalid:80: cannot connect \({text}\)$"):
            await client.call("eth_x")
        await client.close()


async def test_a_redirect_chooses_the_proxy_of_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """To this host it leads without one."""
    own = Server(OK)
    async with url_of(own) as here:
        to = f"HTTP/1.1 307 X\r\nLocation: {here.with_path('/')}\r\nContent-Length: 0\r\n\r\n".encode()
        async with behind_proxy(Server(to), monkeypatch) as (url, proxy):
            assert await ask_behind(url) == b"{}"
    assert len(proxy.heads) == 1 and b"key" not in own.requests[0][1]


@pytest.mark.parametrize("login", ["", "me:secret@"])
@over_both
async def test_a_web_socket_through_a_proxy(login: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket_ = web.WebSocketResponse()
        socket_.headers["Policy"] = "a" * 30_000
        await socket_.prepare(request)
        async for message in socket_:
            await socket_.send_str(message.data.replace('"method"', '"result"'))
        return socket_

    runner = web.AppRunner(app_for_every_path(echo))
    await runner.setup()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        site = web.SockSite(runner, bound, ssl_context=Tls.server)
        await site.start()
        url = URL(f"ws{'' if Tls.server is None else 's'}://{BEHIND_A_PROXY}:{bound.getsockname()[1]}/")
        proxy = Proxy(url.port)
        async with proxied(proxy.serve, monkeypatch, login):
            client = JsonRpcClient(str(url), tls=tls if Tls.server else None)
            assert await client.call("eth_x") == "eth_x"
            await client.close()
        await runner.cleanup()
    value = b"Basic " + base64.b64encode(b"me:secret")
    assert (b"Proxy-Authorization: " + value in proxy.heads[0]) is bool(login)
