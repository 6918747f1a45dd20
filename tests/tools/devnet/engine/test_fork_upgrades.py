"""The upgrade transactions of all forks succeed on a development chain and install their contracts [UPG1 to UPG18]."""

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import GAS_PRICE_ORACLE, L1_BLOCK, predeploy
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from rollup_node.tools.devnet.chain.eth_api import CallRequest, simulate
from rollup_node.tools.devnet.engine.backend import L2Backend
from rollup_node.tools.devnet.evm.call_frame import BlockContext
from rollup_node.tools.devnet.evm.state import State
from rollup_node.tools.devnet.evm.state_transition.transition import BEACON_ROOTS, BLOCK_HASHES
from tests.support.chains.l2_test_chain import L2TestChain

GAS_LIMIT = 120_000_000
IMPLEMENTATION_SLOT = 0x360894A13BA1A3210667C828492DB98DCA3E2076CC3735A920A3CA505D382BBC
L1_BLOCKS = {
    "ecotone": "07dbe8500fc591d1852b76fee44d5a05e13097ff",
    "isthmus": "ff256497d61dcd71a9e9ff43967c13fde1f72d12",
    "jovian": "3ba4007f5c922fbb33c454b41ea7a1f11e83df2c",
}


def read_word(backend: L2Backend, contract: bytes, signature: str) -> int:
    header = backend.chain.head.header
    context = BlockContext(9, header.timestamp, bytes(20), 30_000_000, 0, bytes(32), 901, lambda number: bytes(32))
    call = CallRequest(b"\x99" * 20, contract, 0, keccak256(signature.encode())[:4], None)
    state = State(backend.store, header.state_root)
    result = simulate(state, backend.evm_rules(header.timestamp), context, call, 10**6)
    assert result.succeeded, result.error
    return int.from_bytes(result.output, "big")


def test_a_chain_crosses_all_forks_from_regolith_to_lagoon() -> None:
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
        assert read_word(backend, contract, getter) == value
