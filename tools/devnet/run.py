"""One run of a local network from start to comparison."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rollup_node.stages.io.jsonrpc import JsonRpcClient
from rollup_node.tools.devnet import ports
from rollup_node.tools.devnet.compare import compare_output_roots
from rollup_node.tools.devnet.files import NetworkFiles
from rollup_node.tools.devnet.network import Devnet, clear
from rollup_node.tools.devnet.settings import SEQUENCER, VERIFIER, DevnetSettings
from rollup_node.tools.devnet.status import NetworkStatus, StatusPoller
from rollup_node.tools.devnet.traffic import Traffic
from rollup_node.tools.devnet.view import View

TICK_SECONDS = 0.5
TRAFFIC_SECONDS = 1.0
STALL_SECONDS = 120.0
STOP_SECONDS = 10.0
STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
LOCK = "lock"


class NoProgress(RuntimeError):
    """The safe heads stand still."""


class UnusableDirectory(RuntimeError):
    """The data directory cannot be had, or another network runs in it."""


@dataclass(frozen=True)
class RunResult:
    """What --json prints; `seconds` from the command to the last comparison."""

    blocks: int
    safe: int
    finalized: int
    output_roots_equal: bool
    seconds: float
    processes: dict[str, Any]
    first_difference: int | None
    first_safe_seconds: float | None


@contextmanager
def data_directory(given: Path | None) -> Iterator[Path]:
    """The given directory, locked, or a temporary one that is removed at the end."""
    if given is None:
        path = Path(tempfile.mkdtemp(prefix="rollup-devnet-"))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
        return
    try:
        given.mkdir(parents=True, exist_ok=True)
        if any(given.iterdir()) and not (given / LOCK).exists():
            raise UnusableDirectory(f"--data-dir {given}: it holds other files; give a new or an empty one")
        lock = os.open(given / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnusableDirectory(f"--data-dir {given}: {error.strerror}; give another") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UnusableDirectory(
                f"--data-dir {given}: another network runs here; stop it or give another"
            ) from error
        clear(given)
        yield given
    finally:
        os.close(lock)


async def run(settings: DevnetSettings, root: Path, view: View, started: float) -> RunResult:
    """Runs the network until its end, compares, and stops it."""
    with ports.reserved(settings.base_port, settings.nodes) as chosen:
        return await _run(Devnet(settings, NetworkFiles(root), chosen), settings, view, started)


async def _run(network: Devnet, settings: DevnetSettings, view: View, started: float) -> RunResult:
    stop = asyncio.Event()
    ending = False
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def on_signal() -> None:
        """The first signal ends the run in order, the second without a comparison."""
        if stop.is_set() and task is not None and not ending:
            task.cancel()
        stop.set()

    heeded = STOP_SIGNALS - ({signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set())
    for number in heeded:
        loop.add_signal_handler(number, on_signal)
    try:
        view.say(f"starting the network in {network.places.root}")
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
        view.say("  ".join([f"L1 {network.l1}", *(f"{name} {url}" for name, url in network.nodes.items())]))
        return await _follow(network, settings, view, stop, started)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        ending = True
        view.close()
        await asyncio.to_thread(network.children.stop)
        for number in heeded:
            loop.remove_signal_handler(number)


async def _follow(
    network: Devnet, settings: DevnetSettings, view: View, stop: asyncio.Event, started: float
) -> RunResult:
    watcher = StatusPoller(network.l1, network.nodes, network.places.root)
    l1, l2 = JsonRpcClient(network.l1), JsonRpcClient(network.engines[SEQUENCER][0])
    traffic = asyncio.create_task(_traffic(Traffic(l1, l2, lambda text: None)))
    try:
        status, first_safe = await _until_end(network, watcher, settings, view, stop, started)
        traffic.cancel()
        safe, finalized = _lowest(status, "safe"), _lowest(status, "finalized")
        view.say(f"comparing the output roots of blocks 0 to {safe}")
        comparison = await compare_output_roots(watcher.nodes, safe)
        return RunResult(
            blocks=comparison.blocks,
            safe=safe,
            finalized=finalized,
            output_roots_equal=comparison.equal,
            seconds=round(time.monotonic() - started, 1),
            processes={name: [asdict(entry) for entry in found] for name, found in status.processes.items()},
            first_difference=comparison.first_difference,
            first_safe_seconds=first_safe,
        )
    finally:
        traffic.cancel()
        for client in (l1, l2):
            await client.close()
        await watcher.close()


async def _until_end(
    network: Devnet, watcher: StatusPoller, settings: DevnetSettings, view: View, stop: asyncio.Event, started: float
) -> tuple[NetworkStatus, float | None]:
    """Watches until the end of the run; also gives the seconds until the verifier's first safe block."""
    highest, changed, first_safe, stopped = -1, time.monotonic(), None, None
    while True:
        network.children.check()
        status = await watcher.look()
        view.show(status)
        safe, now = _lowest(status, "safe"), time.monotonic()
        verifier = status.nodes.get(VERIFIER)
        if first_safe is None and verifier is not None and verifier.safe > 0:
            first_safe = round(now - started, 1)
        if safe > highest:
            highest, changed = safe, now
        elif now - changed > STALL_SECONDS:
            raise NoProgress(
                f"no new safe block for {STALL_SECONDS:.0f} s (safe {safe}); see the logs in the data directory"
            )
        if stop.is_set():
            stopped = stopped or now
            if now - stopped > STOP_SECONDS:
                raise NoProgress("stopped, but not all nodes tell their heads: the output roots are not compared")
        reached = settings.blocks is not None and safe >= settings.blocks
        elapsed = settings.duration is not None and now - started >= settings.duration
        known = all(heads is not None for heads in status.nodes.values())
        if known and (reached or elapsed or stop.is_set()):
            return status, first_safe
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), TICK_SECONDS) if not stop.is_set() else await asyncio.sleep(
                TICK_SECONDS
            )


def _lowest(status: NetworkStatus, head: str) -> int:
    return min((getattr(heads, head) if heads else 0 for heads in status.nodes.values()), default=0)


async def _traffic(traffic: Traffic) -> None:
    while True:
        await traffic.round()
        await asyncio.sleep(TRAFFIC_SECONDS)
