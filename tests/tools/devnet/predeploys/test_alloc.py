"""The development predeploys: L1 attributes in every format, withdrawals, proxies, the token."""

from typing import Any

import pytest

from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_info import L1Info, encode_l1_info
from rollup_node.stages.protocol.types import (
    L1_ATTRIBUTES_DEPOSITOR,
    L1_BLOCK,
    L2_TO_L1_MESSAGE_PASSER,
)
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from rollup_node.tools.devnet.evm.state import GenesisError, State, StateDatabase, load_alloc
from rollup_node.tools.devnet.predeploys.alloc import with_upgrades
from tests.support.chains.l2_test_chain import L2TestChain, call_at_head, call_data, word

GAS_LIMIT = 120_000_000
UPGRADING = ("ecotone", "fjord", "isthmus", "jovian", "karst")


def contracts(state: State, alloc: dict[str, Any]) -> dict[str, tuple[bytes, bytes]]:
    """Code and storage root of all contracts among the accounts of a genesis."""
    addresses = {text: bytes.fromhex(text[2:]) for text in alloc}
    return {
        text: (state.code(address), state.storage_root(address))
        for text, address in addresses.items()
        if state.code(address) and address != L1_BLOCK
    }


def test_starting_with_a_fork_equals_crossing_it() -> None:
    crossed = L2TestChain("canyon", {fork: 1002 + 2 * at for at, fork in enumerate(UPGRADING)})
    backend = crossed.backend()
    for fork in UPGRADING:
        crossed.extend(backend, *load_bundle(fork).transactions, gas_limit=GAS_LIMIT, parent_beacon_root=bytes(32))
    started = L2TestChain("karst")
    alloc = started.file["alloc"]
    store = StateDatabase()
    ours = contracts(State(store, load_alloc(store, alloc)), alloc)
    theirs = contracts(State(backend.store, backend.chain.head.header.state_root), alloc)
    written_by_blocks = {"0x000f3df6d732807ef1319fb7b8bb8522d0beac02", "0x0000f90827f1c53a10cb7a02335b175320002935"}
    assert ours.keys() == theirs.keys() and len(ours) > 80
    assert {text for text in ours if ours[text] != theirs[text]} <= written_by_blocks


def test_forks_that_are_present_are_not_run_again() -> None:
    l2 = L2TestChain("ecotone")
    alloc = l2.file["alloc"]
    with pytest.raises(GenesisError, match="upgrade transaction 0 of ecotone fails on these contracts: contract add"):
        with_upgrades(alloc, l2.spec, 1000)
    assert with_upgrades(alloc, l2.spec, 1000, {"ecotone"}) == alloc


INFO = L1Info(
    number=0x1111,
    timestamp=0x2222,
    base_fee=3,
    block_hash=b"\x44" * 32,
    sequence_number=5,
    batcher=b"\x66" * 20,
    overhead=(7).to_bytes(32, "big"),
    scalar=(8).to_bytes(32, "big"),
    base_fee_scalar=9,
    blob_base_fee_scalar=10,
    blob_base_fee=11,
    operator_fee_scalar=12,
    operator_fee_constant=13,
    da_footprint_gas_scalar=14,
)
ACCOUNT = b"\x99" * 20


@pytest.mark.parametrize("layout", list(L1InfoFormat))
@pytest.mark.parametrize("newest", ["regolith", "jovian"])
def test_l1_attributes_of_every_format_are_stored(newest: str, layout: L1InfoFormat) -> None:
    l2 = L2TestChain(newest)
    backend = l2.backend()
    data = encode_l1_info(INFO, layout)
    entry = l2.extend(backend, l2.deposit(L1_ATTRIBUTES_DEPOSITOR, L1_BLOCK, gas=1_000_000, data=data)).executed[1]
    assert entry.result.succeeded
    state = State(backend.store, backend.chain.head.header.state_root)
    read = [state.storage(L1_BLOCK, slot) for slot in range(9)]
    assert read[0] == 0x2222 << 64 | 0x1111 and read[1] == 3
    assert read[2] == int.from_bytes(INFO.block_hash, "big") and read[4] == int.from_bytes(INFO.batcher, "big")
    if layout is L1InfoFormat.BEDROCK:
        assert read[3] & (1 << 64) - 1 == 5 and read[5:7] == [7, 8]
    else:
        assert read[3] == 9 << 96 | 10 << 64 | 5 and read[7] == 11
    if layout >= L1InfoFormat.ISTHMUS:
        assert read[8] & (1 << 96) - 1 == 12 << 64 | 13
    if layout is L1InfoFormat.JOVIAN:
        assert read[8] >> 96 == 14
    assert call_at_head(backend, L1_BLOCK, call_data("number()")) == word(0x1111)
    assert call_at_head(backend, L1_BLOCK, call_data("baseFeeScalar()")) == word(read[3] >> 96)


def test_only_the_depositor_sets_l1_attributes() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    data = encode_l1_info(INFO, L1InfoFormat.ECOTONE)
    entry = l2.extend(backend, l2.deposit(ACCOUNT, L1_BLOCK, gas=1_000_000, data=data)).executed[1]
    assert not entry.result.succeeded and entry.result.output == call_data("NotDepositor()")


def test_withdrawals_are_recorded_and_logged() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    sender = l2.keys[0].address
    data = call_data("initiateWithdrawal(address,uint256,bytes)", ACCOUNT, 21_000, 96, 3) + b"abc".ljust(32, b"\0")
    withdrawal = l2.transfer(0, 0, L2_TO_L1_MESSAGE_PASSER, 5, data, 300_000)
    plain = l2.transfer(0, 1, L2_TO_L1_MESSAGE_PASSER, 6, b"", 300_000)
    block = l2.extend(backend, withdrawal, plain)
    nonce = 1 << 240
    values: tuple[int | bytes, ...] = (nonce, sender, ACCOUNT, 5, 21_000, 192, 3)
    encoded = b"".join(map(word, values)) + b"abc".ljust(32, b"\0")
    passed = keccak256(encoded)
    log = block.executed[1].result.logs[0]
    event = "MessagePassed(uint256,address,address,uint256,uint256,bytes,bytes32)"
    assert log.topics == (keccak256(event.encode()), word(nonce), word(sender), word(ACCOUNT))
    assert log.data[64 + 32 : 64 + 64] == passed
    state = State(backend.store, block.header.state_root)
    assert state.storage(L2_TO_L1_MESSAGE_PASSER, int.from_bytes(keccak256(passed + word(0)), "big")) == 1
    assert call_at_head(backend, L2_TO_L1_MESSAGE_PASSER, call_data("messageNonce()")) == word(nonce + 2)
    assert state.storage_root(L2_TO_L1_MESSAGE_PASSER) == block.header.withdrawals_root
    assert block.executed[2].result.logs[0].topics[3] == word(sender)
