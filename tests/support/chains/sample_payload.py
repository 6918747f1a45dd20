"""A payload of the first block after Regolith, for tests that look at few of its fields."""

from rollup_node.stages.protocol.payloads import ExecutionPayload

SAMPLE_PAYLOAD = ExecutionPayload(
    parent_hash=b"\x01" * 32,
    fee_recipient=b"\x03" * 20,
    state_root=b"\x04" * 32,
    receipts_root=b"\x05" * 32,
    logs_bloom=bytes(256),
    prev_randao=b"\x02" * 32,
    block_number=500,
    gas_limit=30_000_000,
    gas_used=21_000,
    timestamp=1000,
    extra_data=b"",
    base_fee=7,
    block_hash=b"\x06" * 32,
    transactions=(b"\x7ea", b"\x02b"),
    withdrawals=False,
    blob_gas_used=None,
    excess_blob_gas=None,
    withdrawals_root=None,
    parent_beacon_root=None,
)
