"""Reading inputs from DA servers, also from ones that misbehave [ADA1 to ADA3]."""

import asyncio
import resource
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiohttp import web

from rollup_node.stages.blobs.config import DaServerConfig
from rollup_node.stages.blobs.process import da_client
from rollup_node.stages.blobs.process.da_client import MAX_BODY, DaClient, InputNotFoundError, TooLargeAheadError
from rollup_node.stages.io.http.jsonrpc import EndpointError
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.blobs import InputResponse, InputTooLarge
from rollup_node.stages.protocol.commitments import GENERIC, KECCAK, MAX_KECCAK_INPUT, Commitment, keccak_commitment
from rollup_node.stages.protocol.keccak import Keccak256
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import Handler, app_for_every_path, listening

T = TypeVar("T")
DATA = b"frames" * 100
KECCAK_OF_DATA, OPAQUE = keccak_commitment(DATA), Commitment(GENERIC, b"\x0c" + bytes(40))


def with_server(handler: Handler, use: Callable[[DaClient], Awaitable[T]], path: str = "", **options: Any) -> T:
    """Runs `use` with a server that answers by this handler; `options` of DaServerConfig."""

    async def main() -> T:
        async with listening(app_for_every_path(handler)) as urls:
            client = DaClient(DaServerConfig(urls[0] + path, **options), Meter("blobs"))
            try:
                return await use(client)
            finally:
                await client.close()

    return run_within(30, main)


def answering(body: bytes, **options: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, **options)

    return handler


def endless(part: bytes, pause: float = 0.0) -> Handler:
    """A body that never ends."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(part)
            await asyncio.sleep(pause)

    return handler


def get(handler: Handler, commitment: Commitment = KECCAK_OF_DATA, **options: Any) -> InputResponse | InputTooLarge:
    return with_server(handler, lambda client: client.get(commitment), **options)


def error_of(handler: Handler, commitment: Commitment = KECCAK_OF_DATA, **options: Any) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        get(handler, commitment, **options)
    return caught.value


def test_the_path_has_the_type_byte_and_the_url_keeps_its_own() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.path_qs)
        return web.Response(body=DATA)

    async def use(client: DaClient) -> None:
        assert await client.get(KECCAK_OF_DATA) == InputResponse(KECCAK_OF_DATA, DATA)
        assert await client.get(OPAQUE) == InputResponse(OPAQUE, DATA)

    with_server(handler, use, path="/da/?key=abc")
    assert seen == [f"/da/get/0x00{KECCAK_OF_DATA.content.hex()}?key=abc", f"/da/get/0x010c{'00' * 40}?key=abc"]


@pytest.mark.option("altda.verify-on-read")
def test_what_does_not_match_is_refused_unless_that_is_not_checked() -> None:
    error = error_of(answering(b"other"))
    assert f"sends 5 bytes that do not match commitment {KECCAK_OF_DATA}" in str(error)
    assert not isinstance(error, InputNotFoundError)
    assert get(answering(b"other"), verify_on_read=False) == InputResponse(KECCAK_OF_DATA, b"other")
    assert get(answering(b"other"), OPAQUE) == InputResponse(OPAQUE, b"other")
    assert "sends 0 bytes" in str(error_of(answering(b"")))


def test_only_404_is_not_found() -> None:
    assert isinstance(error_of(answering(b"", status=404)), InputNotFoundError)
    for status in (204, 301, 400, 418, 429, 500, 503):
        error = error_of(answering(b"", status=status))
        assert not isinstance(error, InputNotFoundError)
        assert (error.status, str(error).partition(": ")[2]) == (status, f"HTTP status {status}")


def test_requests_are_recorded() -> None:
    """[RPC94] An input that the server does not have is an answer."""
    statuses = [200, 404, 429]

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=DATA, status=statuses.pop(0))

    async def use(client: DaClient) -> None:
        await client.get(KECCAK_OF_DATA)
        for _ in range(2):
            with pytest.raises(EndpointError):
                await client.get(KECCAK_OF_DATA)
        found = client.record.counts(True)
        assert (found.kind, found.requests, found.errors, found.throttled) == ("da-server", 3, 1, 1)
        assert found.failing and found.error == "HTTP status 429"

    with_server(handler, use)


def test_a_redirect_is_followed() -> None:
    """[LHD28] Its own body is not taken for the input."""

    async def handler(request: web.Request) -> web.Response:
        if request.path.startswith("/get"):
            return web.Response(status=301, body=b"moved", headers={"Location": f"/elsewhere{request.path}"})
        return web.Response(body=DATA)

    assert get(handler) == InputResponse(KECCAK_OF_DATA, DATA)


def test_errors_do_not_show_the_key_of_the_url() -> None:
    assert "abc" not in str(error_of(answering(b"", status=500), path="/abc?key=abc"))
    closed = DaClient(DaServerConfig("http://user:abc@127.0.0.1:1/abc"), Meter("blobs"))

    async def use() -> None:
        with pytest.raises(EndpointError, match="cannot connect") as caught:
            await closed.get(OPAQUE)
        assert "abc" not in str(caught.value)
        await closed.close()

    run_within(10, use)


def test_the_largest_keccak_input_and_a_larger_one() -> None:
    largest = bytes(MAX_KECCAK_INPUT)
    assert get(answering(largest), keccak_commitment(largest)) == InputResponse(keccak_commitment(largest), largest)
    larger = largest + b"\1"
    assert get(answering(larger), keccak_commitment(larger)) == InputTooLarge(keccak_commitment(larger), len(larger))
    assert "that do not match" in str(error_of(answering(larger)))
    found = get(answering(larger), verify_on_read=False)
    assert isinstance(found, InputTooLarge)


@pytest.mark.parametrize("commitment", [KECCAK_OF_DATA, OPAQUE])
def test_a_body_that_never_ends_is_cut_off(commitment: Commitment, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = "MAX_BODY" if commitment is OPAQUE else "MAX_HASHED"
    monkeypatch.setattr(da_client, limit, 2 << 20)
    assert "the input is longer than 2097152 bytes" in str(error_of(endless(bytes(1 << 16)), commitment))


def test_a_keccak_input_of_any_size_is_skipped_if_it_matches() -> None:
    """A batcher can commit to more than is kept of a generic input; derivation must not wait for it for ever [AD7]."""
    part, parts = bytes(1 << 20), (MAX_BODY >> 20) + 1
    hasher = Keccak256()
    for _ in range(parts):
        hasher.update(part)
    commitment = Commitment(KECCAK, hasher.digest())

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(parts):
            await response.write(part)
        await response.write_eof()
        return response

    assert get(handler, commitment) == InputTooLarge(commitment, MAX_BODY + len(part))
    assert f"sends {MAX_BODY + len(part)} bytes that do not match" in str(error_of(handler))


def test_less_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(da_client, "AHEAD_BODY", 2000)
    large = bytes(2001)

    async def use(client: DaClient) -> None:
        for commitment in (OPAQUE, keccak_commitment(large)):
            with pytest.raises(TooLargeAheadError, match="longer than 2000 bytes"):
                await client.get(commitment, ahead=True)
            assert await client.get(commitment) == InputResponse(commitment, large)

    with_server(answering(large), use)


def test_memory_stays_small_while_a_long_body_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of 32 MiB for a keccak commitment takes no memory of its size."""
    monkeypatch.setattr(da_client, "MAX_HASHED", 32 << 20)
    handler, before = endless(bytes(1 << 18)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        assert "longer than 33554432 bytes" in str(error_of(handler))
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 24 << 10


@pytest.mark.option("altda.get-timeout")
def test_slow_servers_time_out() -> None:
    async def silent(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    for handler in (silent, endless(b".", 0.02)):
        assert "no answer within 0.2 s" in str(error_of(handler, get_timeout=0.2))


def test_without_a_timeout_a_request_is_bounded_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(da_client, "UNLIMITED_SECONDS", 0.2)
    assert "no answer within 0.2 s" in str(error_of(endless(b".", 0.02), get_timeout=0.0))


def test_a_compressed_body_is_refused() -> None:
    assert "compressed" in str(error_of(answering(b"\x1f\x8b", headers={"Content-Encoding": "gzip"})))


def test_a_connection_that_breaks_off_and_what_is_no_http() -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    assert "the connection failed" in str(error_of(half))
