"""Checks before a start, on valid endpoints and on others."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from aiohttp import web

from rollup_node.node.setup.endpoint_checks import (
    NodeEndpoints,
    RetryPolicy,
    check_chains,
    check_endpoints,
    check_engine,
)
from rollup_node.node.setup.networks import find_network
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.commands.common import L2SourceCheck
from tests.support.engine.remote_signers import SignerServer, TlsSetUp
from tests.support.servers.certificates import certificate
from tests.support.servers.checked_endpoints import SECRET, CheckedEndpoints, is_token
from tests.support.servers.http_listener import listening

ROLLUP = find_network("zora-sepolia").config
SHORT = RetryPolicy(total=0.05, timeout=20.0, max_pause=0.01)
LONG = SHORT._replace(total=50.0)
L1 = {"eth_chainId": hex(ROLLUP.l1_chain_id), "eth_getBlockByNumber": {"hash": f"0x{ROLLUP.genesis.l1.hash.hex()}"}}
L2 = {"eth_chainId": hex(ROLLUP.l2_chain_id), "eth_getBlockByNumber": {"hash": f"0x{ROLLUP.genesis.l2.hash.hex()}"}}
UNREACHABLE = "http://127.0.0.1:1"
GENESIS = {"data": {"genesis_time": "1655733600"}}


class EndpointsServer:
    """An L1, an engine that requires a JWT, and a beacon node, on one loopback port.

    `responses` maps a method to its result, to an error object, or to an HTTP status; `beacon` is the genesis
    response or an HTTP status."""

    def __init__(self) -> None:
        self.responses: dict[str, dict[str, Any]] = {"l1": dict(L1), "l2": dict(L2)}
        self.beacon: Any = GENESIS
        self.failures_first: list[Any] = []
        self.requests: list[tuple[str, list[Any]]] = []
        self.beacon_headers: dict[str, str] = {}
        self.beacon_requests = 0

    async def rpc(self, request: web.Request) -> web.Response:
        layer = request.match_info["layer"]
        if self.failures_first:
            return self._respond(self.failures_first.pop(), {"id": 1})
        if layer == "l2" and not is_token(request.headers.get("Authorization", "")):
            return web.Response(status=401, text="missing token")
        call = orjson.loads(await request.read())
        self.requests.append((layer, call["params"]))
        return self._respond(self.responses[layer][call["method"]], call)

    @staticmethod
    def _respond(response: Any, call: dict[str, Any]) -> web.Response:
        if isinstance(response, int):
            return web.Response(status=response)
        kind = "error" if isinstance(response, dict) and "code" in response else "result"
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], kind: response})

    async def genesis(self, request: web.Request) -> web.Response:
        self.beacon_headers = dict(request.headers)
        self.beacon_requests += 1
        if isinstance(self.beacon, int):
            return web.Response(status=self.beacon)
        return web.json_response(self.beacon)

    async def check(self, policy: RetryPolicy = SHORT, **changes: Any) -> None:
        """Run the checks on these endpoints."""
        async with self.served() as base:
            await check_endpoints(endpoints(base, **changes), policy)

    async def error(self, **changes: Any) -> str:
        with pytest.raises(SetupError) as caught:
            await self.check(**changes)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/{layer}", self.rpc)
        app.router.add_get("/eth/v1/beacon/genesis", self.genesis)
        async with listening(app) as (url,):
            yield url


def endpoints(base: str, **changes: Any) -> NodeEndpoints:
    """Return the endpoints below a URL, with changes."""
    return NodeEndpoints(ROLLUP, (f"{base}/l1",), f"{base}/l2", SECRET, "jwt.txt", base)._replace(**changes)


@pytest.fixture
def server() -> EndpointsServer:
    return EndpointsServer()


async def test_valid_endpoints_pass(server: EndpointsServer) -> None:
    await server.check(beacon_header=("X-Key", "secret"))
    assert ("l1", [hex(ROLLUP.genesis.l1.number), False]) in server.requests
    assert ("l2", [hex(ROLLUP.genesis.l2.number), False]) in server.requests
    assert server.beacon_headers["X-Key"] == "secret"


@pytest.mark.parametrize(("layer", "expected"), [("l1", 11155111), ("l2", 999999999)])
async def test_another_chain_is_an_error(server: EndpointsServer, layer: str, expected: int) -> None:
    server.responses[layer]["eth_chainId"] = "0x1"
    text = await server.error()
    assert text.startswith(f"incorrect {layer.upper()} RPC chain id 1, expected {expected}")
    assert f"check --{layer}, and --network or --rollup.config" in text


@pytest.mark.parametrize("layer", ["l1", "l2"])
async def test_another_genesis_is_an_error(server: EndpointsServer, layer: str) -> None:
    server.responses[layer]["eth_getBlockByNumber"] = {"hash": "0x" + "12" * 32}
    text = await server.error()
    assert text.startswith(f"incorrect {layer.upper()} genesis block hash 0x{'12' * 32}, expected 0x")


@pytest.mark.parametrize("layer", ["l1", "l2"])
@pytest.mark.parametrize(
    "response",
    [None, {"code": 4444, "message": "pruned history unavailable"}, {"code": -32000, "message": "header not found"}],
)
async def test_a_pruned_genesis_passes(server: EndpointsServer, layer: str, response: Any) -> None:
    server.responses[layer]["eth_getBlockByNumber"] = response
    await server.check()


@pytest.mark.parametrize("layer", ["l1", "l2"])
@pytest.mark.parametrize(
    ("method", "response"),
    [
        ("eth_chainId", "eleven"),
        ("eth_chainId", None),
        ("eth_getBlockByNumber", {"hash": 5}),
        ("eth_getBlockByNumber", "0x"),
        ("eth_getBlockByNumber", [1]),
    ],
)
async def test_malformed_responses_are_an_error(
    server: EndpointsServer, layer: str, method: str, response: Any
) -> None:
    server.responses[layer][method] = response
    assert (await server.error()).startswith(f"the {layer.upper()} endpoint 127.0.0.1:")


async def test_a_wrong_jwt_is_an_error_at_once(server: EndpointsServer) -> None:
    text = await server.error(jwt_secret=b"\x08" * 32)
    assert text.startswith("the execution engine rejects our JWT (127.0.0.1:")
    assert "HTTP status 401" in text and "--l2.jwt-secret (now jwt.txt)" in text
    assert not any(layer == "l2" for layer, _ in server.requests)


@pytest.mark.fault("F43")
@pytest.mark.parametrize("response", [403, {"code": -32000, "message": "Invalid JWT token"}])
async def test_other_rejections_of_a_jwt_are_recognised(server: EndpointsServer, response: Any) -> None:
    server.responses["l2"]["eth_chainId"] = response
    assert (await server.error()).startswith("the execution engine rejects our JWT (")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"l1": (UNREACHABLE,)}, "L1 cannot be used, 127.0.0.1:"),
        ({"l2": UNREACHABLE}, "the execution engine cannot be used, 127.0.0.1:"),
        (
            {"beacon": UNREACHABLE},
            "failed to check L1 Beacon API version: the L1 beacon node cannot be used, 127.0.0.1:",
        ),
    ],
)
async def test_an_unreachable_endpoint_is_named(server: EndpointsServer, changes: dict[str, Any], text: str) -> None:
    error = await server.error(**changes)
    assert error.startswith(text)
    assert "Connection refused" in error
    assert f"--{next(iter(changes))}".replace("beacon", "l1.beacon") in error.partition("Connection refused")[2]


async def check_with_signer(server: EndpointsServer, signer: SignerServer, **changes: Any) -> None:
    """Run the checks on these endpoints and a remote signer."""
    async with signer.running():
        await server.check(signer=signer.config(**changes))


async def test_a_remote_signer_is_asked_for_its_health_once(server: EndpointsServer) -> None:
    signer = SignerServer()
    await check_with_signer(server, signer, headers=(("X-Key", "secret"),))
    assert [call["method"] for call in signer.calls] == ["health_status"]
    assert signer.headers[0]["X-Key"] == "secret"


@pytest.mark.parametrize(
    ("changes", "answer", "text"),
    [
        ({"endpoint": UNREACHABLE}, None, "127.0.0.1:1: cannot connect (Connection refused)"),
        ({}, {"code": -32601, "message": "the method does not exist"}, "health_status: error -32601"),
        ({}, 5, "does not answer health_status like a signer"),
        ({"tls_enabled": True, "tls_cert": "none"}, None, "cannot read signer.tls.cert none"),
    ],
)
async def test_a_remote_signer_that_cannot_be_used_ends_the_start(
    server: EndpointsServer, changes: dict[str, Any], answer: Any, text: str
) -> None:
    signer = SignerServer()
    signer.answer = answer
    with pytest.raises(SetupError) as caught:
        await check_with_signer(server, signer, **changes)
    assert str(caught.value).startswith("the remote signer cannot be used, ") and text in str(caught.value)
    assert "check --signer.endpoint" in str(caught.value) and "\n" not in str(caught.value)


async def test_a_remote_signer_with_a_wrong_certificate_ends_the_start(server: EndpointsServer, tmp_path: Path) -> None:
    files = TlsSetUp(tmp_path)
    (tmp_path / "ca.crt").write_bytes(certificate("other authority").pem)
    async with SignerServer().running(files.server_context()) as signer:
        with pytest.raises(SetupError, match=r"TLS: certificate not accepted, .*check .*--signer\.tls\.ca"):
            await server.check(signer=files.config(signer.endpoint))


@pytest.mark.parametrize(
    ("genesis", "text"),
    [
        (ROLLUP.genesis.l2.hash, None),
        (bytes(32), f"is on L2 chain {ROLLUP.l2_chain_id} with genesis 0x0000.*: check --l2.follow.source"),
    ],
)
async def test_a_follow_source_has_to_be_of_the_chain(
    server: EndpointsServer, genesis: bytes, text: str | None
) -> None:
    """[FSR8]"""
    config = {"l2_chain_id": ROLLUP.l2_chain_id, "genesis": {"l2": {"hash": to_hex(genesis), "number": 0}}}
    server.responses["follow"] = {"optimism_rollupConfig": config}
    if text is None:
        await check_with_follow_source(server)
        return
    with pytest.raises(SetupError, match=text):
        await check_with_follow_source(server)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (404, "HTTP status 404"),
        (503, "HTTP status 503"),
        ({}, "the answer to optimism_rollupConfig"),
        (None, "127.0.0.1:1: cannot connect (Connection refused)"),
    ],
)
async def test_a_follow_source_that_is_away_is_a_warning(
    server: EndpointsServer, capsys: pytest.CaptureFixture[str], response: Any, text: str
) -> None:
    """[FSR8] At once: the node follows gossip without it."""
    server.responses["follow"] = {"optimism_rollupConfig": response}
    await check_with_follow_source(server, UNREACHABLE if response is None else None)
    log = capsys.readouterr().err
    assert "the check of the follow source failed" in log and text in log


async def test_an_execution_client_is_no_follow_source(
    server: EndpointsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no optimism_rollupConfig, as an old rollup node, and no heads either."""
    unknown = {"code": -32601, "message": "the method does not exist"}
    server.responses["follow"] = {"optimism_rollupConfig": unknown, "optimism_syncStatus": unknown}
    await check_with_follow_source(server)
    log = capsys.readouterr().err
    assert "the check of the follow source failed" in log and "optimism_syncStatus" in log


async def check_with_follow_source(server: EndpointsServer, url: str | None = None) -> None:
    async with server.served() as base:
        await check_endpoints(endpoints(base, beacon=None, follow=url or f"{base}/follow"), LONG)


async def test_an_endpoint_that_starts_late_is_retried(server: EndpointsServer) -> None:
    server.failures_first = [503, 503]
    await server.check(policy=LONG)
    assert server.failures_first == []


async def test_one_of_several_l1_endpoints_is_enough(server: EndpointsServer) -> None:
    async with server.served() as base:
        await check_endpoints(endpoints(base, l1=(UNREACHABLE, f"{base}/l1")), SHORT)


async def test_every_l1_endpoint_that_responds_is_checked(server: EndpointsServer) -> None:
    server.responses["other"] = L1 | {"eth_chainId": "0x5"}
    async with server.served() as base:
        with pytest.raises(SetupError, match="incorrect L1 RPC chain id 5"):
            await check_endpoints(endpoints(base, l1=(f"{base}/l1", f"{base}/other")), SHORT)


@pytest.mark.parametrize("response", [{"code": -32601, "message": "no such method"}, 404])
async def test_a_final_error_is_not_retried(server: EndpointsServer, response: Any) -> None:
    server.responses["l1"]["eth_chainId"] = response
    assert (await server.error(policy=LONG)).startswith("L1 cannot be used, ")
    assert sum(layer == "l1" for layer, _ in server.requests) == 1


@pytest.mark.parametrize("response", [500, {"code": -32005, "message": "slow down"}])
async def test_a_temporary_error_is_retried(server: EndpointsServer, response: Any) -> None:
    server.failures_first = [response]
    await server.check(policy=LONG)
    assert server.failures_first == []


async def test_an_endpoint_that_keeps_failing_is_an_error(server: EndpointsServer) -> None:
    server.responses["l1"]["eth_chainId"] = 500
    assert (await server.error()).startswith("L1 cannot be used, ")


@pytest.mark.parametrize(
    "response", [404, 503, {}, {"data": {}}, {"data": {"genesis_time": 5}}, {"data": {"genesis_time": "soon"}}, []]
)
async def test_an_invalid_beacon_node_is_an_error_unless_ignored(server: EndpointsServer, response: Any) -> None:
    server.beacon = response
    assert (await server.error()).startswith("failed to check L1 Beacon API version: ")
    await server.check(beacon_may_fail=True)


async def test_a_beacon_node_that_is_ignored_does_not_delay_the_start(server: EndpointsServer) -> None:
    server.beacon = 503
    await server.check(beacon_may_fail=True, policy=LONG)
    assert server.beacon_requests == 1


async def test_no_beacon_node_is_not_checked(server: EndpointsServer) -> None:
    server.beacon = 500
    await server.check(beacon=None)


def answering(status: int, text: str) -> Callable[[web.Request], web.Response]:
    return lambda request: web.Response(status=status, text=text)


@pytest.mark.sign("ENGINE-VHOST", line=True)
@pytest.mark.parametrize(
    ("code", "change", "text"),
    [
        (
            Code.ENGINE_PUBLIC_PORT,
            lambda e: e.engine.pop("engine_exchangeCapabilities"),
            "has no Engine API .*set --l2 to the authenticated port",
        ),
        (
            Code.ENGINE_VHOST,
            lambda e: e.instead.update(engine=answering(403, "invalid host specified")),
            "does not accept the host name of --l2 .*--authrpc.vhosts",
        ),
        (
            Code.ENGINE_CLOCK,
            lambda e: e.instead.update(engine=answering(401, "stale token")),
            "rejects our JWT for its time .*clocks",
        ),
        (
            Code.BEACON_CHAIN,
            lambda e: e.beacon.update({"eth/v1/beacon/genesis": {"genesis_time": "1606824023"}}),
            "failed to check L1 Beacon API version: .* is of another chain: its genesis time is 1606824023",
        ),
    ],
)
async def test_a_start_names_the_cause(code: Code, change: Callable[[CheckedEndpoints], object], text: str) -> None:
    """At once, with what to do: none of them goes away by itself."""
    checked = CheckedEndpoints()
    change(checked)
    with checked.served() as (l1, engine, beacon), pytest.raises(SetupError, match=text) as result:
        await check_endpoints(NodeEndpoints(ROLLUP, (l1,), engine, SECRET, "jwt.txt", beacon), LONG)
    assert str(result.value).endswith(f"{code.remedy} ({code.text})")


@pytest.mark.condition("C11")
async def test_a_start_with_swapped_endpoints_says_so() -> None:
    with (
        CheckedEndpoints().served() as (l1, engine, beacon),
        pytest.raises(SetupError, match=r"--l1 and --l1\.beacon are swapped"),
    ):
        await check_endpoints(NodeEndpoints(ROLLUP, (beacon,), engine, SECRET, "jwt.txt", l1), LONG)


@pytest.mark.condition("C11")
async def test_a_start_with_https_for_a_plain_port_says_so() -> None:
    with CheckedEndpoints().served() as (l1, engine, beacon):
        swapped = NodeEndpoints(ROLLUP, (l1,), engine, SECRET, "jwt.txt", beacon.replace("http:", "https:"))
        with pytest.raises(SetupError, match=r"the port does not speak TLS .*use http://"):
            await check_endpoints(swapped, LONG)


@pytest.mark.parametrize(
    ("layer", "secret", "error"),
    [
        ("l1", b"", "incorrect L2 RPC chain id 11155111, expected 999999999"),
        ("l2", b"", r"rejects our JWT .*--l2.jwt-secret \(now none given\)"),
        ("l2", b"\1" * 32, "rejects our JWT"),
        ("l2", SECRET, None),
    ],
)
async def test_the_l2_source_of_a_command(
    server: EndpointsServer, layer: str, secret: bytes, error: str | None
) -> None:
    async with server.served() as base:
        endpoints = NodeEndpoints(ROLLUP, (), f"{base}/{layer}", secret, "none given")
        with nullcontext() if error is None else pytest.raises(SetupError, match=error):
            await check_engine(L2SourceCheck(endpoints, SHORT.timeout), SHORT)


async def test_an_engine_of_one_of_several_chains_is_named_with_its_chain() -> None:
    """[SNO6] One that does not answer is a warning; what is as before is not asked again."""
    server = EndpointsServer()
    async with server.served() as base:
        right = endpoints(base)
        await check_chains([right, right._replace(l2=UNREACHABLE)], SHORT)
        asked = len(server.requests)
        await check_chains([right, right], SHORT, [right, right])
        assert len(server.requests) == asked
        other = right._replace(rollup=msgspec.structs.replace(ROLLUP, l2_chain_id=7))
        with pytest.raises(SetupError, match=r"^chain 7: incorrect L2 RPC chain id 999999999, expected 7"):
            await check_chains([right, other], SHORT)
