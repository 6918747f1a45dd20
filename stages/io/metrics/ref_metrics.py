"""The metrics of heads [MET22 to MET25]."""

import time

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef


def show_l1_block(meter: Meter, name: str, ref: L1BlockRef) -> None:
    """Set the metrics of an L1 block."""
    _show(meter, "l1", name, ref.number, ref.hash, ref.timestamp)


def show_head(meter: Meter, name: str, ref: L2BlockRef) -> None:
    """Set the metrics of a head, and of its L1 origin, of which the timestamp is not known."""
    _show(meter, "l2", name, ref.number, ref.hash, ref.timestamp)
    show_origin(meter, name, ref.l1_origin)
    meter.set("refs_seqnr", ref.sequence_number, type=name)


def show_payload(meter: Meter, name: str, payload: ExecutionPayload) -> None:
    """Set the metrics of a block whose L1 origin is not read."""
    _show(meter, "l2", name, payload.block_number, payload.block_hash, payload.timestamp)


def show_origin(meter: Meter, name: str, origin: BlockId) -> None:
    """Set the metrics of an L1 origin."""
    _show(meter, "l1_origin", name, origin.number, origin.hash, 0)


def _show(meter: Meter, layer: str, name: str, number: int, block_hash: Hash, timestamp: int) -> None:
    """Set the metrics of a block; a timestamp of 0 is not shown."""
    meter.set("refs_number", number, layer=layer, type=name)
    meter.set("refs_hash", int.from_bytes(block_hash[:8], "little"), layer=layer, type=name)
    if timestamp:
        meter.set("refs_time", timestamp, layer=layer, type=name)
        meter.set("refs_latency", timestamp - time.time(), layer=layer, type=name)
