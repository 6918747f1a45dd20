"""The real upgrade transactions on a development chain: they must run, and leave the contracts they announce."""

from typing import Any

import pytest

from rollup_node.stages.protocol.addresses import GAS_PRICE_ORACLE, L1_BLOCK, predeploy
from rollup_node.stages.protocol.forks.upgrades import load_bundle
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.chain.simulation import Call, simulate
from rollup_node.tools.devnet.evm.block import BEACON_ROOTS, BLOCK_HASHES
from rollup_node.tools.devnet.evm.frame import BlockContext
from rollup_node.tools.devnet.evm.state import State

PARENTS = {"ecotone": "canyon", "fjord": "ecotone", "isthmus": "holocene", "jovian": "isthmus"}
IMPLEMENTATION_SLOT = 0x360894A13BA1A3210667C828492DB98DCA3E2076CC3735A920A3CA505D382BBC
L1_BLOCKS = {
    "ecotone": "07dbe8500fc591d1852b76fee44d5a05e13097ff",
    "isthmus": "ff256497d61dcd71a9e9ff43967c13fde1f72d12",
    "jovian": "3ba4007f5c922fbb33c454b41ea7a1f11e83df2c",
}


def read_word(ledger: Any, contract: bytes, signature: str) -> int:
    header = ledger.chain.head.header
    context = BlockContext(9, header.timestamp, bytes(20), 30_000_000, 0, bytes(32), 901, lambda number: bytes(32))
    call = Call(b"\x99" * 20, contract, 0, keccak256(signature.encode())[:4], None)
    state = State(ledger.store, header.state_root)
    outcome = simulate(state, ledger.evm_rules(header.timestamp), context, call, 10**6)
    assert outcome.succeeded, outcome.problem
    return int.from_bytes(outcome.output, "big")


@pytest.mark.parametrize("fork", sorted(PARENTS))
def test_each_forks_transactions_run(small_chain: Any, fork: str) -> None:
    small = small_chain(PARENTS[fork], {fork: 1002})
    ledger = small.ledger()
    if fork != "ecotone":
        small.extend(ledger, seconds=1)
    block = small.extend(ledger, *load_bundle(fork).transactions)
    outcomes = [entry.outcome for entry in block.executed]
    needs_an_older_oracle = fork in ("fjord", "isthmus", "jovian")
    failed = [index for index, outcome in enumerate(outcomes) if not outcome.succeeded]
    last_oracle_call = {"fjord": [3], "isthmus": [7], "jovian": [5]}
    assert failed == (last_oracle_call[fork] if needs_an_older_oracle else [])
    if fork in L1_BLOCKS:
        state = State(ledger.store, block.header.state_root)
        assert state.storage(L1_BLOCK, IMPLEMENTATION_SLOT) == int(L1_BLOCKS[fork], 16)
    small.extend(ledger)
    assert read_word(ledger, L1_BLOCK, "number()") == 7


def test_a_chain_from_regolith_to_karst_by_its_upgrades(small_chain: Any) -> None:
    order = ("canyon", "ecotone", "fjord", "granite", "holocene", "isthmus", "jovian", "karst")
    small = small_chain("regolith", {fork: 1002 + 2 * index for index, fork in enumerate(order)})
    ledger = small.ledger()
    for fork in order:
        bundle = load_bundle(fork) if fork in (*PARENTS, "karst") else None
        transactions = () if bundle is None else bundle.transactions
        block = small.extend(ledger, *transactions, gas_limit=120_000_000)
        assert all(entry.outcome.succeeded for entry in block.executed), fork
    small.extend(ledger, small.transfer(0, 0))
    state = State(ledger.store, ledger.chain.head.header.state_root)
    assert state.code(BEACON_ROOTS) and state.code(BLOCK_HASHES) and state.code(predeploy(0x1B))
    assert read_word(ledger, GAS_PRICE_ORACLE, "isJovian()") == 1
    assert read_word(ledger, GAS_PRICE_ORACLE, "baseFeeScalar()") == 1000
    assert read_word(ledger, L1_BLOCK, "daFootprintGasScalar()") == 400
