"""Logs blooms as a block's producer makes them."""

from collections.abc import Iterable

from rollup_node.stages.protocol.receipts import bloom_mask


def logs_bloom(values: Iterable[bytes]) -> bytes:
    """Return the 256-byte bloom of these addresses and topics."""
    bits = 0
    for value in values:
        bits |= bloom_mask(value)
    return bits.to_bytes(256, "big")
