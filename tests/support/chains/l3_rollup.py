"""An L3: a `SmallRollup` whose L1 is the executed chain of another one, with batches and deposits in its blocks.

The L2's blocks begin with a deposit, have storage roots as withdrawals roots and a DA footprint as blob gas. The L3's
batches are calldata of its batcher, and the second channel comes by deposits from the L2's own L1."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import orjson

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.tasks import NeedsReceipts, Verified, VerifyBlock, VerifyReceipts, run
from rollup_node.stages.protocol.deposits import DEPOSIT_TYPE
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.l1_chains import L1Chain, parse_l1_chain
from rollup_node.stages.protocol.types import L1Block, Log
from rollup_node.tools.batcher.channels import ChannelConfig, Compression
from rollup_node.tools.batcher.driver import Key, dynamic_fee_transaction
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, application
from rollup_node.tools.devnet.engine.genesis import parse_genesis
from rollup_node.tools.devnet.engine.server import EngineServer
from rollup_node.tools.devnet.files import (
    BATCHER_KEY,
    DEPOSITOR_KEY,
    INBOX,
    L2_CHAIN_ID,
    PORTAL,
    PORTAL_CODE,
    SYSTEM_CONFIG,
    SYSTEM_CONFIG_CODE,
)
from rollup_node.tools.devnet.traffic import FEES, deposit_call
from tests.support.chains.small_rollup import GWEI, START, SmallRollup

L3_CHAIN_ID = L2_CHAIN_ID + 1
L1_FILTER = L1Filter(L2_CHAIN_ID, INBOX, PORTAL, SYSTEM_CONFIG)
GAS = 2_000_000
CALLDATA_CHANNELS = ChannelConfig(spans=True, blobs=False, compression=Compression.BROTLI)
CONTRACTS = {  # with RETURNDATASIZE for PUSH0, which L2s before Canyon lack
    to_hex(address): {"balance": "0x0", "code": "0x" + code.replace("5f", "3d")}
    for address, code in ((PORTAL, PORTAL_CODE), (SYSTEM_CONFIG, SYSTEM_CONFIG_CODE))
}


class L2AsL1(SmallRollup):
    """The L2, whose blocks the L3 reads. `deposits` are logs for the next block of its own L1."""

    def __init__(self, start: int, fork: str) -> None:
        super().__init__(f"{fork}=0", pace=(4, 2), start=start, contracts=CONTRACTS)
        self.deposits: list[Log] = []
        self.eth = EthApi(self.sequencer.backend, "an L2").methods()

    def build(self) -> None:
        """Build the next block, with all that was sent; the labels follow."""
        if self.l1[-1].header.timestamp <= self._tip.timestamp:
            self._mine()
            self.l1[-1] = msgspec.structs.replace(self.l1[-1], deposits=tuple(self.deposits))
            self.deposits.clear()
        self._sequence()
        chain = self.sequencer.backend.chain
        chain.safe, chain.finalized = (
            chain.ancestor(chain.head, max(0, chain.head.number - depth)) for depth in (2, 4)
        )

    def send(self, key: Key, *calls: tuple[bytes, bytes]) -> None:
        """Send transactions, each an address and data."""
        nonce = self.sequencer.state().nonce(key.address)
        for offset, (to, data) in enumerate(calls):
            raw = dynamic_fee_transaction(key, L2_CHAIN_ID, nonce + offset, to, 0, data, GAS, FEES)
            self.sequencer.backend.send(raw)


class Urls(NamedTuple):
    """The public RPC of the L2 and of the L3's sequencer, and the Engine API of an engine at the L3's genesis."""

    l1: str
    l2: str
    engine: str


class L3Rollup(SmallRollup):
    """The L3, with blocks of a second on L1 blocks of two. `fork` is the last that is active on the L2."""

    def __init__(self, start: int = START, fork: str = "jovian") -> None:
        self.l2 = L2AsL1(start, fork)
        self._deposited = 0
        super().__init__(
            "jovian=0",
            channel=CALLDATA_CHANNELS,
            start=start,
            rollup={"l1_chain_id": L2_CHAIN_ID, "l2_chain_id": L3_CHAIN_ID},
        )

    def _chain_of_l1(self) -> L1Chain:
        return parse_l1_chain(self.l2.genesis, L2_CHAIN_ID)

    def _l1_genesis(self, start: int) -> L1Block:
        return self.l1_block(0)

    def _mine(self) -> None:
        number = len(self.l1)
        if number % 3 == 1:
            self.l2.send(DEPOSITOR_KEY, (PORTAL, deposit_call(*2 * (DEPOSITOR_KEY.address,), GWEI, GWEI, 100_000)))
        if self._posted < self._tip.number and not self._deposited:
            data = [item.data for item in self._post()]
            if len(self.channels) == 2:
                self._deposited = len(data)
                self.l2.deposits += [_inbox_deposit(item, index) for index, item in enumerate(data)]
            else:
                self.l2.send(BATCHER_KEY, *((INBOX, item) for item in data))
        self.l2.build()
        self.l1.append(self.l1_block(number))
        self._deposited -= sum(item.kind == DEPOSIT_TYPE for item in self.l1[-1].inbox)

    def l1_block(self, number: int) -> L1Block:
        """Return a block of the L2 as the l1 process verifies it."""
        result = run(VerifyBlock(number, self._answer("eth_getBlockByNumber", hex(number), True), False, (L1_FILTER,)))
        if isinstance(result, NeedsReceipts):
            body = self._answer("eth_getBlockReceipts", to_hex(result.block.header.hash))
            result = run(VerifyReceipts(result.block, body, (L1_FILTER,)))
        assert isinstance(result, Verified), result
        return result.blocks[0]

    def _answer(self, method: str, *params: Any) -> bytes:
        return orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": self.l2.eth[method](*params)})

    @asynccontextmanager
    async def serving(self, secret: bytes) -> AsyncIterator[Urls]:
        """Serve L2 and L3, and an engine with this JWT secret."""
        l3 = EthApi(self.sequencer.backend, "an L3").methods()
        listeners = [Listener(application(JsonRpc(methods)), 0) for methods in (self.l2.eth, l3)]
        engine = EngineServer(parse_genesis(self.genesis), secret)
        servers: list[Listener | EngineServer] = [*listeners, engine]
        for server in servers:
            await server.start()
        try:
            yield Urls(listeners[0].url, listeners[1].url, engine.auth.url)
        finally:
            for server in servers:
                await server.stop()


def _inbox_deposit(data: bytes, index: int) -> Log:
    """Return a deposit of the batcher to the inbox."""
    call = deposit_call(BATCHER_KEY.address, INBOX, 0, 0, GAS, data)
    topics = tuple(call[at : at + 32] for at in range(0, 128, 32))
    return Log(PORTAL, topics, call[128:], index)
