"""What runs inside a process of the table: its loop, heartbeat, logs, metrics file and severities around a stage."""

import asyncio
import faulthandler
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

from setproctitle import setproctitle

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.channels import Channel
from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.process_id import ProcessId, Slots
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.node.system.exit_codes import Exit
from rollup_node.node.system.library_logs import capture_library_logs
from rollup_node.node.system.log_formats import LogSettings, formatter
from rollup_node.node.system.log_pipes import LineStream, LineWriter
from rollup_node.node.system.metrics_file import MetricFile
from rollup_node.node.system.processes import load
from rollup_node.node.system.signals import STOP_SIGNALS
from rollup_node.stages.io import log
from rollup_node.stages.io.log import Level, Record, get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import ExitRequested, PeriodicTask, Stage
from rollup_node.stages.protocol.errors import CriticalError

BEAT_SECONDS = 0.5
FINISH_SECONDS = 0.5
CLOSE_SECONDS = 2.0
LAST_LINES_SECONDS = 0.3


@dataclass(frozen=True)
class Shared:
    """What all processes of a node have in common, made before the first fork."""

    board: LivenessTable
    arenas: Mapping[int, Arena]
    rows: Slots
    channels: tuple[Channel, ...]
    sockets: Path
    metrics: Path
    log: LogSettings


@dataclass(frozen=True)
class Identity:
    """Which process this is: `row` is its row on the board, `name` what people see."""

    role: str
    name: str
    row: int
    incarnation: int


def take_over_output(name: str, settings: LogSettings) -> LineWriter:
    """Makes descriptors 1 and 2 this process's log pipe, for our lines, for prints, for libraries and for faults."""
    form = formatter(settings)
    writer = LineWriter(1, lambda lines: form(dropped_lines(name, lines)))
    log.configure(name, settings.level, lambda record: writer.write(form(record)))
    sys.stdout, sys.stderr = cast(TextIO, LineStream(writer, 1)), cast(TextIO, LineStream(writer, 2))
    capture_library_logs(settings.level)
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)
    return writer


def dropped_lines(process: str, lines: int) -> Record:
    """The record that says that lines were dropped."""
    return Record(time.time(), Level.WARN, process, "log", "log lines dropped", {"lines": lines}, None)


def run_process(identity: Identity, build: str, config: object, shared: Shared) -> int:
    """Runs a stage until it is asked to stop or fails; the exit code. The descriptors are those of `become_child`."""
    setproctitle(f"rollup-node: {identity.name}")
    writer = take_over_output(identity.name, shared.log)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        code = loop.run_until_complete(Process(identity, shared, writer).run(build, config))
    except BaseException as error:
        code = _code_of(error)
    writer.drain(LAST_LINES_SECONDS)
    return code


def _code_of(error: BaseException) -> int:
    """Says in the log why the process ends, and with which exit code."""
    logger = get_logger("runtime")
    bugs = []
    for cause in causes(error):
        if isinstance(cause, CriticalError):
            logger.error("critical error", error=cause)
            return Exit.CRITICAL
        bugs.append(cause)
    for bug in bugs:
        logger.crash("a bug ends this process", bug)
    return Exit.SETUP


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in nested groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from causes(inner)
    else:
        yield error


class Process:
    """One life of one process."""

    def __init__(self, identity: Identity, shared: Shared, writer: LineWriter) -> None:
        self._identity, self._shared, self._writer = identity, shared, writer
        self._meter = Meter(identity.name)
        self._log = get_logger("runtime")
        self._stop = asyncio.Event()
        self._code: int = Exit.OK

    async def run(self, build: str, config: object) -> int:
        """From the first beat to the orderly end."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.set)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(self._beat(), name="beat")]
            bus = self._bus()
            stage = cast(Callable[[object, Bus, Meter], Stage], load(build))(config, bus, self._meter)
            await stage.start()
            problems = Problems(stage, self._meter)
            file = MetricFile(self._shared.metrics, self._identity.name, self._meter, self._count(bus))
            for work in (bus.run(), problems.repeat(), file.repeat()):
                helpers.append(group.create_task(work))
            await asyncio.sleep(0)
            self._shared.board.set_ready(self._identity.row)
            self._log.debug("ready")
            await self._drive(group, TaskRunner(stage, self._meter, problems, self._identity.role))
            for helper in helpers[1:]:
                helper.cancel()
            await asyncio.wait(helpers[1:])
            await self._close(stage, bus)
            helpers[0].cancel()
        self._log.debug("stopped")
        return self._code

    def _bus(self) -> Bus:
        identity, shared = self._identity, self._shared
        return Bus(
            shared.channels,
            identity.role,
            ProcessId(identity.row, identity.incarnation),
            shared.rows,
            shared.board,
            shared.arenas,
            shared.sockets,
        )

    async def _beat(self) -> None:
        while True:
            self._shared.board.beat(self._identity.row)
            await asyncio.sleep(BEAT_SECONDS)

    async def _drive(self, group: asyncio.TaskGroup, driver: TaskRunner) -> None:
        """Runs the activities until the process is asked to stop, then gives their steps a moment to finish."""
        running = [group.create_task(self._run(driver, activity)) for activity in driver.periodic_tasks]
        await self._stop.wait()
        driver.stop()
        if running:
            _, late = await asyncio.wait(running, timeout=FINISH_SECONDS)
            for task in late:
                task.cancel()

    async def _run(self, driver: TaskRunner, activity: PeriodicTask) -> None:
        try:
            await driver.run(activity)
        except ExitRequested as finished:
            self._code = finished.code
            self._stop.set()

    async def _close(self, stage: Stage, bus: Bus) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await stage.close()
        except TimeoutError:
            self._log.warn("closing took too long", seconds=CLOSE_SECONDS)
        bus.close()

    def _count(self, bus: Bus) -> Callable[[], None]:
        """Brings what others count into the meter."""
        seen: dict[str, int] = {}

        def collect() -> None:
            refused = bus.counters.get("messages_refused", 0) > seen.get("messages_refused", 0)
            for name, value in (*bus.counters.items(), ("", self._writer.dropped_total)):
                if rise := value - seen.get(name, 0):
                    seen[name] = value
                    if name:
                        self._meter.count("bus_events_total", rise, event=name)
                    else:
                        self._meter.count("log_lines_dropped_total", rise)
            if refused:
                self._log.warn("refused messages", last=bus.last_rejection)

        return collect
