"""A block that an engine sealed, compared with what it was asked to build [ATT43, ATT46, ATT47]."""

from typing import NamedTuple

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.consolidation import ComparedField, mismatches
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import L2BlockRef

_TRANSACTIONS = frozenset({ComparedField.TRANSACTION_COUNT, ComparedField.TRANSACTION})


class SealedMismatch(NamedTuple):
    """How the block differs.

    `left_out`: only in that the engine left transactions out that are no deposits, so that the attributes are invalid;
    any other difference is a fault of the engine."""

    text: str
    left_out: bool = False


def sealed_mismatch(
    config: RollupConfig, attributes: PayloadAttributes, parent: L2BlockRef, block: ExecutionPayload
) -> SealedMismatch | None:
    """Return the first difference between a sealed block and the attributes that it was to be built from on `parent`.

    None if it is that block. Raises CriticalError as `consolidation.mismatches`."""
    if block.block_number != parent.number + 1:
        return SealedMismatch(f"the engine sealed block {block.block_number} instead of {parent.number + 1}")
    for mismatch in mismatches(config, attributes, parent.hash, block):
        if mismatch.field not in _TRANSACTIONS:
            return SealedMismatch(f"the engine sealed another block {block.block_number}: {mismatch.text}")
    if block.transactions == attributes.transactions:
        return None
    if attributes.no_tx_pool:
        return _derived_mismatch(attributes.transactions, block.transactions)
    return _pool_mismatch(attributes.transactions, block.transactions)


def _derived_mismatch(wanted: tuple[bytes, ...], sealed: tuple[bytes, ...]) -> SealedMismatch:
    missing = _left_out(wanted, sealed)
    if not missing or any(is_deposit(wanted[index]) for index in missing):
        return _contradiction(wanted, sealed)
    first, others = missing[0], len(missing) - 1
    more = f" and {others} more" if others else ""
    return SealedMismatch(f"the engine left out transaction {first} ({_shown(wanted, first)}){more}", left_out=True)


def _pool_mismatch(wanted: tuple[bytes, ...], sealed: tuple[bytes, ...]) -> SealedMismatch | None:
    """Return the error unless the attributes' transactions come first, and no other is a deposit or empty [ATT43]."""
    if sealed[: len(wanted)] != wanted:
        return _contradiction(wanted, sealed[: len(wanted)])
    for index, item in enumerate(sealed[len(wanted) :], len(wanted)):
        if not item or is_deposit(item):
            text = f"is a deposit that was not asked for ({_shown(sealed, index)})" if item else "is empty"
            return SealedMismatch(f"transaction {index} of the block that the engine sealed {text}")
    return None


def _left_out(wanted: tuple[bytes, ...], sealed: tuple[bytes, ...]) -> list[int] | None:
    """Return the indices of what `sealed` lacks of `wanted`; None unless it has the others, in their order."""
    missing, kept = [], 0
    for index, item in enumerate(wanted):
        if kept < len(sealed) and sealed[kept] == item:
            kept += 1
        else:
            missing.append(index)
    return missing if kept == len(sealed) else None


def _contradiction(wanted: tuple[bytes, ...], sealed: tuple[bytes, ...]) -> SealedMismatch:
    longest = max(len(wanted), len(sealed))
    index = next(i for i in range(longest) if wanted[i : i + 1] != sealed[i : i + 1])
    text = f"transaction {index} is {_shown(sealed, index)} instead of {_shown(wanted, index)}"
    return SealedMismatch(f"the engine sealed other transactions than it was given: {text}")


def _shown(transactions: tuple[bytes, ...], index: int) -> str:
    return to_hex(keccak256(transactions[index])) if index < len(transactions) else "none"
