"""What must be right before a start, against endpoints that are right and ones that are not."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jwt
import orjson
import pytest
from aiohttp import web

from rollup_node.node.setup.endpoint_checks import (
    Endpoints,
    Listener,
    Patience,
    check_endpoints,
    check_port,
    check_ports,
)
from rollup_node.node.setup.networks import find_network
from rollup_node.node.system.exit_codes import SetupError
from tests.support.loopback import free_port, own_address

ROLLUP = find_network("op-sepolia").config
SECRET = b"\x07" * 32
OWN = own_address()
SHORT = Patience(whole=0.05, timeout=20.0, longest_pause=0.01)
LONG = SHORT._replace(whole=50.0)
L1 = {"eth_chainId": hex(ROLLUP.l1_chain_id), "eth_getBlockByNumber": {"hash": f"0x{ROLLUP.genesis.l1.hash.hex()}"}}
L2 = {"eth_chainId": hex(ROLLUP.l2_chain_id), "eth_getBlockByNumber": {"hash": f"0x{ROLLUP.genesis.l2.hash.hex()}"}}
NOBODY = "http://127.0.0.1:1"
GENESIS = {"data": {"genesis_time": "1655733600"}}


class World:
    """An L1, an engine that wants a token, and a beacon node, on one loopback port. `answers` maps a method to its
    result, to an error object, or to an HTTP status; `beacon` is the genesis answer or an HTTP status."""

    def __init__(self) -> None:
        self.answers: dict[str, dict[str, Any]] = {"l1": dict(L1), "l2": dict(L2)}
        self.beacon: Any = GENESIS
        self.failures_first: list[Any] = []
        self.asked: list[tuple[str, list[Any]]] = []
        self.beacon_headers: dict[str, str] = {}

    async def rpc(self, request: web.Request) -> web.Response:
        layer = request.match_info["layer"]
        if self.failures_first:
            return self._answer(self.failures_first.pop(), {"id": 1})
        if layer == "l2" and not self._token_is_good(request.headers.get("Authorization", "")):
            return web.Response(status=401, text="missing token")
        call = orjson.loads(await request.read())
        self.asked.append((layer, call["params"]))
        return self._answer(self.answers[layer][call["method"]], call)

    @staticmethod
    def _answer(answer: Any, call: dict[str, Any]) -> web.Response:
        if isinstance(answer, int):
            return web.Response(status=answer)
        kind = "error" if isinstance(answer, dict) and "code" in answer else "result"
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], kind: answer})

    async def genesis(self, request: web.Request) -> web.Response:
        self.beacon_headers = dict(request.headers)
        if isinstance(self.beacon, int):
            return web.Response(status=self.beacon)
        return web.json_response(self.beacon)

    @staticmethod
    def _token_is_good(header: str) -> bool:
        try:
            jwt.decode(header.removeprefix("Bearer "), SECRET, algorithms=["HS256"])
        except jwt.InvalidTokenError:
            return False
        return True

    def check(self, secret: bytes = SECRET, patience: Patience = SHORT, **changes: Any) -> None:
        """Runs the checks against this world."""

        async def use(base: str) -> None:
            endpoints = Endpoints(ROLLUP, (f"{base}/l1",), f"{base}/l2", secret, "jwt.txt", base)
            await check_endpoints(endpoints._replace(**changes), patience)

        asyncio.run(self._serve(use))

    def refused(self, **changes: Any) -> str:
        with pytest.raises(SetupError) as caught:
            self.check(**changes)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    async def _serve(self, use: Callable[[str], Awaitable[None]]) -> None:
        app = web.Application()
        app.router.add_post("/{layer}", self.rpc)
        app.router.add_get("/eth/v1/beacon/genesis", self.genesis)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            await use(f"http://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()


@pytest.fixture
def world() -> World:
    return World()


def test_a_good_world_passes(world: World) -> None:
    world.check(beacon_header=("X-Key", "secret"))
    assert ("l1", [hex(ROLLUP.genesis.l1.number), False]) in world.asked
    assert ("l2", [hex(ROLLUP.genesis.l2.number), False]) in world.asked
    assert world.beacon_headers["X-Key"] == "secret"


@pytest.mark.parametrize(("layer", "expected"), [("l1", 11155111), ("l2", 11155420)])
def test_another_chain_is_refused(world: World, layer: str, expected: int) -> None:
    world.answers[layer]["eth_chainId"] = "0x1"
    text = world.refused()
    assert text.startswith(f"incorrect {layer.upper()} RPC chain id 1, expected {expected}")
    assert f"check --{layer} and --network or --rollup.config" in text


@pytest.mark.parametrize("layer", ["l1", "l2"])
def test_another_genesis_is_refused(world: World, layer: str) -> None:
    world.answers[layer]["eth_getBlockByNumber"] = {"hash": "0x" + "12" * 32}
    text = world.refused()
    assert text.startswith(f"incorrect {layer.upper()} genesis block hash 0x{'12' * 32}, expected 0x")


@pytest.mark.parametrize("layer", ["l1", "l2"])
@pytest.mark.parametrize(
    "answer",
    [None, {"code": 4444, "message": "pruned history unavailable"}, {"code": -32000, "message": "header not found"}],
)
def test_a_pruned_genesis_is_let_pass(world: World, layer: str, answer: Any) -> None:
    world.answers[layer]["eth_getBlockByNumber"] = answer
    world.check()


@pytest.mark.parametrize("layer", ["l1", "l2"])
@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("eth_chainId", "eleven"),
        ("eth_chainId", None),
        ("eth_getBlockByNumber", {"hash": 5}),
        ("eth_getBlockByNumber", "0x"),
        ("eth_getBlockByNumber", [1]),
    ],
)
def test_nonsense_is_refused(world: World, layer: str, method: str, answer: Any) -> None:
    world.answers[layer][method] = answer
    assert world.refused().startswith(f"the {layer.upper()} endpoint 127.0.0.1:")


def test_a_wrong_jwt_is_refused_at_once(world: World) -> None:
    text = world.refused(secret=b"\x08" * 32)
    assert text.startswith("the execution engine refuses our JWT (127.0.0.1:")
    assert "HTTP status 401" in text and "--l2.jwt-secret (now jwt.txt)" in text
    assert not any(layer == "l2" for layer, _ in world.asked)


@pytest.mark.parametrize("answer", [403, {"code": -32000, "message": "Invalid JWT token"}])
def test_other_refusals_of_a_jwt_are_known_as_well(world: World, answer: Any) -> None:
    world.answers["l2"]["eth_chainId"] = answer
    assert world.refused().startswith("the execution engine refuses our JWT (")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"l1": (NOBODY,)}, "L1 cannot be used, 127.0.0.1:"),
        ({"l2": NOBODY}, "the execution engine cannot be used, 127.0.0.1:"),
        ({"beacon": NOBODY}, "failed to check L1 Beacon API version: the L1 beacon node cannot be used, 127.0.0.1:"),
    ],
)
def test_an_endpoint_that_stays_away_is_named(world: World, changes: dict[str, Any], text: str) -> None:
    refusal = world.refused(**changes)
    assert refusal.startswith(text)
    assert "Connection refused" in refusal
    assert f"check --{next(iter(changes))}".replace("beacon", "l1.beacon") in refusal


def test_an_endpoint_that_comes_up_late_is_waited_for(world: World) -> None:
    world.failures_first = [503, 503]
    world.check(patience=LONG)
    assert world.failures_first == []


def test_one_of_several_l1_endpoints_is_enough(world: World) -> None:
    async def use(base: str) -> None:
        endpoints = Endpoints(ROLLUP, (NOBODY, f"{base}/l1"), f"{base}/l2", SECRET, "jwt.txt")
        await check_endpoints(endpoints, SHORT)

    asyncio.run(world._serve(use))


def test_every_l1_endpoint_that_answers_must_be_right(world: World) -> None:
    world.answers["other"] = L1 | {"eth_chainId": "0x5"}

    async def use(base: str) -> None:
        endpoints = Endpoints(ROLLUP, (f"{base}/l1", f"{base}/other"), f"{base}/l2", SECRET, "jwt.txt")
        await check_endpoints(endpoints, SHORT)

    with pytest.raises(SetupError, match="incorrect L1 RPC chain id 5"):
        asyncio.run(world._serve(use))


@pytest.mark.parametrize("answer", [{"code": -32601, "message": "no such method"}, 404])
def test_what_will_never_answer_is_not_asked_again(world: World, answer: Any) -> None:
    world.answers["l1"]["eth_chainId"] = answer
    assert world.refused(patience=LONG).startswith("L1 cannot be used, ")
    assert sum(layer == "l1" for layer, _ in world.asked) == 1


@pytest.mark.parametrize("answer", [500, {"code": -32005, "message": "slow down"}])
def test_what_may_answer_later_is_asked_again(world: World, answer: Any) -> None:
    world.failures_first = [answer]
    world.check(patience=LONG)
    assert world.failures_first == []


def test_what_does_not_answer_for_long_is_refused(world: World) -> None:
    world.answers["l1"]["eth_chainId"] = 500
    assert world.refused().startswith("L1 cannot be used, ")


@pytest.mark.parametrize(
    "answer", [404, 503, {}, {"data": {}}, {"data": {"genesis_time": 5}}, {"data": {"genesis_time": "soon"}}, []]
)
def test_a_bad_beacon_node_is_refused_unless_ignored(world: World, answer: Any) -> None:
    world.beacon = answer
    assert world.refused().startswith("failed to check L1 Beacon API version: ")
    world.check(beacon_may_fail=True)


def test_without_a_beacon_nothing_is_asked_of_it(world: World) -> None:
    world.beacon = 500
    world.check(beacon=None)


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server((OWN, 0)) as server:
        yield server.getsockname()[1]


def listener(port: int, group: str = "rpc", address: str = OWN, is_udp: bool = False) -> Listener:
    return Listener(f"{group}.addr", f"{group}.port", address, port, is_udp)


def test_a_port_in_use_is_named() -> None:
    with listening() as port, pytest.raises(SetupError) as caught:
        check_port(listener(port))
    assert str(caught.value) == (
        f"port {port} is in use on {OWN}: stop the program that uses it, or give another --rpc.port"
    )
    check_port(listener(port))
    check_port(listener(0))


def test_a_udp_port_in_use_is_named() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind((OWN, 0))
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"^UDP port {port} is in use on {OWN}: .* another --p2p.port$"):
            check_port(listener(port, "p2p", is_udp=True))
    check_port(listener(port, "p2p", is_udp=True))


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(SetupError, match=r"cannot listen on 192\.0\.2\.1 port 9999 \(--rpc\.addr, --rpc\.port\)"):
        check_port(listener(9999, address="192.0.2.1"))


def test_two_servers_need_two_ports() -> None:
    check_ports([listener(0), listener(0, "metrics")])
    port = free_port()
    with pytest.raises(SetupError, match=f"--rpc.port and --metrics.port are both {port}"):
        check_ports([listener(port), listener(port, "metrics")])
    check_ports([listener(port), listener(port, "p2p", is_udp=True)])
