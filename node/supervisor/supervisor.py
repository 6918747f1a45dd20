"""The supervisor: starts the processes of the table, forwards their logs, restarts what dies or hangs, and stops them
in order. It has one thread, no event loop and no ZeroMQ, and it alone forks; there is little in it that could fail.

Events are taken in by `Nursery.wait`; what follows from them is done in `_tick`, never in the middle of a batch."""

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from functools import partial

from setproctitle import setproctitle

from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable, ProcessState
from rollup_node.node.runtime.runtime import Identity, Shared, dropped_lines, run_process
from rollup_node.node.supervisor.auxiliary import Precheck, Sweeper
from rollup_node.node.supervisor.child_processes import Nursery, exit_text
from rollup_node.node.supervisor.metrics import NAME, Accounts
from rollup_node.node.supervisor.preload import prepare, settle
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.supervised_process import Member
from rollup_node.node.system.exit_codes import FATAL, Exit, SetupError, one_line
from rollup_node.node.system.log_formats import formatter
from rollup_node.node.system.log_pipes import Output
from rollup_node.node.system.processes import Row
from rollup_node.node.system.procfs import read_stat
from rollup_node.node.system.runtime_dir import ProcessEntry, RuntimeDirectory, open_runtime_directory
from rollup_node.node.system.signals import STOP_SIGNALS
from rollup_node.stages.io import log
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.task import EXIT_REPORTED

SOCKET_SUFFIX = ".sock"
IDLE_SECONDS = 0.25
BUSY_SECONDS = 0.01
STALLED_SECONDS = 0.05
JUDGE_SECONDS = 0.5
ASLEEP_SECONDS = 1.0
LATE_SECONDS = 10.0
DUMP_SECONDS = 0.2
LAST_LINES_SECONDS = 1.0
SETTLED_SECONDS = 5.0
RESTART_PAUSE = 0.1
NO_FORK_PAUSE = 1.0


def run_node(rows: Sequence[Row], settings: NodeSettings) -> int:
    """Runs the rows until a signal or a failure ends the node, and returns its exit code (node/exits). A node that
    cannot start, or ends by itself, says why in one line on stderr. The caller must have a single thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    longest = max((len(channel.name) for channel in settings.channels), default=0) + len(SOCKET_SUFFIX)
    try:
        directory = open_runtime_directory(settings.runtime_dir, longest)
    except SetupError as error:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        print(f"rollup-node: {one_line(str(error))}", file=sys.stderr)
        return Exit.SETUP
    try:
        supervisor = Supervisor(rows, settings, directory)
    except BaseException:
        directory.remove()
        raise
    return supervisor.run()


class Supervisor:
    """One node, from its first fork to its last exit."""

    def __init__(self, rows: Sequence[Row], settings: NodeSettings, directory: RuntimeDirectory) -> None:
        self._settings, self._limits, self._directory = settings, settings.limits, directory
        places = [(row, copy) for row in rows for copy in range(row.copies)]
        self._members = [Member(row, copy, index, self._limits) for index, (row, copy) in enumerate(places)]
        self._groups = [[member for member in self._members if member.row is row] for row in rows]
        self._board = LivenessTable(len(places))
        self._shared = Shared(
            board=self._board,
            arenas={member.index: Arena(len(places)) for member in self._members},
            rows={group[0].row.role: [member.index for member in group] for group in self._groups},
            channels=settings.channels,
            sockets=directory.sockets,
            metrics=directory.metrics,
            log=settings.log,
        )
        self._keep = frozenset({self._board.fd, *(arena.fd for arena in self._shared.arenas.values())})
        self._form = formatter(settings.log)
        self._output = Output(settings.log_output, lambda lines: self._form(dropped_lines(NAME, lines)))
        self._log = get_logger(NAME)
        self._nursery = Nursery(self._output)
        self._accounts = Accounts(settings.version, directory.metrics, self._board)
        self._sweeper = Sweeper(self._nursery, directory, self._limits, self._write_processes, self._fail)
        self._check = Precheck(self._nursery, settings, self._fail)
        self._began = self._waiting_since = self._last_tick = time.monotonic()
        self._started_unix = time.time()
        self._pending = deque(self._groups)
        self._prepared: set[str] = set()
        self._waiting: list[Member] = []
        self._up = False
        self._said_late = False
        self._judge_at = 0.0
        self._signals: deque[int] = deque()
        self._asked_to_stop = False
        self._stop_groups: deque[list[Member]] | None = None
        self._stop_deadline = 0.0
        self._code: int = Exit.OK
        self._reason = ""

    def run(self) -> int:
        """Runs to the end; the exit code."""
        log.configure(NAME, self._settings.log.level, lambda record: self._output.write(self._form(record)))
        try:
            self._take_signals()
            setproctitle(f"rollup-node: {NAME}")
            settle()
            self._sweeper.start()
            self._log.info("node starts", version=self._settings.version, runtime_dir=self._directory.path)
            self._check.start()
            while not self._ended():
                self._nursery.wait(self._patience())
                self._tick(time.monotonic())
            self._finish()
        except BaseException as error:
            self._give_up(error)
        return self._code

    def _take_signals(self) -> None:
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        for number in STOP_SIGNALS - ({signal.SIGHUP} if ignored else set()):
            signal.signal(number, lambda *_: None)
        self._nursery.watch(read, lambda: self._signals.extend(os.read(read, 64)))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def _patience(self) -> float:
        starting = self._waiting or len(self._prepared) < len(self._groups)
        if starting or self._stop_groups is not None or any(m.restart_at is not None for m in self._members):
            self._output.flush()
            return BUSY_SECONDS
        return IDLE_SECONDS if self._output.flush() else STALLED_SECONDS

    def _ended(self) -> bool:
        return self._stop_groups is not None and not self._check.running and not self._living()

    def _living(self) -> list[Member]:
        return [member for member in self._members if member.child is not None]

    def _tick(self, now: float) -> None:
        self._heed_signals()
        if now - self._last_tick > ASLEEP_SECONDS:
            for member in self._members:
                member.judge.forgive()
        self._last_tick = now
        self._sweeper.tick(now)
        if self._stop_groups is None:
            self._go_on(now)
        else:
            self._stop_in_order(now)
        for member in self._living():
            if member.kill_at is not None and now >= member.kill_at:
                self._kill(member, member.reason or f"did not stop within {member.row.stop:g} s")
        self._accounts.write(self._members, now)

    # Starting and restarting.

    def _go_on(self, now: float) -> None:
        for member in self._members:
            if member.restart_at is not None and now >= member.restart_at:
                self._start(member, now)
        if self._check.running:
            self._prepare_next()
        else:
            self._start_next(now)
        if now >= self._judge_at:
            self._judge_at = now + JUDGE_SECONDS
            for member in self._living():
                self._judge(member, now)

    def _start_next(self, now: float) -> None:
        if not all(member.child is not None and self._board.ready(member.index) for member in self._waiting):
            if now - self._waiting_since > LATE_SECONDS and not self._said_late:
                self._said_late = True
                self._log.warn("process is slow to become ready", role=self._waiting[0].row.role)
            return
        if self._pending:
            self._waiting, self._waiting_since, self._said_late = self._pending.popleft(), now, False
            if self._prepare(self._waiting[0].row):
                for member in self._waiting:
                    self._start(member, now)
        elif not self._up:
            self._waiting, self._up = [], True
            self._accounts.node_is_up()
            self._log.info("node is ready", seconds=round(now - self._began, 2), processes=len(self._members))

    def _prepare_next(self) -> None:
        """Uses the time of the check."""
        row = next((group[0].row for group in self._pending if group[0].row.role not in self._prepared), None)
        if row is not None:
            self._prepare(row)

    def _prepare(self, row: Row) -> bool:
        """Loads what a row needs, once; a row that cannot be loaded ends the start."""
        if row.role not in self._prepared:
            try:
                prepare(row)
            except Exception as error:
                self._log.crash("cannot load what a process needs", error, role=row.role)
                self._fail(Exit.SETUP, f"cannot load what process {row.role} needs: {error}")
                return False
            self._prepared.add(row.role)
        return True

    def _start(self, member: Member, now: float) -> None:
        member.begin_life(now)
        self._board.start(member.index, member.incarnation)
        identity = Identity(member.row.role, member.name, member.index, member.incarnation)
        body = partial(run_process, identity, member.row.build, member.row.config, self._shared)
        try:
            keep = self._keep | set(member.row.keep)
            member.child = self._nursery.start(member.name, body, keep, partial(self._on_exit, member))
        except OSError as error:
            self._log.error("cannot fork", name=member.name, error=error)
            self._after_death(member, f"it could not be forked: {error.strerror}", NO_FORK_PAUSE)
            return
        if member.incarnation > 1:
            self._accounts.restarted(member)
        self._write_processes()
        self._log.info("process started", name=member.name, process_id=member.child.pid, incarnation=member.incarnation)

    def _on_exit(self, member: Member, code: int) -> None:
        why = member.reason or exit_text(code)
        member.child = None
        self._board.set_state(member.index, ProcessState.DEAD)
        self._accounts.forget(member)
        self._write_processes()
        if self._stop_groups is not None:
            self._log.info("process ended", name=member.name, why=why)
        elif code in FATAL:
            self._log.error("process ends the node", name=member.name, why=why)
            self._fail(code, f"process {member.name} met an error that nothing can repair: see its last log lines")
        elif member.row.one_shot:
            self._log.info("process ended", name=member.name, why=why)
            told = code in (Exit.OK, EXIT_REPORTED)
            reason = "" if told else f"process {member.name} ended with {why}: see its last log lines"
            self._fail(Exit.SETUP if code < 0 or code == EXIT_REPORTED else code, reason)
        else:
            lived = time.monotonic() - member.started
            self._log.error("process died", name=member.name, why=why, incarnation=member.incarnation)
            pause = 0.0 if lived > SETTLED_SECONDS else RESTART_PAUSE * 2 ** min(len(member.deaths), 6)
            self._after_death(member, why, pause)

    def _after_death(self, member: Member, why: str, pause: float) -> None:
        now = time.monotonic()
        if not member.dies_too_often(now):
            member.restart_at = now + pause
            return
        text = f"process {member.name} died {len(member.deaths)} times within {self._limits.window:g} s, last by {why}"
        self._log.error("a process keeps dying", name=member.name, deaths=len(member.deaths), why=why)
        self._fail(Exit.CRASH_LOOP, f"{text}: see its log lines")

    # Hanging processes.

    def _judge(self, member: Member, now: float) -> None:
        if member.child is None or member.kill_at is not None:
            return
        stat = read_stat(member.child.pid)
        if stat is None or stat.state == "Z":
            return
        reason = member.judge.verdict(now, stat, self._board.beats(member.index))
        if reason is not None:
            self._log.error("process hangs", name=member.name, why=reason)
            member.reason, member.kill_at = reason, now + DUMP_SECONDS
            member.child.send(signal.SIGUSR2)

    def _kill(self, member: Member, reason: str) -> None:
        if member.child is not None:
            member.reason, member.kill_at = reason, None
            self._log.warn("killing process", name=member.name, why=reason)
            member.child.send(signal.SIGKILL)

    # Stopping.

    def _heed_signals(self) -> None:
        while self._signals:
            number = self._signals.popleft()
            if number not in STOP_SIGNALS:
                continue
            self._log.info("signal", name=signal.Signals(number).name)
            if self._asked_to_stop:
                self._kill_all("a second signal")
            if self._stop_groups is None and any(member.row.one_shot for member in self._members):
                self._code = Exit.INTERRUPTED
            self._asked_to_stop = True
            self._begin_stop()

    def _fail(self, code: int, reason: str) -> None:
        """Ends the node with an exit code, and with a reason for stderr unless all is well."""
        if self._stop_groups is None:
            self._code, self._reason = code, reason
            self._begin_stop()

    def _begin_stop(self) -> None:
        if self._stop_groups is None:
            self._stop_groups = deque(reversed(self._groups))
            self._stop_deadline = time.monotonic() + self._limits.stop_total
            self._check.kill()

    def _stop_in_order(self, now: float) -> None:
        groups = self._stop_groups or deque()
        if now >= self._stop_deadline:
            self._stop_deadline = now + self._limits.stop_total
            self._kill_all(f"the stop took more than {self._limits.stop_total:g} s")
        while groups:
            living = [member for member in groups[0] if member.child is not None]
            for member in living:
                if not member.asked and member.child is not None:
                    member.asked, member.kill_at, member.reason = True, now + member.row.stop, ""
                    self._board.set_state(member.index, ProcessState.STOPPING)
                    member.child.send(signal.SIGTERM)
            if living:
                return
            groups.popleft()

    def _kill_all(self, reason: str) -> None:
        for member in self._living():
            self._kill(member, reason)

    def _finish(self) -> None:
        self._sweeper.dismiss()
        self._directory.remove()
        self._log.info("node ended", code=int(self._code), seconds=round(time.monotonic() - self._began, 1))
        self._flush()
        signal.set_wakeup_fd(-1)
        if self._reason:
            self._say(self._reason)

    def _give_up(self, error: BaseException) -> None:
        """A bug in the supervisor: nothing may outlive it."""
        try:
            self._nursery.kill_all()
            self._log.crash("a bug ends the node", error)
            self._flush()
            self._say(f"a bug in the supervisor ended the node ({type(error).__name__}): see the log")
        finally:
            os._exit(Exit.SETUP)

    def _flush(self) -> None:
        deadline = time.monotonic() + LAST_LINES_SECONDS
        while not self._output.flush() and time.monotonic() < deadline:
            time.sleep(BUSY_SECONDS)

    def _say(self, text: str) -> None:
        self._output = Output(2, lambda lines: b"")
        self._output.write(f"rollup-node: {one_line(text)}\n".encode())
        self._flush()

    def _write_processes(self) -> None:
        own = read_stat(os.getpid())
        me = ProcessEntry(NAME, 0, os.getpid(), 1, self._started_unix, own.start_ticks if own else 0)
        entries = [me, *self._sweeper.entries(), *(entry for m in self._members if (entry := m.entry()) is not None)]
        try:
            self._directory.write_processes(entries)
        except OSError as error:
            self._log.error("cannot write processes.json", error=error)
