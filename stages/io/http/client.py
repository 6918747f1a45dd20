"""The HTTP client: connections over TCP and TLS are kept, and bounded in time, bytes and number [LHD2, LHD28, LHD29].

An exchange costs a quarter of what aiohttp's client takes. Exchanges at a time have a connection each."""

import asyncio
import functools
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import aiohappyeyeballs
from yarl import URL

from rollup_node.stages.io.http.connection import (
    BodyEncodingError,
    BodyTooLargeError,
    DeadlineError,
    HttpConnection,
    HttpError,
    Response,
    ServerDisconnectedError,
    decompressed,
)
from rollup_node.stages.io.http.credentials import Credentials
from rollup_node.stages.io.http.endpoint_errors import (
    AnswerTooLargeError,
    EndpointError,
    NoAnswerError,
    endpoint_name,
    parsed_url,
    why_broken,
    why_not_connected,
)
from rollup_node.stages.io.http.proxies import NOT_HTTP, ProxyError, Tunnel, basic_login, proxy_name, proxy_of, through

HAPPY_EYEBALLS_DELAY = 0.25
"""Seconds until the next address of a host is tried as well (RFC 8305)."""
MAX_REDIRECTS = 10
_REDIRECTS = {"GET": (301, 302, 303, 307, 308), "POST": (307, 308)}
"""Statuses that are followed; the others would have a POST sent again without its body."""
PROXY_LOGIN = 407
"""The status by which a proxy asks for a login."""
P = TypeVar("P", bound=asyncio.Protocol)

Headers = Callable[[], Mapping[str, str]]
Tls = Callable[[], ssl.SSLContext]
Take = Callable[[bytes], None]


class HttpAnswer(NamedTuple):
    """The answer to a request, decompressed. The names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Request(NamedTuple):
    """One request and its bounds; `deadline` by the clock of the loop."""

    method: str
    url: URL
    body: bytes
    timeout: float
    deadline: float
    max_answer: int
    take: Take | None
    tls: ssl.SSLContext | None


class HttpClient:
    """Requests to the server of a URL, which errors name `name`; `headers` and `tls` are called for every request.

    `tls` is for `https` instead of the system's authorities; another context than before means another connection.
    `direct` has the proxies of the environment ignored."""

    def __init__(
        self,
        url: str | URL,
        name: str,
        headers: Headers | None = None,
        tls: Tls | None = None,
        *,
        direct: bool = False,
    ) -> None:
        self.name, self._direct = name, direct
        self._url = parsed_url(url) or URL()
        self._headers: Headers = headers or dict
        self._tls: Callable[[], ssl.SSLContext | None] = tls or (lambda: None)
        self._credentials = Credentials(self._url)
        self._server = _Server(self._url, name, direct)
        self._other_server: _Server | None = None
        self._used_headers: Mapping[str, str] | None = None
        self._post_head = b""

    async def post(self, body: bytes, timeout: float, max_answer: int) -> HttpAnswer:
        """Return the answer of any status to JSON sent to the URL. Raises EndpointError, AnswerTooLargeError."""
        own = self._headers()
        if own != self._used_headers:
            self._post_head = _post_head(self._url, own, self.name)
            self._used_headers = dict(own)
        head = b"%b%d\r\n\r\n" % (self._post_head, len(body))
        return await self._exchange(head, self._request("POST", self._url, body, timeout, max_answer), own, {})

    def below(self, path: str, query: Iterable[tuple[str, str]] = ()) -> URL:
        """Return a URL of the server: a hosted one may have its key in the path or the query of ours."""
        url = self._url.with_path(f"{self._url.path.rstrip('/')}/{path}")
        return url.with_query([*self._url.query.items(), *query])

    async def get(
        self, url: URL, headers: Mapping[str, str], timeout: float, max_answer: int, take: Take | None = None
    ) -> HttpAnswer:
        """Return the answer of any status for a URL of the server. Raises EndpointError, AnswerTooLargeError.

        With `take`, the body of a success is handed over piece by piece, as it was sent."""
        own = self._headers()
        request = self._request("GET", url, b"", timeout, max_answer, take)
        return await self._exchange(_get_head(url, self.name, own, headers), request, own, headers)

    async def _exchange(
        self, head: bytes, request: _Request, own: Mapping[str, str], headers: Mapping[str, str]
    ) -> HttpAnswer:
        """Return the answer to a request with our own headers, behind redirects, without our credentials."""
        answer = await self._server.exchange(head, request)
        if answer.status in _REDIRECTS[request.method]:
            answer = await self._followed(request, answer, headers)
        return answer._replace(body=self._credentials.masked(answer.body, own, answer.status))

    def masked(self, text: str) -> str:
        """Return what is to be shown of an answer without our credentials."""
        return self._credentials.masked(text.encode(), self._headers()).decode()

    async def close(self) -> None:
        """Close the connections, and requests in flight fail; another request opens new ones."""
        for server in (self._server, self._other_server):
            if server is not None:
                server.close()
        # The sockets are closed in the next round of the event loop.
        await asyncio.sleep(0)

    def _request(
        self, method: str, url: URL, body: bytes, timeout: float, max_answer: int, take: Take | None = None
    ) -> _Request:
        deadline = asyncio.get_running_loop().time() + timeout
        return _Request(method, url, body, timeout, deadline, max_answer, take, self._tls())

    async def _followed(self, request: _Request, answer: HttpAnswer, headers: Mapping[str, str]) -> HttpAnswer:
        """Return the answer behind a redirect; another host gets neither our headers nor the URL's login [LHD28]."""
        is_trusted = True
        for followed in range(MAX_REDIRECTS + 1):
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS[request.method] or not location:
                return answer
            if followed == MAX_REDIRECTS:
                break
            target = _redirected(request.url, location, self.name)
            own = self._headers()
            # Another host may not lead back to ours with our credentials either.
            is_trusted = is_trusted and _is_trusted(self._url, target)
            if not is_trusted:
                own = {}
            elif target.user is None:
                target = target.with_user(self._url.user).with_password(self._url.password)
            request = request._replace(url=target)
            if request.method == "GET":
                head = _get_head(target, self.name, own, headers)
            else:
                head = b"%b%d\r\n\r\n" % (_post_head(target, own, self.name), len(request.body))
            answer = await self._server_of(target).exchange(head, request)
        raise EndpointError(self.name, f"more than {MAX_REDIRECTS} redirects")

    def _server_of(self, url: URL) -> "_Server":
        """Return the connections to a server; of others than ours only those to the last one are kept."""
        if self._server.is_at(url):
            return self._server
        if self._other_server is None or not self._other_server.is_at(url):
            if self._other_server is not None:
                self._other_server.close_idle()
            name = f"{self.name}, redirected to {endpoint_name(str(url))}"
            self._other_server = _Server(url, name, self._direct)
        return self._other_server


class _Server:
    """The connections to the server of a URL, each for one exchange at a time; through a proxy unless `direct`."""

    def __init__(self, url: URL, name: str, direct: bool) -> None:
        self.name = name
        self._url, self._proxy = url, None if direct else proxy_of(url)
        self._scheme, self._host, self._port = url.scheme, url.raw_host or "", url.port
        self._tls: ssl.SSLContext | None = None
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()

    def is_at(self, url: URL) -> bool:
        return (url.scheme, url.raw_host, url.port) == (self._scheme, self._host, self._port)

    async def exchange(self, head: bytes, request: _Request) -> HttpAnswer:
        """Return the answer to a request, of any status. Raises EndpointError and AnswerTooLargeError."""
        if request.tls is not self._tls:
            self.close_idle()
            self._tls = request.tls
        if self._proxy is not None and self._scheme == "http":
            head = through(self._proxy, self._url, head)
        try:
            try:
                response = await self._send(head, request)
            # The server closed the idle connection while the request was on its way.
            except ServerDisconnectedError:
                self.close_idle()
                response = await self._send(head, request)
            if response.status == PROXY_LOGIN and self._proxy is not None:
                text = f"the proxy {proxy_name(self._proxy)} wants a login (HTTP status {PROXY_LOGIN})"
                raise EndpointError(self.name, text, PROXY_LOGIN)
            encoding = response.headers.get("content-encoding", "")
            body = b"" if request.take else await decompressed(response.body, encoding, request.max_answer)
            return HttpAnswer(response.status, response.headers, body)
        except BodyTooLargeError as error:
            self.close_idle()
            raise AnswerTooLargeError(self.name, str(error)) from None
        except BodyEncodingError as error:
            self.close_idle()
            raise EndpointError(self.name, str(error)) from None
        except DeadlineError:
            raise NoAnswerError(self.name, request.timeout) from None
        except HttpError as error:
            raise EndpointError(self.name, f"the connection failed ({error})") from None
        except OSError as error:
            raise EndpointError(self.name, f"the connection failed ({why_broken(error)})") from None

    def close(self) -> None:
        """Close the connections; requests in flight fail."""
        for connection in self._open:
            connection.close()
        self._idle.clear()
        self._open.clear()

    def close_idle(self) -> None:
        """Close the connections without a request."""
        for connection in self._idle:
            connection.close()
        self._open.difference_update(self._idle)
        self._idle.clear()

    async def _send(self, head: bytes, request: _Request) -> Response:
        connection = self._idle_connection() or await self._connect(request)
        try:
            response = await connection.exchange(head, request.body, request.max_answer, request.deadline, request.take)
        except BaseException:
            connection.abort()
            self._open.discard(connection)
            raise
        if connection.is_open and request.tls is self._tls:
            self._idle.append(connection)
        else:
            connection.close()
            self._open.discard(connection)
        return response

    def _idle_connection(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            self._open.discard(connection)
        return None

    async def _connect(self, request: _Request) -> HttpConnection:
        """Return an open connection. Raises EndpointError."""
        if self._scheme not in ("http", "https") or not self._host:
            raise EndpointError(self.name, "cannot connect (it has no URL of HTTP)")
        try:
            async with asyncio.timeout_at(request.deadline):
                connection = await self._open_connection(request.tls)
        except TimeoutError:
            reason = "no answer in time"
        except OSError as error:
            reason = why_not_connected(error)
        except UnicodeError:
            reason = "the host name is invalid"
        except ProxyError as error:
            reason = str(error)
        else:
            self._open.add(connection)
            return connection
        by = "" if self._proxy is None or not self._proxy.raw_host else f"through the proxy {proxy_name(self._proxy)}: "
        raise EndpointError(self.name, f"cannot connect ({by}{reason})")

    async def _open_connection(self, tls: ssl.SSLContext | None) -> HttpConnection:
        """Connect to the first address that answers, through a tunnel if it has to be, and make the handshake of TLS.

        Raises also ProxyError."""
        tls = (tls or _system_tls()) if self._scheme == "https" else None
        host = self._host.rstrip(".")
        if self._proxy is None:
            return await _connected(HttpConnection, self._host, self._port, tls)
        if not self._proxy.raw_host:
            raise ProxyError(NOT_HTTP)
        proxy_tls = _system_tls() if self._proxy.scheme == "https" else None
        if tls is None:
            return await _connected(HttpConnection, self._proxy.raw_host, self._proxy.port, proxy_tls)
        tunnel = await _connected(Tunnel, self._proxy.raw_host, self._proxy.port, proxy_tls)
        try:
            transport = await tunnel.open(self._proxy, host, self._port or 443)
            connection = HttpConnection()
            loop = asyncio.get_running_loop()
            secure = await loop.start_tls(transport, connection, tls, server_hostname=host)
            if secure is None:
                raise ProxyError("it closed the connection")
        except BaseException:
            tunnel.abort()
            raise
        connection.connection_made(secure)
        return connection


async def _connected(protocol: type[P], host: str, port: int | None, tls: ssl.SSLContext | None) -> P:
    """Return the protocol of a connection to the first address of a host that answers."""
    connected = await aiohappyeyeballs.start_connection(
        await _addresses(host, port), happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY, interleave=1
    )
    name = None if tls is None else host.rstrip(".")
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(protocol, sock=connected, ssl=tls, server_hostname=name))[1]


async def _addresses(host: str, port: int | None) -> list[Any]:
    """Return the addresses of a host, as getaddrinfo does."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # No thread is started to look up what is an address already.
    if version == 4:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)


@functools.cache
def _system_tls() -> ssl.SSLContext:
    """Return the context that trusts the authorities of the system, which are read once."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _redirected(url: URL, location: str, name: str) -> URL:
    """Return where a redirect of `url` leads. Raises EndpointError."""
    parsed = parsed_url(location)
    target = URL() if parsed is None else url.join(parsed)
    if target.scheme not in ("http", "https") or not target.raw_host:
        raise EndpointError(name, "redirects to what is no URL of HTTP")
    return target


def _is_trusted(url: URL, target: URL) -> bool:
    """Return whether the target of a redirect may see the credentials for `url`."""
    return target.raw_host == url.raw_host and (url.scheme, target.scheme) != ("https", "http")


def _get_head(url: URL, name: str, *headers: Mapping[str, str]) -> bytes:
    return f"GET {url.raw_path_qs} HTTP/1.1\r\n{_lines(url, name, *headers)}\r\n".encode()


def _post_head(url: URL, headers: Mapping[str, str], name: str) -> bytes:
    """Return the head of a request up to the number of Content-Length."""
    lines = _lines(url, name, {"Content-Type": "application/json"}, headers)
    return f"POST {url.raw_path_qs} HTTP/1.1\r\n{lines}Content-Length: ".encode()


def _lines(url: URL, endpoint: str, *headers: Mapping[str, str]) -> str:
    """Return a request's header lines, those of `headers` before ours. Raises EndpointError for several lines."""
    own = {
        "Host": url.host_port_subcomponent or "",
        "User-Agent": "rollup-node",
        "Accept": "application/json",
        "Accept-Encoding": "gzip",
    }
    if login := basic_login(url):
        own["Authorization"] = login
    lines: dict[str, tuple[str, str]] = {}
    for name, value in chain.from_iterable(some.items() for some in (own, *headers)):
        lines.pop(name.lower(), None)
        lines[name.lower()] = name, value
    if any(c in text for pair in lines.values() for text in pair for c in "\r\n\0"):
        raise EndpointError(endpoint, "a header of the request has a line break")
    return "".join(f"{name}: {value}\r\n" for name, value in lines.values())
