"""What the engine process publishes: heads, sequencer, problems, and the metrics of heads."""

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.engine.calls.actions import WorkFailed
from rollup_node.stages.io.http.endpoint_record import EndpointRecord
from rollup_node.stages.io.metrics.meter import Meter, show_head
from rollup_node.stages.io.task import PacedPublisher
from rollup_node.stages.messages.base import Endpoints, Health, Problem, QueueLength
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import EngineStatus, ForkDoubts, Halting
from rollup_node.stages.protocol.types import L2BlockRef

ENGINE_CODES = frozenset(
    {
        *(Code.ENGINE_UNREACHABLE, Code.ENGINE_SLOW, Code.ENGINE_ANSWER),
        *(Code.ENGINE_AUTH, Code.ENGINE_CLOCK, Code.ENGINE_VHOST),
    }
)


class StatusPublisher:
    """The publisher of `status.engine`: problems are those of the runtime, of failed tasks, and named; `set` others."""

    def __init__(self, bus: Bus, meter: Meter, record: EndpointRecord) -> None:
        self._publisher = bus.publish("status.engine")
        self._record, self._counts = record, PacedPublisher(self._publisher.set)
        self._publisher.on_send, self.set = self._show, self._publisher.set
        self._meter = meter
        self._runtime: tuple[Problem, ...] = ()
        self._failed: dict[str, Problem] = {}
        self._named: dict[str, Problem] = {}
        self._shown: dict[str, L2BlockRef] = {}
        self._others: tuple[object, ...] = ()
        self.set(QueueLength(0, 0))

    def publish(self, status: EngineStatus) -> None:
        """Publish heads and sequencer, with their metrics. Whatever is no head is published at once."""
        has_heads = status.unsafe is not None
        sequencer = status.sequencer_enabled, status.sequencer_active
        others = status.reset, *sequencer, status.provided_l1, has_heads, status.transition
        self._publisher.set(status, urgent=others != self._others)
        self._others = others
        self._counts.step(self._endpoints)

    def _show(self, status: EngineStatus | Halting | ForkDoubts | Endpoints | QueueLength | Health) -> None:
        """Set the metrics of what is published."""
        if not isinstance(status, EngineStatus):
            return
        self._meter.set("sequencer_active", 1 if status.sequencer_active else 0)
        for name, ref in (
            ("l2_unsafe", status.unsafe),
            ("l2_cross_unsafe", status.cross_unsafe or status.unsafe),
            ("l2_local_safe", status.local_safe),
            ("l2_safe", status.safe),
            ("l2_pending_safe", status.pending_safe),
            ("l2_finalized", status.finalized),
        ):
            if ref is not None and self._shown.get(name) != ref:
                self._shown[name] = ref
                show_head(self._meter, name, ref)

    def set_runtime_problems(self, problems: tuple[Problem, ...]) -> None:
        """Set the problems that the runtime reports: those of periodic tasks."""
        self._runtime = problems
        self._publish_health()

    def set_problem(self, name: str, problem: Problem | None) -> None:
        """Set the problem of a name; None when it is over."""
        if problem is None:
            self._named.pop(name, None)
        else:
            self._named[name] = problem
        self._publish_health()

    def set_failure(self, failure: WorkFailed, code: Code) -> None:
        """Set the problem of a task whose work failed; `code` is that of the error."""
        self._failed[failure.task] = Problem(code, failure.task, failure.error)
        self._publish_health()

    def clear_failure(self, task: str) -> None:
        """Remove the problem of a task whose work succeeded."""
        self._failed.pop(task, None)
        self._publish_health()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, as they are published."""
        return (*self._named.values(), *sorted((*self._failed.values(), *self._runtime), key=str))

    @property
    def engine_fails(self) -> bool:
        """Whether a call of the engine has failed, and none since then has succeeded in its place."""
        return any(failure.code in ENGINE_CODES for failure in self._failed.values())

    def _publish_health(self) -> None:
        self._meter.set("activity_problems", len(self._failed) + len(self._runtime))
        self._publisher.set(Health(self.problems))
        self._counts.step(self._endpoints)

    def _endpoints(self) -> Endpoints:
        return Endpoints((self._record.counts(in_use=True),))
