"""The JSON-RPC client with endpoints that answer properly, and with others."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import orjson
import pytest
from aiohttp import web

from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError, RpcFailure
from rollup_node.stages.io.http.json_answers import Call
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient, carries_notifications, raise_for_status
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.protocol.answer_limits import SMALL, AnswerLimit
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import Handler, app_for_every_path, listening
from tests.support.servers.raw_http import Server, url_of

T = TypeVar("T")


def reply(result: Any, request_id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def with_client(handler: Handler, use: Callable[[JsonRpcClient], Awaitable[T]], **options: Any) -> T:
    """Run `use` with the client of a server that answers by this handler."""

    async def main() -> T:
        async with listening(app_for_every_path(handler)) as (url,):
            client = JsonRpcClient(f"{url}/secret-key", **options)
            try:
                return await use(client)
            finally:
                await client.close()

    return run_within(60, main)


async def echo(request: web.Request) -> web.Response:
    body = orjson.loads(await request.read())
    calls = body if isinstance(body, list) else [body]
    answers = [reply([call["method"], call["params"]], call["id"]) for call in calls]
    return web.json_response(answers[::-1] if isinstance(body, list) else answers[0])


def answering(body: bytes, status: int = 200, **headers: str) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=body, status=status, headers=names)

    return handler


def failure_of(handler: Handler, **options: Any) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        with_client(handler, lambda client: client.call("eth_chainId"), **options)
    assert "secret-key" not in str(caught.value)
    assert str(caught.value).startswith("127.0.0.1:")
    return caught.value


def test_an_error_object_is_an_rpc_failure() -> None:
    body = orjson.dumps(
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "header not found", "data": 7}}
    )
    for status in (200, 400):
        with pytest.raises(RpcFailure) as caught:
            with_client(answering(body, status), lambda client: client.call("eth_x"))
        assert (caught.value.code, caught.value.message, caught.value.data) == (-32000, "header not found", 7)
        with pytest.raises(RpcFailure):
            with_client(answering(body, status), lambda client: client.call_raw("eth_x"))


@pytest.mark.option("l1.rpc-max-batch-size")
def test_a_batch_is_split_and_matched_by_id() -> None:
    """[LHD30] One call is no array."""
    sizes: list[int] = []

    async def handler(request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        sizes.append(len(body) if isinstance(body, list) else 0)
        if sizes[-1] == 0 and body["method"] == "bad":
            return web.json_response({"id": None, "error": {"code": 3, "message": "no"}})
        return await echo(request)

    calls = [("eth_x", [i]) for i in range(7)]
    results = with_client(handler, lambda client: client.batch(calls), max_batch=3)
    assert results == [["eth_x", [i]] for i in range(7)] and sorted(sizes) == [0, 3, 3]
    sizes.clear()
    calls[1] = ("bad", [])
    first, second, third = with_client(handler, lambda client: client.batch(calls[:3]), max_batch=1)
    assert (first, third, sizes) == (["eth_x", [0]], ["eth_x", [2]], [0, 0, 0])
    assert isinstance(second, RpcFailure) and second.code == 3


SINGLE = b'HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{"jsonrpc":"2.0","id":1,"result":"0xaa"}'
NO_ARRAYS = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Batch requests are not supported"}}'
REFUSALS: list[tuple[int, bytes]] = [
    (200, NO_ARRAYS),
    (200, b"[" + NO_ARRAYS + b"]"),
    (200, NO_ARRAYS.replace(b"-32600", b"-32007")),
    (200, NO_ARRAYS.replace(b"-32600", b"-32005")),
    (200, b'[{"id":"1","result":1},{"id":"2","result":1}]'),
    (400, NO_ARRAYS),
    (400, b"<html>"),
    (500, b""),
    (500, NO_ARRAYS),
]


@pytest.mark.parametrize(("status", "body"), REFUSALS)
async def test_an_endpoint_that_refuses_arrays_is_asked_for_each_call(
    status: int, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[LHD30]"""
    lines: list[Record] = []
    log.configure("l1", Level.INFO, lines.append)
    refusal = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)
    server = Server(refusal, *[SINGLE] * 4, refusal, *[SINGLE] * 2)
    async with url_of(server) as url:
        client = JsonRpcClient(str(url))
        calls: list[Call] = [("a", []), ("b", [])]
        assert [await client.batch(calls) for _ in range(2)] == [["0xaa"] * 2] * 2
        assert not client.takes_batches
        assert [b"\r\n\r\n[" in request for _, request in server.requests] == [True, *[False] * 4], "it is remembered"
        monkeypatch.setattr(client, "_arrays_from", time.monotonic())
        assert await client.batch(calls) == ["0xaa"] * 2
        assert [b"\r\n\r\n[" in request for _, request in server.requests[5:]] == [True, False, False], "not for ever"
        await client.close()
    assert [(line.message, line.fields["endpoint"]) for line in lines] == [
        ("the endpoint refuses JSON-RPC batches: its calls are sent one by one", client.name)
    ]


@pytest.mark.parametrize(
    ("responses", "text"),
    [
        (["500", "503"], "status 500"),
        (["500", "429"], "status 429"),
        (["503"], "status 503"),
        (["429"], "status 429"),
    ],
)
async def test_an_endpoint_that_fails_is_still_sent_arrays(responses: list[str], text: str) -> None:
    """[LHD30]"""
    server = Server(*(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode() for status in responses))
    async with url_of(server) as url:
        client = JsonRpcClient(str(url))
        with pytest.raises(EndpointError, match=text):
            await client.batch([("a", []), ("b", [])])
        assert client.takes_batches and len(server.requests) == len(responses)
        await client.close()


async def test_the_answers_instead_of_an_array_are_limited_together() -> None:
    """[LHD24]"""
    async with url_of(Server(b"HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n", *[SINGLE] * 4)) as url:
        client = JsonRpcClient(str(url))
        with pytest.raises(AnswerTooLargeError, match="longer than 100 bytes"):
            await client.batch([("a", [])] * 4, limit=AnswerLimit(100, 100))
        await client.close()


@pytest.mark.fault("F5")
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"<html>\n<b>Bad gateway</b>", 502, "HTTP status 502: <html> <b>Bad gateway</b>"),
        (b"<html>ok</html>", 200, "the answer is not JSON: <html>ok</html>"),
        (b'{"jsonrpc":"2.0","id":1,"res', 200, "not JSON"),
        (b"[1]", 200, "not one to this request"),
        (b'{"id":1}', 200, "neither result nor error"),
        (b"", 401, "HTTP status 401"),
        (b"", 302, "HTTP status 302"),
    ],
)
def test_responses_that_are_not_json_rpc(body: bytes, status: int, text: str) -> None:
    error = failure_of(answering(body, status))
    assert text in str(error)
    assert error.status == (None if status == 200 else status)


def test_response_size_is_limited_by_method() -> None:
    """[LHD24] A raw call gives the whole body."""
    assert "longer than 5000 bytes" in str(failure_of(answering(b" " * 200_000), max_body=5000))
    body = b'{"id":1,"result":"' + b"0" * (2 << 20) + b'"}'
    assert with_client(answering(body), lambda client: client.call_raw("eth_getBlockByNumber", "0x1", True)) == body
    assert "longer than 1048576 bytes" in str(failure_of(answering(body)))
    assert len(with_client(answering(body), lambda client: client.call("eth_getBlockByNumber", "0x1", True))) == 2 << 20
    with pytest.raises(AnswerTooLargeError):
        with_client(answering(body), lambda client: client.call_raw("eth_getBlockByNumber", "0x1", limit=SMALL))


@pytest.mark.option("l1.max-concurrency")
def test_concurrency_is_bounded() -> None:
    running = highest = 0
    together = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        if running == 3:
            together.set()
        await together.wait()
        await asyncio.sleep(0.01)
        running -= 1
        return await echo(request)

    async def use(client: JsonRpcClient) -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*(client.call("a", i) for i in range(12)))

    with_client(handler, use, max_concurrency=3)
    assert highest == 3


def test_the_first_error_of_a_batch_cancels_the_rest() -> None:
    async def handler(request: web.Request) -> web.Response:
        if isinstance(orjson.loads(await request.read()), dict):
            return web.Response(status=500)
        await asyncio.sleep(30)
        return web.Response()

    with pytest.raises(EndpointError, match="status 500"):
        with_client(handler, lambda client: client.batch([("a", [])] * 3), max_batch=2)


def test_calls_beyond_the_rate_wait() -> None:
    async def use(client: JsonRpcClient) -> float:
        started = time.monotonic()
        for _ in range(3):
            await client.call("m")
        return time.monotonic() - started

    assert with_client(echo, use, rate_limit=20.0, max_batch=1) >= 0.1


def test_an_error_object_is_a_failure_unless_the_server_is_overloaded_or_broken() -> None:
    body = b'{"id":1,"error":{"code":-5,"message":"no"}}'
    for status in (302, 400, 401, 403):
        with pytest.raises(RpcFailure, match="error -5: no"):
            raise_for_status("name", status, body, "")
    for status in (429, 500, 503):
        with pytest.raises(EndpointError, match=f'^name: HTTP status {status}: {{"id":1,'):
            raise_for_status("name", status, body, "")
    for header, seconds in (("", None), ("7", 7.0), ("Wed, 21 Oct 2015", None), ("-1", None)):
        with pytest.raises(EndpointError, match=r"^name: HTTP status 401$") as caught:
            raise_for_status("name", 401, b"", header)
        assert (caught.value.status, caught.value.retry_after) == (401, seconds)


def test_a_redirect_that_is_not_followed_names_where_it_leads() -> None:
    """Without its path and login, which may be secret [LHD28]."""
    error = failure_of(answering(b"<html>", 301, Location="https://me:key@host.example/key"))
    assert str(error).endswith(": HTTP status 301: use the URL that it redirects to, at host.example:443")


def test_which_endpoints_carry_notifications() -> None:
    urls = ("ws://host", "WSS://host:1/path", "/run/geth.ipc", "./a.ipc", "http://host", "ws://[", "nonsense")
    assert list(map(carries_notifications, urls)) == [True] * 4 + [False] * 3
