"""Redirects are followed as Go's client does, over TCP and TLS [LHD28]."""

import pytest

from rollup_node.stages.io.http.client import MAX_REDIRECTS, HttpClient
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from tests.support.servers.raw_http import (
    LIMIT,
    OK,
    Server,
    Tls,
    answers,
    ask,
    client_of,
    got,
    over_both,
    tls,
    url_of,
)


def to(location: str, status: int = 307) -> bytes:
    return f"HTTP/1.1 {status} Elsewhere\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_get_is_redirected(status: int) -> None:
    server = Server(to("/moved?a=b", status), OK)
    assert got(server, {"Accept": "application/json"}).body == b"{}"
    assert [number for number, _ in server.requests] == [1, 1], "over the same connection"
    first, second = (request.partition(b"\r\n") for _, request in server.requests)
    assert (second[0], second[2]) == (b"GET /moved?a=b HTTP/1.1", first[2]), "with the same headers, and login"


def test_a_post_is_redirected_as_long_as_it_keeps_its_body() -> None:
    """And nothing without a target."""
    assert got(Server(to("", 302)), {}).status == 302
    server = Server(to("/moved", 308), OK, to("/moved", 301))
    assert answers(server, 2, headers=lambda: {"Authorization": "token"}) == [b"{}", b""]
    assert [request.split(b" ")[1] for _, request in server.requests] == [b"/a%20b?c=d", b"/moved", b"/a%20b?c=d"]
    assert server.requests[1][1].endswith(b"Authorization: token\r\nContent-Length: 2\r\n\r\n{}")


@over_both
async def test_another_host_gets_no_credentials() -> None:
    other = Server(OK, OK, OK)
    async with url_of(other, host="localhost") as elsewhere:
        server = Server(*[to(str(elsewhere.with_path("/x")))] * 3)
        async with client_of(server, user="me:secret@", headers=lambda: {"X-Key": "key"}) as client:
            assert await ask(client) == await ask(client) == b"{}"
        async with url_of(server) as url:
            client = HttpClient(url, "name", lambda: {"X-Key": "key"}, tls)
            await client.get(url, {"Accept": "text/plain"}, 20, LIMIT)
            await client.close()
    for _, request in other.requests:
        assert b"key" not in request and b"Authorization" not in request
    assert [number for number, _ in other.requests] == [1, 1, 2], "connections elsewhere are kept as well"
    assert b"Accept: text/plain" in other.requests[2][1]


@pytest.mark.parametrize("scheme", ["https"], indirect=True)
async def test_the_same_host_gets_no_credentials_without_tls(scheme: None) -> None:
    server, plain = Server(), Server(OK)
    async with url_of(server, user="me:secret@") as url:
        Tls.server = None
        async with url_of(plain) as elsewhere:
            server._responses.append(to(str(elsewhere)))
            client = HttpClient(url, "name", lambda: {"X-Key": "key"}, tls)
            assert await ask(client) == b"{}"
            await client.close()
    assert b"X-Key: key" in server.requests[0][1] and b"Authorization" in server.requests[0][1]
    assert b"key" not in plain.requests[0][1] and b"Authorization" not in plain.requests[0][1]


async def test_another_host_does_not_lead_back_with_credentials() -> None:
    server, other = Server(), Server()
    async with url_of(other, host="localhost") as elsewhere, url_of(server, user="me:secret@") as url:
        server._responses[:] = [to(str(elsewhere)), OK]
        other._responses[:] = [to(str(url.with_user(None).with_path("/danger")))]
        client = HttpClient(url, "name", lambda: {"X-Key": "key"}, tls)
        assert await ask(client) == b"{}"
        await client.close()
    first, back = (request for _, request in server.requests)
    assert b"X-Key: key" in first and b"Authorization" in first
    assert back.startswith(b"POST /danger ") and b"key" not in back and b"Authorization" not in back


@pytest.mark.parametrize(
    ("responses", "text"),
    [
        ([to("/again")] * (MAX_REDIRECTS + 1), "name: more than 10 redirects"),
        ([to("ftp://127.0.0.1/")], "name: redirects to what is no URL of HTTP"),
        *(([to(bad)], "name: redirects to what is no URL of HTTP") for bad in ("http://[", "http://[u]@")),
        (
            [to("http://127.0.0.1:1/")],
            "name, redirected to 127.0.0.1:1: cannot connect (Connection refused)",
        ),
    ],
)
def test_redirects_that_lead_nowhere(responses: list[bytes], text: str) -> None:
    with pytest.raises(EndpointError) as caught:
        answers(Server(*responses), 1)
    assert str(caught.value) == text
