"""An embedded engine that fetches the chain from another one, over HTTP."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest

from rollup_node.stages.io.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.engine.__main__ import main
from rollup_node.tools.devnet.engine.backend import L2Backend, payload_of
from rollup_node.tools.devnet.engine.chain_sync import BATCH
from rollup_node.tools.devnet.engine.server import EngineServer
from tests.support.l2_test_chain import L2TestChain

SECRET = bytes(range(32))
ZERO = to_hex(bytes(32))


class Pair:
    """An engine with a chain, and one that fetches it."""

    def __init__(self, l2: L2TestChain, data_dir: Path | None = None) -> None:
        self.l2, self.data_dir = l2, data_dir
        self.source = EngineServer(l2.genesis(), SECRET)

    async def __aenter__(self) -> "Pair":
        await self.source.start()
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
        await self.engine.stop()
        await self.source.stop()

    async def new_payload(self, backend: L2Backend) -> Any:
        """The status of the head of a backend."""
        found = envelope_to_json(payload_of(backend.chain.head))
        params: tuple[Any, ...] = (found["executionPayload"], [], found["parentBeaconBlockRoot"], [])
        return (await self.client.call("engine_newPayloadV4", *params))["status"]

    async def choose(self, head: bytes) -> Any:
        """The status of a forkchoice update to a block."""
        state = {"headBlockHash": to_hex(head), "safeBlockHash": ZERO, "finalizedBlockHash": ZERO}
        return (await self.client.call("engine_forkchoiceUpdatedV3", state, None))["payloadStatus"]["status"]

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
            assert await pair.new_payload(pair.source.backend) == "SYNCING"
            progress = await pair.client.call("eth_syncing")
            assert progress is False or progress["startingBlock"] == "0x0"
            await pair.until(lambda: pair.engine.backend.chain.get(head.hash) is not None)
            assert pair.engine.backend.chain.head.number == 0, "the head moves by a forkchoice update"
            assert await pair.choose(head.hash) == "VALID"
            assert pair.engine.backend.chain.head.hash == head.hash
            while await pair.client.call("eth_syncing") is not False:
                await asyncio.sleep(0.01)

    asyncio.run(scene())
    again = EngineServer(l2.genesis(), SECRET, data_dir=tmp_path)
    assert again.backend.chain.head.number == length, "also from the journal"
    asyncio.run(again.stop())


def test_another_branch_is_followed_from_where_the_chains_part() -> None:
    l2 = L2TestChain()

    async def scene() -> None:
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

    asyncio.run(scene())


def test_a_block_that_the_source_gets_later() -> None:
    l2 = L2TestChain()
    other = l2.backend()
    grow(l2, other, 3)

    async def scene() -> None:
        async with Pair(l2) as pair:
            assert await pair.new_payload(other) == "SYNCING"
            grow(l2, pair.source.backend, 3)
            await pair.until(lambda: pair.engine.backend.chain.get(other.chain.head.hash) is not None)

    asyncio.run(scene())


def test_a_chain_with_another_genesis_is_given_up() -> None:
    l2 = L2TestChain()
    foreign = L2TestChain()
    foreign.file["alloc"]["0x" + "77" * 20] = {"balance": "0x1"}

    async def scene() -> None:
        pair = Pair(l2)
        pair.source = EngineServer(foreign.genesis(), SECRET)
        async with pair:
            grow(foreign, pair.source.backend, 2)
            assert await pair.choose(pair.source.backend.chain.head.hash) == "SYNCING"
            async with asyncio.timeout(20):
                while await pair.client.call("eth_syncing") is not False:
                    await asyncio.sleep(0.01)
            assert pair.engine.backend.chain.head.number == 0

    asyncio.run(scene())


def test_a_source_that_is_away() -> None:
    l2 = L2TestChain()

    async def scene() -> None:
        async with Pair(l2) as pair:
            grow(l2, pair.source.backend, 2)
            head = pair.source.backend.chain.head
            await pair.source.http.stop()
            assert await pair.choose(head.hash) == "SYNCING"
            assert isinstance(await pair.client.call("eth_syncing"), dict)
            assert await pair.choose(head.hash) == "SYNCING"

    asyncio.run(scene())


def test_the_source_must_be_a_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    genesis, secret = tmp_path / "genesis.json", tmp_path / "jwt.txt"
    genesis.write_text(json.dumps(L2TestChain().file))
    secret.write_text(SECRET.hex())
    words = ["--genesis", str(genesis), "--jwt", str(secret), "--el-sync-from", "here"]
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("engine: --el-sync-from here: must be an address such as http")
