"""What the kernel reports of processes."""

import os
import subprocess
import sys
import threading
import time

from rollup_node.node.system.procfs import read_proportional_memory, read_stat, read_waiting, thread_count, user_of


def test_figures_of_this_process() -> None:
    before = read_stat(os.getpid())
    assert before is not None
    deadline = time.process_time() + 0.05
    while time.process_time() < deadline:
        pass
    after = read_stat(os.getpid())
    assert after is not None
    assert after.state == "R"
    assert after.start_ticks == before.start_ticks > 0
    assert after.cpu > before.cpu
    assert after.resident > 10_000_000
    assert user_of(os.getpid()) == os.geteuid()


def test_a_name_with_parentheses() -> None:
    code = "import setproctitle, time; setproctitle.setthreadtitle(') R 1 ('); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as odd:
        assert odd.stdout is not None
        odd.stdout.readline()
        deadline = time.monotonic() + 20
        while (stat := read_stat(odd.pid)) is not None and stat.state == "R" and time.monotonic() < deadline:
            time.sleep(0.01)
        odd.kill()
    assert stat is not None
    assert (stat.state, stat.start_ticks > 0) == ("S", True)


def test_proportional_memory_of_this_process() -> None:
    stat, result = read_stat(os.getpid()), read_proportional_memory(os.getpid())
    assert stat is not None and result is not None
    assert 5_000_000 < result < 1.2 * stat.resident


def test_a_process_that_does_not_exist() -> None:
    assert read_proportional_memory(2**22 + 1) is None
    assert read_stat(2**22 + 1) is None
    assert read_waiting(2**22 + 1) == (False, 0.0)


def test_threads_are_counted() -> None:
    before = thread_count()
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert thread_count() == before + 1
    end.set()
    thread.join()


def test_a_process_that_sleeps_waits_for_no_cpu() -> None:
    """While it starts, it may wait for pages and then run again."""
    with subprocess.Popen(["sleep", "60"]) as asleep:
        deadline = time.monotonic() + 20
        before, after = None, read_waiting(asleep.pid)
        while (after.runnable or after != before) and time.monotonic() < deadline:
            time.sleep(0.2)
            before, after = after, read_waiting(asleep.pid)
        asleep.kill()
    assert not after.runnable and after == before


def test_a_process_that_shares_a_core_waits_for_it() -> None:
    """As long as it did not run, unless another core was taken away from both."""
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as one, subprocess.Popen([sys.executable, "-c", code]) as two:
        deadline = time.monotonic() + 30
        while min(read_waiting(item.pid).run_delay for item in (one, two)) < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
        waiting = read_waiting(one.pid)
        for item in (one, two):
            item.kill()
    assert waiting.runnable and waiting.run_delay >= 0.5
