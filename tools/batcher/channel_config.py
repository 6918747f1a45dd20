"""The configuration of a channel, limited to what the active forks let derivation read."""

from typing import NamedTuple

from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.tools.batcher.channels import Compression


class ChannelConfig(NamedTuple):
    """How a channel is encoded and posted: span or singular batches, blobs or calldata, and its compression."""

    spans: bool
    blobs: bool
    compression: Compression


def supported_config(wanted: ChannelConfig, schedule: ForkSchedule, l1_time: int, origin_time: int) -> ChannelConfig:
    """The wanted configuration with each part replaced by its older form until its fork is active.

    `l1_time` is the L1 head's time in seconds: the block that includes the channel is later, and the older forms stay
    valid after a fork. `origin_time` is the time of the L1 origin of the channel's first L2 block."""
    rules = schedule.l1(l1_time)
    return ChannelConfig(
        spans=wanted.spans and rules.span_batches and schedule.epoch(origin_time).span_batches,
        blobs=wanted.blobs and rules.blobs_as_data,
        compression=wanted.compression if rules.brotli else Compression.ZLIB,
    )
