"""`rollup-node status` as a program, at the real RPC server."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from rollup_node.stages.rpc.status.node_status import NodeStatus
from rollup_node.tools.commands.status import CLEAR, HOME, REST_OF_SCREEN
from tests.support.processes.cli import Cli
from tests.support.rpc.harness import RpcHarness

PIPE = asyncio.subprocess.PIPE


@asynccontextmanager
async def command(*flags: str, stdout: int = PIPE) -> AsyncIterator[asyncio.subprocess.Process]:
    """Yield the running command, which ends with the block at the latest."""
    words = (sys.executable, "-m", "rollup_node", "status", *flags)
    # Where tests run in the background of a shell, Ctrl-C is ignored, and children inherit that.
    interruptible = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = await asyncio.create_subprocess_exec(*words, stdout=stdout, stderr=PIPE, preexec_fn=interruptible)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_once_and_watched(tmp_path: Path, cli: Cli) -> None:
    """Without a terminal one screen follows the other; Ctrl-C ends it well."""
    async with asyncio.timeout(50), RpcHarness(tmp_path).running() as rpc:
        await rpc.until_ready()
        once = await asyncio.to_thread(cli.out, "status", "--json", "--rpc", rpc.url)
        assert msgspec.json.decode(once, type=NodeStatus).ready
        async with command("--watch", "--rpc", rpc.url) as watch:
            assert watch.stdout is not None
            lines = [(await watch.stdout.readline()).decode() for _ in range(2)]
            assert "v1.2.3-dev   test-net (901 on L1 900)" in lines[0] and lines[1].startswith("ready   ")
            while "test-net" not in (await watch.stdout.readline()).decode():
                pass
            watch.send_signal(signal.SIGINT)
            _, err = await watch.communicate()
            assert (watch.returncode, err) == (0, b"")


async def test_on_a_terminal_a_screen_replaces_the_one_before(tmp_path: Path) -> None:
    """The node goes away meanwhile: that is said above the last status."""
    terminal, end = os.openpty()
    shown = b""

    def read() -> None:
        nonlocal shown
        shown += os.read(terminal, 65536)

    async with asyncio.timeout(50), AsyncExitStack() as stack:
        async with RpcHarness(tmp_path).running() as rpc:
            await rpc.until_ready()
            asyncio.get_running_loop().add_reader(terminal, read)
            watch = await stack.enter_async_context(command("--watch", "--rpc", rpc.url, stdout=end))
            while shown.count(REST_OF_SCREEN.encode()) < 2:
                await asyncio.sleep(0.02)
        while b": cannot connect (" not in shown:
            await asyncio.sleep(0.02)
        watch.send_signal(signal.SIGINT)
        assert await watch.wait() == 0
    asyncio.get_running_loop().remove_reader(terminal)
    os.close(terminal)
    os.close(end)
    assert shown.startswith((CLEAR + HOME).encode()) and shown.count(CLEAR.encode()) == 1
    last = shown.rpartition(HOME.encode())[2].decode()
    assert last.startswith("the last status; --rpc: no node") and "test-net" in last.splitlines()[1]
