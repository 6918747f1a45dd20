"""L1 traversal: the L1 block being read, and the system config that is in force in it."""

from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.reasons.l1 import ConfigUpdateMalformed, L1ParentMismatch
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.system_config import apply_updates
from rollup_node.stages.protocol.types import Address, L1Block, L1BlockRef


class L1Traversal:
    """Walks block by block from `base`, whose updates `config` already contains.

    This config is only for the batcher filter; attributes use the one of the parent L2 block [RS6]."""

    def __init__(self, schedule: ForkSchedule, events: PipelineEvents, base: L1BlockRef, config: SystemConfig) -> None:
        self.origin = base
        self.rules: L1Rules = schedule.l1(base.timestamp)
        self._schedule = schedule
        self._events = events
        self.config = config
        events.origin = self.origin

    @property
    def batcher(self) -> Address:
        """The account whose transactions count in the block being read [BF4, BF6]."""
        return self.config.batcher

    def rejection(self, block: L1Block) -> Reason | None:
        """Why the block is not the next one of the chain: its parent is another than the block being read [T3]."""
        if block.header.parent_hash == self.origin.hash:
            return None
        return L1ParentMismatch(block.header.number, block.header.parent_hash, expected=self.origin.hash)

    def advance(self, block: L1Block) -> None:
        """Move to the next block and applies its config updates, before anything in it is read [T5]."""
        self.origin = self._events.origin = block.ref
        self.rules = self._schedule.l1(block.header.timestamp)
        if block.config_updates:
            self.config, skipped = apply_updates(self.config, block.config_updates, self.rules)
            for update in skipped:
                reason = ConfigUpdateMalformed(update.log_index, update.text)
                self._events.drop(DropEffect.IGNORED, reason)
