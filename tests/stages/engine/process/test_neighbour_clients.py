"""The conductor's client against a conductor on loopback [CND1 to CND3]."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from rollup_node.stages.engine.calls.calls import (
    CommitPayload,
    FollowReason,
    FollowStatus,
    GetLeader,
)
from rollup_node.stages.engine.process.neighbour_clients import (
    ATTEMPTS,
    MAX_ANSWER,
    MAX_CALL_SECONDS,
    PAUSE_SECONDS,
    ConductorClient,
    FollowClient,
    FollowClientError,
    WrongChainError,
    encode_envelope,
)
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId
from rollup_node.stages.rpc.responses import l1_ref, l2_ref
from tests.support.chains.chain_fixture import ChainFixture, chain_with, make_rollup
from tests.support.engine.fake_conductor import FakeConductor
from tests.support.servers.http_listener import Handler, Methods, app_for_every_path, json_rpc_app, listening


@asynccontextmanager
async def client_of(url: str, timeout: float, meter: Meter | None = None) -> AsyncIterator[ConductorClient]:
    client = ConductorClient(url, timeout, meter)
    try:
        yield client
    finally:
        await client.close()


def sealed(chain: ChainFixture) -> ExecutionPayload:
    return chain.payloads[chain.build(1)[1].hash]


@pytest.mark.option("conductor.rpc", by="url")
async def test_the_two_calls_have_the_forms_of_the_conductor(chain: ChainFixture) -> None:
    payload = sealed(chain)
    assert payload.parent_beacon_root is not None
    meter = Meter("engine")
    async with FakeConductor().serving() as conductor, client_of(conductor.url, 1.0, meter) as client:
        assert conductor.requests == [], "the connection is made with the first call"
        assert await client.ask(GetLeader()) is True
        assert await client.ask(CommitPayload(payload)) is True
        conductor.is_leader = False
        assert await client.ask(GetLeader()) is False
    leader, commit, _ = conductor.requests
    assert (leader["method"], leader["params"]) == ("conductor_leader", [])
    assert (commit["method"], commit["params"]) == ("conductor_commitUnsafePayload", [envelope_to_json(payload)])
    assert conductor.committed == [payload]
    labels = b'{method="conductor_leader",rpc="conductor"}'
    assert b"rpc_client_requests_total" + labels + b" 2.0" in meter.text()


def test_an_envelope_without_beacon_root_has_no_such_member() -> None:
    chain = ChainFixture(make_rollup({"regolith": 0}))
    payload = sealed(chain)
    assert payload.parent_beacon_root is None
    assert b"parentBeaconBlockRoot" not in orjson.dumps(encode_envelope(payload))


FAILURES: list[tuple[str, Any, str]] = [
    ("an error object", {"error": {"code": -32000, "message": "no quorum"}}, "error -32000: no quorum"),
    ("an HTTP status", 503, "HTTP status 503"),
    ("another type", {"result": "yes"}, "the answer to conductor_leader"),
    ("no JSON", b"<html>", "the answer is not JSON"),
    ("too many bytes", b" " * (MAX_ANSWER + 1), f"longer than {MAX_ANSWER} bytes"),
]


@pytest.mark.parametrize(("answer", "text"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
async def test_a_failure_is_tried_twice_and_names_the_conductor(answer: Any, text: str) -> None:
    async with FakeConductor().serving() as conductor, client_of(conductor.url, 5.0) as client:
        conductor.answers = [answer] * 3
        began = time.monotonic()
        with pytest.raises(TemporaryError) as caught:
            await client.ask(GetLeader())
        assert time.monotonic() - began >= PAUSE_SECONDS
        assert text in str(caught.value) and client.name in str(caught.value)
        assert len(conductor.requests) == ATTEMPTS
        conductor.answers = [answer]
        assert await client.ask(GetLeader()) is True, "the second attempt counts"


@pytest.mark.option("conductor.rpc-timeout", by="timeout")
async def test_a_hanging_conductor_costs_one_timeout_with_all_attempts() -> None:
    async with FakeConductor().serving() as conductor, client_of(conductor.url, 0.3) as client:
        conductor.hold.clear()
        began = time.monotonic()
        with pytest.raises(TemporaryError, match=r"no answer within 0\.3 s"):
            await client.ask(GetLeader())
        assert time.monotonic() - began >= 0.3
        assert len(conductor.requests) == 1, "no time is left for a second attempt"
        conductor.hold.set()
        assert await client.ask(GetLeader()) is True


def test_its_name_and_longest_time() -> None:
    """[CND5] No call takes longer than a commit may; the credentials of the URL are not shown."""
    client = ConductorClient("http://user:secret@127.0.0.1:8547/key", 3600.0)
    assert (client._timeout, client.name) == (MAX_CALL_SECONDS, "127.0.0.1:8547")


CHAIN = chain_with()
REFS = CHAIN.build(6)
STATUS = {
    "current_l1": l1_ref(CHAIN.l1_ref(101)),
    "head_l1": None,
    "unsafe_l2": l2_ref(REFS[6]),
    "local_safe_l2": l2_ref(REFS[5]),
    "safe_l2": l2_ref(REFS[4]),
    "finalized_l2": l2_ref(REFS[2]),
    "cross_unsafe_l2": "of no interest",
}
CONFIG = rollup_config_object(CHAIN.rollup)


@asynccontextmanager
async def following(app: web.Application, timeout: float = 5.0) -> AsyncIterator[FollowClient]:
    """Yield the client of a source."""
    async with asyncio.timeout(30), listening(app) as (url,):
        client = FollowClient(f"{url}/?key=secret-key", timeout, CHAIN.rollup, Meter("engine"))
        yield client
        await client.close()


def source(status: Any = STATUS, config: Any = CONFIG, **others: Callable[..., Any]) -> web.Application:
    methods: Methods = {"optimism_syncStatus": lambda: status, "optimism_rollupConfig": lambda: config, **others}
    return json_rpc_app(methods)


async def failure_of(app: web.Application, reason: FollowReason, timeout: float = 5.0) -> str:
    """Return the text of a status that cannot be had for that reason."""
    async with following(app, timeout) as client:
        with pytest.raises(FollowClientError) as caught:
            await client.status()
    text, code = str(caught.value), caught.value.code
    assert caught.value.reason is reason and "secret-key" not in text
    assert code is (Code.FOLLOW_CHAIN if reason is FollowReason.WRONG_CHAIN else Code.FOLLOW_UNREACHABLE)
    assert text.startswith("127.0.0.1:")
    return text


async def status_of(app: web.Application) -> FollowStatus:
    async with following(app) as client:
        return await client.status()


async def test_the_heads_of_a_node() -> None:
    assert await status_of(source()) == FollowStatus(CHAIN.l1_ref(101).id, REFS[5], REFS[4], REFS[2])
    assert (await status_of(source({**STATUS, "current_l1": l1_ref(None)}))).current_l1 is None
    nothing = {**STATUS, **dict.fromkeys(("local_safe_l2", "safe_l2", "finalized_l2"), l2_ref(None))}
    assert (await status_of(source(nothing))).safe.id == BlockId(0, ZERO_HASH)
    keeps_its_config = json_rpc_app({"optimism_syncStatus": lambda: STATUS})
    assert (await status_of(keeps_its_config)).safe == REFS[4], "it is followed all the same"


async def test_the_chain_is_checked_once_and_again_after_a_failure() -> None:
    asked: list[str] = []
    answers: list[Any] = [STATUS, STATUS, {}, STATUS, STATUS]

    def config() -> Any:
        asked.append("config")
        return CONFIG

    app = json_rpc_app({"optimism_syncStatus": lambda: answers.pop(0), "optimism_rollupConfig": config})
    async with following(app) as client:
        await client.status()
        await client.status()
        assert asked == ["config"]
        with pytest.raises(TemporaryError, match="malformed"):
            await client.status()
        await client.status()
        assert asked == ["config"] * 2
        await client.status(check_chain=True)
        assert asked == ["config"] * 3


async def test_another_chain_is_named() -> None:
    text = await failure_of(source(config={**CONFIG, "l2_chain_id": 10}), FollowReason.WRONG_CHAIN)
    assert "is on L2 chain 10 with genesis" in text and "but this node is on 901 with" in text
    genesis = {**CONFIG["genesis"], "l2": {"hash": "0x" + "11" * 32, "number": 0}}
    async with following(source(config={**CONFIG, "genesis": genesis})) as client:
        with pytest.raises(WrongChainError, match="genesis 0x1111"):
            await client.check_chain()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, "malformed"),
        ([], "malformed"),
        ("garbage", "malformed"),
        ({**STATUS, "safe_l2": None}, "malformed"),
        ({**STATUS, "safe_l2": {**l2_ref(REFS[4]), "number": -1}}, "malformed"),
        ({**STATUS, "safe_l2": {**l2_ref(REFS[4]), "number": "4"}}, "malformed"),
        ({**STATUS, "safe_l2": {**l2_ref(REFS[4]), "hash": "0x12"}}, "optimism_syncStatus is malformed"),
        ({**STATUS, "current_l1": {"hash": "?", "number": 1}}, "optimism_syncStatus is malformed"),
    ],
)
async def test_a_malformed_status(status: Any, text: str) -> None:
    assert text in await failure_of(source(status), FollowReason.MALFORMED)


def _sends(body: bytes, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        called = orjson.loads(await request.read())
        if called["method"] == "optimism_rollupConfig":
            return web.json_response({"id": called["id"], "result": CONFIG})
        return web.Response(body=body, status=status)

    return handler


async def test_other_answers() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "not JSON" in await failure_of(app_for_every_path(_sends(b"garbage")), FollowReason.MALFORMED)
    assert "HTTP status 503" in await failure_of(app_for_every_path(_sends(b"", 503)), FollowReason.HTTP_STATUS)
    error = b'{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"not found"}}'
    assert "not found" in await failure_of(app_for_every_path(_sends(error)), FollowReason.RPC_ERROR)
    body = b'{"id":2,"result":"' + bytes([120]) * (64 << 20) + b'"}'
    large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert f"longer than {MAX_ANSWER} bytes" in await failure_of(
        app_for_every_path(_sends(body)), FollowReason.MALFORMED
    )
    # Server and client are one process here: the server's copies of the body count too.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - large < 200 << 10 and large - before < 200 << 10


@pytest.mark.option("l2.follow.source.rpc-timeout", by="timeout")
async def test_a_slow_node() -> None:
    async def handler(_: web.Request) -> web.Response:
        await asyncio.sleep(20)
        return web.Response()

    assert "no answer within 0.2 s" in await failure_of(
        app_for_every_path(handler), FollowReason.NO_ANSWER, timeout=0.2
    )
