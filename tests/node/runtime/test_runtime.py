"""What the runtime does with errors, prints and results of a stage, in a toy node."""

import json
import logging
import os
import signal
import warnings
from collections.abc import Iterator

import pytest

from rollup_node.node.runtime.runtime import capture_library_logs, dropped_lines
from rollup_node.node.system.exit_codes import RESTART
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.messages.codes import Code
from tests.support.processes.toy_harness import StartNode, ToyNode


def test_the_traceback_of_a_bug_is_in_the_log(running: ToyNode) -> None:
    before = running.processes()["left"]["incarnation"]
    running.order("left", "crash")
    line = running.wait_for_line("a bug ends this process", "left")
    assert line["trace"].startswith("Traceback")
    assert "ValueError: a toy's bug" in line["trace"]
    running.wait_for_restart("left", before + 1)


def test_a_critical_error_stops_the_node(start: StartNode) -> None:
    node = start().wait_until_ready()
    node.order("left", "critical")
    code, text = node.wait_for_exit()
    assert code == 70
    assert text == "rollup-node: process left failed with a critical error: a toy contradicts itself\n"
    assert node.logged("critical error", "left", error="a toy contradicts itself")
    assert node.stop_order()[2:] == ["right"]


@pytest.mark.sign("FORK-MISMATCH", line=True)
def test_other_forks_of_the_engine_have_an_exit_code_of_their_own(start: StartNode) -> None:
    node = start().wait_until_ready()
    node.order("left", "forks")
    code, text = node.wait_for_exit()
    assert code == 77
    result = "found other forks in the execution engine (FORK-MISMATCH)"
    assert text == f"rollup-node: process left {result}: the toys have other forks: set --override.jovian\n"
    line = node.wait_for_line("the execution engine has other forks than this node", "left", code="FORK-MISMATCH")
    assert "--override.jovian" in line["error"] and line["do"] == Code.FORK_MISMATCH.remedy


def test_a_process_may_ask_for_a_new_start_of_the_node(start: StartNode) -> None:
    """[UPG26] Without a word of failure; the caller starts the node again."""
    node = start().wait_until_ready()
    node.order("left", "restart")
    assert node.wait_for_exit() == (RESTART, "")
    assert node.logged("a new start is asked for", "left", reason="the toys have other colours now")
    assert node.stop_order()[2:] == ["right"]


def test_temporary_errors_and_resets_do_not_end_a_process(running: ToyNode) -> None:
    running.order("left", "temporary")
    running.wait_for_line("toy reports", "left", problems="RETRYING: orders: the toy endpoint is away")
    running.order("right", "reset")
    running.wait_for_line("toy reset", "right", reason="the toy ground moved")
    running.wait_for_line("toy reports", "left", problems="none")
    running.wait_for_line("recovered", "left", task="orders", tried=1)
    assert not running.logged("process died")


def test_prints_and_fault_dumps_reach_the_log(running: ToyNode) -> None:
    running.order("left", "print")
    printed = {b"printed\n", b"by hand\n", b"written past Python\n"}
    running.wait(lambda: printed <= set(running.raw), "the printed lines")
    os.kill(running.processes()["left"]["pid"], signal.SIGUSR2)
    running.wait(lambda: any(line.startswith(b"Current thread") for line in running.raw), "the stack")


def test_a_new_log_level_holds_in_all_processes_and_after_a_restart(running: ToyNode) -> None:
    """[RPC54]"""
    running.order("left", "log everything")

    def traced() -> object:
        running.order("right", "trace")
        return running.logged("toy traces", "right")

    running.wait(traced, "the level in another process")
    before = running.processes()["right"]["incarnation"]
    running.order("right", "crash")
    running.wait_for_restart("right", before + 1)
    count = len(running.logged("toy traces"))
    running.order("right", "trace")
    running.wait_for_line("toy traces", "right", count=count + 1)


@pytest.mark.parametrize("code", [0, 5])
def test_a_one_shot_process_ends_the_node_with_its_code(start: StartNode, code: int) -> None:
    node = start({"job": code})
    node.order("job", "finish")
    ended, text = node.wait_for_exit()
    assert ended == code
    assert node.raw == [b"the result\n"], "stdout has nothing but the result"
    *log, last = text.splitlines()
    lines = [json.loads(line) for line in (log if code else text.splitlines())]
    assert next(line["name"] for line in lines if line["msg"] == "process ended") == "job"
    assert code == 0 or last == "rollup-node: process job ended with exit code 5: see its last log lines"


@pytest.mark.condition("C15")
def test_dropped_lines_have_a_code() -> None:
    record = dropped_lines("l1", 3)
    assert (record.process, record.level, record.fields["lines"]) == ("l1", Level.WARN, 3)
    assert (record.fields["code"], record.fields["do"]) == ("LOG-DROPPED", Code.LOG_DROPPED.remedy)


@pytest.fixture
def library_lines() -> Iterator[list[Record]]:
    """Yield the records that libraries write while the test runs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    lines: list[Record] = []
    log.configure("l1", Level.DEBUG, lines.append)
    capture_library_logs(Level.DEBUG)
    yield lines
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level


def test_records_of_libraries_reach_our_log(library_lines: list[Record]) -> None:
    logging.getLogger("aiohttp.client").info("quiet %d", 1)
    logging.getLogger("asyncio").debug("quieter")
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("asyncio").exception("a task failed")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old stuff", stacklevel=1)
    first, second, third = library_lines
    assert (first.level, first.component, first.message) == (Level.DEBUG, "aiohttp.client", "quiet 1")
    assert second.level is Level.ERROR
    assert "ValueError: boom" in (second.traceback or "")
    assert (third.level, third.component) == (Level.WARN, "py.warnings")
