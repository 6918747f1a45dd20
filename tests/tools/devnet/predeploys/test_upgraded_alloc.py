"""A genesis with active forks has the result of the forks' upgrade transactions."""

from typing import Any

import pytest

from rollup_node.stages.protocol.types import GAS_PRICE_ORACLE, L1_BLOCK, predeploy
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from rollup_node.tools.devnet.evm.state import GenesisError, State, StateDatabase, load_alloc
from rollup_node.tools.devnet.evm.state_transition.transition import BEACON_ROOTS, BLOCK_HASHES
from rollup_node.tools.devnet.predeploys.upgraded_alloc import with_upgrades
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


def test_other_accounts_and_code_stay() -> None:
    l2 = L2TestChain("canyon")
    newer = L2TestChain("ecotone")
    proxy = "0x" + L1_BLOCK.hex()
    account = "0x" + "77" * 20
    before = l2.file["alloc"] | {account: {"balance": "0x1", "storage": {"0x" + "00" * 31 + "01": "0x" + "02" * 32}}}
    after = with_upgrades(before, newer.spec, 1000)
    assert after[account] == before[account]
    assert after[proxy]["code"] == before[proxy]["code"]
    assert after[proxy]["storage"].keys() == before[proxy]["storage"].keys()
    assert after[proxy]["storage"] != before[proxy]["storage"]


IMPLEMENTATION_SLOT = 0x360894A13BA1A3210667C828492DB98DCA3E2076CC3735A920A3CA505D382BBC
L1_BLOCKS = {
    "ecotone": "07dbe8500fc591d1852b76fee44d5a05e13097ff",
    "isthmus": "ff256497d61dcd71a9e9ff43967c13fde1f72d12",
    "jovian": "3ba4007f5c922fbb33c454b41ea7a1f11e83df2c",
}


def test_a_chain_crosses_all_forks_from_regolith_to_lagoon() -> None:
    """The upgrade transactions of all forks succeed and install their contracts [UPG1 to UPG18]."""
    order = ("canyon", "ecotone", "fjord", "granite", "holocene", "isthmus", "jovian", "karst", "lagoon")
    l2 = L2TestChain("regolith", {fork: 1002 + 2 * index for index, fork in enumerate(order)})
    backend = l2.backend()
    for fork in order:
        transactions = () if fork in ("canyon", "granite", "holocene") else load_bundle(fork).transactions
        block = l2.extend(backend, *transactions, gas_limit=GAS_LIMIT)
        assert [entry.result.error for entry in block.executed if not entry.result.succeeded] == [], fork
        state = State(backend.store, block.header.state_root)
        if fork in L1_BLOCKS:
            assert state.storage(L1_BLOCK, IMPLEMENTATION_SLOT) == int(L1_BLOCKS[fork], 16)
        for low in range(0x30):
            implementation = state.storage(predeploy(low), IMPLEMENTATION_SLOT)
            assert not implementation or state.code(implementation.to_bytes(20, "big")), f"{fork}: {low:x} has no code"
    l2.extend(backend, l2.transfer(0, 0))
    state = State(backend.store, backend.chain.head.header.state_root)
    assert state.code(BEACON_ROOTS) and state.code(BLOCK_HASHES) and state.code(predeploy(0x1B))
    for contract, getter, value in (
        (GAS_PRICE_ORACLE, "isJovian()", 1),
        (GAS_PRICE_ORACLE, "baseFeeScalar()", 1000),
        (L1_BLOCK, "daFootprintGasScalar()", 400),
        (L1_BLOCK, "number()", 7),
    ):
        assert call_at_head(backend, contract, call_data(getter)) == word(value)
