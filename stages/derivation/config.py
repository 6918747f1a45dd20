"""What the derivation process is told at its start."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.l1_chains import L1Chain


class DerivationConfig(msgspec.Struct, frozen=True):
    """`window` is how many L1 blocks are asked for ahead of the one being read. `span_overlap_check` compares the part
    of a span batch that overlaps the safe chain also where batches are judged one by one (derivation-rules N1).
    `inline_decoding` decodes channels in this process, not in the compute workers. With `drops_are_read` derivation
    waits for the reader of its drops rather than forget one."""

    rollup: RollupConfig
    l1_chain: L1Chain
    window: int = 64
    span_overlap_check: bool = True
    inline_decoding: bool = False
    drops_are_read: bool = False
