"""What the status says of the node, as metrics [RPC94]."""

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.metrics.own_metrics import UNKNOWN
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.derivation import DerivationWaits
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.status.node_status import NodeStatus, State

STEP_SECONDS = 2.0
"""Metrics are written as often."""


class StatusMetrics:
    """Sets the metrics every 2 seconds; what is not known is not a number."""

    def __init__(self, source: StatusSource, meter: Meter) -> None:
        self._source, self._meter = source, meter
        self.periodic_task = PeriodicTask("status metrics", self.step, is_aligned=True)

    async def step(self) -> float:
        """Set all metrics."""
        self.show(self._source.status())
        return STEP_SECONDS

    def show(self, status: NodeStatus) -> None:
        """Set the metrics of a status."""
        meter, l1, progress, window = self._meter, status.l1, status.progress, status.sequencing_window
        meter.set("ready", int(status.ready))
        for state in State:
            meter.set("sync_state", int(state is status.state), state=state.value)
        for stage in DerivationWaits.__struct_fields__:
            meter.set("sync_limited_by", int(stage == progress.limited_by), stage=stage)
        heads = status.heads
        for head, block in (("unsafe", heads.unsafe), ("safe", heads.safe), ("finalized", heads.finalized)):
            meter.set("sync_head_age_seconds", UNKNOWN if block is None else block.age_s, head=head)
        self._set("sync_l1_lag_seconds", l1.lag_s)
        self._set("sync_l1_lag_blocks", l1.lag_blocks)
        self._set("sync_blocks_per_second", progress.blocks_per_s)
        self._set("sync_eta_seconds", progress.eta_s)
        self._set("l1_requests_per_block", status.l1_req_per_block)
        self._set("sequencing_window_left_blocks", None if window is None else window.left_blocks)

    def _set(self, name: str, value: float | None) -> None:
        self._meter.set(name, UNKNOWN if value is None else value)
