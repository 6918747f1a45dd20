"""An embedded engine that fetches the chain from another one, over HTTP."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from msgspec.structs import replace

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.headers import header_hash
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, application
from rollup_node.tools.devnet.engine.__main__ import main
from rollup_node.tools.devnet.engine.backend import L2Backend, payload_of
from rollup_node.tools.devnet.engine.chain_sync import BATCH
from rollup_node.tools.devnet.engine.server import EngineServer
from tests.support.chains.l2_test_chain import L2TestChain
from tests.support.timing.conditions import until

SECRET = bytes(range(32))
ZERO = to_hex(bytes(32))


class Source:
    """An engine whose blocks are fetched: `served` are the numbers asked for, `answers` are open while it is not held
    up, and `spoil` changes each block in the answer."""

    def __init__(self, backend: L2Backend, port: int = 0) -> None:
        self.backend = backend
        self.served: list[int] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.spoil: Callable[[dict[str, Any]], Any] = lambda block: block
        self._methods = EthApi(backend, "test").methods()
        methods = {**self._methods, "eth_getBlockByNumber": self._by_number, "eth_getBlockByHash": self._by_hash}
        self.http = Listener(application(JsonRpc(methods)), port)

    async def _by_number(self, number: Any, full: Any) -> Any:
        self.served.append(int(number, 16))
        return await self._answer("eth_getBlockByNumber", number, full)

    async def _by_hash(self, block_hash: Any, full: Any) -> Any:
        return await self._answer("eth_getBlockByHash", block_hash, full)

    async def _answer(self, method: str, *params: Any) -> Any:
        await self.answers.wait()
        result: Any = self._methods[method](*params)
        return None if result is None else self.spoil(result)


class Pair:
    """An engine with a chain, and one that fetches it."""

    def __init__(self, l2: L2TestChain, data_dir: Path | None = None, source: L2TestChain | None = None) -> None:
        self.l2, self.data_dir = l2, data_dir
        self.source_l2 = source or l2
        self.source = Source(self.source_l2.backend())

    async def __aenter__(self) -> "Pair":
        await self.source.http.start()
        self.engine = EngineServer(self.l2.genesis(), SECRET, el_sync_from=self.source.http.url, data_dir=self.data_dir)
        await self.engine.start()
        self.client = JsonRpcClient(
            self.engine.auth.url,
            timeout=5.0,
            headers=lambda: {"Authorization": "Bearer " + jwt.encode({"iat": int(time.time())}, SECRET)},
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.close()
        self.source.answers.set()
        await self.engine.stop()
        await self.source.http.stop()

    def grow(self, count: int, *transactions: bytes) -> Block:
        """Extend the source's chain by that many blocks; the last of them."""
        return [self.source_l2.extend(self.source.backend, *transactions) for _ in range(count)][-1]

    async def new_payload(self, block: Block) -> Any:
        """Return the status of a block."""
        result = envelope_to_json(payload_of(block))
        params: tuple[Any, ...] = (result["executionPayload"], [], result["parentBeaconBlockRoot"], [])
        return (await self.client.call("engine_newPayloadV4", *params))["status"]

    async def status(self, block: Block) -> Any:
        """Return the payload status of a forkchoice update to a block."""
        state = {"headBlockHash": to_hex(block.hash), "safeBlockHash": ZERO, "finalizedBlockHash": ZERO}
        return (await self.client.call("engine_forkchoiceUpdatedV3", state, None))["payloadStatus"]

    async def choose(self, block: Block) -> Any:
        """Its status alone."""
        return (await self.status(block))["status"]

    async def fetch(self, block: Block) -> None:
        """Choose a block that is missing, and wait until it was fetched."""
        assert await self.choose(block) == "SYNCING"
        await self.fetched(block)

    def has(self, block: Block) -> bool:
        """Whether the engine has fetched a block."""
        return self.engine.backend.chain.get(block.hash) is not None

    async def fetched(self, block: Block) -> None:
        await until(lambda: self.has(block))

    async def synced(self) -> None:
        """Wait until nothing is fetched."""
        while await self.client.call("eth_syncing") is not False:
            await asyncio.sleep(0.01)


OTHER = L2TestChain().deposit(b"\x01" * 20, b"\x02" * 20)
"""A transaction that makes another branch."""


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with Pair(L2TestChain()) as result:
        yield result


async def test_a_missing_chain_is_fetched(tmp_path: Path) -> None:
    l2, length = L2TestChain(), BATCH + 3
    async with Pair(l2, tmp_path) as pair:
        head = pair.grow(length)
        assert await pair.client.call("eth_syncing") is False
        pair.source.answers.clear()
        assert await pair.new_payload(head) == "SYNCING"
        none = {"startingBlock": "0x0", "currentBlock": "0x0", "highestBlock": "0x0"}
        assert await pair.client.call("eth_syncing") == none
        pair.source.answers.set()
        await pair.fetched(head)
        await pair.synced()
        assert pair.engine.backend.chain.head.number == 0, "the head moves by a forkchoice update"
        assert await pair.choose(head) == "VALID"
        assert pair.engine.backend.chain.head.hash == head.hash
        assert sorted(pair.source.served) == list(range(1, length + 1)), "each block is fetched once"
    again = EngineServer(l2.genesis(), SECRET, data_dir=tmp_path)
    assert again.backend.chain.head.number == length, "also from the journal"
    await again.stop()


async def test_another_branch_is_followed_from_where_the_chains_part(pair: Pair) -> None:
    common = pair.grow(2)
    await pair.fetch(common)
    await pair.choose(common)
    for _ in range(3):
        pair.l2.extend(pair.engine.backend, OTHER)
    head = pair.grow(6)
    await pair.fetch(head)
    assert await pair.choose(head) == "VALID"


async def test_a_chain_with_another_genesis_is_given_up() -> None:
    foreign = L2TestChain()
    foreign.file["alloc"]["0x" + "77" * 20] = {"balance": "0x1"}
    async with Pair(L2TestChain(), source=foreign) as pair:
        head = pair.grow(2)
        assert await pair.choose(head) == "SYNCING"
        await pair.synced()
        served = len(pair.source.served)
        assert await pair.choose(head) == await pair.new_payload(head) == "INVALID"
        await pair.synced()
        assert pair.engine.backend.chain.head.number == 0 and len(pair.source.served) == served


async def test_a_target_above_an_invalid_block_is_invalid(pair: Pair) -> None:
    """And is not fetched again."""
    backend = pair.source.backend
    valid, block = pair.grow(3), pair.grow(1)
    header = replace(block.header, gas_used=block.header.gas_used + 1)
    wrong = Block(header_hash(header), header, block.executed)
    backend.set_head(valid)
    backend.chain.insert(wrong)
    backend.set_head(wrong)
    head = pair.grow(2)
    assert await pair.choose(head) == "SYNCING"
    await pair.synced()
    assert pair.has(valid) and not pair.has(wrong)
    served = len(pair.source.served)
    for target in (head, wrong):
        status = await pair.status(target)
        assert (status["status"], status["latestValidHash"]) == ("INVALID", to_hex(valid.hash))
    assert await pair.client.call("eth_syncing") is False and len(pair.source.served) == served
    backend.set_head(valid)
    await pair.fetch(pair.grow(1, OTHER))


async def test_a_source_that_is_away(pair: Pair) -> None:
    """It comes back, on the same port, and the fetch goes on by itself."""
    head = pair.grow(2)
    await pair.source.http.stop()
    assert await pair.choose(head) == "SYNCING"
    assert isinstance(await pair.client.call("eth_syncing"), dict)
    assert await pair.choose(head) == "SYNCING"
    pair.source = Source(pair.source.backend, pair.source.http.port)
    await pair.source.http.start()
    await pair.fetched(head)
    await pair.synced()


def test_the_source_must_be_a_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    genesis, secret = tmp_path / "genesis.json", tmp_path / "jwt.txt"
    genesis.write_text(json.dumps(L2TestChain().file))
    secret.write_text(SECRET.hex())
    words = ["--genesis", str(genesis), "--jwt", str(secret), "--el-sync-from", "here"]
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("engine: --el-sync-from here: must be an address such as http")
