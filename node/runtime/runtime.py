"""The runtime of a process of the table: event loop, log, metrics file, profiles and severities around a stage."""

import asyncio
import contextlib
import faulthandler
import logging
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from setproctitle import setproctitle

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.channels import Channel
from rollup_node.ipc.bus.timers import sleep_aligned
from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.shared_memory.memfd import SharedMemory
from rollup_node.ipc.wire.process_id import ProcessId, Slots
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.node.system.exit_codes import RESTART, ExitCode
from rollup_node.node.system.log_formats import LogSettings, formatter
from rollup_node.node.system.log_pipes import LineStream, LineWriter
from rollup_node.node.system.metrics_file import MetricsFile
from rollup_node.node.system.process_control import STOP_SIGNALS
from rollup_node.node.system.process_table import load
from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.node.system.resources import trim_heap
from rollup_node.node.system.runtime_dir import MAX_END_BYTES, RuntimeDirectory
from rollup_node.stages.io.files.private_files import replace_private_file
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Logger, Record
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.otlp import SpanExporter
from rollup_node.stages.io.profiling.profile import AT_STOP, MAX_SECONDS, ProfileFiles, ProfileRequest
from rollup_node.stages.io.profiling.recordings import Recording, new_recording
from rollup_node.stages.io.task import ExitRequested, PeriodicTask, Stage
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.protocol import errors

LOOK_SECONDS = 1.0
TRIM_SECONDS = 30.0
FINISH_SECONDS = 0.5
CLOSE_SECONDS = 2.0
LAST_LINES_SECONDS = 0.3

Build = Callable[[object, Bus, Meter], Stage]
PROFILE_LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class SharedResources:
    """What all processes of a node share, created before the first fork.

    `metrics_period` are the seconds between two files of metrics. `log_level` is the level in force, which starts as
    that of `log`."""

    liveness: LivenessTable
    arenas: Mapping[int, Arena]
    slots: Slots
    channels: tuple[Channel, ...]
    directory: RuntimeDirectory
    log: LogSettings
    log_level: SharedMemory
    profiling: ProfilingSettings
    metrics_period: float
    tracing: str = ""
    chain: str = ""


@dataclass(frozen=True)
class ProcessIdentity:
    """Which process this is; `name` is its name in logs, titles and metrics, `group` that of its chain, if any."""

    role: str
    name: str
    process_id: ProcessId
    group: str = ""


def take_over_output(
    name: str, settings: LogSettings, shared_level: SharedMemory | None = None, chain: str = ""
) -> LineWriter:
    """Configure this process to log to descriptor 1, its log pipe; prints, libraries and fault dumps go there too.

    The level is that of `shared_level`, which this process may change for the others as well, or else of the
    settings. `chain` is a field of every line, if there is one."""
    to_line = formatter(settings)
    writer = LineWriter(1, lambda lines: to_line(dropped_lines(name, lines)))
    level, share = settings.level, None
    if shared_level is not None:
        level, share = level_in(shared_level), partial(shared_level.words.__setitem__, 0)

    def write(record: Record) -> None:
        if chain:
            record = record._replace(fields={"chain": chain, **record.fields})
        writer.write(to_line(record))

    log.configure(name, level, write, share)
    sys.stdout, sys.stderr = cast(TextIO, LineStream(writer, 1)), cast(TextIO, LineStream(writer, 2))
    capture_library_logs(level)
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)
    return writer


def level_in(shared_level: SharedMemory) -> Level:
    """Return the level that all processes share."""
    return Level(min(shared_level.words[0], max(Level)))


def adopt_level(shared_level: SharedMemory) -> None:
    """Take over a level that another process of the node has set."""
    level = level_in(shared_level)
    if level is not log.configuration().level:
        log.set_level(level)
        set_library_level(level)


def dropped_lines(process: str, lines: int) -> Record:
    fields: Fields = {"code": Code.LOG_DROPPED.text, "lines": lines, "do": Code.LOG_DROPPED.remedy}
    return Record(time.time(), Level.WARN, process, "log", "log lines dropped", fields, None)


def run_process(identity: ProcessIdentity, build: str, config: object, shared: SharedResources) -> int:
    """Run a stage until it is asked to stop or fails; the exit code. `build` is the import path of its function."""
    setproctitle(f"rollup-node: {identity.name}")
    writer = take_over_output(identity.name, shared.log, shared.log_level, identity.group)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        code = loop.run_until_complete(StageProcess(identity, shared, writer).run(build, config))
    except BaseException as error:
        code = _log_failure(error, shared.directory.end(identity.group))
    writer.drain(LAST_LINES_SECONDS)
    return code


def _log_failure(error: BaseException, end: Path) -> int:
    """Log why the process ends, and write what ends the node to the file; its exit code."""
    logger = Logger("runtime")
    bugs = []
    for leaf in _leaves(error):
        if isinstance(leaf, errors.CriticalError):
            with contextlib.suppress(OSError):
                replace_private_file(end, str(leaf).encode()[:MAX_END_BYTES])
        if isinstance(leaf, errors.HaltError):
            logger.error("halted", code=Code.PROTOCOL_VERSION.text, reason=leaf)
            return ExitCode.HALT
        if isinstance(leaf, errors.NetworkLeftError):
            logger.error("the network left the OP Stack's rules", code=Code.NETWORK_LEFT.text, reason=leaf)
            return ExitCode.NETWORK_LEFT
        if isinstance(leaf, errors.RestartError):
            logger.info("a new start is asked for", reason=leaf)
            return RESTART
        if isinstance(leaf, errors.ForkMismatchError):
            text = "the execution engine has other forks than this node"
            logger.error(text, code=Code.FORK_MISMATCH.text, error=leaf, do=Code.FORK_MISMATCH.remedy)
            return ExitCode.FORK_MISMATCH
        if isinstance(leaf, errors.CriticalError):
            code = leaf.code if isinstance(leaf.code, Code) else Code.CRITICAL
            logger.error("critical error", code=code.text, error=leaf, do=code.remedy)
            return ExitCode.CRITICAL
        bugs.append(leaf)
    for bug in bugs:
        logger.crash("a bug ends this process", bug)
    return ExitCode.SETUP


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


class StageProcess:
    """One incarnation of one process."""

    def __init__(self, identity: ProcessIdentity, shared: SharedResources, writer: LineWriter) -> None:
        self._identity, self._shared, self._writer = identity, shared, writer
        self._slot = identity.process_id.slot
        self._meter = Meter(identity.name, identity.group)
        self._meter.expose(identity.role)
        self._log = Logger("runtime")
        self._stop = asyncio.Event()
        self._code: int = ExitCode.OK

    async def run(self, build: str, config: object) -> int:
        """Run from the build to the orderly end; the exit code. Raises ExceptionGroup when a task fails."""
        # A process that starts has nothing to close yet.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        async with asyncio.TaskGroup() as group:
            bus = self._bus()
            stage = cast(Build, load(build))(config, bus, self._meter)
            await stage.start()
            problems = Problems(stage, self._meter)
            shared, name = self._shared, self._identity.name
            collect = self._collector(bus)
            file = MetricsFile(shared.directory.metrics, name, self._meter, collect, shared.metrics_period)
            profiles = ProcessProfiles(shared.profiling, shared.directory.profiles, name)
            profiles.begin()
            work = (bus.run(), self._look(collect), problems.repeat(), file.repeat(), profiles.serve())
            services = [group.create_task(item) for item in (*work, *self._tracing())]
            await asyncio.sleep(0)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.set)
            shared.liveness.set_ready(self._slot)
            self._log.debug("ready")
            await self._run_tasks(group, TaskRunner(stage, self._meter, problems, self._identity.role))
            for service in services:
                service.cancel()
            await asyncio.wait(services)
            await self._close(stage, bus)
            await profiles.end()
        self._log.debug("stopped")
        return self._code

    def _tracing(self) -> list[Coroutine[Any, Any, None]]:
        """Return what sends spans, if there is a collector."""
        if not self._shared.tracing:
            return []
        shared = self._shared
        return [SpanExporter(shared.tracing, self._identity.name, shared.chain, shared.directory.sockets).run()]

    def _bus(self) -> Bus:
        identity, shared = self._identity, self._shared
        return Bus(
            shared.channels,
            identity.role,
            identity.process_id,
            shared.slots,
            shared.liveness,
            shared.arenas,
            shared.directory.sockets,
            identity.group,
        )

    async def _look(self, collect: Callable[[], None]) -> None:
        """Do what a process owes the others, each second [LIF32]."""
        trim_at = 0.0
        while True:
            adopt_level(self._shared.log_level)
            collect()
            if (now := time.monotonic()) >= trim_at:
                trim_at = now + TRIM_SECONDS
                trim_heap()
            await sleep_aligned(LOOK_SECONDS)

    async def _run_tasks(self, group: asyncio.TaskGroup, runner: TaskRunner) -> None:
        """Run the periodic tasks until the process is asked to stop, then gives their steps a moment to finish."""
        running = [group.create_task(self._run_task(runner, task)) for task in runner.periodic_tasks]
        await self._stop.wait()
        runner.stop()
        if running:
            _, late = await asyncio.wait(running, timeout=FINISH_SECONDS)
            for task in late:
                task.cancel()

    async def _run_task(self, runner: TaskRunner, task: PeriodicTask) -> None:
        try:
            await runner.run(task)
        except ExitRequested as request:
            self._code = request.code
            self._stop.set()

    async def _close(self, stage: Stage, bus: Bus) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await stage.close()
        except TimeoutError:
            self._log.warn("closing the stage timed out", code=Code.SLOW.text, seconds=CLOSE_SECONDS)
        bus.close()

    def _collector(self, bus: Bus) -> Callable[[], None]:
        """Return a function that adds what bus and log writer have counted to the meter."""
        seen: dict[str, int] = {}
        for name in bus.counters:
            self._meter.count("bus_events_total", 0, event=name)

        def collect() -> None:
            rejected, healed = (
                bus.counters.get(name, 0) > seen.get(name, 0) for name in ("messages_refused", "sockets_bound_again")
            )
            for name, value in (*bus.counters.items(), ("", self._writer.dropped_total)):
                if rise := value - seen.get(name, 0):
                    seen[name] = value
                    if name:
                        self._meter.count("bus_events_total", rise, event=name)
                    else:
                        self._meter.count("log_lines_dropped_total", rise)
            if rejected:
                self._log.warn("messages rejected", code=Code.MESSAGES_REFUSED.text, last=bus.last_rejection)
            if healed:
                text = "something has removed files of sockets in the runtime directory: they are bound again"
                self._log.warn(text, code=Code.FILE.text, folder=self._shared.directory.sockets)

        return collect


class LibraryHandler(logging.Handler):
    """Passes records of libraries to our log. Their info counts as debug, their debug as trace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line of a library, with its traceback if it has one."""
        if record.levelno >= logging.ERROR:
            level = Level.ERROR
        elif record.levelno >= logging.WARNING:
            level = Level.WARN
        else:
            level = Level.DEBUG if record.levelno >= logging.INFO else Level.TRACE
        trace = "".join(traceback.format_exception(record.exc_info[1])) if record.exc_info else None
        Logger(record.name).write(level, record.getMessage(), {}, trace)


def capture_library_logs(level: Level) -> None:
    """Replace the handlers of the root logger by ours, for lines up to `level`, and logs Python's warnings."""
    logging.getLogger().handlers[:] = [LibraryHandler()]
    set_library_level(level)
    logging.captureWarnings(True)


def set_library_level(level: Level) -> None:
    """Spare libraries the records that `level` does not let through."""
    known = {Level.TRACE: logging.DEBUG, Level.DEBUG: logging.INFO}
    logging.getLogger().setLevel(known.get(level, logging.WARNING))


class ProcessProfiles:
    """`folder` is that of the profiles; a restarted process begins again, and ignores earlier requests."""

    def __init__(self, settings: ProfilingSettings, folder: Path, process: str) -> None:
        self._settings, self._process = settings, process
        self._files = ProfileFiles(folder)
        self._until_stop: Recording | None = None

    def begin(self) -> None:
        """Begin the profile that is written at the stop, if there is one."""
        if self._settings.kind is not None:
            self._until_stop = new_recording(self._settings.kind)
            self._until_stop.begin()

    async def end(self) -> None:
        recording = self._until_stop
        if recording is not None:
            recording.end()
            await asyncio.to_thread(lambda: self._files.answer(AT_STOP, self._process, recording.profile()))

    async def serve(self) -> None:
        """Answer one request after the other, until it is cancelled; returns at once when profiles are not served."""
        last = self._files.requested_at()
        while self._settings.is_served:
            await asyncio.sleep(PROFILE_LOOK_SECONDS)
            at = self._files.requested_at()
            if at != last:
                last = at
                await self._answer(at)

    async def _answer(self, at: int) -> None:
        """Answer the request made at a time, unless it is withdrawn or replaced meanwhile."""
        request = self._files.read_request()
        if request is None or not 0 <= request.seconds <= MAX_SECONDS:
            return
        Logger("runtime").debug("profiling", kind=request.kind, seconds=request.seconds)
        recording = new_recording(request.kind)
        recording.begin()
        try:
            is_wanted = await self._wait(request.seconds, at)
        finally:
            recording.end()
        if is_wanted:
            # In a thread, since the loop owes its heartbeat to the watchdog.
            await asyncio.to_thread(self._write, request, recording, at)

    async def _wait(self, seconds: float, at: int) -> bool:
        """Wait until the recording is over; returns early with False when its request is no longer the last one."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, PROFILE_LOOK_SECONDS))
            if self._files.requested_at() != at:
                return False
        return True

    def _write(self, request: ProfileRequest, recording: Recording, at: int) -> None:
        self._files.answer(request.id, self._process, recording.profile())
        if self._files.requested_at() != at:
            self._files.remove_answer(request.id, self._process)
