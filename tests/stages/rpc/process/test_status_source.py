"""The status from the bus and from the supervisor's files."""

import os
from pathlib import Path

import msgspec

from rollup_node.stages.io.task import ProcessEntry
from rollup_node.stages.rpc.process.status_source import (
    CPU_SAMPLES,
    FILES_SECONDS,
    KEPT_SECONDS,
    StatusSource,
    SupervisorFiles,
)
from rollup_node.stages.rpc.status.node_status import ProcessStatus
from tests.support.rpc.harness import RunWithRpc

ENTRIES = [
    ProcessEntry("supervisor", 0, 10, 1, 1000.0, 1),
    ProcessEntry("l1", 0, 11, 3, 1050.0, 2),
    ProcessEntry("compute", 0, 12, 1, 1001.0, 3),
    ProcessEntry("compute", 1, 13, 1, 1001.0, 4),
]
METRICS = """# HELP process_up x
process_up{process="l1"} 1.0
process_up{process="compute-0"} 0.0
process_heartbeat_age_seconds{process="l1"} 0.2123
process_resident_memory_bytes{process="l1"} 1.2e+08
process_proportional_memory_bytes{process="l1"} 7e+07
process_resident_memory_bytes{process="compute-0"} 5e+07
process_cpu_seconds_total{process="l1"} 3.14159
process_restarts_total{process="l1"} 2.0
op_node_default_up 1.0
process_up{process="odd"} 1e
"""


def test_processes_as_the_supervisor_lists_them(tmp_path: Path) -> None:
    """[LIF33] Of several chains those of one, by their roles; the metrics have their whole names."""
    path = tmp_path / "processes.json"
    path.write_bytes(msgspec.json.encode(ENTRIES))
    (tmp_path / "supervisor.prom").write_text(METRICS.replace("1e\n", "1\n"))
    files = SupervisorFiles(str(path), str(tmp_path))
    result, uptime = files.processes({"l1": 0.55, "p2p": None}, 5.0, 1100.0)
    assert uptime == 100.0 and result is not None
    assert [item.name for item in result] == ["supervisor", "l1", "compute-0", "compute-1"]
    assert result[1] == ProcessStatus("l1", 11, 3, 2, 50.0, True, 0.2, 0.6, 3.1, 70000000)
    assert result[2].up is False and result[2].memory_bytes == 50_000_000
    assert result[3].up is None and result[3].memory_bytes is None
    path.unlink()
    assert files.processes({}, 5.0 + FILES_SECONDS - 0.1, 1101.0)[1] == 101.0
    assert files.processes({}, 5.0 + FILES_SECONDS, 1102.0) == (None, None)
    engines = [ProcessEntry("engine", 0, pid, 1, 1001.0, 5, str(pid)) for pid in (10, 130)]
    path.write_bytes(msgspec.json.encode([*ENTRIES, *engines]))
    (tmp_path / "supervisor.prom").write_text('process_up{process="engine.10"} 1.0\n')
    result, _ = SupervisorFiles(str(path), str(tmp_path), "10").processes({"engine": 0.5}, 5.0, 1100.0)
    assert result is not None and len(result) == len(ENTRIES) + 1
    assert (result[-1].name, result[-1].pid, result[-1].up, result[-1].status_age_s) == ("engine", 10, True, 0.5)


def test_the_share_of_a_core(tmp_path: Path) -> None:
    """[RPC94] Over the last samples of the same incarnation, by the times when they were written."""
    path, metrics = tmp_path / "processes.json", tmp_path / "supervisor.prom"
    files, entry = SupervisorFiles(str(path), str(tmp_path)), ENTRIES[1]
    shares = []
    samples = ((11, 3.0), (11, 3.5), (11, 3.5), *[(11, 4.0)] * CPU_SAMPLES, (99, 0.2), (99, 0.6))
    for step, (pid, cpu) in enumerate(samples):
        path.write_bytes(msgspec.json.encode([msgspec.structs.replace(entry, pid=pid)]))
        metrics.write_text(f'process_cpu_seconds_total{{process="l1"}} {cpu}\n')
        written = 1000 + 2 * (step - (step == 2))
        os.utime(metrics, (written, written))
        result, _ = files.processes({}, step * FILES_SECONDS, 1100.0)
        assert result is not None
        shares.append(result[0].cpu_share)
    assert shares[:4] == [None, 0.25, 0.25, round(1 / 6, 3)]
    assert shares[-3:] == [0.0, None, 0.2]


def test_files_that_cannot_be_read_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "processes.json"
    path.write_text("[{")
    (tmp_path / "supervisor.prom").write_bytes(b"\xff")
    assert SupervisorFiles(str(path), str(tmp_path)).processes({}, 0.0, 1.0) == (None, None)
    path.write_bytes(msgspec.json.encode(ENTRIES))
    (tmp_path / "supervisor.prom").write_text(METRICS)
    result, _ = SupervisorFiles(str(path), str(tmp_path)).processes({}, 0.0, 1.0)
    assert result is not None and result[1].cpu_s is None and result[0].uptime_s == 0.0
    result, _ = SupervisorFiles(str(path), str(tmp_path / "missing")).processes({}, 0.0, 1.0)
    assert result is not None and (result[1].cpu_s, result[1].cpu_share) == (None, None)
    assert SupervisorFiles("", str(tmp_path)).processes({}, 0.0, 1.0) == (None, None)


async def test_a_status_is_kept_for_a_moment(running_rpc: RunWithRpc) -> None:
    """[RPC94]"""
    async with running_rpc() as rpc:
        now = 100.0
        source = StatusSource(rpc.stage.node, lambda: now, lambda: 203.0)
        first, json = source.status(), source.json()
        await rpc.until_ready()
        now += KEPT_SECONDS - 0.01
        assert source.status() is first and source.json() is json
        now += 0.01
        assert source.status().ready and b'"ready":true' in source.json()
