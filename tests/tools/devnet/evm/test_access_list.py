"""Block access lists (EIP-7928), written out by hand."""

from collections.abc import Sequence
from typing import Any

import pytest

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.batcher.driver import Fees, Key, dynamic_fee_transaction
from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.access_list import EMPTY_ACCESS_LIST_HASH, RecordingState
from rollup_node.tools.devnet.evm.call_frame import BlockContext
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.system_instructions import created_address
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, read_signed
from rollup_node.tools.devnet.evm.transition import BlockExecution, burn_base_fee

KEY = Key(b"\x41" * 32)
CHAIN_ID, BASE_FEE = 5, 7
FUNDS = 10**20
COINBASE, CONTRACT, OTHER, SYSTEM = b"\xcc" * 20, b"\xaa" * 20, b"\xbb" * 20, b"\x01" * 20
REVERTING = b"\xab" * 20
WRITES_AND_READS = bytes.fromhex("36600155" + "600254505f54505f5f5560075f555f5f55" + "73" + OTHER.hex() + "3150")
"""Writes its calldata's size to slot 1, reads slots 0 and 2, leaves 0 as it was, and asks for OTHER's balance."""
REVERTS = bytes.fromhex("6009600355" + "5f5ffd")
"""Writes slot 3 and reverts."""

Entry = tuple[bytes, list[Any], list[bytes], list[list[bytes]], list[list[bytes]], list[list[bytes]]]


def number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def changes(*pairs: tuple[int, int]) -> list[list[bytes]]:
    return [[number(index), number(value)] for index, value in pairs]


def account(
    address: bytes,
    slots: Sequence[tuple[int, list[list[bytes]]]] = (),
    reads: Sequence[int] = (),
    balances: Sequence[tuple[int, int]] = (),
    nonces: Sequence[tuple[int, int]] = (),
    codes: Sequence[tuple[int, bytes]] = (),
) -> Entry:
    """Return the entry of an account."""
    return (
        address,
        [[number(slot), changed] for slot, changed in slots],
        [number(slot) for slot in reads],
        changes(*balances),
        changes(*nonces),
        [[number(index), code] for index, code in codes],
    )


def transaction(nonce: int, to: bytes | None, value: int, data: bytes) -> bytes:
    return dynamic_fee_transaction(KEY, CHAIN_ID, nonce, to, value, data, 200_000, Fees(tip=1, cap=100))


class RecordedBlock:
    """A block in execution on some contracts, with the balances of sender and coinbase after each transaction."""

    def __init__(self) -> None:
        genesis = State(StateDatabase())
        genesis.add_balance(KEY.address, FUNDS)
        codes = {CONTRACT: WRITES_AND_READS, REVERTING: REVERTS, SYSTEM: bytes.fromhex("5f355f55")}
        for address, item in codes.items():
            genesis.set_nonce(address, 1)
            genesis.set_code(address, item)
        self.state = RecordingState(genesis.store, genesis.commit())
        context = BlockContext(1, 12, COINBASE, 30_000_000, BASE_FEE, bytes(32), CHAIN_ID, lambda number: bytes(32))
        self.execution = BlockExecution(self.state, forks.AMSTERDAM, context, burn_base_fee)
        self.sender, self.tips = [FUNDS], [0]

    def send(self, to: bytes | None, value: int, data: bytes = b"") -> None:
        """Execute a transaction."""
        raw = transaction(len(self.tips) - 1, to, value, data)
        result = self.execution.apply(read_signed(raw, CHAIN_ID)).result
        spent = result.gas_used * (BASE_FEE + 1) + (value if result.succeeded else 0)
        self.sender.append(self.sender[-1] - spent)
        self.tips.append(self.tips[-1] + result.gas_used)

    def check(self, *expected: Entry) -> None:
        """The hash is that of these entries and, after transactions, of sender and coinbase, by address."""
        indices = range(1, len(self.tips))
        sender = [(index, self.sender[index]) for index in indices]
        own = [
            account(KEY.address, balances=sender, nonces=[(index, index) for index in indices]),
            account(COINBASE, balances=[(index, self.tips[index]) for index in indices]),
        ]
        entries = sorted([*expected, *(own if indices else [])])
        assert self.state.access_list_hash() == keccak256(rlp.encode(entries))


def test_an_empty_block() -> None:
    block = RecordedBlock()
    assert block.state.access_list_hash() == EMPTY_ACCESS_LIST_HASH
    assert EMPTY_ACCESS_LIST_HASH.hex() == "1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"


def test_a_block() -> None:
    """System calls have index zero, and an invalid transaction leaves nothing, nor what is read between transactions.

    The second call of CONTRACT writes the value that is there: no change. What a reverted one accessed is listed."""
    block = RecordedBlock()
    block.execution.system_call(SYSTEM, (9).to_bytes(32, "big"))
    with pytest.raises(InvalidTransaction, match="nonce too high"):
        block.execution.apply(read_signed(transaction(7, OTHER, 1, b""), CHAIN_ID))
    assert block.state.balance(b"\xdd" * 20) == 0
    block.send(OTHER, 5)
    block.send(OTHER, 0)
    block.send(CONTRACT, 0, b"\1\1")
    block.send(CONTRACT, 0, b"\1\1")
    block.send(REVERTING, 3)
    block.send(None, 4, bytes.fromhex("60015f5360015ff3"))
    block.check(
        account(SYSTEM, slots=((0, changes((0, 9))),)),
        account(OTHER, balances=((1, 5),)),
        account(CONTRACT, slots=((1, changes((3, 2))),), reads=(0, 2)),
        account(REVERTING, reads=(3,)),
        account(created_address(KEY.address, 5), balances=((6, 4),), nonces=((6, 1),), codes=((6, b"\1"),)),
    )
