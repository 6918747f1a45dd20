"""The derivation process of `rollup-node replay`: the node's own, which says of each block the L1 transactions that it
comes from."""

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline.deriver import Deriver, Output
from rollup_node.stages.derivation.process.stage import DerivationStage
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.tools.inspect.block_sources import BlockSources


class ReplayDerivationStage(DerivationStage):
    """State, beside that of derivation: the L1 transactions of channels and batches."""

    def __init__(self, config: DerivationConfig, bus: Bus, meter: Meter) -> None:
        super().__init__(config, bus, meter)
        self._sources = BlockSources(config.rollup)
        self.deriver = Deriver(
            config.rollup, config.l1_chain, span_overlap_check=config.span_overlap_check, events=self._sources
        )

    def _handle(self, output: Output) -> bool:
        found = super()._handle(output)
        if isinstance(output, AttributesReady) and self._run.current is not None:
            self._run.current = msgspec.structs.replace(self._run.current, sources=self._sources.accepted)
        return found


def build(config: DerivationConfig, bus: Bus, meter: Meter) -> ReplayDerivationStage:
    """The stage for the runtime."""
    return ReplayDerivationStage(config, bus, meter)
