"""A genesis with active forks has the result of the forks' upgrade transactions."""

from typing import Any

import pytest

from rollup_node.stages.protocol.types import L1_BLOCK
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from rollup_node.tools.devnet.evm.state import GenesisError, State, StateDatabase, load_alloc
from rollup_node.tools.devnet.predeploys.upgraded_alloc import with_upgrades
from tests.support.chains.l2_test_chain import L2TestChain

GAS_LIMIT = 120_000_000
UPGRADING = ("ecotone", "fjord", "isthmus", "jovian", "karst")


def contracts(state: State, alloc: dict[str, Any]) -> dict[str, tuple[bytes, bytes]]:
    """Code and storage root of all contracts among the accounts of a genesis."""
    result = {}
    for text in alloc:
        address = bytes.fromhex(text[2:])
        if state.code(address) and address != L1_BLOCK:
            result[text] = state.code(address), state.storage_root(address)
    return result


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
