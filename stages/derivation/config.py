"""What the derivation process is configured with."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.l1_chains import L1Chain

MAX_AHEAD = 32


class DerivationConfig(msgspec.Struct, frozen=True):
    """`window` is the number of L1 blocks that are buffered from the one needed next on.

    `span_overlap_check` compares the part of a span batch that overlaps the safe chain from Holocene on as well [N1].
    With `drops_are_read` derivation pauses rather than push a drop out of its buffer before a reader has received it.
    `managed`: an interop supervisor decides which L1 block is read next [IOP4]. So many blocks of a span are derived
    `ahead` of the engine's answers [ENG40]."""

    rollup: RollupConfig
    l1_chain: L1Chain
    window: int = 160
    span_overlap_check: bool = True
    drops_are_read: bool = False
    managed: bool = False
    ahead: int = MAX_AHEAD
