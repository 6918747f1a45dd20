"""An embedded engine that fetches the chain from another one, over HTTP."""

import asyncio
import json
import time
from collections.abc import Callable
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
from rollup_node.tools.devnet.engine import chain_sync
from rollup_node.tools.devnet.engine.__main__ import main
from rollup_node.tools.devnet.engine.backend import L2Backend, payload_of
from rollup_node.tools.devnet.engine.chain_sync import BATCH
from rollup_node.tools.devnet.engine.server import EngineServer
from tests.support.chains.l2_test_chain import L2TestChain

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
        self.source = Source((source or l2).backend())

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

    async def new_payload(self, backend: L2Backend) -> Any:
        """Return the status of the head of a backend."""
        result = envelope_to_json(payload_of(backend.chain.head))
        params: tuple[Any, ...] = (result["executionPayload"], [], result["parentBeaconBlockRoot"], [])
        return (await self.client.call("engine_newPayloadV4", *params))["status"]

    async def status(self, head: bytes) -> Any:
        """Return the payload status of a forkchoice update to a block."""
        state = {"headBlockHash": to_hex(head), "safeBlockHash": ZERO, "finalizedBlockHash": ZERO}
        return (await self.client.call("engine_forkchoiceUpdatedV3", state, None))["payloadStatus"]

    async def choose(self, head: bytes) -> Any:
        """Its status alone."""
        return (await self.status(head))["status"]

    def has(self, block: Block) -> bool:
        """Whether the engine has fetched a block."""
        return self.engine.backend.chain.get(block.hash) is not None

    async def synced(self) -> None:
        """Wait until nothing is fetched."""
        async with asyncio.timeout(20):
            while await self.client.call("eth_syncing") is not False:
                await asyncio.sleep(0.01)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.01)


def grow(l2: L2TestChain, backend: L2Backend, count: int) -> None:
    for _ in range(count):
        l2.extend(backend)


def test_a_missing_chain_is_fetched(tmp_path: Path) -> None:
    l2 = L2TestChain()
    length = BATCH + 3

    async def scene() -> None:
        async with Pair(l2, tmp_path) as pair:
            grow(l2, pair.source.backend, length)
            head = pair.source.backend.chain.head
            assert await pair.client.call("eth_syncing") is False
            pair.source.answers.clear()
            assert await pair.new_payload(pair.source.backend) == "SYNCING"
            none = {"startingBlock": "0x0", "currentBlock": "0x0", "highestBlock": "0x0"}
            assert await pair.client.call("eth_syncing") == none
            pair.source.answers.set()
            await pair.until(lambda: pair.has(head))
            await pair.synced()
            assert pair.engine.backend.chain.head.number == 0, "the head moves by a forkchoice update"
            assert await pair.choose(head.hash) == "VALID"
            assert pair.engine.backend.chain.head.hash == head.hash
            assert sorted(pair.source.served) == list(range(1, length + 1)), "each block is fetched once"

    asyncio.run(scene())
    again = EngineServer(l2.genesis(), SECRET, data_dir=tmp_path)
    assert again.backend.chain.head.number == length, "also from the journal"
    asyncio.run(again.stop())


async def test_another_branch_is_followed_from_where_the_chains_part() -> None:
    l2 = L2TestChain()
    async with Pair(l2) as pair:
        grow(l2, pair.source.backend, 2)
        common = pair.source.backend.chain.head
        await pair.choose(common.hash)
        await pair.until(lambda: pair.engine.backend.chain.get(common.hash) is not None)
        await pair.choose(common.hash)
        for _ in range(3):
            l2.extend(pair.engine.backend, l2.deposit(b"\x01" * 20, b"\x02" * 20))
        grow(l2, pair.source.backend, 6)
        head = pair.source.backend.chain.head
        assert await pair.choose(head.hash) == "SYNCING"
        await pair.until(lambda: pair.engine.backend.chain.get(head.hash) is not None)
        assert await pair.choose(head.hash) == "VALID"


async def test_a_block_that_the_source_gets_later() -> None:
    l2 = L2TestChain()
    other = l2.backend()
    grow(l2, other, 3)
    async with Pair(l2) as pair:
        assert await pair.new_payload(other) == "SYNCING"
        grow(l2, pair.source.backend, 3)
        await pair.until(lambda: pair.engine.backend.chain.get(other.chain.head.hash) is not None)


async def test_blocks_are_fetched_once_though_the_target_moves() -> None:
    """Targets come one after the other while the source's blocks are on their way, and when they are there."""
    l2 = L2TestChain()
    async with Pair(l2) as pair:
        for number in range(12):
            grow(l2, pair.source.backend, BATCH)
            if number % 3 == 1:
                pair.source.answers.clear()
            head = pair.source.backend.chain.head
            assert await pair.choose(head.hash) == "SYNCING"
            if number % 3 == 2:
                pair.source.answers.set()
            if number % 3 != 1:
                await pair.until(lambda head=head: pair.has(head))  # type: ignore[misc]
        assert sorted(pair.source.served) == list(range(1, 12 * BATCH + 1))
        await pair.synced()


async def test_another_branch_than_what_was_fetched() -> None:
    """The blocks fetched last are not on the source's chain any more."""
    l2 = L2TestChain()
    async with Pair(l2) as pair:
        backend = pair.source.backend
        grow(l2, backend, BATCH)
        common = backend.chain.head
        grow(l2, backend, BATCH)
        first = backend.chain.head
        await pair.choose(first.hash)
        await pair.until(lambda: pair.has(first))
        backend.set_head(common)
        for _ in range(3 * BATCH):
            l2.extend(backend, l2.deposit(b"\x01" * 20, b"\x02" * 20))
        pair.source.served.clear()
        head = backend.chain.head
        assert await pair.choose(head.hash) == "SYNCING"
        await pair.until(lambda: pair.has(head))
        assert await pair.choose(head.hash) == "VALID"
        assert min(pair.source.served) > 1 and len(pair.source.served) <= 5 * BATCH


async def test_a_chain_with_another_genesis_is_given_up() -> None:
    l2 = L2TestChain()
    foreign = L2TestChain()
    foreign.file["alloc"]["0x" + "77" * 20] = {"balance": "0x1"}
    async with Pair(l2, source=foreign) as pair:
        grow(foreign, pair.source.backend, 2)
        head = pair.source.backend.chain.head
        assert await pair.choose(head.hash) == "SYNCING"
        await pair.synced()
        served = len(pair.source.served)
        assert await pair.choose(head.hash) == await pair.new_payload(pair.source.backend) == "INVALID"
        await pair.synced()
        assert pair.engine.backend.chain.head.number == 0 and len(pair.source.served) == served


async def test_a_target_above_an_invalid_block_is_invalid() -> None:
    """And is not fetched again."""
    l2 = L2TestChain()
    async with Pair(l2) as pair:
        backend = pair.source.backend
        grow(l2, backend, 3)
        valid = backend.chain.head
        block = l2.extend(backend)
        header = replace(block.header, gas_used=block.header.gas_used + 1)
        wrong = Block(header_hash(header), header, block.executed)
        backend.set_head(valid)
        backend.chain.insert(wrong)
        backend.set_head(wrong)
        grow(l2, backend, 2)
        head = backend.chain.head
        assert await pair.choose(head.hash) == "SYNCING"
        await pair.synced()
        assert pair.has(valid) and not pair.has(wrong)
        served = len(pair.source.served)
        for target in (head, wrong):
            status = await pair.status(target.hash)
            assert (status["status"], status["latestValidHash"]) == ("INVALID", to_hex(valid.hash))
        assert await pair.client.call("eth_syncing") is False and len(pair.source.served) == served
        backend.set_head(valid)
        l2.extend(backend, l2.deposit(b"\x01" * 20, b"\x02" * 20))
        good = backend.chain.head
        assert await pair.choose(good.hash) == "SYNCING"
        await pair.until(lambda: pair.has(good))


SPOILT: tuple[dict[str, Any], ...] = (
    {"hash": ZERO},
    {"number": "0xzz"},
    {"extraData": "0x1"},
    {"transactions": [{"type": "0x7e"}]},
    {"parentHash": 7},
)


@pytest.mark.parametrize("fields", SPOILT, ids=str)
async def test_a_source_that_answers_nonsense_is_asked_again(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    l2 = L2TestChain()
    monkeypatch.setattr(chain_sync, "RETRY_SECONDS", 0.01)
    async with Pair(l2) as pair:
        grow(l2, pair.source.backend, 2)
        head = pair.source.backend.chain.head
        spoilt: list[Any] = []

        def spoil(block: dict[str, Any]) -> Any:
            spoilt.append(block)
            return block | fields

        pair.source.spoil = spoil
        assert await pair.choose(head.hash) == "SYNCING"
        await pair.until(lambda: len(spoilt) > 3)
        assert isinstance(await pair.client.call("eth_syncing"), dict)
        pair.source.spoil = lambda block: block
        await pair.until(lambda: pair.has(head))


async def test_a_bug_ends_the_fetch_with_a_line_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """And the next target begins another."""
    l2 = L2TestChain()
    async with Pair(l2) as pair:
        grow(l2, pair.source.backend, 2)
        head, backend = pair.source.backend.chain.head, pair.engine.backend
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "check", lambda parent, payload: {}[payload.block_hash])
            assert await pair.choose(head.hash) == "SYNCING"
            await pair.synced()
        assert "chain sync ended" in capsys.readouterr().err
        assert await pair.choose(head.hash) == "SYNCING"
        await pair.until(lambda: pair.has(head))


async def test_a_source_that_is_away() -> None:
    """It comes back, on the same port, and the fetch goes on by itself."""
    l2 = L2TestChain()
    async with Pair(l2) as pair:
        grow(l2, pair.source.backend, 2)
        head = pair.source.backend.chain.head
        await pair.source.http.stop()
        assert await pair.choose(head.hash) == "SYNCING"
        assert isinstance(await pair.client.call("eth_syncing"), dict)
        assert await pair.choose(head.hash) == "SYNCING"
        pair.source = Source(pair.source.backend, pair.source.http.port)
        await pair.source.http.start()
        await pair.until(lambda: pair.has(head))
        await pair.synced()


def test_the_source_must_be_a_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    genesis, secret = tmp_path / "genesis.json", tmp_path / "jwt.txt"
    genesis.write_text(json.dumps(L2TestChain().file))
    secret.write_text(SECRET.hex())
    words = ["--genesis", str(genesis), "--jwt", str(secret), "--el-sync-from", "here"]
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("engine: --el-sync-from here: must be an address such as http")
