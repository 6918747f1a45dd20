"""Payload attributes and execution payloads, which derivation, sequencer and engine exchange."""

import msgspec

from rollup_node.stages.protocol.types import Address, Hash


class PayloadAttributes(msgspec.Struct, frozen=True, array_like=True):
    """What the engine builds a block from [ATT11 to ATT20]. `withdrawals` says whether the list, which is always empty,
    is present; the optional values are absent before their forks. `timestamp` in seconds, fees in wei."""

    timestamp: int
    prev_randao: Hash
    fee_recipient: Address
    withdrawals: bool
    parent_beacon_root: Hash | None
    transactions: tuple[bytes, ...]
    no_tx_pool: bool
    gas_limit: int
    eip1559_params: bytes | None
    min_base_fee: int | None


class ExecutionPayload(msgspec.Struct, frozen=True, array_like=True):
    """A sealed L2 block with the Engine API's fields [ENG8], and `parent_beacon_root`, which that sends beside them."""

    parent_hash: Hash
    fee_recipient: Address
    state_root: Hash
    receipts_root: Hash
    logs_bloom: bytes
    prev_randao: Hash
    block_number: int
    gas_limit: int
    gas_used: int
    timestamp: int
    extra_data: bytes
    base_fee: int
    block_hash: Hash
    transactions: tuple[bytes, ...]
    withdrawals: bool
    blob_gas_used: int | None
    excess_blob_gas: int | None
    withdrawals_root: Hash | None
    parent_beacon_root: Hash | None
