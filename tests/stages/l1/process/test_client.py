"""L1 endpoints: what counts as not found, receipts one by one, failover and Retry-After."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from rollup_node.stages.io.http.endpoint_errors import BAD_CERTIFICATE, NO_TLS, EndpointError, RpcFailure
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.process.client import (
    RECEIPT_ROUNDS,
    BehindError,
    L1Endpoints,
    OtherChainError,
    code_of,
    fault_of,
)
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import RECEIPTS
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from tests.support.servers.http_listener import Methods, app_for_every_path, json_rpc_app
from tests.support.servers.l1_endpoints import served

HASHES = [bytes([n]) * 32 for n in range(1, 6)]


@asynccontextmanager
async def endpoints_of_apps(apps: Sequence[web.Application], **options: Any) -> AsyncIterator[L1Endpoints]:
    async with served(*apps, **options) as (_, endpoints, _):
        yield endpoints


def endpoints_of(servers: Sequence[Methods], **options: Any) -> AbstractAsyncContextManager[L1Endpoints]:
    """The endpoints of these servers, on chain 5 unless they say otherwise; `options` of L1Config."""
    return endpoints_of_apps([json_rpc_app({"eth_chainId": lambda: "0x5", **server}) for server in servers], **options)


async def test_receipts_one_by_one_keep_those_that_came_and_request_the_rest() -> None:
    """None are returned where some never come; whole blocks' receipts are late in the tests of the stage."""
    requested: list[str] = []

    def receipt(transaction: str) -> Any:
        requested.append(transaction)
        if transaction == "0x" + "09" * 32:
            raise JsonRpcError(-32005, "limit exceeded")
        is_there = requested.count(transaction) > 1 or transaction.startswith("0x01")
        return {"of": transaction} if is_there and transaction != "0x" + "08" * 32 else None

    async with endpoints_of([{"eth_getTransactionReceipt": receipt}], rpc_kind="basic", max_batch=2) as endpoints:
        endpoint = endpoints.pick()
        body = await endpoint.receipts_body(bytes(32), HASHES, RECEIPTS)
        assert body is not None
        assert orjson.loads(body)["result"] == [{"of": "0x" + hash_.hex()} for hash_ in HASHES]
        assert len(requested) == 2 * len(HASHES) - 1
        assert await endpoint.receipts_body(bytes(32), [b"\x08" * 32, HASHES[0]], RECEIPTS) is None
        assert len(requested) == 2 * len(HASHES) - 1 + RECEIPT_ROUNDS + 1
        with pytest.raises(RpcFailure, match="limit exceeded"):
            await endpoint.receipts_body(bytes(32), [b"\x09" * 32], RECEIPTS)


async def test_calls_are_recorded_and_not_found_is_no_failure() -> None:
    """[LHD7, RPC94]"""

    def by_number(number: str, full: bool) -> Any:
        raise JsonRpcError(*((-32000, "header not found") if number == "0x1" else (-32005, "limit exceeded")))

    async with endpoints_of([{"eth_getBlockByNumber": by_number}, {}]) as endpoints:
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


@pytest.mark.fault("F7")
async def test_the_chain_is_checked_again_after_a_failure() -> None:
    chains = ["0x5", "0x6", "0x5"]
    async with endpoints_of(
        [{"eth_chainId": lambda: chains.pop(0), "eth_getBlockByNumber": lambda *_: None}]
    ) as endpoints:
        endpoint = endpoints.pick()
        assert await endpoint.block_json("latest") is None
        endpoints.failed(endpoint, EndpointError("x", "gone"))
        with pytest.raises(EndpointError, match="is on L1 chain 6, but the rollup is on 5"):
            await endpoint.block_json("latest")
        assert await endpoint.block_json("latest") is None
        assert chains == []


@pytest.mark.fault("F5")
@pytest.mark.condition("C3")
async def test_retry_after_of_an_overloaded_server_is_kept() -> None:
    async def busy(request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "20"})

    async with endpoints_of_apps([app_for_every_path(busy)]) as endpoints:
        endpoint = endpoints.pick()
        with pytest.raises(EndpointError, match="HTTP status 429") as caught:
            await endpoint.block_json("latest")
        endpoints.failed(endpoint, caught.value)
        with pytest.raises(EndpointError, match="asked not to retry"):
            endpoints.pick()


async def test_metrics_of_endpoints_and_of_their_requests() -> None:
    """[MET6, MET7, MET28]"""
    ours: Methods = {"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": lambda label, full: None}
    async with served(json_rpc_app({"eth_chainId": lambda: "0x7"}), json_rpc_app(ours)) as (_, endpoints, meter):
        first = endpoints.pick()
        with pytest.raises(OtherChainError) as caught:
            await first.block_json("latest")
        endpoints.failed(first, caught.value)
        assert await endpoints.pick().block_json("latest") is None
    text = meter.text().decode()
    for place, endpoint in enumerate(endpoints.all):
        text = text.replace(f'endpoint="{endpoint.name}"', f'endpoint="{place}"')
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


@pytest.mark.condition("C3")
@pytest.mark.parametrize(
    ("error", "code", "fault"),
    [
        (EndpointError("l1", "cannot connect"), Code.L1_UNREACHABLE, EndpointFault.UNREACHABLE),
        (EndpointError("l1", "HTTP status 401", 401), Code.L1_UNREACHABLE, EndpointFault.UNREACHABLE),
        (EndpointError("l1", "HTTP status 503", 503), Code.L1_UNREACHABLE, EndpointFault.UNREACHABLE),
        (EndpointError("l1", "HTTP status 429", 429), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (EndpointError("l1", "HTTP status 503", 503, retry_after=3.0), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (RpcFailure(-32005, "daily request count exceeded"), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (RpcFailure(429, "exceeded its compute units per second"), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (
            RpcFailure(-32000, "Your app has exceeded its compute units per second"),
            Code.L1_THROTTLED,
            EndpointFault.THROTTLED,
        ),
        (RpcFailure(-32000, "Too Many Requests"), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (RpcFailure(-32000, "database is down"), Code.L1_BLOCK, EndpointFault.FAILING),
        (RpcFailure(-32000, "missing trie node"), Code.L1_BLOCK, EndpointFault.FAILING),
        (InvalidDataError("the receipts root differs"), Code.L1_BLOCK, EndpointFault.WRONG_DATA),
        (BehindError("no receipts yet"), Code.L1_BLOCK, EndpointFault.BEHIND),
        (OtherChainError("l1", "is on L1 chain 7, the rollup on 1"), Code.L1_CHAIN, EndpointFault.OTHER_CHAIN),
        (EndpointError("l1", f"TLS: {NO_TLS}"), Code.TLS_PORT, EndpointFault.UNREACHABLE),
        (EndpointError("l1", f"TLS: {BAD_CERTIFICATE}, expired"), Code.TLS_CERTIFICATE, EndpointFault.UNREACHABLE),
    ],
    ids=str,
)
def test_the_code_of_an_error(error: Exception, code: Code, fault: EndpointFault) -> None:
    """And what it shows of the endpoint."""
    assert code_of(error) is code and fault_of(error) is fault
