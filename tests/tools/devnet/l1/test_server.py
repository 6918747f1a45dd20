"""The embedded L1: its chain, methods that control it, and mining by slots."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.batcher.driver import Fees, dynamic_fee_transaction
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.evm.rules import blob_fee
from rollup_node.tools.devnet.files import (
    DEPOSITOR_KEY,
    L1_CHAIN_ID,
    RECEIVER_KEY,
    l1_genesis,
)
from rollup_node.tools.devnet.l1 import server
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.server import L1Methods, main, mine_in_slots

GENESIS_TIME = 1_700_000_000
SLOT = 2
GWEI = 10**9
FEES = Fees(GWEI, 50 * GWEI, 50 * GWEI)


@pytest.fixture
def backend() -> L1Backend:
    return L1Backend(l1_genesis(GENESIS_TIME), SLOT)


def _mine(backend: L1Backend, blocks: int = 1) -> None:
    for _ in range(blocks):
        backend.mine(backend.chain.head.header.timestamp + SLOT)


def chain_of(backend: L1Backend, count: int) -> list[Block]:
    """Return the first blocks of the chain."""
    return [block for number in range(count) if (block := backend.chain.at(number))]


def test_a_reorg_replaces_blocks_and_keeps_transactions(backend: L1Backend) -> None:
    with pytest.raises(ValueError, match="there was no reorg"):
        backend.switch_back()
    _mine(backend, 4)
    raw = dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 0, RECEIVER_KEY.address, 1, b"", 21_000, FEES)
    transaction = backend.send(raw)
    _mine(backend, 2)
    old = chain_of(backend, 7)
    backend.reorg(3)
    assert backend.chain.head.number == 7
    fresh = chain_of(backend, 8)
    assert fresh[:4] == old[:4] and not any(block in old for block in fresh[4:])
    location = backend.chain.locate(transaction)
    assert location is not None and location.block.number == 7
    _mine(backend, 2)
    new = chain_of(backend, 10)
    backend.switch_back()
    assert backend.chain.head.number == 10 and chain_of(backend, 7) == old
    times = [block.header.timestamp for block in chain_of(backend, 11)]
    assert times == [GENESIS_TIME + number * SLOT for number in range(11)]
    backend.switch_back()
    assert chain_of(backend, 10) == new, "there and back again"


def test_methods_that_control_the_chain(backend: L1Backend) -> None:
    methods = L1Methods(backend).methods()
    with pytest.raises(JsonRpcError, match="there was no reorg"):
        methods["dev_switchBack"]()
    hashes = [methods["evm_mine"]() for _ in range(3)]
    assert methods["eth_getBlockByNumber"]("latest")["hash"] == hashes[-1]
    head = methods["dev_reorg"](2)
    assert methods["eth_blockNumber"]() == "0x4"
    assert methods["eth_getBlockByNumber"]("latest")["hash"] == head
    assert methods["eth_getBlockByNumber"]("0x1")["hash"] == hashes[0]
    assert methods["eth_getBlockByNumber"]("0x2")["hash"] != hashes[1]
    excess = int(methods["eth_getBlockByNumber"]("latest")["excessBlobGas"], 16)
    rules = backend.evm_rules(backend.chain.head.header.timestamp).blobs
    assert rules is not None and methods["eth_blobBaseFee"]() == hex(blob_fee(rules, excess))
    for depth in (0, 65, "0x0"):
        with pytest.raises(JsonRpcError, match="a reorg replaces 1 to 64 blocks"):
            methods["dev_reorg"](depth)
    assert methods["dev_switchBack"]() == methods["eth_getBlockByNumber"]("0x5")["hash"]
    assert methods["eth_getBlockByNumber"]("0x3")["hash"] == hashes[2]


async def test_a_block_per_slot_and_late_slots_stay_empty(backend: L1Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([GENESIS_TIME + 2.5, GENESIS_TIME + 2.6, GENESIS_TIME + 9.1, GENESIS_TIME + 9.2])
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr(server, "time", SimpleNamespace(time=lambda: next(times)))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await mine_in_slots(backend)
    mined = [block.header.timestamp - GENESIS_TIME for number in (1, 2) if (block := backend.chain.at(number))]
    assert mined == [2, 8] and pauses == pytest.approx([1.4, 0.8])


def test_an_invalid_genesis_is_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "genesis.json"
    path.write_text("{")
    assert main(["--genesis", str(path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
