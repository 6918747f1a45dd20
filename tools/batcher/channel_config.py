"""In which form batches are posted: the wanted one, as far as the forks in force allow it."""

from typing import NamedTuple

from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.tools.batcher.channels import Compression


class ChannelConfig(NamedTuple):
    """Span or singular batches, blobs or call data, and how channels are compressed."""

    spans: bool
    blobs: bool
    compression: Compression


def supported_config(wanted: ChannelConfig, schedule: ForkSchedule, l1_time: int, origin_time: int) -> ChannelConfig:
    """What of the wanted form derivation takes now. `l1_time` is the L1 head's, so that whatever block includes the
    channel is later; `origin_time` that of the L1 origin of the channel's first L2 block. Older forms stay valid."""
    rules = schedule.l1(l1_time)
    return ChannelConfig(
        spans=wanted.spans and rules.span_batches and schedule.epoch(origin_time).span_batches,
        blobs=wanted.blobs and rules.blobs_as_data,
        compression=wanted.compression if rules.brotli else Compression.ZLIB,
    )
