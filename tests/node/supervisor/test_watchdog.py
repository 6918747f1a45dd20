"""Which processes count as hung."""

from rollup_node.node.supervisor.watchdog import MAX_INTERVAL, RestartPolicy, Watchdog
from rollup_node.node.system.procfs import ProcessStat, Waiting

POLICY = RestartPolicy(cpu=10, blocked=30, stopped=5)
TICK = 0.5


class WatchedProcess:
    """A process whose figures a test sets, checked every 0.5 s."""

    def __init__(self) -> None:
        self.watchdog = Watchdog(POLICY)
        self.now = 0.0
        self.beats, self.faults = 1, 0
        self.cpu = self.delay = 0.0
        self.check("S", 0.0)

    def check(self, state: str, seconds: float, runnable: bool | None = None) -> str | None:
        """Check it after so many seconds; a process in state R is runnable."""
        self.now += seconds
        waiting = Waiting(state == "R" if runnable is None else runnable, self.delay)
        stat = ProcessStat(state, self.cpu, 1, 1, self.faults)
        return self.watchdog.check(self.now, stat, self.beats, lambda: waiting)

    def seconds_until_hung(self, state: str, longest: float, cpu: float = 0.0, delay: float = 0.0) -> float | None:
        """For how long it lives in a state, using so much CPU time and waiting for so much in each second.

        None when it is not hung after the longest time."""
        begun = self.now
        while self.now - begun < longest:
            self.cpu += cpu * TICK
            self.delay += delay * TICK
            if self.check(state, TICK) is not None:
                return self.now - begun
        return None


def test_a_process_with_a_heartbeat_is_not_hung_whatever_it_uses() -> None:
    process = WatchedProcess()
    for _ in range(1000):
        process.beats += 1
        process.cpu += 4 * TICK
        assert process.check("R", TICK) is None


def test_cpu_time_without_a_heartbeat_is_a_busy_loop() -> None:
    process = WatchedProcess()
    process.cpu = 9.9
    assert process.check("R", 20) is None
    process.cpu = 10.1
    assert process.check("R", 1) == "no heartbeat during 10.1 s of CPU time"


def test_a_starved_process_is_never_hung() -> None:
    """The kernel adds what a thread has waited when it runs at last."""
    process = WatchedProcess()
    assert process.seconds_until_hung("R", 1000, cpu=0.001) is None
    process.delay = process.now
    assert process.seconds_until_hung("S", 20) is None


def test_a_starved_process_that_is_found_asleep_is_not_hung() -> None:
    """The process of the review: 46 s without a heartbeat, of which it used 8.8 s and waited for 35 s."""
    process = WatchedProcess()
    assert process.seconds_until_hung("S", 46, cpu=8.8 / 46, delay=35 / 46) is None


def test_a_starved_process_is_not_hung_on_a_kernel_that_does_not_count_delays() -> None:
    process = WatchedProcess()
    for _ in range(40):
        assert process.seconds_until_hung("R", 2.0) is None
        assert process.check("S", TICK) is None


def test_a_process_that_waits_for_its_pages_is_not_hung() -> None:
    process = WatchedProcess()
    for _ in range(200):
        process.faults += 1
        assert process.check("D", TICK) is None


def test_a_thread_that_wants_the_cpu_keeps_its_process_from_being_blocked() -> None:
    """The event loop waits for the interpreter lock, which a starved thread has."""
    process = WatchedProcess()
    for _ in range(200):
        assert process.check("S", TICK, runnable=True) is None


def test_a_blocked_process_is_hung_after_the_long_limit() -> None:
    for state in "SD":
        seconds = WatchedProcess().seconds_until_hung(state, 100)
        assert seconds is not None and POLICY.blocked < seconds <= POLICY.blocked + 2


def test_a_blocked_process_is_hung_however_often_it_wakes_for_a_moment() -> None:
    process = WatchedProcess()
    seconds = process.seconds_until_hung("S", 100, cpu=0.02, delay=0.1)
    assert seconds is not None and seconds < 40
    reason = process.check("S", TICK)
    assert reason is not None and reason.endswith("s while blocked")


def test_a_stopped_process_is_hung_after_the_short_limit() -> None:
    process = WatchedProcess()
    seconds = process.seconds_until_hung("T", 100)
    assert seconds is not None and POLICY.stopped < seconds <= POLICY.stopped + 2 * TICK
    assert process.check("T", TICK) == "stopped by a signal for 6.0 s"


def test_a_process_that_continues_in_time_is_not_hung() -> None:
    process = WatchedProcess()
    for _ in range(20):
        assert process.seconds_until_hung("T", 4) is None
        process.beats += 1
        assert process.check("R", TICK) is None


def test_time_in_which_the_supervisor_did_not_run_does_not_count() -> None:
    process = WatchedProcess()
    for _ in range(3):
        assert process.check("S", 1000) is None
        assert process.check("T", 1000) is None
    assert process.seconds_until_hung("S", POLICY.blocked - 5 * MAX_INTERVAL) is None
    assert process.seconds_until_hung("S", 20) is not None
