"""Transactions that no engine can execute, found without one [ATT48].

What is refused here is refused by op-geth, op-reth and the fault proofs alike, so it may be much less than they refuse:
an engine has the last word on everything else."""

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.transactions import (
    BLOB,
    POST_EXEC,
    Transaction,
    TransactionError,
    decode_transaction,
    has_valid_range,
    recover_sender,
)

LEAST_GAS, LEAST_GAS_PER_BYTE = 2_000, 2
"""Gas that every transaction takes at the least, and every byte of it beyond FIXED_BYTES. The protocol's numbers are
21,000 and 4, of which refunds give back a fifth at most; there is room for a fork that lowers them."""
FIXED_BYTES = 300
"""More than all fields of a transaction take that are not paid by the byte."""
MAX_DECODED = 1 << 22
"""Bytes of the longest transaction that is decoded: 4 million empty lists take 250 MB."""


def least_gas(kind: int, size: int) -> int:
    """Return the least gas of a transaction of this type and of `size` bytes; nothing is known of post-exec ones."""
    return 0 if kind == POST_EXEC else LEAST_GAS + LEAST_GAS_PER_BYTE * max(0, size - FIXED_BYTES)


def unexecutable(config: RollupConfig, attributes: PayloadAttributes, senders: bool) -> str | None:
    """Return the first transaction of derived attributes that no engine can execute, and why; None if none is found.

    With `senders` signatures are recovered as well, which takes six times as long."""
    gas_left = attributes.gas_limit
    last, defect = len(attributes.transactions) - 1, None
    for index, raw in enumerate(attributes.transactions):
        if is_deposit(raw):
            continue
        if raw[:1] == bytes((POST_EXEC,)) and config.schedule().l2(attributes.timestamp).post_exec_transactions:
            defect = _post_exec_defect(raw, index == last)
        else:
            least = least_gas(raw[0] if raw else 0, len(raw))
            if least > gas_left:
                defect = f"it takes at least {least} gas, and the block has at most {gas_left} left"
            elif len(raw) <= MAX_DECODED:
                defect = _defect(raw, config.l2_chain_id, gas_left, senders)
            gas_left -= least
        if defect is not None:
            return f"no engine can execute transaction {index} ({to_hex(keccak256(raw))}): {defect}"
    return None


def _defect(raw: bytes, chain_id: int, gas_left: int, senders: bool) -> str | None:
    try:
        transaction = decode_transaction(raw)
    except TransactionError as error:
        return str(error)
    if transaction.kind == BLOB:
        return "it is a blob transaction"
    if transaction.chain_id not in (None, chain_id):
        return f"it is for chain {transaction.chain_id}"
    if transaction.gas > gas_left:
        return f"its gas limit is {transaction.gas}, and the block has at most {gas_left} left"
    return _signature_defect(transaction, chain_id, senders)


def _signature_defect(transaction: Transaction, chain_id: int, senders: bool) -> str | None:
    if not has_valid_range(transaction):
        return "r or s of its signature is out of range"
    if senders and recover_sender(transaction, chain_id) is None:
        return "its signature is of no key"
    return None


def _post_exec_defect(raw: bytes, is_last: bool) -> str | None:
    """Its content is for the engine to judge. Two of them cannot both be the last."""
    try:
        rlp.decode_list(raw[1:])
    except rlp.RlpError as error:
        return f"malformed post-exec transaction: {error}"
    return None if is_last else "a post-exec transaction must be the last of its block"
