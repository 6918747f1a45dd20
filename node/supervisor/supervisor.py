"""The supervisor: starts the processes, forwards their logs, restarts those that die or hang, and stops them.

It has one thread, no event loop and no ZeroMQ, and it alone forks, so little in it can fail. `ChildProcesses.wait` only
records events; `_tick` acts on them, never in the middle of a batch."""

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from setproctitle import setproctitle

from rollup_node.ipc.bus.channels import socket_names
from rollup_node.ipc.bus.timers import aligned_deadline, until_aligned
from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.shared_memory.memfd import SharedMemory
from rollup_node.ipc.wire.codec import codec_of
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.node.runtime.runtime import ProcessIdentity, SharedResources, adopt_level, dropped_lines, run_process
from rollup_node.node.supervisor.chain_group import ChainGroups
from rollup_node.node.supervisor.child_processes import (
    FATAL_ENDS,
    ChildProcesses,
    exit_text,
    freeze_heap,
    log_fork_failure,
    preload,
)
from rollup_node.node.supervisor.metrics import SUPERVISOR, SupervisorMetrics
from rollup_node.node.supervisor.precheck import Precheck
from rollup_node.node.supervisor.reload import Reloads
from rollup_node.node.supervisor.service_manager import ServiceManager
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.supervised_process import SupervisedProcess, memory_sizes, record_death
from rollup_node.node.supervisor.sweeper import Sweeper
from rollup_node.node.system import process_control
from rollup_node.node.system.exit_codes import RESTART, ExitCode, SetupError
from rollup_node.node.system.log_formats import formatter
from rollup_node.node.system.log_pipes import Output
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.node.system.procfs import read_stat, read_waiting
from rollup_node.node.system.profiling import write_profile
from rollup_node.node.system.resources import MemoryWatch, check_task_limit, free_tasks
from rollup_node.node.system.runtime_dir import RuntimeDirectory, open_runtime_directory
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import EXIT_REPORTED, ProcessEntry
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.protocol.pacing import backoff
from rollup_node.stages.protocol.texts import escaped_line

SOCKET_SUFFIX = ".sock"
IDLE_SECONDS = 1.0
BUSY_SECONDS = 0.01
STALLED_SECONDS = 0.05
WATCHDOG_SECONDS = 1.0
SLOW_START_SECONDS = 10.0
DUMP_SECONDS = 0.2
LAST_LINES_SECONDS = 1.0
STABLE_SECONDS = 5.0
RESTART_PAUSE, MAX_RESTART_PAUSE = 0.1, 6.4
FORK_PAUSE, MAX_FORK_PAUSE = 1.0, 30.0
FORK_PATIENCE = 300.0
"""Seconds for which a process may lack what a fork needs before the node ends."""
REPEAT_SECONDS = 1.0
"""A signal that comes again so soon is the same one: GNU timeout and terminals send it to process and group."""
SECOND_SIGNAL = "a second signal"
SEE_LOG = "see its last log lines"


def run_node(specs: Sequence[ProcessSpec], settings: NodeSettings) -> int:
    """Run the processes until a signal or a failure ends the node; its exit code.

    A node that cannot start, or that fails, reports why in one line on standard error [LIF9]. The caller must have a
    single thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, process_control.STOP_SIGNALS)
    names = socket_names(settings.channels, {spec.group for spec in specs})
    longest = max(map(len, names), default=0) + len(SOCKET_SUFFIX)
    try:
        count = sum(spec.copies for spec in specs)
        process_control.check_descriptor_limit(process_control.raise_descriptor_limit(), count, settings.connections)
        check_task_limit(count, free_tasks())
        directory = open_runtime_directory(settings.runtime_dir, longest)
    except SetupError as error:
        return _refused(str(error))
    try:
        supervisor = Supervisor(specs, settings, directory)
    except OSError as error:
        directory.remove()
        return _refused(process_control.shared_memory_refusal(error))
    except BaseException:
        directory.remove()
        raise
    return supervisor.run()


def _refused(text: str) -> int:
    """Report why the node cannot start."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, process_control.STOP_SIGNALS)
    print(f"rollup-node: {escaped_line(text)}", file=sys.stderr)
    return ExitCode.SETUP


class Supervisor:
    """One node, from its first fork to its last exit."""

    def __init__(self, specs: Sequence[ProcessSpec], settings: NodeSettings, directory: RuntimeDirectory) -> None:
        self._settings, self._policy, self._directory = settings, settings.restart_policy, directory
        copies = [(spec, copy) for spec in specs for copy in range(spec.copies)]
        self._processes = [
            SupervisedProcess(spec, copy, slot, self._policy) for slot, (spec, copy) in enumerate(copies)
        ]
        self._roles = [list(members) for _, members in groupby(self._processes, lambda process: process.spec.role)]
        self._chains = ChainGroups(self._processes, directory, self._start, settings.renew_chain)
        self._liveness = LivenessTable(len(copies))
        self._shared = SharedResources(
            liveness=self._liveness,
            arenas={process.slot: Arena(len(copies)) for process in self._processes},
            slots={
                (spec.role, spec.group): [process.slot for process in self._processes if process.spec is spec]
                for spec in specs
            },
            channels=settings.channels,
            directory=directory,
            log=settings.log,
            log_level=SharedMemory("log_level", 8),
            profiling=settings.profiling,
            metrics_period=settings.metrics_period,
            tracing=settings.tracing,
            chain=",".join(settings.chains),
        )
        self._shared.log_level.words[0] = settings.log.level
        arena_fds = {arena.fd for arena in self._shared.arenas.values()}
        self._keep_fds = frozenset({self._liveness.fd, self._shared.log_level.fd, *arena_fds})
        self._format = formatter(settings.log)
        self._output = Output(
            settings.log_output, lambda lines: self._format(dropped_lines(SUPERVISOR, lines)), settings.log_file
        )
        self._log = Logger(SUPERVISOR)
        self._children = ChildProcesses(self._output)
        self._memory = MemoryWatch(self._log, partial(memory_sizes, self._processes))
        self._metrics = SupervisorMetrics(
            settings.version, directory.metrics, self._liveness, settings.metrics_period, settings.chains
        )
        self._sweeper = Sweeper(self._children, directory, self._policy, self._write_processes, self._fail)
        self._precheck = Precheck(self._children, settings.precheck, settings.log, self._fail)
        self._manager = ServiceManager()
        shared = self._liveness, self._shared.log_level, directory.reload, self._manager
        self._reloads = Reloads(self._children, self._processes, settings, *shared)
        self._began = time.monotonic()
        self._starting_since: float | None = None
        self._started_unix = time.time()
        self._unloaded = deque(specs)
        self._up = self._slow_start_logged = False
        self._watchdog_at = 0.0
        self._signals: deque[int] = deque()
        self._stop_signals: dict[int, float] = {}
        self._stopping: deque[list[SupervisedProcess]] | None = None
        self._stop_deadline = self._held_until = 0.0
        self._code: int = ExitCode.OK
        self._error = ""

    def run(self) -> int:
        """Run until the node has ended; the exit code."""
        log.configure(SUPERVISOR, self._settings.log.level, lambda record: self._output.write(self._format(record)))
        try:
            self._install_signal_handlers()
            setproctitle(f"rollup-node: {SUPERVISOR}")
            self._log.info("starting node", version=self._settings.version, runtime_dir=self._directory.path)
            self._precheck.start()
            self._sweeper.start()
            while not self._ended():
                self._children.wait(self._poll_seconds())
                self._tick(time.monotonic())
            self._finish()
        except BaseException as error:
            self._abort(error)
        return self._code

    def _install_signal_handlers(self) -> None:
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A SIGHUP that is ignored from the start is that of nohup.
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        stop_signals = process_control.STOP_SIGNALS - ({signal.SIGHUP} if ignored else set())
        for number in (*stop_signals, process_control.RELOAD_SIGNAL):
            signal.signal(number, lambda *_: None)
        self._children.watch(read, lambda: self._signals.extend(os.read(read, 64)))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, process_control.STOP_SIGNALS)

    def _poll_seconds(self) -> float:
        if not self._up or self._stopping is not None or self._is_due:
            self._output.flush()
            return BUSY_SECONDS
        return until_aligned(time.monotonic(), IDLE_SECONDS) if self._output.flush() else STALLED_SECONDS

    @property
    def _is_due(self) -> bool:
        """Whether a process is about to be killed or started, or options are to be read again."""
        return self._reloads.running or any((it.restart_at, it.kill_at) != (None, None) for it in self._processes)

    def _ended(self) -> bool:
        return self._stopping is not None and not self._precheck.running and not self._running()

    def _running(self) -> list[SupervisedProcess]:
        return [process for process in self._processes if process.child is not None]

    def _tick(self, now: float) -> None:
        self._handle_signals(now)
        adopt_level(self._shared.log_level)
        self._sweeper.tick(now)
        if self._stopping is None:
            self._start_due(now)
            if self._up:
                self._reloads.tick(now)
        else:
            self._stop_next(now)
        for process in self._running():
            if process.kill_at is not None and now >= process.kill_at:
                self._kill(process, process.kill_reason or f"did not stop within {process.spec.stop_timeout:g} s")
        self._metrics.write(self._processes, now)
        self._memory.step(now)
        self._manager.tick(now)

    # Starting and restarting.

    def _start_due(self, now: float) -> None:
        for process in self._processes:
            if process.restart_at is not None and now >= process.restart_at:
                self._start(process, now)
        self._chains.start_due(now)
        if not self._up and self._preloads_all() and not self._precheck.running:
            self._start_all(now)
        if now >= self._watchdog_at:
            self._watchdog_at = aligned_deadline(now, WATCHDOG_SECONDS)
            for process in self._running():
                self._check_hang(process, now)

    def _start_all(self, now: float) -> None:
        """Start all processes, and then notice when all are ready."""
        if self._starting_since is None:
            self._starting_since = now
            # From here on nothing is loaded: what is forked now shares all memory, also this process's.
            self._sweeper.renew()
            for process in self._processes:
                self._start(process, now)
            return
        awaited = [process for process in self._processes if self._chains.are_running(process)]
        slow = [process for process in awaited if process.child is None or not self._liveness.ready(process.slot)]
        if not slow:
            self._up = True
            self._metrics.node_is_up()
            count = len(awaited)
            self._log.info(f"all {count} processes are ready", seconds=round(now - self._began, 2))
            self._manager.ready(count)
        elif now - self._starting_since > SLOW_START_SECONDS and not self._slow_start_logged:
            self._slow_start_logged = True
            roles = ", ".join(dict.fromkeys(process.spec.role for process in slow))
            self._log.warn("process is slow to become ready", code=Code.SLOW.text, role=roles)

    def _preloads_all(self) -> bool:
        """Load what one more process needs; whether that was loaded for all before. An error ends the start."""
        if not self._unloaded:
            return True
        spec = self._unloaded.popleft()
        try:
            preload(spec)
        except Exception as error:
            self._log.crash("cannot load what a process needs", error, role=spec.role)
            self._fail(ExitCode.SETUP, f"cannot load what process {spec.role} needs: {error}")
        if not self._unloaded:
            for channel in self._shared.channels:
                codec_of(channel.down), codec_of(channel.up)
            freeze_heap()
        return False

    def _start(self, process: SupervisedProcess, now: float) -> None:
        process.begin_incarnation(now)
        process_id = ProcessId(process.slot, process.incarnation)
        self._liveness.start(*process_id)
        identity = ProcessIdentity(process.spec.role, process.name, process_id, process.spec.group)
        spec = process.spec
        body = partial(run_process, identity, spec.build, spec.config, self._shared)
        keep_fds = self._keep_fds | set(spec.keep_fds)
        try:
            process.child = self._children.start(process.name, body, keep_fds, partial(self._on_exit, process))
        except OSError as error:
            self._on_fork_failure(process, error, now)
            return
        process.fork_failures.clear()
        if process.incarnation > 1:
            self._metrics.restarted(process)
        self._write_processes()
        self._log.info(
            "process started", name=process.name, process_id=process.child.pid, incarnation=process.incarnation
        )

    def _on_fork_failure(self, process: SupervisedProcess, error: OSError, now: float) -> None:
        """Try again later: a lack of the host is no death of the process."""
        process.fork_failures.append(now)
        pause = backoff(len(process.fork_failures), FORK_PAUSE, MAX_FORK_PAUSE)
        log_fork_failure(self._log, process.name, error, pause)
        if now - process.fork_failures[0] < FORK_PATIENCE:
            process.restart_at = now + pause
        else:
            reason = f"could not be forked for {FORK_PATIENCE:g} s: {error.strerror}: {Code.HOST_LIMIT.remedy}"
            self._give_up(process, ExitCode.CRASH_LOOP, Code.CRASH_LOOP, f"process {process.name} {reason}")

    def _on_exit(self, process: SupervisedProcess, code: int) -> None:
        reason = process.kill_reason or exit_text(code)
        process.child = None
        self._metrics.died(process)
        self._write_processes()
        if self._stopping is not None or not self._chains.are_running(process):
            self._log.info("process ended", name=process.name, reason=reason)
        elif code == RESTART:
            if not self._chains.renew(process):
                self._fail(code, "")
        elif code in FATAL_ENDS:
            kind, text = FATAL_ENDS[ExitCode(code)]
            end = self._directory.read_end(process.spec.group) or SEE_LOG
            if not process.spec.group:
                self._log.error("process ends the node", code=kind.text, name=process.name, reason=reason)
            self._give_up(process, code, kind, f"process {process.name} {text}: {end}")
        elif process.spec.one_shot:
            self._log.info("process ended", name=process.name, reason=reason)
            reported = code in (ExitCode.OK, EXIT_REPORTED)
            error = "" if reported else f"process {process.name} ended with {reason}: {SEE_LOG}"
            self._fail(ExitCode.SETUP if code < 0 or code == EXIT_REPORTED else code, error)
        elif process.stop_requested:
            self._log.info("process ended", name=process.name, reason="its options have changed")
            process.restart_at = time.monotonic()
        else:
            age = time.monotonic() - process.started
            fields: Fields = {"name": process.name, "reason": reason, "incarnation": process.incarnation}
            self._log.error("process died", code=Code.PROCESS_DIED.text, **fields)
            pause = 0.0 if age > STABLE_SECONDS else backoff(len(process.deaths) + 1, RESTART_PAUSE, MAX_RESTART_PAUSE)
            self._after_death(process, reason, pause)

    def _after_death(self, process: SupervisedProcess, reason: str, pause: float) -> None:
        now = time.monotonic()
        is_of_task = self._chains.task_ended(self._liveness.task_of(process.slot), process, reason, now)
        if is_of_task or not record_death(process.deaths, now, self._policy):
            process.restart_at = now + pause
            return
        deaths = len(process.deaths)
        fields: Fields = {"name": process.name, "deaths": deaths, "reason": reason, "do": Code.CRASH_LOOP.remedy}
        self._log.error("process keeps dying", code=Code.CRASH_LOOP.text, **fields)
        text = f"process {process.name} died {deaths} times within {self._policy.window:g} s, last by {reason}"
        self._give_up(process, ExitCode.CRASH_LOOP, Code.CRASH_LOOP, f"{text}: see its log lines")

    def _give_up(self, process: SupervisedProcess, code: int, kind: Code, text: str) -> None:
        """Set the chain of a process aside, or end the node."""
        if not self._chains.set_aside(process.spec.group, kind, text):
            self._fail(code, text)

    # Hanging processes.

    def _check_hang(self, process: SupervisedProcess, now: float) -> None:
        # A killed process may take long to give its memory back.
        if process.child is None or process.kill_at is not None or process.killed:
            return
        pid = process.child.pid
        stat = read_stat(pid)
        if stat is None or stat.state == "Z":
            return
        beats = self._liveness.beats(process.slot)
        reason = process.watchdog.check(now, stat, beats, partial(read_waiting, pid))
        if reason is not None:
            self._log.error("process hangs", code=Code.PROCESS_DIED.text, name=process.name, reason=reason)
            process.kill_reason, process.kill_at = reason, now + DUMP_SECONDS
            # Its faulthandler writes the tracebacks of all threads before it is killed.
            process.child.send_signal(signal.SIGUSR2)

    def _kill(self, process: SupervisedProcess, reason: str) -> None:
        if process.child is not None:
            process.kill_reason, process.kill_at, process.killed = reason, None, True
            fields = {"name": process.name, "reason": reason}
            if reason == SECOND_SIGNAL:
                self._log.info("killing process", **fields)
            else:
                code = Code.PROCESS_DIED if self._stopping is None else Code.SLOW
                self._log.warn("killing process", code=code.text, **fields)
            process.child.send_signal(signal.SIGKILL)

    # Stopping.

    def _handle_signals(self, now: float) -> None:
        while self._signals:
            number = self._signals.popleft()
            is_command = any(process.spec.one_shot for process in self._processes)
            if number == process_control.RELOAD_SIGNAL or (number == signal.SIGHUP and not is_command):
                self._reloads.request(signal.Signals(number).name)
                continue
            repeated = now - self._stop_signals.get(number, -REPEAT_SECONDS) < REPEAT_SECONDS
            if number not in process_control.STOP_SIGNALS or repeated:
                continue
            self._log.info("received signal", name=signal.Signals(number).name)
            if self._stop_signals:
                self._kill_all(SECOND_SIGNAL)
            if self._stopping is None and is_command:
                self._code = ExitCode.INTERRUPTED
            self._stop_signals[number] = now
            self._begin_stop()

    def _fail(self, code: int, error: str) -> None:
        """End the node with an exit code, and with an error for standard error unless it is empty."""
        if self._stopping is None:
            self._code, self._error = code, error
            self._begin_stop()

    def _begin_stop(self) -> None:
        if self._stopping is None:
            now, halted = time.monotonic(), self._code == ExitCode.HALT
            last = [role for role in self._roles if halted and role[0].spec.outlives_halt]
            self._stopping = deque([role for role in reversed(self._roles) if role not in last] + last)
            self._held_until = now + self._settings.halt_seconds if last else 0.0
            self._stop_deadline = max(now, self._held_until) + self._policy.stop_total
            self._precheck.kill()
            self._reloads.stop(again=self._code == RESTART)

    def _stop_next(self, now: float) -> None:
        """Stop the processes of the role started last, then, once they have exited, of the one before it."""
        roles = self._stopping or deque()
        if now >= self._stop_deadline:
            self._stop_deadline = now + self._policy.stop_total
            self._kill_all(f"the stop took more than {self._policy.stop_total:g} s")
        while roles:
            if roles[0][0].spec.outlives_halt and now < self._held_until and not self._stop_signals:
                return
            running = [process for process in roles[0] if process.child is not None]
            for process in running:
                process.request_stop(now)
            if running:
                return
            roles.popleft()

    def _kill_all(self, reason: str) -> None:
        for process in self._running():
            self._kill(process, reason)

    def _finish(self) -> None:
        if self._code == RESTART:
            # A signal from here on is for the next start, which unblocks it; one before it is for this node.
            signal.pthread_sigmask(signal.SIG_BLOCK, process_control.STOP_SIGNALS)
            self._children.wait(0.0)
            self._handle_signals(time.monotonic())
            if self._stop_signals:
                self._code = ExitCode.OK
        self._sweeper.dismiss()
        names = [process.name for process in self._processes]
        write_profile(self._settings.profiling, self._directory.profiles, names)
        try:
            self._directory.remove()
        except OSError as error:
            fields: Fields = {"runtime_dir": self._directory.path, "error": error}
            self._log.error("cannot remove the files of the node", code=Code.FILE.text, **fields)
        self._log.info("node stopped", exit_code=int(self._code), seconds=round(time.monotonic() - self._began, 1))
        self._flush()
        signal.set_wakeup_fd(-1)
        if self._error:
            self._print_error(self._error)

    def _abort(self, error: BaseException) -> None:
        """Kill all processes after a bug in the supervisor: none may outlive it."""
        try:
            self._children.kill_all()
            self._log.crash("a bug ends the node", error)
            self._flush()
            self._print_error(f"a bug in the supervisor ended the node ({type(error).__name__}): see the log")
        finally:
            os._exit(ExitCode.SETUP)

    def _flush(self) -> None:
        deadline = time.monotonic() + LAST_LINES_SECONDS
        while not self._output.flush() and time.monotonic() < deadline:
            time.sleep(BUSY_SECONDS)

    def _print_error(self, text: str) -> None:
        self._output = Output(2, lambda lines: b"")
        self._output.write(f"rollup-node: {escaped_line(text)}\n".encode())
        self._flush()

    def _write_processes(self) -> None:
        stat = read_stat(os.getpid())
        own = ProcessEntry(SUPERVISOR, 0, os.getpid(), 1, self._started_unix, stat.start_ticks if stat else 0)
        others = [self._sweeper.entry(), *(process.entry() for process in self._processes)]
        try:
            self._directory.write_processes([own, *filter(None, others)])
        except OSError as error:
            self._log.error("cannot write processes.json", code=Code.FILE.text, error=error)
