"""Responses that are sent while they grow [RPC7]."""

import asyncio
import gzip
from collections.abc import Mapping

import orjson
import pytest

from tests.support.rpc.harness import RpcHarness, RunWithRpc

CALL = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "optimism_rollupConfig"})
NOTIFICATION = orjson.dumps({"jsonrpc": "2.0", "method": "optimism_version"})


async def post(rpc: RpcHarness, body: bytes, encoding: str = "identity") -> tuple[Mapping[str, str], bytes]:
    headers = {"Content-Type": "application/json", "Accept-Encoding": encoding}
    async with rpc.http.post(rpc.url, data=body, headers=headers, auto_decompress=False) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["Server"] == "rollup-node"
        return response.headers.copy(), await response.read()


def batch(count: int) -> bytes:
    return b"[" + b",".join([NOTIFICATION, *[CALL] * count]) + b"]"


@pytest.mark.parametrize(("count", "has_length"), [(1, True), (3, True), (500, False)])
def test_long_responses_are_chunked(with_rpc: RunWithRpc, count: int, has_length: bool) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        single = orjson.loads((await post(rpc, CALL))[1])
        headers, body = await post(rpc, batch(count))
        assert ("Content-Length" in headers) is has_length
        assert body.endswith(b"]\n") and orjson.loads(body) == [single] * count
        headers, packed = await post(rpc, batch(count), "gzip")
        assert headers["Content-Encoding"] == "gzip" and gzip.decompress(packed) == body

    with_rpc(scenario)


def test_notifications_have_an_empty_response(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        assert (await post(rpc, b"[" + NOTIFICATION + b"]"))[1] == b""

    with_rpc(scenario)


def test_a_client_that_reads_slowly_gets_all_of_it(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        _, expected = await post(rpc, batch(900))
        reader, writer = await asyncio.open_connection("127.0.0.1", rpc.stage.rpc.port, limit=1024)
        body = batch(900)
        head = f"POST / HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        received = b""
        while part := await reader.read(4000):
            received += part
        writer.close()
        assert received.partition(b"\r\n\r\n")[2] == expected

    with_rpc(scenario)
