"""What the engine process tells of itself: heads, sequencer, troubles, and the metrics of heads."""

import time

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.types import L2BlockRef


class StatusServer:
    """Publishes on `status.engine`; troubles come from the runtime and, by name, from the stage itself."""

    def __init__(self, bus: Bus, meter: Meter) -> None:
        self._publisher = bus.publish("status.engine")
        self._meter = meter
        self._runtime: tuple[str, ...] = ()
        self._own: dict[str, str] = {}
        self._shown: dict[str, L2BlockRef] = {}
        self.set_trouble("start", "looking for a start")

    def status(self, reset: int, heads: Heads | None, enabled: bool, active: bool) -> EngineStatus:
        """The whole state as a message."""
        if heads is None:
            return EngineStatus(reset, None, None, None, None, None, enabled, active)
        safe = heads.safe
        return EngineStatus(reset, heads.unsafe, safe, safe, heads.pending_safe, heads.finalized, enabled, active)

    def publish(self, status: EngineStatus) -> None:
        """Makes a state known to all."""
        self._publisher.set(status)
        self._meter.set("sequencer_active", 1 if status.sequencer_active else 0)
        for name, ref in (
            ("l2_unsafe", status.unsafe),
            ("l2_local_safe", status.local_safe),
            ("l2_safe", status.safe),
            ("l2_pending_safe", status.pending_safe),
            ("l2_finalized", status.finalized),
        ):
            if ref is not None and self._shown.get(name) != ref:
                self._shown[name] = ref
                self._show(name, ref)

    def set_runtime_troubles(self, problems: tuple[str, ...]) -> None:
        """What the runtime knows to be wrong."""
        self._runtime = problems
        self._publish_health()

    def set_trouble(self, name: str, problem: str | None) -> None:
        """One trouble of the stage's own; None when it is over."""
        if problem is None:
            self._own.pop(name, None)
        else:
            self._own[name] = problem
        self._publish_health()

    def _publish_health(self) -> None:
        self._publisher.set(Health((*self._own.values(), *self._runtime)))

    def _show(self, name: str, ref: L2BlockRef) -> None:
        meter = self._meter
        meter.set("refs_number", ref.number, layer="l2", type=name)
        meter.set("refs_number", ref.l1_origin.number, layer="l1_origin", type=name)
        meter.set("refs_hash", int.from_bytes(ref.hash[:8], "little"), layer="l2", type=name)
        meter.set("refs_hash", int.from_bytes(ref.l1_origin.hash[:8], "little"), layer="l1_origin", type=name)
        meter.set("refs_seqnr", ref.sequence_number, type=name)
        if ref.timestamp:
            meter.set("refs_time", ref.timestamp, layer="l2", type=name)
            meter.set("refs_latency", ref.timestamp - time.time(), layer="l2", type=name)
