"""Which processes count as hung."""

from rollup_node.node.supervisor.watchdog import RestartPolicy, Watchdog
from rollup_node.node.system.procfs import ProcessStat

LIMITS = RestartPolicy(cpu=10, blocked=30, stopped=5)


def stat(state: str = "S", cpu: float = 0.0) -> ProcessStat:
    return ProcessStat(state, cpu, 1, 1)


def test_a_process_that_beats_is_well_whatever_it_uses() -> None:
    judge = Watchdog(LIMITS)
    assert all(judge.verdict(now, stat("R", cpu=now), beats=now) is None for now in range(100))


def test_cpu_time_without_a_beat_is_a_busy_loop() -> None:
    judge = Watchdog(LIMITS)
    assert judge.verdict(0, stat("R", 5.0), 3) is None
    assert judge.verdict(20, stat("R", 14.9), 3) is None
    assert judge.verdict(21, stat("R", 15.1), 3) == "no heartbeat during 10.1 s of CPU time"


def test_a_starved_process_is_never_hung() -> None:
    judge = Watchdog(LIMITS)
    assert all(judge.verdict(now, stat("R", now / 1000), 0) is None for now in range(1000))


def test_a_blocked_process_is_hung_after_the_long_limit() -> None:
    judge = Watchdog(LIMITS)
    assert judge.verdict(0, stat(), 0) is None
    assert judge.verdict(30, stat(), 0) is None
    assert judge.verdict(30.5, stat("D"), 0) == "no heartbeat for 30.5 s while blocked"


def test_a_stopped_process_is_hung_after_the_short_limit() -> None:
    judge = Watchdog(LIMITS)
    assert judge.verdict(0, stat(), 1) is None
    assert judge.verdict(10, stat("T"), 1) is None
    assert judge.verdict(15, stat("T"), 1) is None
    assert judge.verdict(15.5, stat("T"), 1) == "stopped by a signal for 5.5 s"


def test_going_on_in_time_is_forgiven() -> None:
    judge = Watchdog(LIMITS)
    assert judge.verdict(0, stat("T"), 1) is None
    assert judge.verdict(4, stat("T"), 1) is None
    assert judge.verdict(5, stat("R"), 2) is None
    assert judge.verdict(6, stat("T"), 2) is None
    assert judge.verdict(10, stat("T"), 2) is None


def test_a_supervisor_that_slept_judges_anew() -> None:
    judge = Watchdog(LIMITS)
    assert judge.verdict(0, stat(), 1) is None
    judge.forgive()
    assert judge.verdict(1000, stat(), 1) is None
    assert judge.verdict(1029, stat(), 1) is None
    assert judge.verdict(1031, stat(), 1) is not None
