"""The embedded L1 program: methods that control the chain, and mining by slots."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.evm.rules import blob_fee
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1 import server
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.server import L1Methods, main, mine_in_slots

GENESIS_TIME = 1_700_000_000


@pytest.fixture
def backend() -> L1Backend:
    return L1Backend(l1_genesis(GENESIS_TIME), 2)


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
