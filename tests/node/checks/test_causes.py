"""Failures of endpoints, each with its cause."""

import asyncio
import time

import pytest
from aiohttp import web
from yarl import URL

from rollup_node.node.checks.causes import (
    Answer,
    clock_skew,
    engine_code,
    http_get,
    is_final,
    rejection,
    skew_text,
    unusable,
)
from rollup_node.stages.io.http.endpoint_errors import EndpointError, NoAnswerError, RpcFailure
from rollup_node.stages.messages.codes import Code
from tests.support.servers.http_listener import app_for_every_path, listening


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cannot connect (Connection refused)", Code.L1_UNREACHABLE),
        ("cannot connect (TLS: the port does not speak TLS (wrong version number))", Code.TLS_PORT),
        ("HTTP status 400: Client sent an HTTP request to an HTTPS server.", Code.TLS_PORT),
        ("HTTP status 400: The plain HTTP request was sent to HTTPS port", Code.TLS_PORT),
        ("cannot connect (TLS: certificate not accepted, self-signed certificate)", Code.TLS_CERTIFICATE),
    ],
)
def test_why_an_endpoint_cannot_be_used(text: str, code: Code) -> None:
    failure = EndpointError("h:1", text)
    result = unusable("L1 h:1", "L1", "l1", Code.L1_UNREACHABLE, failure)
    assert (result.code, result.text) == (code, f"L1 cannot be used, h:1: {text}")
    assert "--l1" in result.remedy
    assert is_final(failure) is (code is not Code.L1_UNREACHABLE)


def test_an_engine_that_is_up_and_slow() -> None:
    assert engine_code(NoAnswerError("h", 2.0)) is Code.ENGINE_SLOW
    assert engine_code(EndpointError("h", "cannot connect")) is Code.ENGINE_UNREACHABLE


@pytest.mark.parametrize(
    ("failure", "final"),
    [
        (EndpointError("h", "x", 404), True),
        (EndpointError("h", "x", 429), False),
        (EndpointError("h", "x", 503), False),
        (RpcFailure(-32601, "no"), True),
        (RpcFailure(-32000, "no"), False),
    ],
)
def test_what_is_tried_again(failure: EndpointError | RpcFailure, final: bool) -> None:
    assert is_final(failure) is final


@pytest.mark.fault("F43")
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (EndpointError("h", "HTTP status 403: invalid host specified", 403), Code.ENGINE_VHOST),
        (EndpointError("h", "HTTP status 401: stale token", 401), Code.ENGINE_CLOCK),
        (EndpointError("h", "HTTP status 401: The iat (issued-at) claim is not within 60 s", 401), Code.ENGINE_CLOCK),
        (EndpointError("h", "HTTP status 401: signature is invalid", 401), Code.ENGINE_AUTH),
        (EndpointError("h", "HTTP status 403", 403), Code.ENGINE_AUTH),
        (RpcFailure(-32000, "Invalid JWT token"), Code.ENGINE_AUTH),
        (RpcFailure(-32000, "out of gas"), None),
        (EndpointError("token.example:1", "cannot connect (Connection refused)"), None),
        (EndpointError("h", "HTTP status 503: token service", 503), None),
    ],
)
async def test_why_an_engine_rejects_us(failure: EndpointError | RpcFailure, code: Code | None) -> None:
    result = await rejection("engine", "http://127.0.0.1:1", "jwt.txt", failure, 20.0)
    assert (None if result is None else result.code) is code


async def _skew_of(date: str | None) -> float | None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=405, headers={} if date is None else {"Date": date})

    async with listening(app_for_every_path(answer)) as (url,):
        return await clock_skew(url, 20.0)


async def test_the_clock_of_a_server() -> None:
    assert await _skew_of(None) == 0.0, "aiohttp sends the date itself"
    behind = await _skew_of("Mon, 02 Jan 2023 03:04:05 GMT")
    assert behind is not None and behind < -86400 and skew_text(behind).endswith("s behind ours")
    ahead = await _skew_of("Fri, 01 Jan 2038 00:00:00 GMT")
    assert ahead is not None and skew_text(ahead).endswith("s ahead of ours")
    assert skew_text(0.0) == "its clock and ours agree within a second"
    assert await _skew_of("soon") is None
    assert await clock_skew("http://127.0.0.1:1", 20.0) is None
    assert await clock_skew("nonsense", 20.0) is None


HOLDS_BACK = "/silent"


async def respond(request: web.Request) -> web.Response:
    if request.path == HOLDS_BACK:
        await asyncio.sleep(60)
    return web.Response(body=request.headers.get("X-Key", "").encode(), headers={"X-Server": "a"})


async def get(path: str, timeout: float = 20, limit: int = 100) -> Answer:
    async with listening(app_for_every_path(respond)) as (url,):
        return await http_get("name", URL(url.rstrip("/") + path), {"X-Key": "secret"}, timeout, limit)


async def test_a_response_with_its_times() -> None:
    """The value of the header that is sent comes back, and is masked [LHD33]."""
    before = time.time()
    answer = await get("/")
    assert (answer.status, answer.body, answer.headers["x-server"]) == (200, b"***", "a")
    assert before <= answer.sent <= answer.received <= time.time()


async def test_why_there_is_no_response() -> None:
    with pytest.raises(EndpointError, match=r"name: no answer within 0\.05 s"):
        await get(HOLDS_BACK, timeout=0.05)
    with pytest.raises(EndpointError, match="longer than 5 bytes"):
        await get("/", limit=5)
    with pytest.raises(EndpointError, match=r"cannot connect \(Connection refused\)"):
        await http_get("name", URL("http://127.0.0.1:1"), {}, 20, 100)
