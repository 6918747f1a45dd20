"""Transactions of an L1 in a block: what is refused, what is paid, blobs, delegations, floor gas."""

from typing import Any

import pytest
from coincurve import PrivateKey

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transactions import (
    AccessTuple,
    Authorization,
    Transaction,
    encode_transaction,
    public_key_address,
    signing_hash,
)
from rollup_node.tools.devnet.evm.fees import BLOB_GAS
from rollup_node.tools.devnet.evm.frame import BlockContext
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State, Store
from rollup_node.tools.devnet.evm.state_transition import forks
from rollup_node.tools.devnet.evm.state_transition.block import BlockExecution, Executed
from rollup_node.tools.devnet.evm.state_transition.transition import burn_base_fee
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, read_transaction

KEY, OTHER_KEY = PrivateKey(b"\x01" * 32), PrivateKey(b"\x02" * 32)
SENDER, AUTHORITY = (public_key_address(key.public_key.format(False)) for key in (KEY, OTHER_KEY))
TO, COINBASE = b"\xdd" * 20, b"\xcc" * 20
BLOB_HASH = b"\x01" + bytes(31)
RICH = 10**20


def block(rules: EvmRules = forks.OSAKA, *, balance: int = RICH, gas_limit: int = 30_000_000) -> BlockExecution:
    state = State(Store())
    state.add_balance(SENDER, balance)
    context = BlockContext(1, 12, COINBASE, gas_limit, 7, bytes(32), 5, lambda number: bytes(32), blob_base_fee=3)
    return BlockExecution(state, rules, context, burn_base_fee)


def made(**values: Any) -> bytes:
    """A signed transaction."""
    fields: dict[str, Any] = {
        "kind": 2,
        "chain_id": 5,
        "nonce": 0,
        "max_priority_fee": 2,
        "max_fee": 100,
        "gas": 100_000,
        "to": TO,
        "value": 0,
        "data": b"",
        "y_parity": 0,
        "r": 0,
        "s": 0,
    }
    fields |= values
    signature = KEY.sign_recoverable(signing_hash(Transaction(**fields)), hasher=None)
    signed = {
        "r": int.from_bytes(signature[:32], "big"),
        "s": int.from_bytes(signature[32:64], "big"),
        "y_parity": signature[64],
    }
    return encode_transaction(Transaction(**(fields | signed)))


def applied(execution: BlockExecution, **values: Any) -> Executed:
    return execution.apply(read_transaction(made(**values), 5))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"nonce": 1}, "nonce too high"),
        ({"max_fee": 6, "max_priority_fee": 1}, "less than block base fee"),
        ({"max_priority_fee": 101}, "higher than max fee"),
        ({"gas": 20_999}, "intrinsic gas too low"),
        ({"gas": 30_000_001}, "gas limit of the block"),
        ({"gas": (1 << 24) + 1}, "gas limit too high"),
        ({"value": RICH}, "insufficient funds"),
        ({"chain_id": 6}, "invalid signature"),
        ({"to": None, "data": bytes(0xC001), "gas": 5_000_000}, "initcode"),
        ({"kind": 3, "blob_hashes": ()}, "1 to 6 blobs"),
        ({"kind": 3, "blob_hashes": (BLOB_HASH,) * 7, "max_blob_fee": 3}, "1 to 6 blobs"),
        ({"kind": 3, "blob_hashes": (bytes(32),), "max_blob_fee": 3}, "unknown version"),
        ({"kind": 3, "blob_hashes": (BLOB_HASH,), "max_blob_fee": 2}, "max fee per blob gas"),
        ({"kind": 4}, "without authorizations"),
    ],
)
def test_refused_transactions_leave_no_trace(values: dict[str, Any], problem: str) -> None:
    execution = block()
    before = execution.state.commit()
    with pytest.raises(InvalidTransaction, match=problem):
        applied(execution, **values)
    assert execution.state.commit() == before and execution.gas_used == 0 and not execution.executed


def test_kinds_before_their_fork_are_refused() -> None:
    for rules, values in (
        (forks.SHANGHAI, {"kind": 3, "blob_hashes": (BLOB_HASH,), "max_blob_fee": 3}),
        (forks.CANCUN, {"kind": 4}),
    ):
        with pytest.raises(InvalidTransaction, match="not supported"):
            applied(block(rules), **values)


def test_gas_tip_and_burnt_base_fee() -> None:
    execution = block()
    entry = applied(execution, value=5)
    assert entry.outcome.gas_used == 21_000 and entry.outcome.gas_price == 9
    assert execution.state.balance(COINBASE) == 2 * 21_000 and execution.state.balance(TO) == 5
    assert execution.state.balance(SENDER) == RICH - 5 - 9 * 21_000


@pytest.mark.parametrize(("kind", "extra"), [(0, 0), (1, 2400 + 1900), (2, 2400 + 1900)])
def test_access_lists_cost_at_the_start_and_save_later(kind: int, extra: int) -> None:
    execution = block()
    execution.state.set_code(TO, bytes.fromhex("600154"))
    fees = {"max_fee": 100, "max_priority_fee": 100} if kind < 2 else {}
    accesses = (AccessTuple(TO, ((1).to_bytes(32, "big"),)),) if kind else ()
    entry = applied(execution, kind=kind, access_list=accesses, **fees)
    assert entry.outcome.gas_used == 21_000 + extra + 3 + (100 if kind else 2100)


def test_call_data_has_a_floor_from_prague_on() -> None:
    data = b"\x01" * 1000 + bytes(1000)
    assert applied(block(forks.CANCUN), data=data).outcome.gas_used == 21_000 + 16 * 1000 + 4 * 1000
    assert applied(block(forks.PRAGUE), data=data).outcome.gas_used == 21_000 + 40 * 1000 + 10 * 1000


def test_blobs_are_paid_and_counted_up_to_the_blocks_limit() -> None:
    execution = block()
    values = {"kind": 3, "blob_hashes": (BLOB_HASH,) * 6, "max_blob_fee": 10}
    applied(execution, **values)
    assert execution.blob_gas_used == 6 * BLOB_GAS
    assert execution.state.balance(SENDER) == RICH - 9 * 21_000 - 6 * BLOB_GAS * 3
    with pytest.raises(InvalidTransaction, match="blob gas limit"):
        applied(execution, nonce=1, **values)


def authorization(target: bytes, nonce: int, chain_id: int = 5) -> Authorization:
    fields = (rlp.encode_int(chain_id), rlp.encode_bytes(target), rlp.encode_int(nonce))
    signature = OTHER_KEY.sign_recoverable(keccak256(b"\x05" + rlp.encode_list(fields)), hasher=None)
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
    return Authorization(chain_id, target, nonce, signature[64], r, s)


def test_authorizations_delegate_and_clear() -> None:
    execution = block()
    state = execution.state
    state.set_code(TO, bytes.fromhex("6001600055"))
    entry = applied(execution, kind=4, to=AUTHORITY, authorizations=(authorization(TO, 0), authorization(TO, 7)))
    assert state.code(AUTHORITY) == b"\xef\x01\x00" + TO and state.nonce(AUTHORITY) == 1
    assert entry.outcome.succeeded and state.storage(AUTHORITY, 0) == 1
    assert entry.outcome.gas_used == 21_000 + 2 * 25_000 + 3 + 3 + 22_100
    again = applied(execution, kind=4, nonce=1, authorizations=(authorization(bytes(20), 1),), to=COINBASE)
    assert state.code(AUTHORITY) == b"" and again.outcome.gas_used == 21_000 + 25_000 - 9200
    other_chain = applied(execution, kind=4, nonce=2, authorizations=(authorization(TO, 2, chain_id=6),))
    assert state.code(AUTHORITY) == b"" and other_chain.outcome.succeeded


def test_contracts_send_nothing_but_delegating_accounts_do() -> None:
    for code, refused in ((b"\x00", True), (b"\xef\x01\x00" + TO, False)):
        execution = block()
        execution.state.set_code(SENDER, code)
        if refused:
            with pytest.raises(InvalidTransaction, match="is a contract"):
                applied(execution)
        else:
            assert applied(execution).outcome.succeeded


def test_refunds_are_a_fifth_at_most() -> None:
    execution = block()
    execution.state.set_code(TO, bytes.fromhex("5f5f55"))
    execution.state.set_storage(TO, 0, 1)
    execution.state.commit()
    entry = applied(execution)
    spent = 21_000 + 2 + 2 + 5000
    assert entry.outcome.gas_used == spent - min(4800, spent // 5)
    clears_many = bytes.fromhex("".join(f"5f60{slot:02x}55" for slot in range(20)))
    execution.state.set_code(TO, clears_many)
    for slot in range(20):
        execution.state.set_storage(TO, slot, 1)
    execution.state.commit()
    entry = applied(execution, nonce=1, gas=200_000)
    spent = 21_000 + 20 * (2 + 3 + 5000)
    assert entry.outcome.gas_used == spent - spent // 5
