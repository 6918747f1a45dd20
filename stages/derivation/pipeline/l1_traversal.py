"""L1 traversal: the L1 block being read, and the system config that says whose transactions count in it
(derivation-rules 2)."""

from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.derivation.reasons.reasons import Effect, Reason, Why
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.system_config import apply_updates
from rollup_node.stages.protocol.types import Address, L1Block, L1BlockRef


class L1Traversal:
    """Walks block by block from a base whose updates `config` already holds. This config serves the batcher filter
    only; attributes use the one that stands in the parent L2 block."""

    def __init__(self, schedule: ForkSchedule, trace: Trace, base: L1BlockRef, config: SystemConfig) -> None:
        self.origin = base
        self.rules: L1Rules = schedule.l1(base.timestamp)
        self._schedule = schedule
        self._trace = trace
        self.config = config
        trace.origin = self.origin

    @property
    def batcher(self) -> Address:
        """Whose transactions count in the block being read."""
        return self.config.batcher

    def refusal(self, block: L1Block) -> Reason | None:
        """Why the block is not the next one of the chain (T3)."""
        if block.header.parent_hash == self.origin.hash:
            return None
        return Why.L1_PARENT(number=block.header.number, parent=block.header.parent_hash, expected=self.origin.hash)

    def advance(self, block: L1Block) -> None:
        """Goes to the next block and applies its updates before anything in it is read (T5)."""
        self.origin = self._trace.origin = block.ref
        self.rules = self._schedule.l1(block.header.timestamp)
        if block.config_updates:
            self.config, skipped = apply_updates(self.config, block.config_updates, self.rules)
            for update in skipped:
                reason = Why.CONFIG_UPDATE(log=update.log_index, problem=update.text)
                self._trace.note(Effect.IGNORED, reason)
