"""A run of a local network, from the start of its programs to the comparison of the output roots."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.tools.devnet import ports
from rollup_node.tools.devnet.files import NetworkFiles
from rollup_node.tools.devnet.fork_server import fork_server
from rollup_node.tools.devnet.network import NetworkPrograms, clear
from rollup_node.tools.devnet.settings import SEQUENCER, VERIFIER, DevnetSettings
from rollup_node.tools.devnet.status import NetworkStatus, NoProgress, StatusPoller, View, compare_output_roots
from rollup_node.tools.devnet.traffic import Traffic

if TYPE_CHECKING:  # not in the wheel, or imports what is not
    from rollup_node.tools.devnet.chaos import ChaosSession
    from rollup_node.tools.devnet.fault_session import FaultSession
    from rollup_node.tools.devnet.faults.disk import SmallDisk
    from rollup_node.tools.devnet.faults.report import ChaosReport
    from rollup_node.tools.faults.verdict import Verdict

TICK_SECONDS = 0.5
TRAFFIC_SECONDS = 1.0
STALL_SECONDS = 120.0
FINAL_STATUS_SECONDS = 10.0
STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
LOCK = "lock"
DISK = f"{VERIFIER}-disk"


class UnusableDirectory(RuntimeError):
    """The data directory cannot be used, or another network runs in it."""


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    `seconds` is the time from the command to the last comparison, `processes` the processes of each node as dicts of
    `ProcessUsage`."""

    blocks: int
    safe: int
    finalized: int
    output_roots_equal: bool
    seconds: float
    processes: dict[str, Any]
    first_difference: int | None
    first_safe_seconds: float | None
    chaos: "ChaosReport | None" = None
    verdicts: "tuple[Verdict, ...]" = ()

    @property
    def passed(self) -> bool:
        """Whether all nodes have the same chain, and the checks of a run with faults hold."""
        return (
            self.output_roots_equal
            and (self.chaos is None or self.chaos.passed)
            and all(verdict.passed for verdict in self.verdicts)
        )


@contextmanager
def data_directory(value: Path | None) -> Iterator[Path]:
    """Yield the given directory, locked and cleared of earlier runs, or a temporary one that is removed at the end.

    Raises UnusableDirectory."""
    if value is None:
        path = Path(tempfile.mkdtemp(prefix="rollup-devnet-"))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
        return
    try:
        value.mkdir(parents=True, exist_ok=True)
        if any(value.iterdir()) and not (value / LOCK).exists():
            raise UnusableDirectory(f"--data-dir {value}: it contains other files; give a new or empty directory")
        lock = os.open(value / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnusableDirectory(f"--data-dir {value}: {error.strerror}; give another directory") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UnusableDirectory(
                f"--data-dir {value}: another network runs in it; stop that one or give another directory"
            ) from error
        clear(value)
        yield value
    finally:
        os.close(lock)


def _disk(settings: DevnetSettings, root: Path) -> "AbstractContextManager[SmallDisk | None]":
    if not settings.small_disk:
        return contextlib.nullcontext()
    from rollup_node.tools.devnet.faults.disk import small_disk

    return small_disk(root / DISK)


def run(
    settings: DevnetSettings,
    root: Path,
    view: View,
    started: float,
    on_verdict: "Callable[[Verdict], None] | None" = None,
) -> RunResult:
    """Run a network with its files in `root` until its end and compare the output roots.

    No thread and no event loop may run before.

    `started` is the monotonic time of the command; `on_verdict` takes each verdict at the end of its scenario. Raises
    ProgramExited, StartFailed, PortInUse or NoProgress, and KeyboardInterrupt after a signal during the start or a
    second signal."""
    with (
        fork_server() as forks,
        ports.reserved(settings.base_port, settings.nodes) as reserved,
        _disk(settings, root) as disk,
    ):
        files = NetworkFiles(root, {} if disk is None else {VERIFIER: disk.folder})
        network = NetworkPrograms(settings, files, reserved, disk, forks)
        return asyncio.run(_run_with_faults(network, settings, view, started, on_verdict))


async def _run_with_faults(
    network: NetworkPrograms,
    settings: DevnetSettings,
    view: View,
    started: float,
    on_verdict: "Callable[[Verdict], None] | None",
) -> RunResult:
    if not settings.scenarios:
        return await _run(network, None, settings, view, started)
    from rollup_node.tools.devnet.fault_session import FaultSession

    session = FaultSession(
        network, settings.scenarios, settings.seed, view.message, settings.scenario_seconds, on_verdict
    )
    async with session:
        return await _run(network, session, settings, view, started)


async def _run(
    network: NetworkPrograms, session: "FaultSession | None", settings: DevnetSettings, view: View, started: float
) -> RunResult:
    stop = asyncio.Event()
    ending = False
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def on_signal() -> None:
        """Take a signal: the first ends the run with the comparison, the second without it."""
        if stop.is_set() and task is not None and not ending:
            task.cancel()
        stop.set()

    # Under nohup SIGHUP is ignored, and must stay so.
    handled = STOP_SIGNALS - ({signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set())
    for number in handled:
        loop.add_signal_handler(number, on_signal)
    try:
        view.message(f"starting the network in {network.files.root}")
        # The start cannot be awaited alone: a signal must end it.
        starting = asyncio.ensure_future(network.start())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not starting.done():
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            raise KeyboardInterrupt
        await starting
        network.children.on_restart = view.message
        view.message("  ".join([f"L1 {network.l1}", *(f"{name} {url}" for name, url in network.nodes.items())]))
        view.message("status pages  " + "  ".join(f"{name} {url}" for name, url in network.status_pages.items()))
        if settings.conductor and shutil.which("op-conductor"):
            view.message("op-conductor is not used: it needs a cluster; the conductor of this network stands in for it")
        if not settings.batcher:
            view.message(f"no batcher runs: attach one by the URLs and the batcher_key of {network.files.network}")
        if session is not None:
            session.begin()
        return await _follow(network, session, settings, view, stop, started)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        ending = True
        view.close()
        await asyncio.to_thread(network.children.stop)
        for number in handled:
            loop.remove_signal_handler(number)


async def _follow(
    network: NetworkPrograms,
    session: "FaultSession | None",
    settings: DevnetSettings,
    view: View,
    stop: asyncio.Event,
    started: float,
) -> RunResult:
    poller = StatusPoller(
        network.l1, network.nodes, network.files.root, network.conductor, has_processes=view.shows_processes
    )
    l1 = JsonRpcClient(network.l1)
    engines = {name: JsonRpcClient(network.engines[name][0]) for name in settings.sequencer_names}
    sender = Traffic(l1, engines[SEQUENCER], lambda text: None)
    traffic = asyncio.create_task(_traffic(sender))
    chaos = _chaos(network, settings, view)

    async def poll() -> NetworkStatus:
        status = await poller.poll()
        sender.l2 = engines.get(status.leader or SEQUENCER, sender.l2)
        return status

    def check() -> None:
        network.children.check()
        if chaos is not None:
            chaos.check()
        if session is not None:
            session.check()
            if session.done.is_set():
                stop.set()

    try:
        async with chaos or contextlib.nullcontext():
            status, first_safe = await wait_for_end(
                check, poll, lambda: chaos.faults if chaos else 0, settings, view, stop, started
            )
            traffic.cancel()
            report = await chaos.report(_lowest(status, "safe")) if chaos else None
        safe, finalized = _lowest(status, "safe"), _lowest(status, "finalized")
        view.message(f"comparing the output roots of blocks 0 to {safe}")
        comparison = await compare_output_roots(poller.nodes, safe)
        return RunResult(
            blocks=comparison.blocks,
            safe=safe,
            finalized=finalized,
            output_roots_equal=comparison.equal,
            seconds=round(time.monotonic() - started, 1),
            processes={name: [asdict(entry) for entry in result] for name, result in poller.processes().items()},
            first_difference=comparison.first_difference,
            first_safe_seconds=first_safe,
            chaos=report,
            verdicts=tuple(session.verdicts) if session else (),
        )
    finally:
        traffic.cancel()
        for client in (l1, *engines.values()):
            await client.close()
        await poller.close()


def _chaos(network: NetworkPrograms, settings: DevnetSettings, view: View) -> "ChaosSession | None":
    if settings.chaos is None or network.conductor is None:
        return None
    from rollup_node.tools.devnet.chaos import ChaosSession

    return ChaosSession(network, network.conductor, settings.chaos, settings.seed, view.message)


async def wait_for_end(
    check: Callable[[], None],
    poll: Callable[[], Awaitable[NetworkStatus]],
    faults: Callable[[], int],
    settings: DevnetSettings,
    view: View,
    stop: asyncio.Event,
    started: float,
) -> tuple[NetworkStatus, float | None]:
    """Poll until the end of the run; the last status, and the seconds until the verifier's first safe block.

    `check` raises ProgramExited; `faults` is how many --chaos has made. Raises NoProgress where the safe heads stall,
    or are unknown after `stop`."""
    highest, changed, first_safe, stopped = -1, time.monotonic(), None, None
    while True:
        check()
        status = await poll()
        for text in status.events:
            view.message(text)
        view.show(status)
        safe, now = _lowest(status, "safe"), time.monotonic()
        verifier = status.nodes.get(VERIFIER)
        if first_safe is None and verifier is not None and verifier.safe > 0:
            first_safe = round(now - started, 1)
        if safe > highest:
            highest, changed = safe, now
        elif settings.batcher and now - changed > STALL_SECONDS:
            raise NoProgress(
                f"no new safe block for {STALL_SECONDS:.0f} s (safe head {safe}); see the logs in the data directory"
            )
        if stop.is_set():
            stopped = stopped or now
            if now - stopped > FINAL_STATUS_SECONDS:
                raise NoProgress("stopped without a comparison: not all nodes report their heads")
        goals = [(settings.blocks, safe), (settings.chaos_faults, faults())]
        value = [count >= goal for goal, count in goals if goal is not None]
        reached = bool(value) and all(value)
        elapsed = settings.duration is not None and now - started >= settings.duration
        known = all(heads is not None for heads in status.nodes.values())
        if known and (reached or elapsed or stop.is_set()):
            return status, first_safe
        if stop.is_set():
            await asyncio.sleep(TICK_SECONDS)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await stop.wait()


def _lowest(status: NetworkStatus, head: str) -> int:
    return min((getattr(heads, head) if heads else 0 for heads in status.nodes.values()), default=0)


async def _traffic(traffic: Traffic) -> None:
    while True:
        await traffic.send_round()
        await asyncio.sleep(TRAFFIC_SECONDS)
