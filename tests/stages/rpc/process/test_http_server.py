"""The JSON-RPC server over real sockets [RPC2 to RPC8, RPC12 to RPC17]."""

import asyncio
import gzip
import io
import re
import time
from collections.abc import AsyncIterator, Mapping

import jwt
import msgspec
import orjson
import pytest

from rollup_node.stages.io import tracing
from rollup_node.stages.messages.base import Health, Problem
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.rpc import jsonrpc
from rollup_node.stages.rpc.process import http_server
from rollup_node.stages.rpc.status import readiness
from rollup_node.stages.rpc.status.node_status import NodeStatus
from tests.support.rpc.harness import L1, L2, ROLLUP, RpcHarness, RunWithRpc

VERSION = b'{"jsonrpc":"2.0","id":1,"method":"optimism_version"}'


async def test_paths_methods_content_types_and_bodies(running_rpc: RunWithRpc) -> None:
    """[RPC2, RPC3, RPC4, RPC6] Bodies are limited with and without Content-Length."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield b" " * (1024 * 1024)

    async with running_rpc() as rpc:
        assert await rpc.get("/") == (200, b"")
        assert await rpc.get("/healthz") == (200, b'{"version":"v1.2.3-dev"}\n')
        assert (await rpc.get("/healthz/"))[0] == 200
        assert (await rpc.get("/other"))[0] == 404
        assert (await rpc.get("/?x=1"))[0] == 415
        for method, expected in (("PUT", 405), ("DELETE", 405), ("OPTIONS", 200)):
            async with rpc.http.request(method, rpc.url) as response:
                assert response.status == expected
        assert (await rpc.post(b"{}", **{"Content-Type": "text/plain"}))[0] == 415
        for kind in ("application/json-rpc", "application/jsonrequest", "application/json; charset=utf-8"):
            assert (await rpc.post(b"{}", **{"Content-Type": kind}))[0] == 200
        assert (await rpc.post(io.BytesIO(b" " * (5 * 1024 * 1024 + 1))))[0] == 413
        assert (await rpc.post(chunks()))[0] == 413
        reader, writer = await asyncio.open_connection("127.0.0.1", rpc.stage.rpc.port)
        head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        writer.write(b"zz\r\n")
        assert b" 400 Bad Request\r\n" in await reader.read(), "no HTTP"
        writer.close()


ORIGIN = {"Origin": "http://x"}
PREFLIGHT = {**ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "a, b"}


@pytest.mark.option("rpc.corsdomain")
@pytest.mark.parametrize("named", ["http://x", "*"])
async def test_cross_origin_requests_of_named_origins(running_rpc: RunWithRpc, named: str) -> None:
    """[RPC5]"""
    async with running_rpc(cors_domains=(named,)) as rpc:
        async with rpc.http.options(rpc.url, headers=PREFLIGHT) as response:
            assert response.status == 204
            prefix = "Access-Control-"
            assert {name: value for name, value in response.headers.items() if name.startswith(prefix)} == {
                f"{prefix}Allow-Origin": named,
                f"{prefix}Allow-Methods": "POST",
                f"{prefix}Allow-Headers": "a, b",
                f"{prefix}Max-Age": "600",
            }
        put = {**PREFLIGHT, "Access-Control-Request-Method": "PUT"}
        async with rpc.http.options(rpc.url, headers=put) as response:
            assert "Access-Control-Allow-Methods" not in response.headers
        async with rpc.http.get(rpc.url + "/healthz", headers=ORIGIN) as response:
            assert "Access-Control-Allow-Origin" in response.headers
        assert (await rpc.post(VERSION, **ORIGIN))[0] == 200


@pytest.mark.option("rpc.vhosts")
async def test_other_origins_hosts_and_clients_without_a_token_are_refused(running_rpc: RunWithRpc) -> None:
    """[RPC5, RPC86, RPC88]"""
    async with running_rpc(cors_domains=("http://y",), vhosts=("node.example",), jwt_secret=bytes(32)) as rpc:
        async with rpc.http.options(rpc.url, headers=PREFLIGHT) as response:
            assert not [name for name in response.headers if name.startswith("Access-Control")]
        assert await rpc.post(VERSION, **ORIGIN) == (403, b"origin not allowed; name it in rpc.corsdomain\n")
        assert (await rpc.post(VERSION))[0] == 200
        assert (await rpc.post(VERSION, Host="node.example:9545"))[0] == 200
        assert await rpc.post(VERSION, Host="x") == (403, b"invalid host specified; name it in rpc.vhosts\n")
        code, message = await rpc.call("admin_sequencerActive")
        assert code == -32000 and message.startswith("unauthorized: missing token; ")
        token = "Bearer " + jwt.encode({"iat": int(time.time())}, bytes(32))
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "admin_sequencerActive"})
        status, answer = await rpc.post(body, Authorization=token)
        assert status == 200 and orjson.loads(answer)["result"] is False


async def test_errors_and_batches(running_rpc: RunWithRpc) -> None:
    """[RPC7, RPC12 to RPC15]"""
    async with running_rpc() as rpc:
        malformed = orjson.loads((await rpc.post(b"{"))[1])
        assert (malformed["id"], malformed["error"]) == (None, {"code": -32700, "message": "parse error"})
        version = {"jsonrpc": "2.0", "id": "a", "method": "optimism_version"}
        notification = {"jsonrpc": "2.0", "method": "optimism_version"}
        batch = [version, notification, {"x": 1}, {**version, "id": 2, "method": "eth_call"}]
        responses = orjson.loads((await rpc.post(orjson.dumps(batch)))[1])
        assert [response["id"] for response in responses] == ["a", None, 2]
        assert responses[0]["result"] == "v1.2.3-dev"
        assert responses[2]["error"]["message"] == "the method eth_call does not exist/is not available"
        assert await rpc.post(orjson.dumps(notification)) == (200, b"")
        assert await rpc.call("optimism_version", 1) == (-32602, "too many arguments, want at most 0")
        code, text = await rpc.call("optimism_outputAtBlock", "latest")
        assert code == -32602 and text.startswith("invalid argument 0: json: cannot unmarshal hex string without 0x")
        text = rpc.meter.text().decode()
        assert 'rpc_server_requests_total{method="<unknown>",rpc="main"} 1.0' in text
        result = len(orjson.dumps(responses[2]))
        assert f'rpc_server_results_size_total{{method="<unknown>",rpc="main"}} {result}.0' in text
        assert 'rpc_server_params_size_total{method="optimism_outputAtBlock",rpc="main"} 10.0' in text


async def test_responses_to_a_batch_are_limited(running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    """[RPC7]"""
    monkeypatch.setattr(jsonrpc, "MAX_BATCH_RESPONSE", 5_000)
    async with running_rpc() as rpc:
        request = {"jsonrpc": "2.0", "id": 1, "method": "optimism_syncStatus"}
        responses = orjson.loads((await rpc.post(orjson.dumps([request] * 20)))[1])
        assert "result" in responses[0]
        assert responses[-1]["error"] == {"code": -32003, "message": "response too large"}
        assert len(responses) == 20


async def test_a_call_that_takes_too_long_and_a_bug_in_a_handler(
    running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[RPC8, RPC16, RPC17]"""
    monkeypatch.setattr(http_server, "CALL_SECONDS", 0.2)
    async with running_rpc() as rpc:
        assert await rpc.call("admin_stopSequencer") == (-32002, "request timed out")
        assert await rpc.call("optimism_version") == "v1.2.3-dev"
        monkeypatch.setattr(rpc.stage.node, "sync_status", lambda: 1 / 0)
        assert await rpc.call("optimism_syncStatus") == (-32603, "method handler crashed")
    assert "ZeroDivisionError" in capsys.readouterr().err


async def test_a_node_that_follows_another_one_is_ready_without_derivation(running_rpc: RunWithRpc) -> None:
    """[FSR9] It has no drops to explain."""
    async with running_rpc(derives=False) as rpc:
        await rpc.until_ready()
        assert await rpc.get("/readyz") == (200, b'{"ready":true}\n')
        rpc.status["engine"].set(EngineStatus(1, L2, L2, L2, L2, L2, False, False, current_l1=L1))
        await rpc.until(lambda: rpc.stage.node.seen.engine is not None and rpc.stage.node.seen.engine.current_l1 == L1)
        assert (await rpc.call("optimism_syncStatus"))["current_l1"]["number"] == L1.number
        code, message = await rpc.call("explain_drops")
        assert code == -32000 and message.startswith("nothing is dropped here: this node does not derive")


async def test_readyz(running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    """[RPC2, RPC94]"""
    async with running_rpc() as rpc:
        status, body = await rpc.get("/readyz")
        result = orjson.loads(body)
        assert status == 503 and result["ready"] is False
        assert "l1: no status received yet" in result["reasons"]
        assert "engine: L2 heads not known yet" in result["reasons"]
        await rpc.until_ready()
        assert await rpc.get("/readyz") == (200, b'{"ready":true}\n')
        async with rpc.http.get(f"{rpc.url}/status.json") as response:
            assert (response.status, response.content_type) == (200, "application/json")
            shown = msgspec.json.decode(await response.read(), type=NodeStatus)
        assert (shown.version, shown.chain.network, shown.ready) == ("v1.2.3-dev", "test-net", True)
        assert shown.heads.safe is not None and shown.heads.safe.number == 20
        rpc.status["blobs"].set(Health((Problem(None, "", "beacon endpoint is away"),)))
        assert await rpc.until_unready() == ["blobs: beacon endpoint is away"]
        rpc.status["blobs"].set(Health(()))
        await rpc.until_ready()
        monkeypatch.setattr(readiness, "STALE_SECONDS", -1.0)
        reasons = await rpc.until_unready()
        assert [reason.split(":")[0] for reason in reasons] == ["l1", "blobs", "derivation", "engine"]
        assert all(re.search(r": PROCESS-SILENT: no status for \d+\.\d s", reason) for reason in reasons)


async def test_readyz_has_warnings_that_do_not_matter_to_a_load_balancer(running_rpc: RunWithRpc) -> None:
    """[UPG22]"""
    crosses = msgspec.structs.replace(ROLLUP, fork_times={**ROLLUP.fork_times, "lagoon": int(time.time()) + 90_000})
    async with running_rpc(rollup=crosses) as rpc:
        await rpc.until_ready()
        status, body = await rpc.get("/readyz")
        result = orjson.loads(body)
        assert status == 200 and result["ready"] is True
        (warning,) = result["warnings"]
        assert warning.startswith("BUNDLE-UNCONFIRMED: lagoon activates in 1d")


@pytest.mark.condition("C12")
async def test_readyz_for_a_client_with_its_own_lag(running_rpc: RunWithRpc) -> None:
    """[RPC93]"""
    async with running_rpc() as rpc:
        status, body = await rpc.get("/readyz?lag=5")
        assert status == 503 and "lag: the age of the unsafe head is not known yet" in orjson.loads(body)["reasons"]
        await rpc.until_ready()
        status, body = await rpc.get("/readyz?lag=2.5&x=y")
        (reason,) = orjson.loads(body)["reasons"]
        assert status == 503 and reason.startswith("lag: the unsafe head 20 is ")
        assert reason.endswith(" s old; the request allows 2.5 s")
        age = time.time() - L2.timestamp
        assert float(reason.split()[6]) == pytest.approx(age, abs=20)
        assert await rpc.get(f"/readyz?lag={int(age) + 3600}") == (200, b'{"ready":true}\n')
        status, body = await rpc.get("/readyz?lag=1&lag=2")
        assert status == 400 and body.startswith(b"lag must be one number of seconds, such as 30 or 2.5, not ")


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


async def test_long_responses_are_chunked(running_rpc: RunWithRpc) -> None:
    """[RPC5] And compressed if the client accepts it."""
    async with running_rpc() as rpc:
        single = orjson.loads((await post(rpc, CALL))[1])
        for count, has_length in ((1, True), (3, True), (60, False)):
            headers, body = await post(rpc, batch(count))
            assert ("Content-Length" in headers) is has_length and "Content-Encoding" not in headers
            assert body.endswith(b"]\n") and orjson.loads(body) == [single] * count
            headers, packed = await post(rpc, batch(count), "gzip")
            assert headers["Content-Encoding"] == "gzip" and gzip.decompress(packed) == body


async def test_a_client_that_reads_slowly_gets_all_of_it(running_rpc: RunWithRpc) -> None:
    async with running_rpc() as rpc:
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


async def test_the_trace_of_a_call_is_the_exemplar_of_its_time(running_rpc: RunWithRpc) -> None:
    """[TRC3, MET31] That of the client, if it names one; none while no spans are made."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "optimism_version", "params": []}
    headers = {"traceparent": f"00-{32 * 'a'}-{16 * 'b'}-01"}
    async with running_rpc() as rpc:
        async with rpc.http.post(rpc.url, json=call, headers=headers):
            assert b"trace_id" not in rpc.meter.text()
        tracing.enable(bytes(8))
        try:
            async with rpc.http.post(rpc.url, json=call, headers=headers):
                pass
        finally:
            tracing.disable()
        (line,) = (line for line in rpc.meter.text().decode().splitlines() if "trace_id" in line)
    assert f'# {{trace_id="{32 * "a"}"}}' in line and 'method="optimism_version"' in line
