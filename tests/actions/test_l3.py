"""An L3, whose L1 is an OP Stack chain without blobs and without a Beacon API: its batches are listed, its blocks are
replayed, and a node derives it and passes `check` [HSH9, LIN23, BF1, OPT64].

It is a `SmallRollup` whose L1 is the executed chain of another one. The L2's blocks begin with a deposit, have storage
roots as withdrawals roots and a DA footprint as blob gas. The L3's batches are calldata of its batcher, and the second
channel comes by deposits from the L2's own L1."""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.protocol.deposits import DEPOSIT_TYPE
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.l1_chains import L1Chain, parse_l1_chain
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
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
from tests.support.l1_blocks import sent_block
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, call, unready_reasons, wait_for
from tests.support.servers.threads import in_thread

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
        methods = self.l2.eth
        block = methods["eth_getBlockByNumber"](hex(number), True)
        return sent_block(block, number, False, L1_FILTER, lambda key: methods["eth_getBlockReceipts"](to_hex(key)))

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


SECONDS = 24
SECRET = b"\x13" * 32


@pytest.fixture(scope="module")
def l3() -> L3Rollup:
    """Return an L3 whose batches and deposits are all on its L1, of which the newest block is young."""
    rollup = L3Rollup(int(time.time()) - SECONDS - 20)
    rollup.run(SECONDS)
    assert rollup.dropped == [] and rollup.safe.hash == rollup.sequencer.head.hash
    return rollup


@pytest.fixture(scope="module")
def urls(l3: L3Rollup) -> Iterator[Urls]:
    with in_thread(l3.serving(SECRET)) as result:
        yield result


@pytest.fixture(scope="module")
def flags(l3: L3Rollup, urls: Urls, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return the options that say which chain it is, and where its L1 is."""
    folder = tmp_path_factory.mktemp("l3")
    (folder / "rollup.json").write_bytes(l3.rollup)
    (folder / "l2-genesis.json").write_bytes(l3.l2.genesis)
    files = (f"--rollup.config={folder}/rollup.json", f"--rollup.l1-chain-config={folder}/l2-genesis.json")
    return (f"--l1={urls.l1}", "--l1.beacon.ignore", *files)


@pytest.fixture
def output(leftovers: Leftovers) -> Callable[..., str]:
    """Run a command to its successful end, without a warning; what it writes."""
    return lambda *words: "\n".join(Program(leftovers, "rollup_node", *words).wait_for_exit().lines())


def test_its_l1_has_what_an_op_stack_chain_has(l3: L3Rollup) -> None:
    header = l3.l2.sequencer.head.header
    block = l3.l2.eth["eth_getBlockByNumber"](hex(header.number), True)
    assert block["transactions"][0]["type"] == "0x7e" and block["withdrawals"] == []
    assert header.withdrawals_root not in (None, EMPTY_ROOT)
    assert header.excess_blob_gas == 0 and header.blob_gas_used, "the DA footprint"
    assert {item.kind for block in l3.l1 for item in block.inbox} == {2, DEPOSIT_TYPE}
    assert sum(len(block.deposits) for block in l3.l1) > 2


@pytest.mark.parametrize("fork", ["regolith", "canyon", "ecotone", "isthmus"])
def test_an_l2_of_any_fork_is_an_l1(fork: str) -> None:
    """Before Canyon its receipts root is without the nonces of deposits, which its receipts show."""
    rollup = L3Rollup(fork=fork)
    rollup.run(8)
    assert rollup.dropped == [] and rollup.safe.hash == rollup.sequencer.head.hash
    assert rollup.l1[1].deposits, "read from receipts"
    receipt = rollup.l2.eth["eth_getBlockReceipts"]("latest")[0]
    assert ("depositNonce" in receipt, "depositReceiptVersion" in receipt) == (True, fork != "regolith")


def test_its_batches_are_listed(l3: L3Rollup, flags: tuple[str, ...], output: Callable[..., str]) -> None:
    words = ("--from-l1", "1", "--to-l1", str(len(l3.l1) - 1), "--json")
    rows = [json.loads(line) for line in output("batches", *flags, *words).splitlines()]
    ends = [0, *(row["last_block"] for row in rows)]
    assert [row["first_block"] for row in rows] == [end + 1 for end in ends[:-1]] and ends[-1] == l3.safe.number


def test_its_blocks_are_replayed(l3: L3Rollup, urls: Urls, flags: tuple[str, ...], output: Callable[..., str]) -> None:
    last = l3.safe.number
    words = ("--l2", urls.l2, "--from-l2", "0", "--to-l2", str(last), "--json")
    hashes = [json.loads(line)["hash"] for line in output("replay", *flags, *words).splitlines()]
    assert hashes == [to_hex(l3.sequencer.block(number).hash) for number in range(1, last + 1)]


@pytest.mark.option("rollup.l1-chain-config")
def test_a_node_checks_and_derives_it(
    l3: L3Rollup, urls: Urls, flags: tuple[str, ...], output: Callable[..., str], leftovers: Leftovers, tmp_path: Path
) -> None:
    (tmp_path / "jwt").write_text(SECRET.hex())
    own = (f"--l2={urls.engine}", f"--l2.jwt-secret={tmp_path}/jwt", f"--runtime.dir={tmp_path}/run", "--workers=1")
    words = (*flags, *own, "--p2p.disable", "--rpc.addr=127.0.0.1", "--rpc.port=0", "--l1.http-poll-interval=2s")
    findings = json.loads(output("check", "--json", *words))["findings"]
    assert {row["level"] for row in findings if row["check"] != "memory"} == {"ok", "not checked"}, findings
    with Program(leftovers, "rollup_node", *words) as node:
        url = f"http://127.0.0.1:{node.port()}"

        def safe() -> Any:
            status = call(url, "optimism_syncStatus")
            return status if status["safe_l2"]["number"] == l3.safe.number else None

        status = wait_for(safe, "the L3 is derived")
        wait_for(lambda: not unready_reasons(url), "the node is ready")
        ended = node.stop()
    assert status["safe_l2"]["hash"] == to_hex(l3.safe.hash)
    assert 0 < status["finalized_l2"]["number"] < l3.safe.number, "as the L2's finalized block says"
    assert ended.code == 0 and " code=" not in ended.out.replace("code=0", ""), ended.out
