"""The end of a server knows all connections that it has accepted."""

import asyncio
import gc
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rollup_node.stages.io.system import stop_accepting, tell_service_manager


@pytest.mark.parametrize("iterations", [0, 1, 2, 3, 5])
async def test_a_connection_of_any_moment_is_known_or_refused(
    iterations: int, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda value: unraisable.append(value.exc_value))
    made: list[asyncio.BaseTransport] = []

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)

    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as client:
        for _ in range(iterations):
            await asyncio.sleep(0)
        await stop_accepting(server)
        for transport in made:
            transport.close()
        known = len(made)
        await asyncio.sleep(0)
        client.settimeout(10)
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            assert not made
    await asyncio.sleep(0)
    assert len(made) == known
    made.clear()
    gc.collect()
    assert (list(recwarn), unraisable) == ([], [])


PROGRAM = """
from pathlib import Path
from rollup_node.stages.io.system import map_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

assert map_large_blocks()
before = resident()
for _ in range(3):
    blocks = [b"x" * (4 << 20) for _ in range(20)]
    del blocks[:-1]
print(resident() - before)
"""


def test_large_blocks_are_given_back_although_a_newer_one_stays() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 8 << 20, "one block of 4 MiB and what the interpreter needs"


@pytest.mark.parametrize("is_file", [True, False])
def test_lines_are_one_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_file: bool) -> None:
    name = f"{'' if is_file else '@'}{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name if is_file else f"\0{name[1:]}")
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        tell_service_manager("READY=1", "STATUS=all is well")
        assert receiver.recv(1000) == b"READY=1\nSTATUS=all is well"


def test_one_that_is_absent_or_takes_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "vsock:2:1234", "/nowhere/notify", "@nobody"):
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        tell_service_manager("READY=1")
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        for _ in range(2000):
            tell_service_manager("WATCHDOG=1")
        assert receiver.recv(100) == b"WATCHDOG=1"
