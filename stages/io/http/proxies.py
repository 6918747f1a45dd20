"""The proxies that the environment names, chosen as Go's HTTP client does, and tunnels through them [LHD31]."""

import asyncio
import base64
import ipaddress
import os
from collections.abc import Mapping

from yarl import URL

from rollup_node.stages.io.http.endpoint_errors import endpoint_name, parsed_url
from rollup_node.stages.protocol.texts import one_line

MAX_HEAD = 64 << 10
"""Bytes of a proxy's answer to CONNECT."""
NOT_HTTP = "the proxy that the environment names is no URL of HTTP"
END_OF_HEAD = b"\r\n\r\n"

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ProxyError(Exception):
    """The proxy cannot be used, or does not let us through."""


def proxy_of(url: URL, environ: Mapping[str, str] = os.environ) -> URL | None:
    """Return the proxy for requests to a URL, None for none; it is empty where the environment names no HTTP proxy."""
    name = "HTTPS_PROXY" if url.scheme in ("https", "wss") else "HTTP_PROXY"
    value = environ.get(name) or environ.get(name.lower())
    if not value or not url.raw_host or _is_direct(url, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    proxy = parsed_url(value if "://" in value else f"http://{value}")
    return proxy if proxy is not None and proxy.scheme in ("http", "https") and proxy.raw_host else URL()


def proxy_name(proxy: URL) -> str:
    """Return how logs and errors name a proxy: without its login."""
    return endpoint_name(str(proxy)) if proxy.raw_host else "no URL of HTTP"


def basic_login(url: URL) -> str:
    """Return the value of a header that logs in as a URL says; empty for a URL without a login."""
    if url.user is None and url.password is None:
        return ""
    return "Basic " + base64.b64encode(f"{url.user or ''}:{url.password or ''}".encode()).decode()


def through(proxy: URL, url: URL, head: bytes) -> bytes:
    """Return the head of a request to an `http` URL as the proxy wants it: with the whole URL, and the login."""
    method, _, rest = head.partition(b" ")
    line, _, lines = rest.partition(b"\r\n")
    login = basic_login(proxy)
    own = f"Proxy-Authorization: {login}\r\n" if login else ""
    return b"%b http://%b%b\r\n%b%b" % (method, (url.host_port_subcomponent or "").encode(), line, own.encode(), lines)


def _is_direct(url: URL, exceptions: str) -> bool:
    """Return whether a URL is of this host, or among the exceptions of NO_PROXY."""
    if is_loopback(url):
        return True
    host, port = (url.raw_host or "").rstrip(".").lower(), str(url.port)
    address = _address(host)
    return any(_matches(item.strip(), host, port, address) for item in exceptions.lower().split(",") if item.strip())


def is_loopback(url: URL) -> bool:
    """Return whether a URL is of this machine by its name or address."""
    host = (url.raw_host or "").rstrip(".").lower()
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(item: str, host: str, port: str, address: _Address | None) -> bool:
    """Return whether an item of NO_PROXY names a host: `*`, a network, an address or a domain, perhaps with a port."""
    if item == "*":
        return True
    if "/" in item:
        try:
            return address is not None and address in ipaddress.ip_network(item, strict=False)
        except ValueError:
            return False
    name, colon, digits = item.rpartition(":")
    if not colon or not digits.isdigit() or (":" in name and not name.endswith("]")):
        name, digits = item, ""
    if digits not in ("", port):
        return False
    own = _address(name.strip("[]"))
    if own is not None:
        return own == address
    name = name.removeprefix("*")
    return bool(name) and (host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}"))


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class Tunnel(asyncio.Protocol):
    """A connection to a proxy up to the answer to CONNECT."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._head = bytearray()
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def open(self, proxy: URL, host: str, port: int) -> asyncio.Transport:
        """Return a transport to a server behind the proxy. Raises ProxyError."""
        assert self._transport is not None
        name, login = f"[{host}]:{port}" if ":" in host else f"{host}:{port}", basic_login(proxy)
        lines = [f"CONNECT {name} HTTP/1.1", f"Host: {name}", "User-Agent: rollup-node"]
        lines += [f"Proxy-Authorization: {login}"] if login else []
        self._transport.write("\r\n".join([*lines, "", ""]).encode())
        version, _, status = (await self._answer).decode("latin-1").partition(" ")
        if not version.startswith("HTTP/"):
            raise ProxyError("its answer is not HTTP")
        if not status.startswith("2"):
            raise ProxyError(f"it answers HTTP status {one_line(status)[:100]}")
        return self._transport

    def abort(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        begin = max(0, len(self._head) - len(END_OF_HEAD))
        self._head += data
        end = self._head.find(END_OF_HEAD, begin)
        if end >= 0 and end + len(END_OF_HEAD) < len(self._head):
            self._fail("it sends bytes after its answer")
        elif end >= 0 and not self._answer.done():
            self._answer.set_result(bytes(self._head.partition(b"\r\n")[0]))
        elif len(self._head) > MAX_HEAD:
            self._fail(f"its answer has more than {MAX_HEAD} bytes")

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("it closed the connection")

    def _fail(self, text: str) -> None:
        if not self._answer.done():
            self._answer.set_exception(ProxyError(text))
            # asyncio logs an exception that nobody has looked at.
            self._answer.exception()
        self.abort()
