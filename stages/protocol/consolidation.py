"""Compare attributes with a block field by field, with op-node's texts [CON1 to CON25, ATT43, ATT46, ATT47]."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.forks.rules import L2Rules
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.system_config import ExtraDataError, decode_extra_data, effective_params
from rollup_node.stages.protocol.types import Hash, L2BlockRef


class ComparedField(StrEnum):
    """The fields that are compared, in their order."""

    PARENT_HASH = "parent_hash"
    TIMESTAMP = "timestamp"
    PREV_RANDAO = "prev_randao"
    TRANSACTION_COUNT = "transaction_count"
    TRANSACTION = "transaction"
    GAS_LIMIT = "gas_limit"
    WITHDRAWALS = "withdrawals"
    WITHDRAWALS_ROOT = "withdrawals_root"
    BEACON_ROOT = "parent_beacon_root"
    FEE_RECIPIENT = "fee_recipient"
    EXTRA_DATA = "extra_data"
    EIP1559_PARAMS = "eip1559_params"
    MIN_BASE_FEE = "min_base_fee"


class Mismatch(NamedTuple):
    """A field in which a block differs from the attributes, with op-node's text."""

    field: ComparedField
    text: str


def first_mismatch(
    config: RollupConfig, attributes: PayloadAttributes, parent_hash: Hash, block: ExecutionPayload
) -> Mismatch | None:
    """Return the first mismatch between the attributes on `parent_hash` and an existing block; None if they agree."""
    return next(mismatches(config, attributes, parent_hash, block), None)


def mismatches(
    config: RollupConfig, attributes: PayloadAttributes, parent_hash: Hash, block: ExecutionPayload
) -> Iterator[Mismatch]:
    """Return all mismatches between the attributes on `parent_hash` and an existing block, in the order of the checks.

    Raises CriticalError if the rollup config lacks the EIP-1559 constants that Holocene blocks need [CON21]."""
    rules = config.schedule().l2(block.timestamp)
    groups = (
        _basics(attributes, parent_hash, block),
        _transactions(attributes, block),
        _gas_and_withdrawals(attributes, block, rules),
        _beacon_root(attributes, block),
        _recipient(attributes, block),
        _extra_data(config, attributes, block, rules),
    )
    for group in groups:
        yield from group


def _basics(attributes: PayloadAttributes, parent_hash: Hash, block: ExecutionPayload) -> Iterator[Mismatch]:
    if block.parent_hash != parent_hash:
        text = f"expected: 0x{parent_hash.hex()}. got: 0x{block.parent_hash.hex()}"
        yield Mismatch(ComparedField.PARENT_HASH, f"parent hash field does not match. {text}")
    if attributes.timestamp != block.timestamp:
        text = f"expected: {attributes.timestamp}. got: {block.timestamp}"
        yield Mismatch(ComparedField.TIMESTAMP, f"timestamp field does not match. {text}")
    if attributes.prev_randao != block.prev_randao:
        text = f"expected: 0x{attributes.prev_randao.hex()}. got: 0x{block.prev_randao.hex()}"
        yield Mismatch(ComparedField.PREV_RANDAO, f"random field does not match. {text}")


def _transactions(attributes: PayloadAttributes, block: ExecutionPayload) -> Iterator[Mismatch]:
    derived, existing = attributes.transactions, block.transactions
    if len(derived) != len(existing):
        text = f"transaction count does not match. expected: {len(derived)}. got: {len(existing)}"
        yield Mismatch(ComparedField.TRANSACTION_COUNT, text)
    elif derived != existing:
        index = next(i for i, pair in enumerate(zip(derived, existing, strict=True)) if pair[0] != pair[1])
        expected, got = derived[index].hex(), existing[index].hex()
        text = f"transaction {index} does not match. expected: 0x{expected[:400]}. got: 0x{got[:400]}"
        yield Mismatch(ComparedField.TRANSACTION, text)


def _gas_and_withdrawals(attributes: PayloadAttributes, block: ExecutionPayload, rules: L2Rules) -> Iterator[Mismatch]:
    if attributes.gas_limit != block.gas_limit:
        text = f"gas limit does not match. expected {attributes.gas_limit}. got: {block.gas_limit}"
        yield Mismatch(ComparedField.GAS_LIMIT, text)
    # Before Canyon the block's own withdrawals are not looked at [CON22].
    if not rules.withdrawals:
        if attributes.withdrawals:
            yield Mismatch(ComparedField.WITHDRAWALS, "bedrock: expected withdrawals in attributes to be nil")
        return
    for side, present in (("block", block.withdrawals), ("attributes", attributes.withdrawals)):
        if not present:
            text = f"canyon: expected withdrawals in block to be non-nil and empty: {side}"
            yield Mismatch(ComparedField.WITHDRAWALS, text)
    root = block.withdrawals_root
    if rules.withdrawals_root:
        if root is None:
            text = "isthmus: expected withdrawalsRoot in block to be non-nil"
            yield Mismatch(ComparedField.WITHDRAWALS_ROOT, text)
    elif root not in (None, EMPTY_ROOT):
        text = f"canyon: expected withdrawalsRoot in block to be default: got 0x{(root or b'').hex()}"
        yield Mismatch(ComparedField.WITHDRAWALS_ROOT, text)


def _beacon_root(attributes: PayloadAttributes, block: ExecutionPayload) -> Iterator[Mismatch]:
    expected, got = attributes.parent_beacon_root, block.parent_beacon_root
    if expected == got:
        return
    if got is None:
        text = f"expected non-nil parent beacon block root 0x{(expected or b'').hex()} but got nil"
    elif expected is None:
        text = f"expected nil parent beacon block root but got non-nil 0x{got.hex()}"
    else:
        text = f"parent beacon block root does not match. expected 0x{expected.hex()}. got: 0x{got.hex()}"
    yield Mismatch(ComparedField.BEACON_ROOT, text)


def _recipient(attributes: PayloadAttributes, block: ExecutionPayload) -> Iterator[Mismatch]:
    if attributes.fee_recipient != block.fee_recipient:
        text = f"expected 0x{attributes.fee_recipient.hex()} but got 0x{block.fee_recipient.hex()}"
        yield Mismatch(ComparedField.FEE_RECIPIENT, f"fee recipient data does not match, {text}")


def _extra_data(
    config: RollupConfig, attributes: PayloadAttributes, block: ExecutionPayload, rules: L2Rules
) -> Iterator[Mismatch]:
    params = attributes.eip1559_params
    if params is None:
        if block.extra_data:
            text = "nil EIP1559Params in attributes but non-nil extraData in block"
            yield Mismatch(ComparedField.EXTRA_DATA, f"{text}: 0x{block.extra_data.hex()}")
        return
    # 0,0 stands for the chain's constants; one zero alone is invalid [CON17].
    if any(params[:4]) != any(params[4:]):
        text = f"invalid attributes EIP1559 parameters: 0x{params.hex()}"
        yield Mismatch(ComparedField.EIP1559_PARAMS, text)
        return
    if config.chain_op_config is None:
        raise CriticalError("the rollup config has no chain_op_config, which Holocene blocks need")
    try:
        extra = decode_extra_data(block.extra_data, rules)
    except ExtraDataError as error:
        yield Mismatch(ComparedField.EXTRA_DATA, f"invalid block extraData: {error}")
        return
    expected = effective_params(params, config.chain_op_config)
    if expected != extra.params:
        derived = f"{_pair(expected)} (translated from 0,0)" if expected != params else _pair(expected)
        text = f"eip1559 parameters do not match, attributes: {derived}, block: {_pair(extra.params)}"
        yield Mismatch(ComparedField.EIP1559_PARAMS, text)
    if attributes.min_base_fee != extra.min_base_fee:
        text = f"attributes: {attributes.min_base_fee}, block: {extra.min_base_fee}"
        yield Mismatch(ComparedField.MIN_BASE_FEE, f"minBaseFee does not match, {text}")


def _pair(params: bytes) -> str:
    return f"{int.from_bytes(params[:4], 'big')}, {int.from_bytes(params[4:], 'big')}"


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
