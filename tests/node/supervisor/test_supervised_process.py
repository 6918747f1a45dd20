"""What is known of a process over its incarnations."""

import pytest

from rollup_node.node.supervisor.supervised_process import SupervisedProcess, record_death
from rollup_node.node.supervisor.watchdog import RestartPolicy
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.node.system.procfs import ProcessStat, Waiting

POLICY = RestartPolicy(deaths=2, window=60.0, stopped=1.0)


@pytest.fixture
def process() -> SupervisedProcess:
    return SupervisedProcess(ProcessSpec("compute", "m:f", None, copies=2, numbered=True), 1, 4, POLICY)


def test_an_incarnation_begins_without_the_state_of_the_last(process: SupervisedProcess) -> None:
    process.begin_incarnation(10.0)
    process.kill_at, process.kill_reason, process.restart_at, process.stop_requested = 11.0, "hangs", 12.0, True
    stopped, waiting = ProcessStat("T", 0.0, 1, 1, 0), Waiting(False, 0.0)
    result = [process.watchdog.check(float(now), stopped, 1, lambda: waiting) for now in range(9)]
    assert result[0] is None and result[-1] is not None
    process.begin_incarnation(20.0)
    assert (process.incarnation, process.started) == (2, 20.0)
    assert process.kill_at is None and process.restart_at is None
    assert (process.kill_reason, process.stop_requested) == ("", False)
    assert process.watchdog.check(9.0, stopped, 1, lambda: waiting) is None


def test_a_process_whose_tasks_are_long_may_take_more_cpu_time_between_heartbeats(process: SupervisedProcess) -> None:
    busy, waiting = [ProcessStat("R", cpu, 1, 1, 0) for cpu in (0.0, 11.0, 21.0)], Waiting(True, 0.0)

    def reasons(watched: SupervisedProcess) -> list[str | None]:
        return [watched.watchdog.check(float(now), stat, 1, lambda: waiting) for now, stat in enumerate(busy)]

    patient = SupervisedProcess(ProcessSpec("compute", "m:f", None, max_cpu=20.0), 0, 4, POLICY)
    assert reasons(process)[1] == "no heartbeat during 11.0 s of CPU time"
    assert reasons(patient) == [None, None, "no heartbeat during 21.0 s of CPU time"]
    patient.begin_incarnation(10.0)
    assert reasons(patient)[1] is None


def test_deaths_count_within_the_window(process: SupervisedProcess) -> None:
    assert [record_death(process.deaths, now, POLICY) for now in (0.0, 10.0, 61.0, 62.0)] == [False, False, False, True]
    assert list(process.deaths) == [10.0, 61.0, 62.0]
