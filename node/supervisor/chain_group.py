"""The processes of one of several chains: stopped together and started again later, while the others go on [LIF34]."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rollup_node.node.supervisor.metrics import SUPERVISOR
from rollup_node.node.supervisor.supervised_process import SupervisedProcess, record_death
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.runtime_dir import RuntimeDirectory
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import ChainAside
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import seconds
from rollup_node.stages.protocol.pacing import backoff

FIRST_PAUSE, LONGEST_PAUSE = 15.0, 600.0
"""Seconds until a chain that was set aside is started again."""

log = Logger(SUPERVISOR)


@dataclass
class ChainGroup:
    """The group of a chain; `aside` says why it does not run. Times are monotonic seconds.

    While it `is_renewed` its processes end, to start with the configurations that are made then [UPG26]. `task_deaths`
    are those of shared processes that ran its tasks."""

    chain: str
    processes: list[SupervisedProcess]
    aside: ChainAside | None = None
    is_renewed: bool = False
    task_deaths: deque[float] = field(default_factory=deque)
    back_at: float = 0.0
    failures: int = 0

    def stop(self, now: float) -> None:
        """Stop all processes of the chain, and forget what happened to them."""
        self.task_deaths.clear()
        for process in self.processes:
            process.restart_at = None
            process.deaths.clear()
            process.fork_failures.clear()
            process.request_stop(now)

    def set_aside(self, code: Code, reason: str, now: float) -> float:
        """Stop all processes of the chain; the pause until they start again, in seconds.

        It grows while the chain fails again within LONGEST_PAUSE, and is that at once after an end that will repeat."""
        self.failures = 1 if now - self.back_at > LONGEST_PAUSE else self.failures + 1
        may_pass = code in (Code.CRASH_LOOP, Code.CRITICAL)
        pause = backoff(self.failures, FIRST_PAUSE, LONGEST_PAUSE) if may_pass else LONGEST_PAUSE
        self.back_at, since = now + pause, time.time()
        self.aside = ChainAside(self.chain, code.text, reason, since, since + pause)
        self.stop(now)
        return pause

    def is_due(self, now: float) -> bool:
        """Whether the chain was stopped and may start again: its processes have ended, and the pause is over.

        One that was set aside while it is renewed has a pause, too."""
        ended = all(process.child is None for process in self.processes)
        return ended and (self.is_renewed if self.aside is None else now >= self.back_at)


class ChainGroups:
    """All chains of a node of several; `start` starts a process at a time.

    `renew` returns the configurations of a chain's processes by role, made again. It raises SetupError."""

    def __init__(
        self,
        processes: Sequence[SupervisedProcess],
        directory: RuntimeDirectory,
        start: Callable[[SupervisedProcess, float], None],
        renew: Callable[[str], Mapping[str, object]] | None,
    ) -> None:
        self._processes, self._directory, self._start, self._renew = processes, directory, start, renew
        self._chains: dict[str, ChainGroup] = {}
        for process in processes:
            if chain := process.spec.group:
                self._chains.setdefault(chain, ChainGroup(chain, [])).processes.append(process)

    def are_running(self, process: SupervisedProcess) -> bool:
        """Whether a process is shared, or that of a chain that is not stopped."""
        chain = self._chains.get(process.spec.group)
        return chain is None or (chain.aside is None and not chain.is_renewed)

    def renew(self, process: SupervisedProcess) -> bool:
        """Have all processes of the chain of a process start again by other files; False if it is shared [UPG26]."""
        chain = self._chains.get(process.spec.group)
        if chain is None or self._renew is None:
            return False
        chain.is_renewed = True
        chain.stop(time.monotonic())
        return True

    def task_ended(self, holder: int | None, process: SupervisedProcess, reason: str, now: float) -> bool:
        """Count the death of a process with a task of the process in slot `holder`; False if that is of no chain.

        The chain is set aside when there were more than the policy allows of one process [LIF34]."""
        chain = None if holder is None else self._chains.get(self._processes[holder].spec.group)
        if chain is None:
            return False
        if chain.aside is None and record_death(chain.task_deaths, now, process.policy):
            deaths, window = len(chain.task_deaths), process.policy.window
            text = f"{deaths} processes died of its tasks within {window:g} s, last {process.name} by {reason}"
            self.set_aside(chain.chain, Code.CRASH_LOOP, f"{text}: see its log lines")
        return True

    def set_aside(self, group: str, code: Code, reason: str) -> bool:
        """Set a chain aside; False if the group is that of shared processes."""
        chain = self._chains.get(group)
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
            if chain.is_renewed and not self._make_anew(chain):
                continue
            chain.aside = None
            self._write()
            log.info("chain is started again", chain=chain.chain)
            for process in chain.processes:
                self._start(process, now)

    def _make_anew(self, chain: ChainGroup) -> bool:
        """Give the processes of a chain new configurations; False if there are none, and it is set aside."""
        chain.is_renewed = False
        try:
            configs = self._renew(chain.chain) if self._renew is not None else {}
        except Exception as error:
            if not isinstance(error, SetupError):
                log.crash("a bug in what a chain starts again with", error)
            self.set_aside(chain.chain, Code.OPTIONS, str(error))
            return False
        for process in chain.processes:
            process.spec = replace(process.spec, config=configs.get(process.spec.role, process.spec.config))
        return True

    def _write(self) -> None:
        try:
            self._directory.write_aside(chain.aside for chain in self._chains.values() if chain.aside is not None)
        except OSError as error:
            log.error("cannot write aside.json", code=Code.FILE.text, error=error)
