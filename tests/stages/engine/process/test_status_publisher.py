"""What rpc and derivation see of the engine process: heads with their metrics, and problems from three sides."""

from pathlib import Path

from rollup_node.stages.engine.calls.actions import Severity, WorkFailed
from rollup_node.stages.engine.process.status_publisher import StatusPublisher
from rollup_node.stages.io.http.endpoint_record import EndpointRecord
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import EndpointCounts, Endpoints, Health, Problem, QueueLength
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.bench.in_process import in_process_buses, running_buses
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.timing.conditions import until


class Observer:
    """The rpc process of a publisher."""

    def __init__(self, directory: Path) -> None:
        self.status: list[EngineStatus] = []
        self.health: list[tuple[str, ...]] = []
        self.queues: list[int] = []
        self.meter = Meter("engine")
        self.buses = in_process_buses(CHANNELS, directory, {"engine": 1, "rpc": 1})
        self.record = EndpointRecord("engine-api", "engine:1", lambda: 1000.0)
        self.endpoints: list[EndpointCounts] = []
        self.publisher = StatusPublisher(self.buses["engine"], self.meter, self.record)
        self.buses["rpc"].subscribe("status.engine", self._take)

    def _take(self, message: EngineStatus | Endpoints | QueueLength | Health) -> None:
        if isinstance(message, EngineStatus):
            self.status.append(message)
        elif isinstance(message, Health):
            self.health.append(tuple(map(str, message.problems)))
        elif isinstance(message, Endpoints):
            self.endpoints += message.endpoints
        else:
            self.queues.append(message.items)

    def metric(self, line: str) -> float:
        """Return the value of a metric with its labels."""
        lines = self.meter.text().decode().splitlines()
        return next(float(item.split()[-1]) for item in lines if item.startswith(f"op_node_default_{line} "))


async def test_a_transition_is_told_at_once(chain: ChainFixture, tmp_path: Path) -> None:
    """[RW4]: the interop process waits for it, while heads that move are told now and then."""
    observer = Observer(tmp_path)
    refs = chain.build(3)
    async with running_buses(observer.buses):
        for number, transition, shown in ((1, 0, 1), (2, 0, 1), (3, 1, 3)):
            heads = [refs[number]] * 5
            observer.publisher.publish(EngineStatus(3, *heads, True, False, transition=transition))
            assert observer.metric('refs_number{layer="l2",type="l2_unsafe"}') == shown


async def test_the_length_of_the_unsafe_queue_and_how_the_execution_engine_answers(tmp_path: Path) -> None:
    """[RPC94]"""
    observer = Observer(tmp_path)
    observer.record.answered(0.004)
    async with running_buses(observer.buses):
        await until(lambda: observer.queues == [0])
        observer.publisher.set(QueueLength(7, 0))
        await until(lambda: observer.queues == [0, 7])
        observer.publisher.publish(EngineStatus(3, None, None, None, None, None, True, False))
        expected = EndpointCounts("engine-api", "engine:1", True, 1, 0, 0, 4.0, False, "", 0, 0)
        await until(lambda: observer.endpoints == [expected])


async def test_heads_and_their_metrics(chain: ChainFixture, tmp_path: Path) -> None:
    refs = chain.build(8)
    observer = Observer(tmp_path)
    async with running_buses(observer.buses):
        status = EngineStatus(3, refs[8], refs[2], refs[2], refs[4], refs[0], True, True)
        observer.publisher.publish(EngineStatus(3, None, None, None, None, None, True, False))
        assert observer.metric("sequencer_active") == 0
        observer.publisher.publish(status)
        await until(lambda: bool(observer.status) and observer.status[-1] == status)

    head = refs[8]
    for name, number in (("unsafe", 8), ("cross_unsafe", 8), ("pending_safe", 4), ("local_safe", 2), ("finalized", 0)):
        assert observer.metric(f'refs_number{{layer="l2",type="l2_{name}"}}') == number
    assert observer.metric('refs_number{layer="l1_origin",type="l2_unsafe"}') == head.l1_origin.number
    assert observer.metric('refs_seqnr{type="l2_unsafe"}') == head.sequence_number
    assert observer.metric('refs_time{layer="l2",type="l2_unsafe"}') == head.timestamp
    assert observer.metric('refs_hash{layer="l2",type="l2_unsafe"}') == float(int.from_bytes(head.hash[:8], "little"))
    assert observer.metric('refs_latency{layer="l2",type="l2_unsafe"}') < 0
    assert observer.metric("sequencer_active") == 1


async def test_problems_are_named_failures_and_those_of_the_runtime(tmp_path: Path) -> None:
    observer = Observer(tmp_path)
    publisher = observer.publisher
    async with running_buses(observer.buses):
        publisher.set_problem("start", Problem(None, "", "searching"))
        publisher.set_failure(WorkFailed("drive", Severity.TEMPORARY, "away", 1.0), Code.RETRYING)
        publisher.set_runtime_problems((Problem(None, "watch", "on another chain"),))
        expected = ("searching", "RETRYING: drive: away", "watch: on another chain")
        await until(lambda: bool(observer.health) and observer.health[-1] == expected)
        assert observer.metric("activity_problems") == 2
        publisher.set_failure(WorkFailed("drive", Severity.TEMPORARY, "busy", 2.0), Code.ENGINE_ANSWER)
        publisher.set_problem("start", None)
        publisher.set_runtime_problems(())
        await until(lambda: observer.health[-1] == ("ENGINE-ANSWER: drive: busy",))
        publisher.clear_failure("drive")
        publisher.clear_failure("finalize")
        await until(lambda: observer.health[-1] == ())
        assert observer.metric("activity_problems") == 0
