"""The engine client against the model engine on loopback."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import orjson
import pytest
from aiohttp import web

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.engine_identity import EngineIdentity
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.engine.process.engine_client import (
    LISTED_VERSION,
    OWN_VERSION,
    EngineClient,
    UnreadableAnswerError,
    chain_config,
    code_of,
    engine_identity,
)
from rollup_node.stages.io.http.endpoint_errors import NO_TLS, EndpointError, NoAnswerError, RpcFailure
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH
from rollup_node.tools.devnet.engine.server import EngineServer
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.chains.l2_test_chain import L2TestChain
from tests.support.engine.fake_engine import SECRET, EngineFailure, FakeExecutionEngine, block_json
from tests.support.servers.http_listener import app_for_every_path, listening
from tests.support.servers.web_socket_server import UNREADABLE_DATE, WebSocketServer, web_socket_url

VERSIONS = "engine_getClientVersionV1"
RETH = [{"code": "RH", "name": "OP-Reth", "version": "2.10.0", "commit": "0xdeadbeef"}]


def client_of(engine: FakeExecutionEngine, secret: bytes = SECRET, timeout: float = 5.0) -> EngineClient:
    return EngineClient(engine.url, secret, timeout, engine.chain.rollup, Meter("engine"))


@pytest.fixture
async def client(engine: FakeExecutionEngine) -> AsyncIterator[EngineClient]:
    """Yield the client of a running engine."""
    async with engine.serving():
        result = client_of(engine)
        yield result
        await result.close()


async def built(
    client: EngineClient, chain: ChainFixture, *users: bytes
) -> tuple[api.ForkchoiceAnswer, ExecutionPayload]:
    """The engine builds a block on genesis; its answer to the start, and the block."""
    genesis, attributes = chain.genesis.hash, chain.attributes(chain.genesis, 100, users)
    answer = await client.ask(api.ForkchoiceUpdate(Forkchoice(genesis, genesis, genesis), attributes))
    assert isinstance(answer, api.ForkchoiceAnswer) and answer.payload_id
    payload = await client.ask(api.GetPayload(answer.payload_id, attributes.timestamp))
    assert isinstance(payload, ExecutionPayload) and payload == chain.seal(chain.genesis, attributes)
    return answer, payload


async def test_a_block_from_attributes_to_the_chain(
    chain: ChainFixture, engine: FakeExecutionEngine, client: EngineClient
) -> None:
    genesis = chain.genesis.hash
    started, payload = await built(client, chain, chain.user)
    assert started.status == "VALID"
    assert await client.ask(api.NewPayload(payload)) == api.PayloadAnswer("VALID")
    update = api.ForkchoiceUpdate(Forkchoice(payload.block_hash, genesis, genesis))
    assert await client.ask(update) == api.ForkchoiceAnswer("VALID")
    assert await client.ask(api.GetBlock(1)) == payload
    assert await client.ask(api.GetBlock(2)) is None
    ref = chain.ref(payload)
    for name in (1, "latest", payload.block_hash):
        assert await client.ask(api.GetBlockRef(name)) == ref
    assert await client.ask(api.GetBlockRefs(0, 3)) == (chain.genesis, ref)
    assert await client.payloads(1, 1) == [payload]
    assert await client.payloads(1, 2) is None
    assert engine.calls[:4] == [
        *("engine_forkchoiceUpdatedV3", "engine_getPayloadV4"),
        *("engine_newPayloadV4", "engine_forkchoiceUpdatedV3"),
    ]
    assert len(engine.tokens) == 1


async def test_a_payload_goes_back_to_the_engine_as_it_came(chain: ChainFixture, engine: FakeExecutionEngine) -> None:
    """[ENG45] And one from elsewhere as this node writes it."""
    bodies: list[bytes] = []

    async def forward(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        headers = {"Authorization": request.headers["Authorization"]}
        async with aiohttp.ClientSession() as session:
            answer = await session.post(engine.url, data=bodies[-1], headers=headers)
            return web.Response(body=await answer.read())

    async with engine.serving(), listening(app_for_every_path(forward)) as (front,):
        client = EngineClient(front, SECRET, 5.0, engine.chain.rollup, Meter("engine"))
        _, payload = await built(client, chain, chain.user)
        for sealed in (payload, msgspec.structs.replace(payload)):
            assert await client.ask(api.NewPayload(sealed)) == api.PayloadAnswer("VALID")
        await client.close()
    # The engine of the test writes blanks, and this node none.
    assert b'"parentHash": "0x' in bodies[-2] and b'"parentHash":"0x' in bodies[-1]
    assert orjson.loads(bodies[-2])["params"] == orjson.loads(bodies[-1])["params"]


async def test_an_engine_behind_a_socket(chain: ChainFixture, tmp_path: Path) -> None:
    """[WSK7] Without a secret; the name of the endpoint is the path."""
    server, path = EngineServer(L2TestChain().genesis(), SECRET, ipc=tmp_path / "engine.ipc"), tmp_path / "engine.ipc"
    await server.start()
    client = EngineClient(str(path), b"", 5.0, chain.rollup, Meter("engine"))
    genesis = server.backend.chain.genesis
    update = api.ForkchoiceUpdate(Forkchoice(genesis.hash, ZERO_HASH, ZERO_HASH))
    assert await client.ask(update) == api.ForkchoiceAnswer("VALID")
    assert isinstance(await client.ask(api.GetIdentity()), EngineIdentity)
    await server.stop()
    with pytest.raises(TemporaryError, match=f"execution engine {path}: ") as caught:
        await client.ask(update)
    assert caught.value.code is Code.ENGINE_UNREACHABLE
    await client.close()
    assert not path.exists()


async def test_an_engine_behind_a_web_socket(chain: ChainFixture, engine: FakeExecutionEngine) -> None:
    """[WSK1, WSK4] A connection lost and a handshake refused are temporary errors that name the endpoint."""
    server = WebSocketServer()
    async with engine.serving(), listening(server.app) as (url,):
        server.forward_to(engine.url)
        client = EngineClient(web_socket_url(url), SECRET, 5.0, engine.chain.rollup, Meter("engine"))
        _, payload = await built(client, chain, chain.user)
        assert await client.ask(api.NewPayload(payload)) == api.PayloadAnswer("VALID")
        assert await client.ask(api.GetBlock(1)) is None

        server.refuse = lambda: web.Response(status=401, headers={"Date": UNREADABLE_DATE})
        await server.drop_connections()
        with pytest.raises(TemporaryError, match=r"127.0.0.1:\d+: HTTP status 401 in the WebSocket handshake"):
            await client.ask(api.GetBlock(0))
        await client.close()
    assert len(server.handshakes) == 2


@pytest.mark.parametrize(
    ("forks", "members", "methods"),
    [
        (("regolith",), 1, ("forkchoiceUpdatedV1", "getPayloadV2", "newPayloadV2")),
        (("regolith", "canyon"), 1, ("forkchoiceUpdatedV2", "getPayloadV2", "newPayloadV2")),
        (("regolith", "canyon", "ecotone"), 3, ("forkchoiceUpdatedV3", "getPayloadV3", "newPayloadV3")),
        (tuple(FORK_NAMES[1:10]), 4, ("forkchoiceUpdatedV3", "getPayloadV4", "newPayloadV4")),
        ((*FORK_NAMES[1:10], "azul"), 4, ("forkchoiceUpdatedV3", "getPayloadV5", "newPayloadV4")),
    ],
)
async def test_method_versions_by_fork(
    forks: tuple[str, ...], members: int, methods: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = chain_with(dict.fromkeys(forks, 0))
    engine, sent = FakeExecutionEngine(chain), list[int]()
    new_payload = engine.engine_newPayload

    def counted(*params: Any) -> Any:
        sent.append(len(params))
        return new_payload(*params)

    monkeypatch.setattr(engine, "engine_newPayload", counted)
    async with engine.serving():
        client, genesis = client_of(engine), chain.genesis.hash
        _, payload = await built(client, chain)
        await client.ask(api.NewPayload(payload))
        await client.ask(api.ForkchoiceUpdate(Forkchoice(genesis, genesis, genesis)))
        await client.close()
    assert engine.calls == [f"engine_{method}" for method in (*methods, "forkchoiceUpdatedV3")]
    assert sent == [members]


async def test_errors_and_statuses_of_the_engine(
    chain: ChainFixture, engine: FakeExecutionEngine, client: EngineClient
) -> None:
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100))
    state = Forkchoice(ZERO_HASH, ZERO_HASH, ZERO_HASH)
    engine.answers["engine_forkchoiceUpdatedV3"] = [
        EngineFailure(-38002, "invalid forkchoice state"),
        EngineFailure(-38003, "Invalid payload attributes", err="failed to force-include tx:\nnonce too high"),
        EngineFailure(-32602, "Invalid params", err=7),
        EngineFailure(-38003, "bad: the reason", err="the reason"),
    ]
    for expected in (
        api.ErrorAnswer(-38002, "invalid forkchoice state"),
        api.ErrorAnswer(-38003, "Invalid payload attributes: failed to force-include tx: nonce too high"),
        api.ErrorAnswer(-32602, "Invalid params"),
        api.ErrorAnswer(-38003, "bad: the reason"),
    ):
        assert await client.ask(api.ForkchoiceUpdate(state)) == expected
    engine.answers["engine_newPayloadV4"] = [{"status": "INVALID", "validationError": "bad root"}, "odd"]
    assert await client.ask(api.NewPayload(payload)) == api.PayloadAnswer("INVALID", "bad root")
    with pytest.raises(TemporaryError, match="the answer to engine_newPayloadV4 is malformed: Expected `object`"):
        await client.ask(api.NewPayload(payload))
    engine.answers["engine_getPayloadV4"] = [{"executionPayload": {"gasUsed": 5}}, {}]
    for text in (r"got `int` - at `\$\.gasUsed`", "cannot be read: "):
        with pytest.raises(TemporaryError, match=f"^execution engine 127.0.0.1:.*{text}"):
            await client.ask(api.GetPayload(bytes(8), payload.timestamp))
    engine.answers["eth_getBlockByNumber"] = [
        *(EngineFailure(-39001, "Unknown block"), EngineFailure(-32000, "finalized block not found")),
        *(EngineFailure(-32000, "busy"), {"hash": "0x"}),
    ]
    for _ in range(2):
        assert await client.ask(api.GetBlockRef("finalized")) is None
    for text in ("busy", "cannot be read"):
        with pytest.raises(TemporaryError, match=text):
            await client.ask(api.GetBlockRef("finalized"))


async def test_protocol_versions_are_signalled(engine: FakeExecutionEngine, client: EngineClient) -> None:
    """[PRV3]"""
    method = "engine_signalSuperchainV1"
    engine.answers[method] = [
        *("0x" + "09" * 32, EngineFailure(-32601, "Method not found")),
        *(EngineFailure(-32000, "busy"), "0x09", None),
    ]
    assert await client.signal_versions(b"\x01" * 32, b"\x02" * 32) == b"\x09" * 32
    assert await client.signal_versions(b"\x01" * 32, b"\x02" * 32) is None
    for text in ("busy", "cannot be read", "malformed"):
        with pytest.raises(TemporaryError, match=text):
            await client.signal_versions(b"\x01" * 32, b"\x02" * 32)
    assert engine.calls == [method] * 5


async def test_how_far_the_sync_of_the_engine_is(
    chain: ChainFixture, engine: FakeExecutionEngine, client: EngineClient
) -> None:
    engine.head = chain.build(3)[3].hash
    assert await client.ask(api.GetSyncProgress()) == api.SyncingBlocks(3, 3), "an engine that does not sync"
    engine.answers["eth_syncing"] = [
        {"startingBlock": "0x0", "currentBlock": "0x10", "highestBlock": "0xff", "stages": [{"name": "x"}]},
        *({}, {"currentBlock": "0x1" + "0" * 16}, {"currentBlock": 7}, "odd", EngineFailure(-32601, "none")),
    ]
    assert await client.ask(api.GetSyncProgress()) == api.SyncingBlocks(16, 255)
    assert await client.ask(api.GetSyncProgress()) == api.SyncingBlocks(0, 0)
    for text in ("currentBlock", "currentBlock", "eth_syncing"):
        with pytest.raises(TemporaryError, match=text):
            await client.ask(api.GetSyncProgress())
    assert await client.ask(api.GetSyncProgress()) == api.ErrorAnswer(-32601, "none")


async def test_blocks_that_the_engine_has_pruned(
    chain: ChainFixture, engine: FakeExecutionEngine, client: EngineClient
) -> None:
    """[STA18] One of a number is missing; that of a label is not, nor is one without its transactions."""
    engine.head, engine.pruned = chain.build(3)[3].hash, 2
    gone = EngineFailure(4444, "pruned history unavailable")
    engine.answers["eth_getBlockByNumber"] = [gone, gone]
    assert await client.ask(api.GetBlockRef(1)) is None
    with pytest.raises(UnreadableAnswerError, match=r"pruned history unavailable \(its safe block\)"):
        await client.ask(api.GetBlockRef("safe"))
    with pytest.raises(UnreadableAnswerError, match="block 2: it came without transactions"):
        await client.ask(api.GetBlockRef(2))
    with pytest.raises(UnreadableAnswerError, match="does not have the hash"):
        await client.ask(api.GetBlock(2))
    assert await client.ask(api.GetBlockRefs(1, 3)) == (chain.build(3)[3],)


async def test_an_engine_that_is_away_or_refuses_the_token(engine: FakeExecutionEngine) -> None:
    async with engine.serving():
        stranger = client_of(engine, b"\x01" * 32)
        with pytest.raises(TemporaryError, match="HTTP status 40") as refused:
            await stranger.ask(api.GetBlockRef("latest"))
        assert refused.value.code is Code.ENGINE_AUTH
        await stranger.close()
        assert stranger.record.counts(True).error.startswith("HTTP status 401")
        answering = client_of(engine)
        await answering.ask(api.GetBlockRef("latest"))
        assert not answering.record.counts(True).failing
        await answering.payloads(0, 1)
        assert (answering.record.counts(True).requests, answering.record.counts(True).errors) == (3, 0)
        await answering.close()
    client = client_of(engine)
    with pytest.raises(TemporaryError, match="cannot connect"):
        await client.ask(api.GetBlockRef("latest"))
    with pytest.raises(TemporaryError, match="cannot connect"):
        await client.payloads(1, 2)
    assert (client.record.counts(True).requests, client.record.counts(True).errors) == (3, 2)
    await client.close()


@pytest.mark.option("l2.engine-rpc-timeout")
@pytest.mark.fault("F42")
@pytest.mark.condition("C6")
async def test_a_slow_engine(engine: FakeExecutionEngine) -> None:
    engine.delay = 0.4
    async with engine.serving():
        client = client_of(engine, timeout=0.1)
        with pytest.raises(TemporaryError, match=r"no answer within 0\.1 s") as raised:
            await client.ask(api.GetBlockRef("latest"))
        assert raised.value.code is Code.ENGINE_SLOW, "it is up"
        await client.close()


async def test_a_block_with_another_hash_is_not_taken(
    chain: ChainFixture, engine: FakeExecutionEngine, client: EngineClient
) -> None:
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100))
    engine.head = payload.block_hash
    honest = engine.eth_getBlockByNumber("latest", True)
    engine.answers["eth_getBlockByNumber"] = [{**honest, "gasUsed": "0x1"}]
    with pytest.raises(TemporaryError, match="does not have the hash"):
        await client.payload(1)


async def test_a_block_that_cannot_be_read_does_not_hide_others(
    chain: ChainFixture, engine: FakeExecutionEngine, client: EngineClient
) -> None:
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100))
    block = block_json(payload)
    unreadable = [block | {"hash": "0x"}, block | {"hash": 5}, None, "odd", EngineFailure(-32000, "busy")]
    engine.answers["eth_getBlockByNumber"] = [*unreadable, block]
    assert await client.ask(api.GetBlockRefs(1, 6)) == (chain.ref(payload),)
    engine.answers["eth_getBlockByNumber"] = [block, None]
    assert await client.payloads(1, 2) is None
    for bad, text in ((unreadable[0], "cannot be read: malformed block: hash: "), (unreadable[1], "`$.hash`")):
        engine.answers["eth_getBlockByNumber"] = [block, bad]
        with pytest.raises(TemporaryError, match=re.escape(text)) as raised:
            await client.payloads(1, 2)
        host = engine.url.removeprefix("http://").removesuffix("/")
        assert str(raised.value).startswith(f"execution engine {host}: the answer to eth_getBlockByNumber ")


async def test_an_invalid_proof(chain: ChainFixture, engine: FakeExecutionEngine, client: EngineClient) -> None:
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100))
    engine.answers["eth_getProof"] = [{"accountProof": ["0xc0"]}, {"accountProof": 5}, {}, None]
    for _ in range(4):
        with pytest.raises(TemporaryError, match="eth_getProof"):
            await client.storage_root(b"\x16" * 20, payload)


class Engine:
    """Answers by method; a method without an answer does not exist, and a Reth reads no code but listed ones."""

    def __init__(self, answers: dict[str, Any], is_reth: bool = False) -> None:
        self.answers, self.is_reth = answers, is_reth
        self.calls: list[tuple[Any, ...]] = []

    async def call(self, shape: Any, method: str, *params: Any) -> Any:
        self.calls.append((method, *params))
        if self.is_reth and params[0]["code"] == OWN_VERSION["code"]:
            # op-reth: `unknown variant RN, expected one of BU, EJ, EG, GE, ...`
            raise RpcFailure(-32602, "Invalid params")
        if method not in self.answers:
            raise RpcFailure(-32601, "the method does not exist")
        return self.answers[method]


SILENT: list[dict[str, Any]] = [{}, {VERSIONS: []}, {VERSIONS: 7}]
GETH = {"web3_clientVersion": "Geth/v1.101702.3-stable/linux-amd64"}
OP_RETH = EngineIdentity("OP-Reth", "2.10.0", "RH")


@pytest.mark.parametrize(
    ("engine", "identity", "asked"),
    [
        (Engine({VERSIONS: RETH, **GETH}), OP_RETH, [(VERSIONS, OWN_VERSION)]),
        (Engine({VERSIONS: RETH}, is_reth=True), OP_RETH, [(VERSIONS, OWN_VERSION), (VERSIONS, LISTED_VERSION)]),
        *((Engine({**says, **GETH}), EngineIdentity("Geth", "1.101702.3-stable"), None) for says in SILENT),
        *((Engine(says), None, None) for says in SILENT),
    ],
)
async def test_who_an_engine_says_it_is(engine: Engine, identity: EngineIdentity | None, asked: Any) -> None:
    """By the Engine API first, then by the web3 namespace."""
    assert await engine_identity(engine.call) == identity
    assert asked in (None, engine.calls)


async def test_a_chain_config_is_an_object() -> None:
    assert await chain_config(Engine({"debug_chainConfig": {"lagoonTime": 7}}).call) == {"lagoonTime": 7}
    for engine in (Engine({}), Engine({"debug_chainConfig": []})):
        assert await chain_config(engine.call) is None


@pytest.mark.parametrize(
    "failure, code",
    [
        (EndpointError("l2", "cannot connect"), Code.ENGINE_UNREACHABLE),
        (NoAnswerError("l2", 10.0), Code.ENGINE_SLOW),
        (EndpointError("l2", "HTTP status 401: signature is invalid", 401), Code.ENGINE_AUTH),
        (EndpointError("l2", "HTTP status 401: stale token", 401), Code.ENGINE_CLOCK),
        (EndpointError("l2", "HTTP status 403: invalid host specified", 403), Code.ENGINE_VHOST),
        (EndpointError("l2", f"TLS: {NO_TLS}"), Code.TLS_PORT),
        (RpcFailure(-32000, "missing jwt token"), Code.ENGINE_AUTH),
        (RpcFailure(-32601, "the method engine_forkchoiceUpdatedV3 does not exist"), Code.ENGINE_PUBLIC_PORT),
        (RpcFailure(-32000, "database is down"), Code.ENGINE_ANSWER),
    ],
    ids=str,
)
def test_the_code_of_a_failure(failure: EndpointError | RpcFailure, code: Code) -> None:
    assert code_of(failure) is code
