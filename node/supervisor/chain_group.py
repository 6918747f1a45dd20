"""The processes of one of several chains: stopped together and started again later, while the others go on [LIF34]."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollup_node.node.supervisor.metrics import SUPERVISOR
from rollup_node.node.supervisor.supervised_process import SupervisedProcess
from rollup_node.node.system.runtime_dir import RuntimeDirectory
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.task import ChainAside
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import seconds
from rollup_node.stages.protocol.pacing import backoff

FIRST_PAUSE, LONGEST_PAUSE = 15.0, 600.0
"""Seconds until a chain that was set aside is started again."""

log = get_logger(SUPERVISOR)


@dataclass
class ChainGroup:
    """The group of a chain; `aside` says why it does not run. Times are monotonic seconds."""

    chain: str
    processes: list[SupervisedProcess]
    aside: ChainAside | None = None
    back_at: float = 0.0
    failures: int = 0

    def set_aside(self, code: Code, reason: str, now: float) -> float:
        """Stop all processes of the chain; the pause until they start again, in seconds.

        It grows while the chain fails again within LONGEST_PAUSE, and is that at once after an end that will repeat."""
        self.failures = 1 if now - self.back_at > LONGEST_PAUSE else self.failures + 1
        may_pass = code in (Code.CRASH_LOOP, Code.CRITICAL)
        pause = backoff(self.failures, FIRST_PAUSE, LONGEST_PAUSE) if may_pass else LONGEST_PAUSE
        self.back_at, since = now + pause, time.time()
        self.aside = ChainAside(self.chain, code.text, reason, since, since + pause)
        for process in self.processes:
            process.restart_at = None
            process.deaths.clear()
            process.fork_failures.clear()
            process.request_stop(now)
        return pause

    def is_due(self, now: float) -> bool:
        """Whether the chain was set aside and may start again: its processes have ended, and the pause is over."""
        ended = all(process.child is None for process in self.processes)
        return self.aside is not None and now >= self.back_at and ended


class ChainGroups:
    """All chains of a node of several; `start` starts a process at a time."""

    def __init__(
        self,
        processes: Sequence[SupervisedProcess],
        directory: RuntimeDirectory,
        start: Callable[[SupervisedProcess, float], None],
    ) -> None:
        self._directory, self._start = directory, start
        self._chains: dict[str, ChainGroup] = {}
        for process in processes:
            if chain := process.spec.group:
                self._chains.setdefault(chain, ChainGroup(chain, [])).processes.append(process)

    def are_running(self, process: SupervisedProcess) -> bool:
        """Whether a process is shared, or that of a chain that is not set aside."""
        chain = self._chains.get(process.spec.group)
        return chain is None or chain.aside is None

    def set_aside(self, process: SupervisedProcess, code: Code, reason: str) -> bool:
        """Set the chain of a process aside; False if the process is shared."""
        chain = self._chains.get(process.spec.group)
        if chain is None:
            return False
        again = seconds("again_in", chain.set_aside(code, reason, time.monotonic()))
        do = Code.CHAIN_ASIDE.remedy
        log.error("chain is set aside", code=Code.CHAIN_ASIDE.text, chain=chain.chain, reason=reason, **again, do=do)
        self._write()
        return True

    def start_due(self, now: float) -> None:
        """Start the chains whose pause is over."""
        for chain in [chain for chain in self._chains.values() if chain.is_due(now)]:
            chain.aside = None
            self._write()
            log.info("chain is started again", chain=chain.chain)
            for process in chain.processes:
                self._start(process, now)

    def _write(self) -> None:
        try:
            self._directory.write_aside(chain.aside for chain in self._chains.values() if chain.aside is not None)
        except OSError as error:
            log.error("cannot write aside.json", code=Code.FILE.text, error=error)
