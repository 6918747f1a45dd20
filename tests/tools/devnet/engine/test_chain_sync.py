"""The chain is fetched from another engine, over HTTP. Networks with --el-sync have the rest."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from rollup_node.stages.protocol.headers import header_hash
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.engine.backend import L2Backend
from rollup_node.tools.devnet.engine.chain_sync import BATCH, ChainSync
from tests.support.chains.l2_test_chain import L2TestChain
from tests.support.servers.http_listener import json_rpc_app, listening
from tests.support.timing.conditions import until

L2 = L2TestChain()


@asynccontextmanager
async def syncing() -> AsyncIterator[tuple[L2Backend, L2Backend, ChainSync]]:
    """Provide the other engine, ours, and what fetches."""
    source, backend = L2.backend(), L2.backend()
    async with listening(json_rpc_app(EthApi(source, "test").methods())) as (url,):
        sync = ChainSync(backend, None, url)
        try:
            yield source, backend, sync
        finally:
            await sync.close()


async def test_a_missing_chain_is_fetched_in_batches() -> None:
    async with syncing() as (source, backend, sync):
        head = [L2.extend(source) for _ in range(BATCH + 3)][-1]
        assert sync.progress() is False
        sync.begin(head.hash)
        assert sync.progress() == {"startingBlock": "0x0", "currentBlock": "0x0", "highestBlock": "0x0"}
        await until(lambda: sync.progress() is False)
        assert backend.chain.get(head.hash) == head
        assert backend.chain.head.number == 0, "the head moves by a forkchoice update"


async def test_a_target_above_an_invalid_block_is_invalid() -> None:
    """And another branch of the same chain is fetched."""
    async with syncing() as (source, backend, sync):
        invalid: list[bytes] = []
        sync.on_invalid = lambda block, valid, reason: invalid.extend((block, valid))
        valid, block = (L2.extend(source) for _ in range(2))
        header = replace(block.header, gas_used=block.header.gas_used + 1)
        wrong = Block(header_hash(header), header, block.executed)
        source.chain.insert(wrong)
        source.set_head(wrong)
        head = L2.extend(source)
        sync.begin(head.hash)
        await until(lambda: sync.progress() is False)
        assert invalid == [wrong.hash, valid.hash, head.hash, valid.hash]
        assert backend.chain.get(valid.hash) is not None and backend.chain.get(wrong.hash) is None
        source.set_head(valid)
        other = L2.extend(source, L2.deposit(b"\x01" * 20, b"\x02" * 20))
        sync.begin(other.hash)
        await until(lambda: backend.chain.get(other.hash))
