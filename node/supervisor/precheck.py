"""The one-shot row: what must end the start (chain ids, genesis, secrets, ports) is checked once, in a process of its
own, before the rows are started."""

import asyncio
import os
import signal

from setproctitle import setproctitle

from rollup_node.node.runtime.runtime import LAST_LINES_SECONDS, take_over_output
from rollup_node.node.supervisor.settings import Check
from rollup_node.node.system.exit_codes import Exit, SetupError
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.signals import STOP_SIGNALS
from rollup_node.stages.io.log import get_logger

ROLE = "check"


def run_check(answer: int, check: Check, log: LogSettings) -> int:
    """The body of the process; it writes why the node cannot start into the pipe `answer`, or nothing. A stop signal to
    all processes is the supervisor's to heed, who then kills this one."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    setproctitle(f"rollup-node: {ROLE}")
    writer = take_over_output(ROLE, log)
    refusal = _refusal(check)
    os.write(answer, refusal.encode("utf-8", "backslashreplace"))
    writer.drain(LAST_LINES_SECONDS)
    return Exit.SETUP if refusal else Exit.OK


def _refusal(check: Check) -> str:
    try:
        asyncio.new_event_loop().run_until_complete(_wait_for(check))
    except SetupError as error:
        return " ".join(str(error).split()) or "the check before the start failed"
    except Exception as error:
        get_logger(ROLE).crash("the check before the start failed by a bug", error)
        return f"the check before the start failed by a bug ({type(error).__name__}): see the log"
    return ""


async def _wait_for(check: Check) -> None:
    await check()
