"""The metrics of the supervisor."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.node.supervisor import metrics as supervisor_metrics
from rollup_node.node.supervisor.metrics import SupervisorMetrics
from rollup_node.node.supervisor.supervised_process import SupervisedProcess
from rollup_node.node.supervisor.watchdog import RestartPolicy
from rollup_node.node.system.metrics_file import REWRITE_SECONDS, WRITE_SECONDS, MetricsFile
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.node.system.resources import Memory
from tests.support.processes.toy_harness import PROCESSES, StartNode


def test_metrics_files_are_written_and_removed_after_a_death(start: StartNode) -> None:
    node = start().wait_until_ready()
    folder = node.directory / "metrics"
    names = {f"{name}.prom" for name in (*PROCESSES, "supervisor")}
    node.wait(lambda: {path.name for path in folder.glob("*.prom")} == names, "the files")
    text = (folder / "supervisor.prom").read_text
    shown = ["op_node_default_up 1.0", 'op_node_default_info{version="toy"} 1.0']
    for name in PROCESSES:
        of = f'{{process="{name}"}}'
        shown += [f"process_up{of} 1.0", f"process_incarnation{of} 1.0"]
        shown += [f"process_resident_memory_bytes{of}", f"process_heartbeat_age_seconds{of} 0."]
    node.wait(lambda: all(line in text() for line in shown), "the metrics of all processes")
    assert "activity_problems" in (folder / "left.prom").read_text()
    os.kill(node.processes()["copy-0"]["pid"], signal.SIGKILL)
    node.wait(lambda: 'process_restarts_total{process="copy-0"} 1.0' in text(), "restarts")
    node.stop()


@pytest.fixture
def liveness() -> Iterator[LivenessTable]:
    table = LivenessTable(1)
    yield table
    table.close()


def test_a_process_that_has_exited_is_down_and_its_own_file_is_removed(tmp_path: Path, liveness: LivenessTable) -> None:
    process = SupervisedProcess(ProcessSpec("l1", "m:f", None), 0, 0, RestartPolicy(), incarnation=3)
    metrics = SupervisorMetrics("v1", tmp_path, liveness, chains=("op-sepolia",))
    own = tmp_path / "l1.prom"
    own.touch()
    metrics.restarted(process)
    metrics.died(process)
    metrics.node_is_up()
    metrics.write([process], 100.0)
    text = (tmp_path / "supervisor.prom").read_text()
    assert not own.exists()
    assert 'op_node_default_chain{chain="op-sepolia"} 1.0' in text
    for line in ('process_up{process="l1"} 0.0', 'process_incarnation{process="l1"} 3.0', "op_node_default_up 1.0"):
        assert line in text
    assert (
        'process_restarts_total{process="l1"} 1.0' in text and 'process_cpu_seconds_total{process="supervisor"}' in text
    )


def test_memory_is_read_every_thirty_seconds(
    tmp_path: Path, liveness: LivenessTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def memory(pid: int) -> int:
        read.append(pid)
        return 12_000_000

    monkeypatch.setattr(supervisor_metrics, "read_proportional_memory", memory)
    monkeypatch.setattr(supervisor_metrics, "read_memory", lambda: Memory(8000, 300))
    metrics = SupervisorMetrics("v1", tmp_path, liveness)
    for second in range(0, 62, 2):
        metrics.write([], 100.0 + second)
    assert read == [os.getpid()] * 3
    text = (tmp_path / "supervisor.prom").read_text()
    assert 'process_proportional_memory_bytes{process="supervisor"} 1.2e+07' in text
    assert "\nop_node_default_memory_limit_bytes 8000.0\n" in text
    assert "\nop_node_default_memory_available_bytes 300.0\n" in text


@pytest.mark.parametrize(("period", "seconds"), [(WRITE_SECONDS, 2.0), (REWRITE_SECONDS, 5.0)])
def test_the_file_is_written_once_a_period_and_after_each_change(
    tmp_path: Path, liveness: LivenessTable, monkeypatch: pytest.MonkeyPatch, period: float, seconds: float
) -> None:
    texts: list[bytes] = []
    monkeypatch.setattr(MetricsFile, "write", lambda file: texts.append(file._meter.text()))
    metrics = SupervisorMetrics("v1", tmp_path, liveness, period)
    for after in (0.0, seconds - 0.1, seconds):
        metrics.write([], 100.0 + after)
    assert len(texts) == 2
    metrics.node_is_up()
    metrics.write([], 100.1 + seconds)
    assert len(texts) == 3 and b"op_node_default_up 1.0" in texts[-1]
