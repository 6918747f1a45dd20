"""A block in execution: receipts, blooms, log indices, gas, roots and system calls."""

import pytest

from rollup_node.stages.protocol.mpt import EMPTY_ROOT, ordered_root
from rollup_node.stages.protocol.receipts import bloom_mask, decode_receipt
from rollup_node.tools.batcher.signing import Fees, Key, dynamic_fee_transaction
from rollup_node.tools.devnet.evm.call_frame import SYSTEM_ADDRESS, BlockContext
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.state_transition import forks
from rollup_node.tools.devnet.evm.state_transition.block import BlockExecution, encode_receipt
from rollup_node.tools.devnet.evm.state_transition.transition import burn_base_fee
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, read_signed, read_transaction
from tests.support.chains.l2_test_chain import L2TestChain

KEY = Key(b"\x41" * 32)
CONTRACT = b"\xaa" * 20
LOGGING = bytes.fromhex("6007" + "5f5f" + "a1")
CHAIN_ID = 5


@pytest.fixture
def execution() -> BlockExecution:
    state = State(StateDatabase())
    state.add_balance(KEY.address, 10**20)
    state.set_code(CONTRACT, LOGGING)
    context = BlockContext(1, 12, b"\xcc" * 20, 100_000, 7, bytes(32), CHAIN_ID, lambda number: bytes(32))
    return BlockExecution(state, forks.PRAGUE, context, burn_base_fee)


def call(nonce: int, gas: int = 30_000) -> bytes:
    return dynamic_fee_transaction(KEY, CHAIN_ID, nonce, CONTRACT, 0, b"", gas, Fees(tip=1, cap=100))


def test_receipts_logs_and_roots(execution: BlockExecution) -> None:
    raws = [call(0), call(1)]
    first, second = (execution.apply(read_signed(raw, CHAIN_ID)) for raw in raws)
    assert (first.log_index, second.log_index) == (0, 1)
    assert first.cumulative_gas == first.result.gas_used
    assert second.cumulative_gas == execution.gas_used == 2 * first.result.gas_used
    bloom = bloom_mask(CONTRACT) | bloom_mask((7).to_bytes(32, "big"))
    assert first.bloom == execution.bloom == bloom
    assert execution.transactions_root() == ordered_root(raws)
    assert execution.receipts_root() == ordered_root([first.receipt, second.receipt])
    assert decode_receipt(first.receipt).succeeded


def test_an_empty_block_has_empty_roots(execution: BlockExecution) -> None:
    assert execution.transactions_root() == execution.receipts_root() == EMPTY_ROOT


def test_the_gas_limit_of_the_block(execution: BlockExecution) -> None:
    execution.apply(read_signed(call(0), CHAIN_ID))
    assert execution.gas_left == 100_000 - execution.gas_used
    with pytest.raises(InvalidTransaction, match="gas limit of the block reached"):
        execution.apply(read_signed(call(1, 90_000), CHAIN_ID))
    assert len(execution.executed) == 1


def test_an_l1_has_no_deposits(execution: BlockExecution) -> None:
    deposit = read_transaction(L2TestChain().deposit(b"\xee" * 20, None), CHAIN_ID)
    with pytest.raises(InvalidTransaction, match="no deposit transactions"):
        execution.apply(deposit)


def test_system_calls(execution: BlockExecution) -> None:
    target = b"\xbb" * 20
    execution.system_call(target, b"no code there")
    execution.state.set_code(target, bytes.fromhex("335f55" + "5f35600155"))
    execution.system_call(target, (9).to_bytes(32, "big"))
    assert execution.state.storage(target, 0) == int.from_bytes(SYSTEM_ADDRESS, "big")
    assert execution.state.storage(target, 1) == 9
    assert execution.gas_used == 0 and not execution.executed


def test_receipt_encoding_by_type() -> None:
    legacy, typed = (encode_receipt(kind, False, 5, 0, ()) for kind in (0, 2))
    assert typed == b"\x02" + legacy
    assert not decode_receipt(typed).succeeded
    assert encode_receipt(0x7E, True, 5, 0, (), (3, 1)).endswith(b"\x03\x01")
