"""Whether a block that the engine already has is the one L1 says (attributes-rules 7, in its order)."""

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.eip1559 import ExtraDataError, decode_extra_data, translated
from rollup_node.stages.protocol.forks.rules import L2Rules
from rollup_node.stages.protocol.hexes import to_hex
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import L2BlockRef


def mismatch(
    parent: L2BlockRef, attributes: PayloadAttributes, block: ExecutionPayload, rollup: RollupConfig
) -> str | None:
    """The first difference between derived attributes and an existing block, or None if they are the same block."""
    rules = rollup.schedule().l2(block.timestamp)
    return (
        _place(parent, attributes, block)
        or _transactions(attributes, block)
        or _gas_limit(attributes, block)
        or _withdrawals(attributes, block, rules)
        or _beacon_root(attributes, block)
        or _fee_recipient(attributes, block)
        or _fee_market(attributes, block, rules, rollup)
    )


def _place(parent: L2BlockRef, attributes: PayloadAttributes, block: ExecutionPayload) -> str | None:
    if parent.hash != block.parent_hash:
        return _differs("parent hash field", to_hex(parent.hash), to_hex(block.parent_hash))
    if attributes.timestamp != block.timestamp:
        return _differs("timestamp field", attributes.timestamp, block.timestamp)
    if attributes.prev_randao != block.prev_randao:
        return _differs("random field", to_hex(attributes.prev_randao), to_hex(block.prev_randao))
    return None


def _transactions(attributes: PayloadAttributes, block: ExecutionPayload) -> str | None:
    derived, found = attributes.transactions, block.transactions
    if derived == found:
        return None
    if len(derived) != len(found):
        return _differs("transaction count", len(derived), len(found))
    at = next(index for index, (a, b) in enumerate(zip(derived, found, strict=True)) if a != b)
    return _differs(f"transaction {at}", _short(derived[at]), _short(found[at]))


def _gas_limit(attributes: PayloadAttributes, block: ExecutionPayload) -> str | None:
    if attributes.gas_limit == block.gas_limit:
        return None
    return _differs("gas limit", attributes.gas_limit, block.gas_limit)


def _withdrawals(attributes: PayloadAttributes, block: ExecutionPayload, rules: L2Rules) -> str | None:
    if not rules.withdrawals:
        return "bedrock: expected withdrawals in attributes to be nil" if attributes.withdrawals else None
    for present, where in ((block.withdrawals, "block"), (attributes.withdrawals, "attributes")):
        if not present:
            return f"canyon: expected withdrawals in {where} to be non-nil and empty"
    root = block.withdrawals_root
    if rules.withdrawals_root:
        return "isthmus: expected withdrawalsRoot in block to be non-nil" if root is None else None
    if root not in (None, EMPTY_ROOT):
        return f"canyon: expected withdrawalsRoot in block to be default: got {_shown(root)}"
    return None


def _beacon_root(attributes: PayloadAttributes, block: ExecutionPayload) -> str | None:
    derived, found = attributes.parent_beacon_root, block.parent_beacon_root
    return None if derived == found else _differs("parent beacon block root", _shown(derived), _shown(found))


def _fee_recipient(attributes: PayloadAttributes, block: ExecutionPayload) -> str | None:
    derived, found = attributes.fee_recipient, block.fee_recipient
    return None if derived == found else _differs("fee recipient", to_hex(derived), to_hex(found))


def _fee_market(
    attributes: PayloadAttributes, block: ExecutionPayload, rules: L2Rules, rollup: RollupConfig
) -> str | None:
    """EIP-1559 values and the minimum base fee, as extraData holds them."""
    params = attributes.eip1559_params
    if params is None:
        if block.extra_data:
            return f"nil EIP1559Params in attributes but non-nil extraData in block: {to_hex(block.extra_data)}"
        return None
    if any(params[:4]) != any(params[4:]):
        return f"invalid attributes EIP1559 parameters: {to_hex(params)}"
    try:
        extra = decode_extra_data(block.extra_data, rules)
    except ExtraDataError as error:
        return f"invalid block extraData: {error}"
    if any(params) or rollup.chain_op_config is not None:
        expected = params if rollup.chain_op_config is None else translated(params, rollup.chain_op_config)
        if expected != extra.params:
            return _differs("eip1559 parameters", to_hex(expected), to_hex(extra.params))
    if attributes.min_base_fee != extra.min_base_fee:
        return _differs("minBaseFee", attributes.min_base_fee, extra.min_base_fee)
    return None


def _differs(what: str, expected: object, got: object) -> str:
    return f"{what} does not match. expected: {expected}. got: {got}"


def _shown(value: bytes | None) -> str:
    return "none" if value is None else to_hex(value)


def _short(raw: bytes) -> str:
    return to_hex(raw) if len(raw) <= 40 else f"{to_hex(raw[:40])}.. ({len(raw)} bytes)"
