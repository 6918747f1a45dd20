"""A small L1 chain and L2 blocks on it, made of real attributes, for the engine's tests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from aiohttp import web

from rollup_node.stages.engine.api.l2_block_info import KnownBlock, known_block
from rollup_node.stages.protocol.attributes import prepare_attributes, with_transactions
from rollup_node.stages.protocol.block_hash import payload_block_hash, payload_header
from rollup_node.stages.protocol.config import ChainOpConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.deposits import decode_deposit, is_deposit
from rollup_node.stages.protocol.eip1559 import encode_extra_data
from rollup_node.stages.protocol.engine_json import attributes_from_json, envelope_to_json, payload_from_json
from rollup_node.stages.protocol.hex_encoding import from_hex, from_quantity, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_chains import BlobFork, L1Chain
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.transactions import Transaction, decode_transaction, encode_transaction
from rollup_node.stages.protocol.types import (
    ZERO_HASH,
    BlockId,
    L1Block,
    L1BlockRef,
    L1Header,
    L2BlockRef,
)
from tests.support.engine_node import EngineNode

L1_CHAIN = L1Chain(900, "test", (BlobFork("cancun", 0, 3_338_477),))
ALL_FORKS = (
    *("regolith", "canyon", "delta", "ecotone", "fjord", "granite"),
    *("holocene", "isthmus", "jovian"),
)
USER = encode_transaction(
    Transaction(
        kind=2,
        chain_id=901,
        nonce=7,
        max_priority_fee=1,
        max_fee=100,
        gas=21_000,
        to=b"\x05" * 20,
        value=5,
        data=b"\x01\x02",
        y_parity=1,
        r=3,
        s=4,
    )
)
SECRET = b"\x42" * 32
GENESIS_L1, GENESIS_TIME = 100, 1_000


def l1_header(number: int, branch: str = "a", fork_at: int = 0, step: int = 12) -> L1Header:
    """Block `number` of an L1 chain with `step` seconds between blocks; branches differ from `fork_at` on."""

    def block_hash(of: int) -> bytes:
        return keccak256(f"{branch if of >= fork_at else 'a'} {of}".encode())

    return L1Header(
        hash=block_hash(number),
        number=number,
        parent_hash=block_hash(number - 1),
        timestamp=GENESIS_TIME + step * (number - GENESIS_L1),
        mix_hash=keccak256(b"mix" + number.to_bytes(8, "big")),
        base_fee=7,
        excess_blob_gas=0,
        parent_beacon_root=keccak256(b"beacon" + number.to_bytes(8, "big")),
    )


def genesis_payload() -> ExecutionPayload:
    """The L2 genesis block."""
    payload = ExecutionPayload(
        parent_hash=ZERO_HASH,
        fee_recipient=bytes(20),
        state_root=keccak256(b"genesis state"),
        receipts_root=ZERO_HASH,
        logs_bloom=bytes(256),
        prev_randao=ZERO_HASH,
        block_number=0,
        gas_limit=30_000_000,
        gas_used=0,
        timestamp=GENESIS_TIME,
        extra_data=b"genesis",
        base_fee=1,
        block_hash=ZERO_HASH,
        transactions=(),
        withdrawals=False,
        blob_gas_used=None,
        excess_blob_gas=None,
        withdrawals_root=None,
        parent_beacon_root=None,
    )
    return msgspec.structs.replace(payload, block_hash=payload_block_hash(payload))


class World:
    """Both chains. `seal` plays the execution engine."""

    l1_chain = L1_CHAIN
    user = USER

    def __init__(self, rollup: RollupConfig, l1_step: int = 12) -> None:
        self.rollup, self.l1_step = rollup, l1_step
        self.branch, self.fork_at = "a", 0
        genesis = rollup.genesis
        self.genesis = L2BlockRef(genesis.l2.hash, genesis.l2.number, ZERO_HASH, genesis.l2_time, genesis.l1, 0)
        self.known: dict[bytes, KnownBlock] = {
            self.genesis.hash: KnownBlock(self.genesis, genesis.l2_time, genesis.system_config)
        }
        self.payloads: dict[bytes, ExecutionPayload] = {}

    def reorg(self, branch: str, fork_at: int) -> None:
        """From `fork_at` on, L1 is another chain."""
        self.branch, self.fork_at = branch, fork_at

    def l1(self, number: int) -> L1Block:
        return L1Block(l1_header(number, self.branch, self.fork_at, self.l1_step), (), (), ())

    def l1_ref(self, number: int) -> L1BlockRef:
        return self.l1(number).ref

    def attributes(self, parent: L2BlockRef, epoch: int, users: Sequence[bytes] = ()) -> PayloadAttributes:
        block = self.l1(epoch)
        config = self.known[parent.hash].config
        prepared = prepare_attributes(self.rollup, L1_CHAIN, parent, config, block.header, (), ())
        return with_transactions(prepared.attributes, users)

    def seal(self, parent: L2BlockRef, attributes: PayloadAttributes, extra: Sequence[bytes] = ()) -> ExecutionPayload:
        rules = self.rollup.schedule().l2(attributes.timestamp)
        constants = self.rollup.chain_op_config
        assert constants is not None
        payload = ExecutionPayload(
            parent_hash=parent.hash,
            fee_recipient=attributes.fee_recipient,
            state_root=keccak256(b"state"),
            receipts_root=keccak256(b"receipts"),
            logs_bloom=bytes(256),
            prev_randao=attributes.prev_randao,
            block_number=parent.number + 1,
            gas_limit=attributes.gas_limit,
            gas_used=21_000,
            timestamp=attributes.timestamp,
            extra_data=encode_extra_data(attributes.eip1559_params, attributes.min_base_fee, constants),
            base_fee=1,
            block_hash=ZERO_HASH,
            transactions=(*attributes.transactions, *extra),
            withdrawals=attributes.withdrawals,
            blob_gas_used=0 if rules.beacon_root else None,
            excess_blob_gas=0 if rules.beacon_root else None,
            withdrawals_root=keccak256(b"storage") if rules.withdrawals_root else None,
            parent_beacon_root=attributes.parent_beacon_root,
        )
        return self.keep(msgspec.structs.replace(payload, block_hash=payload_block_hash(payload)))

    def keep(self, payload: ExecutionPayload) -> ExecutionPayload:
        self.payloads[payload.block_hash] = payload
        self.known[payload.block_hash] = known_block(payload, self.rollup)
        return payload

    def ref(self, payload: ExecutionPayload) -> L2BlockRef:
        return self.known[payload.block_hash].ref

    def chain(self, length: int, per_epoch: int = 6, users: Sequence[bytes] = ()) -> list[L2BlockRef]:
        """Genesis and `length` blocks, `per_epoch` of them to an L1 block."""
        refs = [self.genesis]
        for number in range(1, length + 1):
            epoch = GENESIS_L1 + number // per_epoch
            refs.append(self.ref(self.seal(refs[-1], self.attributes(refs[-1], epoch, users))))
        return refs


def make_rollup(fork_times: dict[str, int] | None = None, **changes: object) -> RollupConfig:
    config = RollupConfig(
        genesis=Genesis(
            l1=BlockId(GENESIS_L1, l1_header(GENESIS_L1).hash),
            l2=BlockId(0, genesis_payload().block_hash),
            l2_time=GENESIS_TIME,
            system_config=SystemConfig(b"\x01" * 20, ZERO_HASH, b"\x01" + bytes(31), 30_000_000),
        ),
        block_time=2,
        max_sequencer_drift=600,
        seq_window_size=20,
        channel_timeout=10,
        l1_chain_id=900,
        l2_chain_id=901,
        fork_times=dict.fromkeys(ALL_FORKS, 0) if fork_times is None else fork_times,
        batch_inbox=b"\x02" * 20,
        deposit_contract=b"\x03" * 20,
        l1_system_config=b"\x04" * 20,
        chain_op_config=ChainOpConfig(6, 50, 250),
    )
    return msgspec.structs.replace(config, **changes)


@pytest.fixture
def rollup() -> RollupConfig:
    return make_rollup()


@pytest.fixture
def world(rollup: RollupConfig) -> World:
    return World(rollup)


@pytest.fixture(scope="session")
def lasting_world() -> World:
    """One world for the many examples of a property; L1 as fast as L2."""
    return World(make_rollup(), l1_step=2)


@pytest.fixture
def before_replacement() -> World:
    """A chain on which invalid payloads are dropped, not replaced."""
    return World(make_rollup(dict.fromkeys(ALL_FORKS[:6], 0)))


@pytest.fixture
def make_world() -> Callable[..., World]:

    def make(*args: Any, l1_step: int = 12, **changes: Any) -> World:
        return World(make_rollup(*args, **changes), l1_step)

    make.engine = FakeEngine  # type: ignore[attr-defined]
    return make


# --- a fake execution engine ---------------------------------------------------------------------------------------


class EngineFailure(Exception):
    """A JSON-RPC error to answer with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def transaction_json(raw: bytes) -> dict[str, Any]:
    """A deposit or a type 2 transaction as an engine shows it."""
    if is_deposit(raw):
        deposit = decode_deposit(raw)
        return {
            "type": "0x7e",
            "sourceHash": to_hex(deposit.source_hash),
            "from": to_hex(deposit.sender),
            "to": None if deposit.to is None else to_hex(deposit.to),
            "mint": hex(deposit.mint),
            "value": hex(deposit.value),
            "gas": hex(deposit.gas),
            "isSystemTx": deposit.is_system,
            "input": to_hex(deposit.data),
        }
    found = decode_transaction(raw)
    return {
        "type": "0x2",
        "chainId": hex(found.chain_id or 0),
        "nonce": hex(found.nonce),
        "maxPriorityFeePerGas": hex(found.max_priority_fee),
        "maxFeePerGas": hex(found.max_fee),
        "gas": hex(found.gas),
        "to": None if found.to is None else to_hex(found.to),
        "value": hex(found.value),
        "input": to_hex(found.data),
        "accessList": [],
        "yParity": hex(found.y_parity),
        "r": hex(found.r),
        "s": hex(found.s),
    }


def block_json(payload: ExecutionPayload) -> dict[str, Any]:
    header = payload_header(payload)
    names = {
        "parentHash": header.parent_hash,
        "sha3Uncles": header.uncles_hash,
        "miner": header.miner,
        "stateRoot": header.state_root,
        "transactionsRoot": header.transactions_root,
        "receiptsRoot": header.receipts_root,
        "logsBloom": header.logs_bloom,
        "difficulty": header.difficulty,
        "number": header.number,
        "gasLimit": header.gas_limit,
        "gasUsed": header.gas_used,
        "timestamp": header.timestamp,
        "extraData": header.extra_data,
        "mixHash": header.mix_hash,
        "nonce": header.nonce,
        "baseFeePerGas": header.base_fee,
        "withdrawalsRoot": header.withdrawals_root,
        "blobGasUsed": header.blob_gas_used,
        "excessBlobGas": header.excess_blob_gas,
        "parentBeaconBlockRoot": header.parent_beacon_root,
        "requestsHash": header.requests_hash,
    }
    shown = {name: hex(v) if isinstance(v, int) else to_hex(v) for name, v in names.items() if v is not None}
    transactions = [transaction_json(raw) for raw in payload.transactions]
    return {**shown, "hash": to_hex(payload.block_hash), "transactions": transactions, "withdrawals": []}


class FakeEngine:
    """The engine and eth namespaces over a world's blocks. `answers` puts another result (or an exception) in the
    place of a method's own, once per entry; `calls` lists all methods called; `lost` are blocks it has no more."""

    failure = EngineFailure

    def __init__(self, world: World) -> None:
        self.world = world
        self.genesis = genesis_payload()
        self.head = self.safe = self.finalized = b""
        self.builds: dict[str, tuple[L2BlockRef, PayloadAttributes]] = {}
        self.pool: list[bytes] = []
        self.answers: dict[str, list[Any]] = {}
        self.calls: list[str] = []
        self.lost: set[bytes] = set()
        self.url = ""
        self.tokens: set[str] = set()

    def chain(self) -> dict[int, ExecutionPayload]:
        """The canonical blocks above genesis."""
        found: dict[int, ExecutionPayload] = {}
        at = self.head
        while at in self.world.payloads:
            found[self.world.payloads[at].block_number] = self.world.payloads[at]
            at = self.world.payloads[at].parent_hash
        return found

    def lose(self, head: int) -> None:
        """A restart that comes back at an earlier block, without all blocks above it, heads or not."""
        chain = self.chain()
        self.lost |= {payload.block_hash for payload in self.world.payloads.values() if payload.block_number > head}
        self.head = chain[head].block_hash if head else self.world.genesis.hash
        self.builds.clear()

    def do(self, method: str, params: Sequence[Any]) -> Any:
        self.calls.append(method)
        if self.answers.get(method):
            answer = self.answers[method].pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        name = method.rstrip("12345").rstrip("V")
        return getattr(self, name)(*params)

    def eth_chainId(self) -> str:
        return hex(self.world.rollup.l2_chain_id)

    def eth_getBlockByNumber(self, name: str, full: bool) -> Any:
        labels = {"latest": self.head, "safe": self.safe, "finalized": self.finalized}
        if name in labels:
            return self.eth_getBlockByHash(to_hex(labels[name]), full) if labels[name] else None
        payload = self.chain().get(from_quantity(name))
        return self.genesis_json() if name == "0x0" else None if payload is None else block_json(payload)

    def eth_getBlockByHash(self, name: str, full: bool) -> Any:
        wanted = from_hex(name)
        if wanted == self.world.genesis.hash:
            return self.genesis_json()
        payload = None if wanted in self.lost else self.world.payloads.get(wanted)
        return None if payload is None else block_json(payload)

    def genesis_json(self) -> Any:
        return block_json(self.genesis)

    def engine_forkchoiceUpdated(self, state: Mapping[str, str], attributes: Any) -> Any:
        head = from_hex(state["headBlockHash"])
        if head not in self.world.known or head in self.lost:
            return {"payloadStatus": {"status": "SYNCING"}, "payloadId": None}
        self.head, self.safe = head, from_hex(state["safeBlockHash"])
        self.finalized = from_hex(state["finalizedBlockHash"])
        payload_id = None
        if attributes is not None:
            payload_id = to_hex(len(self.builds).to_bytes(8, "big"))
            self.builds[payload_id] = (self.world.known[head].ref, attributes_from_json(attributes))
        return {"payloadStatus": {"status": "VALID", "latestValidHash": to_hex(head)}, "payloadId": payload_id}

    def engine_getPayload(self, payload_id: str) -> Any:
        if payload_id not in self.builds:
            raise EngineFailure(-38001, "Unknown payload")
        parent, attributes = self.builds[payload_id]
        pool = () if attributes.no_tx_pool else tuple(self.pool)
        return envelope_to_json(self.world.seal(parent, attributes, pool))

    def engine_newPayload(self, payload: Any, *rest: Any) -> Any:
        root = from_hex(rest[1]) if len(rest) > 1 else None
        if from_hex(payload["parentHash"]) in self.lost:
            return {"status": "SYNCING"}
        self.lost.discard(self.world.keep(payload_from_json(payload, root)).block_hash)
        return {"status": "VALID", "latestValidHash": payload["blockHash"]}

    async def handle(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "")
        self.tokens.add(token)
        try:
            jwt.decode(token.removeprefix("Bearer "), SECRET, algorithms=["HS256"])
        except jwt.InvalidTokenError as error:
            return web.Response(status=401, text=str(error))
        body = await request.json()
        if isinstance(body, list):
            return web.json_response([self.reply(each) for each in body])
        return web.json_response(self.reply(body))

    def reply(self, request: Mapping[str, Any]) -> Any:
        found = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            return {**found, "result": self.do(request["method"], request["params"])}
        except EngineFailure as failure:
            return {**found, "error": {"code": failure.code, "message": str(failure)}}

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator["FakeEngine"]:
        """Listens on loopback; `url` says where."""
        app = web.Application()
        app.router.add_post("/", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        try:
            yield self
        finally:
            await runner.cleanup()


@pytest.fixture
def engine(world: World) -> FakeEngine:
    return FakeEngine(world)


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a scene, at most 30 s."""

    def run(scene: Coroutine[Any, Any, None]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(30):
                await scene

        asyncio.run(bounded())

    return run


@pytest.fixture
def run(engine: Any, world: Any, play: Any, tmp_path: Path) -> Callable[..., None]:
    """Runs a scene with a node on a running engine."""

    def begin(scene: Callable[[EngineNode], Any], **config: Any) -> None:
        async def whole() -> None:
            async with engine.serving(), EngineNode(world, engine, tmp_path, **config).running() as node:
                await scene(node)

        play(whole())

    return begin
