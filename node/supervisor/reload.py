"""A reload: new options of a running node, carried out by restarting the processes that they concern [LIF35].

One process is restarted after the other, each by the path of every restart, so that the node goes on meanwhile."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.shared_memory.memfd import SharedMemory
from rollup_node.node.supervisor.child_processes import ChildProcesses
from rollup_node.node.supervisor.metrics import SUPERVISOR
from rollup_node.node.supervisor.precheck import Precheck
from rollup_node.node.supervisor.service_manager import ServiceManager
from rollup_node.node.supervisor.settings import NodeSettings, Reload
from rollup_node.node.supervisor.supervised_process import SupervisedProcess
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.files.private_files import replace_private_file
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import ReloadResult
from rollup_node.stages.messages.codes import Code

READY_SECONDS = 30.0
"""How long the next process waits for one to be ready."""


class Reloads:
    """Carries out one reload at a time; what asks for another one meanwhile asks for one more in all."""

    def __init__(
        self,
        children: ChildProcesses,
        processes: Sequence[SupervisedProcess],
        settings: NodeSettings,
        liveness: LivenessTable,
        level: SharedMemory,
        result: Path,
        manager: ServiceManager,
    ) -> None:
        self._children, self._processes, self._settings = children, processes, settings
        self._liveness, self._level, self._result, self._manager = liveness, level, result, manager
        self._log = Logger(SUPERVISOR)
        self._requested = False
        self._began = self._deadline = 0.0
        self._new: Reload | None = None
        self._check: Precheck | None = None
        self._restarts: deque[SupervisedProcess] = deque()
        self._restarting: SupervisedProcess | None = None
        self._incarnation = 0

    def request(self, signal_name: str) -> None:
        """Ask for a reload with the next `tick`s; the log file may have been moved."""
        self._log.info("received signal", name=signal_name)
        if self._settings.log_file is not None:
            self._settings.log_file.reopen()
        self._requested = True

    @property
    def running(self) -> bool:
        """Whether a reload is asked for or not done."""
        return self._requested or self._new is not None or self._restarting is not None

    def tick(self, now: float) -> None:
        """Go on with the reload, if there is one; `now` is monotonic time."""
        if self._restarting is not None:
            self._await_ready(self._restarting, now)
        elif self._new is not None:
            if self._check is None or not self._check.running:
                self._apply(self._new, now)
        elif self._requested:
            self._requested = False
            self._begin()

    def stop(self, again: bool) -> None:
        """End a check: the node stops, to start `again` or for good."""
        if again:
            self._manager.reloading()
        else:
            self._manager.stopping()
        if self._check is not None:
            self._check.kill()

    def _begin(self) -> None:
        self._began = time.monotonic()
        self._manager.reloading()
        if self._settings.reload is None:
            self._refuse("this program takes no new options while it runs: restart it")
            return
        try:
            self._new = self._settings.reload()
        except SetupError as error:
            self._refuse(str(error))
            return
        except Exception as error:
            self._log.crash("reading the options again failed by a bug", error)
            self._refuse(f"a bug ({type(error).__name__}): see the log")
            return
        log, refuse = self._settings.log, self._refuse
        self._check = Precheck(self._children, self._new.check, log, lambda code, error: refuse(error))
        self._check.start()

    def _refuse(self, error: str) -> None:
        self._new = None
        self._log.error("reload refused, nothing is changed", code=Code.RELOAD.text, error=error, do=Code.RELOAD.remedy)
        self._write(ReloadResult(self._began, error=error))
        self._manager.ready(len(self._processes))

    def _apply(self, new: Reload, now: float) -> None:
        try:
            new.commit()
        except SetupError as error:
            self._refuse(str(error))
            return
        self._new = None
        if new.level is not None:
            self._level.words[0] = new.level
        for process in self._processes:
            key = process.spec.role, process.spec.group
            if key in new.configs:
                process.spec = replace(process.spec, config=new.configs[key])
                self._restarts.append(process)
        restarted = tuple(dict.fromkeys(process.spec.role_and_group for process in self._restarts))
        self._write(ReloadResult(self._began, new.changed, restarted, new.need_restart))
        if new.need_restart:
            names = ", ".join(new.need_restart)
            text = "options are not taken over before a restart of the node"
            self._log.warn(text, code=Code.RELOAD.text, options=names, do=Code.RELOAD.remedy)
        changed = ", ".join(new.changed) or "none"
        self._log.info("options read again", changed=changed, restarts=", ".join(restarted) or "none")
        self._restart_next(now)

    def _restart_next(self, now: float) -> None:
        self._restarting = self._restarts.popleft() if self._restarts else None
        if (process := self._restarting) is None:
            self._manager.ready(len(self._processes))
            return
        self._deadline, self._incarnation = now + READY_SECONDS, process.incarnation
        # One that is down already comes back with its new configuration, that of a chain set aside later.
        if process.kill_at is None:
            process.request_stop(now)

    def _await_ready(self, process: SupervisedProcess, now: float) -> None:
        is_new = process.incarnation > self._incarnation
        is_aside = process.child is None and process.restart_at is None
        if (is_new and self._liveness.ready(process.slot)) or is_aside or now >= self._deadline:
            self._restart_next(now)

    def _write(self, result: ReloadResult) -> None:
        try:
            replace_private_file(self._result, msgspec.json.encode(result))
        except OSError as error:
            self._log.error("cannot write the result of a reload", code=Code.FILE.text, error=error)
