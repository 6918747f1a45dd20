"""What no engine can execute [ATT48]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.transactions import Transaction, encode_transaction, signing_hash
from rollup_node.stages.protocol.unexecutable import LEAST_GAS, MAX_DECODED, least_gas, unexecutable
from rollup_node.tools.batcher.driver import Key
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.chains.signed_transactions import unsigned_transaction

CHAIN_ID = 901
GAS_LIMIT = 30_000_000
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
DEPOSIT = b"\x7e\xc0"
POST_EXEC = b"\x7d\xc0"
KEY = Key(b"\x21" * 32)


def signed(kind: int = 2, chain_id: int | None = CHAIN_ID, **values: Any) -> bytes:
    """Return a transaction with its sender's signature, and then with other values of the signature's fields."""
    unsigned = msgspec.structs.replace(unsigned_transaction(kind, chain_id), **values)
    parity, r, s = KEY.sign(signing_hash(unsigned))
    fields = {"y_parity": parity, "r": r, "s": s} | {name: values[name] for name in values if name in ("r", "s")}
    return encode_transaction(msgspec.structs.replace(unsigned, **fields))


def high_s() -> bytes:
    unsigned: Transaction = unsigned_transaction(2, CHAIN_ID)
    parity, r, s = KEY.sign(signing_hash(unsigned))
    return encode_transaction(msgspec.structs.replace(unsigned, y_parity=1 - parity, r=r, s=ORDER - s))


def found(*transactions: bytes, senders: bool = False, fork: str = "jovian", gas_limit: int = GAS_LIMIT) -> str | None:
    times = dict.fromkeys(FORK_NAMES[: FORK_NAMES.index(fork) + 1], 0)
    rollup = msgspec.structs.replace(PLAIN_ROLLUP, l2_chain_id=CHAIN_ID, fork_times=times)
    attributes = PayloadAttributes(
        1_000, bytes(32), bytes(20), True, bytes(32), (DEPOSIT, *transactions), True, gas_limit, bytes(8), 0
    )
    return unexecutable(rollup, attributes, senders)


@pytest.mark.parametrize("kind", [0, 1, 2, 4])
def test_transactions_of_every_type_of_an_l2(kind: int) -> None:
    assert found(signed(kind), signed(kind), senders=True) is None


def test_what_only_the_engine_can_judge_is_left_to_it() -> None:
    """Nonce, fees, balance, intrinsic gas, and more than is left by execution alone."""
    assert (
        found(signed(nonce=(1 << 64) - 1), signed(max_fee=0, max_priority_fee=9), signed(gas=0), senders=True) is None
    )
    assert found(signed(gas=GAS_LIMIT - LEAST_GAS), signed(gas=GAS_LIMIT - LEAST_GAS)) is None
    assert found(signed(0, None), senders=True) is None, "a legacy transaction without chain id is valid everywhere"
    assert found(b"\x02" * (MAX_DECODED + 1)) is None


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "empty transaction"),
        (b"\x02\xc0", "malformed transaction of type 2: expected a list of 12 items, got 0"),
        (b"\x02", "malformed transaction of type 2"),
        (b"\x05\xc0", "unknown transaction type 0x05"),
        (b"\x80", "unknown transaction type 0x80"),
        (signed() + b"\x00", "1 bytes after the item"),
        (signed(0) + b"\x00", "1 bytes after the item"),
        (signed(3), "it is a blob transaction"),
        (signed(chain_id=999), "it is for chain 999"),
        (signed(0, 999), "it is for chain 999"),
        (signed(gas=GAS_LIMIT + 1), "its gas limit is 30000001, and the block has at most 29998000 left"),
        (signed(r=0), "r or s of its signature is out of range"),
        (signed(r=ORDER), "r or s of its signature is out of range"),
        (signed(s=0), "r or s of its signature is out of range"),
        (high_s(), "r or s of its signature is out of range"),
        (POST_EXEC, "unknown transaction type 0x7d"),
        (b"\x02" * 20_000_000, "it takes at least 40001400 gas, and the block has at most 29998000 left"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_defects(raw: bytes, text: str) -> None:
    defect = found(signed(), raw)
    assert defect is not None and defect.startswith("no engine can execute transaction 2 (0x") and text in defect
    assert found(raw) is not None


def test_a_signature_is_recovered_only_on_demand() -> None:
    """r of 5 is in range, and the x of no point."""
    raw = signed(r=5)
    assert found(raw) is None
    assert (found(raw, senders=True) or "").endswith("its signature is of no key")


def test_what_the_transactions_before_take_at_least_is_not_left() -> None:
    first = signed()
    left = GAS_LIMIT - least_gas(2, len(first))
    assert found(first, signed(gas=left)) is None
    assert f"has at most {left} left" in (found(first, signed(gas=left + 1)) or "")


def test_a_post_exec_transaction_is_one_list_and_the_last() -> None:
    assert found(signed(), POST_EXEC, senders=True, fork="lagoon") is None
    for raw, text in ((b"\x7d", "malformed"), (b"\x7d\xc0\x00", "malformed"), (b"\x7d\x01", "malformed")):
        assert text in (found(raw, fork="lagoon") or "")
    for transactions in ((POST_EXEC, signed()), (POST_EXEC, POST_EXEC)):
        assert "must be the last of its block" in (found(*transactions, fork="lagoon") or "")


def test_any_transaction_of_the_protocol_takes_more() -> None:
    """21,000 and 4 a byte of calldata, of which a fifth may be refunded."""
    for size in (0, 110, 300, 10_000, 1_000_000):
        assert least_gas(2, size) <= (21_000 + 4 * max(0, size - 300)) * 4 // 5
