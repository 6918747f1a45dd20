"""L1 endpoints: what counts as not found, receipts one by one, failover and Retry-After."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
import orjson
import pytest
from aiohttp import web

from rollup_node.stages.io.http.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.endpoint_pool import MAX_RETRY_AFTER
from rollup_node.stages.l1.process.client import L1Endpoints
from rollup_node.stages.l1.process.failures import OtherChainError
from rollup_node.stages.protocol.answer_limits import L1_BLOCK, RECEIPTS
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import Handler, Methods, app_for_every_path, json_rpc_app, listening

T = TypeVar("T")
ROLLUP = msgspec.structs.replace(PLAIN_ROLLUP, l1_chain_id=5)
HASHES = [bytes([n]) * 32 for n in range(1, 6)]


def with_apps(apps: Sequence[web.Application], use: Callable[[L1Endpoints], Awaitable[T]], **options: Any) -> T:
    async def main() -> T:
        async with listening(*apps) as urls:
            endpoints = L1Endpoints(L1Config(urls, ROLLUP, timeout=2.0, **options), Meter("l1"))
            try:
                return await use(endpoints)
            finally:
                await endpoints.close()

    return run_within(30, main)


def metrics_of(servers: Sequence[Methods], use: Callable[[L1Endpoints], Awaitable[object]]) -> str:
    """Return the metrics after `use`, with each endpoint's name replaced by its place in the list."""

    async def main() -> str:
        async with listening(*map(json_rpc_app, servers)) as urls:
            meter = Meter("l1")
            endpoints = L1Endpoints(L1Config(urls, ROLLUP, timeout=2.0), meter)
            await use(endpoints)
            await endpoints.close()
            text = meter.text().decode()
            for place, endpoint in enumerate(endpoints.all):
                text = text.replace(f'endpoint="{endpoint.name}"', f'endpoint="{place}"')
            return text

    return run_within(30, main)


def with_endpoints(servers: Sequence[Methods], use: Callable[[L1Endpoints], Awaitable[T]], **options: Any) -> T:
    """Run `use` with the endpoints of these servers, on chain 5 unless they say otherwise; `options` of L1Config."""
    return with_apps([json_rpc_app({"eth_chainId": lambda: "0x5", **server}) for server in servers], use, **options)


def test_not_found_in_every_form() -> None:
    """[LHD7]"""

    def by_number(number: str, full: bool) -> Any:
        if number == "0x1":
            return None
        raise JsonRpcError(-32000, "header not found" if number in ("0x2", "finalized") else "boom")

    async def use(endpoints: L1Endpoints) -> None:
        endpoint = endpoints.pick()
        assert await endpoint.block_body("0x1", L1_BLOCK) is None
        assert await endpoint.block_body("0x2", L1_BLOCK) is None
        assert await endpoint.block_json("finalized") is None
        with pytest.raises(RpcFailure, match="boom"):
            await endpoint.block_body("0x3", L1_BLOCK)

    with_endpoints([{"eth_getBlockByNumber": by_number}], use)


def test_receipts_one_by_one_keep_those_that_came_and_request_the_rest() -> None:
    requested: list[str] = []

    def receipt(transaction: str) -> Any:
        requested.append(transaction)
        return {"of": transaction} if requested.count(transaction) > 1 or transaction.startswith("0x01") else None

    async def use(endpoints: L1Endpoints) -> bytes | None:
        return await endpoints.pick().receipts_body(bytes(32), HASHES, RECEIPTS)

    body = with_endpoints([{"eth_getTransactionReceipt": receipt}], use, rpc_kind="basic", max_batch=2)
    assert body is not None
    assert orjson.loads(body)["result"] == [{"of": "0x" + hash_.hex()} for hash_ in HASHES]
    assert len(requested) == 2 * len(HASHES) - 1


@pytest.mark.parametrize("max_batch", [1, 20])
def test_an_endpoint_without_batches_serves_all_that_is_needed(max_batch: int) -> None:
    """[LHD30] Headers, its view, blocks and receipts; with 1 it is never sent an array."""
    chain, arrays = FakeL1Chain(9), list[int]()

    @web.middleware
    async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
        if (await request.read()).startswith(b"["):
            arrays.append(1)
            return web.Response(status=400, text="batch requests are not supported")
        return await handler(request)

    async def use(endpoints: L1Endpoints) -> None:
        endpoint = endpoints.pick()
        for _ in range(2):
            assert [header["number"] for header in await endpoint.headers_json([2, 3])] == ["0x2", "0x3"]
            assert (await endpoint.view(4)).block == chain.block(4).header.hash
            assert None not in await endpoint.block_bodies([1, 2, 3], L1_BLOCK)
            body = await endpoint.receipts_body(bytes(32), HASHES, RECEIPTS)
            assert body is not None and len(orjson.loads(body)["result"]) == len(HASHES)

    app = json_rpc_app({**chain.methods(5), "eth_getTransactionReceipt": lambda item: {"of": item}})
    app.middlewares.append(refuse)
    with_apps([app], use, rpc_kind="basic", max_batch=max_batch)
    assert len(arrays) == (max_batch > 1), "the refusal is remembered"


def test_missing_receipts_are_none_and_errors_are_raised() -> None:
    async def use(endpoints: L1Endpoints) -> bytes | None:
        return await endpoints.pick().receipts_body(bytes(32), HASHES, RECEIPTS)

    assert with_endpoints([{"eth_getTransactionReceipt": lambda item: None}], use, rpc_kind="basic") is None
    assert with_endpoints([{"eth_getBlockReceipts": lambda item: None}], use) is None

    def fails(text: str) -> Any:
        raise JsonRpcError(-32005, "limit exceeded")

    for method, kind in (("eth_getTransactionReceipt", "basic"), ("eth_getBlockReceipts", "standard")):
        with pytest.raises(RpcFailure, match="limit exceeded"):
            with_endpoints([{method: fails}], use, rpc_kind=kind)


def test_calls_are_recorded_and_not_found_is_no_failure() -> None:
    """[RPC94]"""

    def by_number(number: str, full: bool) -> Any:
        raise JsonRpcError(*((-32000, "header not found") if number == "0x1" else (-32005, "limit exceeded")))

    async def use(endpoints: L1Endpoints) -> None:
        first = endpoints.pick()
        assert await first.block_json("0x1") is None
        assert await first.headers_json([1, 1]) == [None, None]
        counts, other = endpoints.counts()
        assert (counts.requests, counts.errors, counts.failing, counts.in_use) == (4, 0, False, True)
        assert (other.requests, other.latency_ms, other.in_use) == (0, None, False)
        with pytest.raises(RpcFailure):
            await first.block_json("0x2")
        with pytest.raises(RpcFailure):
            await first.headers_json([1, 2])
        counts = endpoints.counts()[0]
        assert (counts.requests, counts.errors, counts.throttled, counts.failing) == (7, 2, 2, True)
        assert (counts.error, counts.verdict) == ("error -32005: limit exceeded", "")
        endpoints.failed(first, EndpointError("x", "gone"))
        counts, other = endpoints.counts()
        assert (counts.verdict, counts.in_use, other.in_use) == ("does not answer", False, True)

    with_endpoints([{"eth_getBlockByNumber": by_number}, {}], use)


@pytest.mark.fault("F4")
def test_an_unsupported_method_is_dropped_for_the_next() -> None:
    """[OPT73]"""
    requested: list[str] = []

    def whole(block_hash: str) -> Any:
        requested.append("whole")
        raise JsonRpcError(-32601, "the method does not exist")

    def single(transaction: str) -> Any:
        requested.append("single")
        return {}

    async def use(endpoints: L1Endpoints) -> None:
        for _ in range(2):
            assert await endpoints.pick().receipts_body(bytes(32), HASHES[:1], RECEIPTS) is not None

    with_endpoints([{"eth_getBlockReceipts": whole, "eth_getTransactionReceipt": single}], use)
    assert requested == ["whole", "single", "single"]


@pytest.mark.fault("F7")
def test_the_chain_is_checked_again_after_a_failure() -> None:
    chains = ["0x5", "0x6", "0x5"]

    async def use(endpoints: L1Endpoints) -> None:
        endpoint = endpoints.pick()
        assert await endpoint.block_json("latest") is None
        endpoints.failed(endpoint, EndpointError("x", "gone"))
        with pytest.raises(EndpointError, match="is on L1 chain 6, but the rollup is on 5"):
            await endpoint.block_json("latest")
        assert await endpoint.block_json("latest") is None
        assert chains == []

    with_endpoints([{"eth_chainId": lambda: chains.pop(0), "eth_getBlockByNumber": lambda *_: None}], use)


def test_the_endpoint_in_use_changes_when_it_fails_and_not_before() -> None:
    async def use(endpoints: L1Endpoints) -> None:
        first, second, third = endpoints.all
        assert endpoints.pick() is endpoints.pick() is first
        endpoints.failed(third, EndpointError("x", "gone"))
        assert endpoints.pick() is first
        endpoints.failed(first, EndpointError("x", "gone"))
        assert endpoints.pick() is second
        endpoints.failed(second, EndpointError("x", "busy", 429, retry_after=30.0))
        assert endpoints.pick() is third
        endpoints.failed(third, EndpointError("x", "busy", 429, retry_after=30.0))
        assert endpoints.pick() is first
        endpoints.failed(first, EndpointError("x", "busy", 429, retry_after=3000.0))
        with pytest.raises(EndpointError, match=r"overloaded and asked not to retry for \d+ s"):
            endpoints.pick()
        verdict = endpoints.pool.verdicts[0]
        assert verdict is not None and verdict.until <= time.monotonic() + MAX_RETRY_AFTER
        endpoints.restore(1)
        assert endpoints.pick() is second

    with_endpoints([{}, {}, {}], use)


@pytest.mark.fault("F5")
@pytest.mark.condition("C3")
def test_retry_after_of_an_overloaded_server_is_kept() -> None:
    async def busy(request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "20"})

    async def use(endpoints: L1Endpoints) -> None:
        endpoint = endpoints.pick()
        with pytest.raises(EndpointError, match="HTTP status 429") as caught:
            await endpoint.block_json("latest")
        endpoints.failed(endpoint, caught.value)
        with pytest.raises(EndpointError, match="asked not to retry"):
            endpoints.pick()

    with_apps([app_for_every_path(busy)], use)


def test_metrics_of_endpoints_and_of_their_requests() -> None:
    """[MET6, MET7, MET28]"""

    async def use(endpoints: L1Endpoints) -> None:
        first = endpoints.pick()
        with pytest.raises(OtherChainError) as caught:
            await first.block_json("latest")
        endpoints.failed(first, caught.value)
        assert await endpoints.pick().block_json("latest") is None

    ours: Methods = {"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": lambda label, full: None}
    text = metrics_of([{"eth_chainId": lambda: "0x7"}, ours], use)
    for line in (
        'endpoint_failures_total{endpoint="0",fault="other_chain",rpc="l1"} 1.0',
        'endpoint_failures_total{endpoint="0",fault="throttled",rpc="l1"} 0.0',
        'endpoint_failures_total{endpoint="1",fault="other_chain",rpc="l1"} 0.0',
        'endpoint_usable{endpoint="0",rpc="l1"} 0.0',
        'endpoint_usable{endpoint="1",rpc="l1"} 1.0',
        'endpoint_in_use{endpoint="0",rpc="l1"} 0.0',
        'endpoint_in_use{endpoint="1",rpc="l1"} 1.0',
        'rpc_client_requests_total{method="eth_chainId",rpc="l1"} 2.0',
        'rpc_client_responses_total{error="<nil>",method="eth_getBlockByNumber",rpc="l1"} 1.0',
    ):
        assert f"op_node_default_{line}\n" in text
    sent = len(b'{"jsonrpc":"2.0","id":2,"method":"eth_getBlockByNumber","params":["latest",false]}')
    assert f'rpc_client_params_size_total{{method="eth_getBlockByNumber",rpc="l1"}} {sent}.0\n' in text
