"""Which processes count as hung."""

from rollup_node.node.supervisor.watchdog import RestartPolicy, Watchdog
from rollup_node.node.system.procfs import ProcessStat

POLICY = RestartPolicy(cpu=10, blocked=30, stopped=5)


def stat(state: str = "S", cpu: float = 0.0) -> ProcessStat:
    return ProcessStat(state, cpu, 1, 1)


def test_a_process_with_a_heartbeat_is_not_hung_whatever_it_uses() -> None:
    watchdog = Watchdog(POLICY)
    assert all(watchdog.check(now, stat("R", cpu=now), beats=now) is None for now in range(100))


def test_cpu_time_without_a_heartbeat_is_a_busy_loop() -> None:
    watchdog = Watchdog(POLICY)
    assert watchdog.check(0, stat("R", 5.0), 3) is None
    assert watchdog.check(20, stat("R", 14.9), 3) is None
    assert watchdog.check(21, stat("R", 15.1), 3) == "no heartbeat during 10.1 s of CPU time"


def test_a_starved_process_is_never_hung() -> None:
    watchdog = Watchdog(POLICY)
    assert all(watchdog.check(now, stat("R", now / 1000), 0) is None for now in range(1000))


def test_a_blocked_process_is_hung_after_the_long_limit() -> None:
    watchdog = Watchdog(POLICY)
    assert watchdog.check(0, stat(), 0) is None
    assert watchdog.check(30, stat(), 0) is None
    assert watchdog.check(30.5, stat("D"), 0) == "no heartbeat for 30.5 s while blocked"


def test_a_stopped_process_is_hung_after_the_short_limit() -> None:
    watchdog = Watchdog(POLICY)
    assert watchdog.check(0, stat(), 1) is None
    assert watchdog.check(10, stat("T"), 1) is None
    assert watchdog.check(15, stat("T"), 1) is None
    assert watchdog.check(15.5, stat("T"), 1) == "stopped by a signal for 5.5 s"


def test_a_process_that_continues_in_time_is_not_hung() -> None:
    watchdog = Watchdog(POLICY)
    assert watchdog.check(0, stat("T"), 1) is None
    assert watchdog.check(4, stat("T"), 1) is None
    assert watchdog.check(5, stat("R"), 2) is None
    assert watchdog.check(6, stat("T"), 2) is None
    assert watchdog.check(10, stat("T"), 2) is None


def test_a_supervisor_that_was_suspended_starts_all_timers_again() -> None:
    watchdog = Watchdog(POLICY)
    assert watchdog.check(0, stat(), 1) is None
    watchdog.reset()
    assert watchdog.check(1000, stat(), 1) is None
    assert watchdog.check(1029, stat(), 1) is None
    assert watchdog.check(1031, stat(), 1) is not None
