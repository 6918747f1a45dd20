"""What the kernel reports of processes."""

import os
import subprocess
import sys
import threading
import time

from rollup_node.node.system.procfs import read_stat, thread_count


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


def test_a_process_that_does_not_exist() -> None:
    assert read_stat(2**22 + 1) is None


def test_threads_are_counted() -> None:
    before = thread_count()
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert thread_count() == before + 1
    end.set()
    thread.join()
