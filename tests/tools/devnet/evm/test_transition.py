"""Transactions on an L1: validity, fees, access lists, floor gas, blobs, delegations, refunds."""

from typing import Any

import pytest
from msgspec.structs import replace

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.keys import private_key
from rollup_node.stages.protocol.transactions import (
    AccessTuple,
    Authorization,
    Transaction,
    encode_transaction,
    signing_hash,
)
from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.call_frame import BlockContext
from rollup_node.tools.devnet.evm.rules import BLOB_GAS, EvmRules
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, read_transaction
from rollup_node.tools.devnet.evm.transition import (
    BlockExecution,
    ExecutedTransaction,
    burn_base_fee,
)

KEY, OTHER_KEY = private_key(b"\x01" * 32), private_key(b"\x02" * 32)
SENDER, AUTHORITY = (key.public_key.to_canonical_address() for key in (KEY, OTHER_KEY))
TO, COINBASE = b"\xdd" * 20, b"\xcc" * 20
BLOB_HASH = b"\x01" + bytes(31)
FUNDS = 10**20
UNSIGNED = Transaction(2, 5, 0, 2, 100, 100_000, TO, 0, b"", y_parity=0, r=0, s=0)


def block(rules: EvmRules = forks.OSAKA, *, balance: int = FUNDS, gas_limit: int = 30_000_000) -> BlockExecution:
    state = State(StateDatabase())
    state.add_balance(SENDER, balance)
    context = BlockContext(1, 12, COINBASE, gas_limit, 7, bytes(32), 5, lambda number: bytes(32), blob_base_fee=3)
    return BlockExecution(state, rules, context, burn_base_fee)


def signed(**values: Any) -> bytes:
    """Return an encoded transaction signed by SENDER."""
    transaction = replace(UNSIGNED, **values)
    y_parity, r, s = KEY.sign_msg_hash(signing_hash(transaction)).vrs
    return encode_transaction(replace(transaction, y_parity=y_parity, r=r, s=s))


def apply(execution: BlockExecution, **values: Any) -> ExecutedTransaction:
    return execution.apply(read_transaction(signed(**values), 5))


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"gas": (1 << 24) + 1}, "gas limit too high"),
        ({"to": None, "data": bytes(0xC001), "gas": 5_000_000}, "initcode"),
        ({"kind": 3, "blob_hashes": ()}, "1 to 6 blobs"),
        ({"kind": 3, "blob_hashes": (BLOB_HASH,) * 7, "max_blob_fee": 3}, "1 to 6 blobs"),
        ({"kind": 3, "blob_hashes": (bytes(32),), "max_blob_fee": 3}, "unknown version"),
        ({"kind": 3, "blob_hashes": (BLOB_HASH,), "max_blob_fee": 2}, "max fee per blob gas"),
        ({"kind": 4}, "without authorizations"),
    ],
)
def test_invalid_transactions_change_nothing(values: dict[str, Any], error: str) -> None:
    execution = block()
    before = execution.state.commit()
    with pytest.raises(InvalidTransaction, match=error):
        apply(execution, **values)
    assert execution.state.commit() == before and execution.gas_used == 0 and not execution.executed


def test_transaction_types_before_their_fork_are_refused() -> None:
    for rules, values in (
        (forks.SHANGHAI, {"kind": 3, "blob_hashes": (BLOB_HASH,), "max_blob_fee": 3}),
        (forks.CANCUN, {"kind": 4}),
    ):
        with pytest.raises(InvalidTransaction, match="not supported"):
            apply(block(rules), **values)


def test_the_tip_is_paid_and_the_base_fee_burnt() -> None:
    execution = block()
    entry = apply(execution, value=5)
    assert entry.result.gas_used == 21_000 and entry.result.gas_price == 9
    assert execution.state.balance(COINBASE) == 2 * 21_000 and execution.state.balance(TO) == 5
    assert execution.state.balance(SENDER) == FUNDS - 5 - 9 * 21_000


@pytest.mark.parametrize(("kind", "extra"), [(0, 0), (1, 2400 + 1900), (2, 2400 + 1900)])
def test_access_lists_are_charged_and_warm_their_entries(kind: int, extra: int) -> None:
    execution = block()
    execution.state.set_code(TO, bytes.fromhex("600154"))
    fees = {"max_fee": 100, "max_priority_fee": 100} if kind < 2 else {}
    accesses = (AccessTuple(TO, ((1).to_bytes(32, "big"),)),) if kind else ()
    entry = apply(execution, kind=kind, access_list=accesses, **fees)
    assert entry.result.gas_used == 21_000 + extra + 3 + (100 if kind else 2100)


def test_calldata_has_a_floor_price_from_prague_on() -> None:
    data = b"\x01" * 1000 + bytes(1000)
    assert apply(block(forks.CANCUN), data=data).result.gas_used == 21_000 + 16 * 1000 + 4 * 1000
    assert apply(block(forks.PRAGUE), data=data).result.gas_used == 21_000 + 40 * 1000 + 10 * 1000


def test_blob_gas_is_charged_and_limited_by_block() -> None:
    execution = block()
    values: dict[str, Any] = {"kind": 3, "blob_hashes": (BLOB_HASH,) * 6, "max_blob_fee": 10}
    apply(execution, **values)
    assert execution.blob_gas_used == 6 * BLOB_GAS
    assert execution.state.balance(SENDER) == FUNDS - 9 * 21_000 - 6 * BLOB_GAS * 3
    with pytest.raises(InvalidTransaction, match="blob gas limit"):
        apply(execution, nonce=1, **values)


def authorization(target: bytes, nonce: int, chain_id: int = 5) -> Authorization:
    fields = (rlp.encode_int(chain_id), rlp.encode_bytes(target), rlp.encode_int(nonce))
    y_parity, r, s = OTHER_KEY.sign_msg_hash(keccak256(b"\x05" + rlp.encode_list(fields))).vrs
    return Authorization(chain_id, target, nonce, y_parity, r, s)


def test_authorizations_set_and_clear_delegations() -> None:
    execution = block()
    state = execution.state
    state.set_code(TO, bytes.fromhex("6001600055"))
    entry = apply(execution, kind=4, to=AUTHORITY, authorizations=(authorization(TO, 0), authorization(TO, 7)))
    assert state.code(AUTHORITY) == b"\xef\x01\x00" + TO and state.nonce(AUTHORITY) == 1
    assert entry.result.succeeded and state.storage(AUTHORITY, 0) == 1
    assert entry.result.gas_used == 21_000 + 2 * 25_000 + 3 + 3 + 22_100
    again = apply(execution, kind=4, nonce=1, authorizations=(authorization(bytes(20), 1),), to=COINBASE)
    assert state.code(AUTHORITY) == b"" and again.result.gas_used == 21_000 + 25_000 - 9200
    other_chain = apply(execution, kind=4, nonce=2, authorizations=(authorization(TO, 2, chain_id=6),))
    assert state.code(AUTHORITY) == b"" and other_chain.result.succeeded


def test_refunds_are_at_most_a_fifth() -> None:
    execution = block()
    execution.state.set_code(TO, bytes.fromhex("5f5f55"))
    execution.state.set_storage(TO, 0, 1)
    execution.state.commit()
    entry = apply(execution)
    spent = 21_000 + 2 + 2 + 5000
    assert entry.result.gas_used == spent - min(4800, spent // 5)
    clears_many = bytes.fromhex("".join(f"5f60{slot:02x}55" for slot in range(20)))
    execution.state.set_code(TO, clears_many)
    for slot in range(20):
        execution.state.set_storage(TO, slot, 1)
    execution.state.commit()
    entry = apply(execution, nonce=1, gas=200_000)
    spent = 21_000 + 20 * (2 + 3 + 5000)
    assert entry.result.gas_used == spent - spent // 5
