"""A foreign peer written in Go: the daemon of go-libp2p (p2pd), driven over its control socket.

Scenarios with it run in a separate process in a network namespace that has only a loopback interface, so that no
packet can leave the machine."""

import asyncio
import contextlib
import fcntl
import importlib.util
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, decode_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import peer_id_text
from rollup_node.stages.p2p.encoding import protobuf, varint
from rollup_node.stages.p2p.encoding.protobuf import Fields

DAEMON = "ROLLUP_NODE_P2PD"
"""The environment variable with the path of the daemon, which is otherwise searched on PATH."""
SCENE_SECONDS = 50
_ALONE = ("unshare", "--map-root-user", "--net")
_INSIDE = "from tests.support.foreign.go_peers import namespace_main; namespace_main()"
_OFF = ("relay", "relayService", "relayDiscovery", "natPortMap", "autonat", "quic", "tls", "dht", "b")
_UNSIGNED = ("pubsubSign", "pubsubSignStrict")
_SIOCSIFFLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_IDENTIFY, _CONNECT, _STREAM_OPEN, _STREAM_HANDLER, _LIST_PEERS, _PUBSUB = 0, 1, 2, 3, 5, 8
_PUBSUB_PEERS, _PUBSUB_PUBLISH, _PUBSUB_SUBSCRIBE = 1, 2, 3
_MOST = 1 << 24

Scene = Callable[[Path], Awaitable[None]]
Served = Callable[[bytes], bytes]


def need_daemon() -> None:
    """Skips the test with the reason where the daemon cannot be run."""
    if _daemon() is None:
        pytest.skip(f"p2pd is not on PATH and {DAEMON} does not name it: no foreign peers in Go")
    for program in ("unshare", "setpriv"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: no foreign peers in Go")
    if subprocess.run((*_ALONE, "true"), capture_output=True, timeout=20).returncode:
        pytest.skip("no network namespace can be made here: no foreign peers in Go")


def _daemon() -> str | None:
    return shutil.which(os.environ.get(DAEMON, "p2pd"))


def run_in_namespace(scene: Scene, folder: Path, environment: dict[str, str]) -> None:
    """Run a scenario, a function of a test module, in a process with its own network namespace."""
    module = sys.modules[scene.__module__].__file__
    command = (*_ALONE, sys.executable, "-c", _INSIDE, str(module), scene.__name__, str(folder))
    environment = {**environment, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SCENE_SECONDS + 5
    )
    assert done.returncode == 0, f"{scene.__name__}:\n{done.stdout}\n{done.stderr}"


def namespace_main() -> None:
    """The main function of that process."""
    file, name, folder = sys.argv[1:]
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))
    spec = importlib.util.spec_from_file_location("scenes", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    async def bounded() -> None:
        async with asyncio.timeout(SCENE_SECONDS):
            await getattr(module, name)(Path(folder))

    asyncio.run(bounded())


class GoDaemonError(Exception):
    """The daemon answered with an error."""


class DaemonConnection(NamedTuple):
    """A connection to the daemon after its answer; it may become a stream to a peer."""

    answer: Fields
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def exchange(self, request: bytes) -> bytes:
        """Send something and reads to the end; the daemon would end the whole stream with our direction of it."""
        self.writer.write(request)
        try:
            return await self.reader.read()
        finally:
            self.writer.close()


class GoPeer:
    """A running daemon; `name` is its peer id in text, `peer` in bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.peer = b""
        self.listen_address: Multiaddr | None = None
        self.received: list[bytes] = []
        self._servers: list[asyncio.Server] = []

    @property
    def peer_text(self) -> str:
        return peer_id_text(self.peer)

    @property
    def address(self) -> str:
        """Its whole multiaddr."""
        return f"{self.listen_address}/p2p/{self.peer_text}"

    async def identify(self) -> None:
        """Wait until the daemon runs, and reads its peer id and addresses."""
        while not self.peer:
            with contextlib.suppress(OSError):
                result = next(map(_parsed, (await self._call(_IDENTIFY)).repeated_views(4)))
                self.peer, self.listen_address = (
                    result.bytes_value(1) or b"",
                    decode_multiaddr(result.repeated_bytes(2)[0]),
                )
            await asyncio.sleep(0.02)

    async def connect(self, peer: bytes, address: Multiaddr) -> None:
        """Connect to a peer."""
        await self._call(
            _CONNECT, 2, protobuf.bytes_field(1, peer) + protobuf.bytes_field(2, address.encode()) + _timeout()
        )

    async def peers(self) -> list[bytes]:
        """Return the peers it is connected to."""
        result = await self._call(_LIST_PEERS)
        return [_parsed(repeated_view).bytes_value(1) or b"" for repeated_view in result.repeated_views(6)]

    async def request(self, peer: bytes, protocol: str, request: bytes) -> bytes:
        """Open a stream to a peer, sends a request, and gives the answer."""
        wanted = protobuf.bytes_field(1, peer) + protobuf.bytes_field(2, protocol) + _timeout()
        return await (await self._open(_STREAM_OPEN, 3, wanted)).exchange(request)

    async def serve(self, protocol: str, size: int, served: Served) -> None:
        """Serve a protocol whose requests have a fixed size."""

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _read_message(reader)
            writer.write(served(await reader.readexactly(size)))
            await writer.drain()
            writer.close()

        path = str(self.folder / f"served{len(self._servers)}")
        self._servers.append(await asyncio.start_unix_server(take, path))
        address = varint.encode(400) + varint.encode(len(path)) + path.encode()
        await self._call(
            _STREAM_HANDLER, 4, protobuf.bytes_field(1, address) + protobuf.bytes_field(2, protocol) + _balanced()
        )

    async def topic_peers(self, topic: str) -> list[bytes]:
        """Return the peers that have joined a topic."""
        result = await self._call(_PUBSUB, 8, protobuf.varint_field(1, _PUBSUB_PEERS) + protobuf.bytes_field(2, topic))
        return next(map(_parsed, result.repeated_views(7))).repeated_bytes(2)

    async def publish(self, topic: str, message: bytes) -> None:
        """Publish a message, which always has an author."""
        wanted = (
            protobuf.varint_field(1, _PUBSUB_PUBLISH)
            + protobuf.bytes_field(2, topic)
            + protobuf.bytes_field(3, message)
        )
        await self._call(_PUBSUB, 8, wanted)

    async def collect(self, topic: str) -> None:
        """Join a topic and appends its messages to `received`, until the daemon ends."""
        wanted = protobuf.varint_field(1, _PUBSUB_SUBSCRIBE) + protobuf.bytes_field(2, topic)
        stream = await self._open(_PUBSUB, 8, wanted)
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                self.received.append((await _read_message(stream.reader)).bytes_value(2) or b"")

    async def _call(self, kind: int, field: int = 0, part: bytes | None = None) -> Fields:
        conversation = await self._open(kind, field, part)
        conversation.writer.close()
        return conversation.answer

    async def _open(self, kind: int, field: int, part: bytes | None) -> DaemonConnection:
        reader, writer = await asyncio.open_unix_connection(str(self.folder / "control"), limit=_MOST)
        request = protobuf.varint_field(1, kind) + (b"" if part is None else protobuf.bytes_field(field, part))
        writer.write(varint.encode(len(request)) + request)
        answer = await _read_message(reader)
        for error in map(_parsed, answer.repeated_views(2)):
            writer.close()
            raise GoDaemonError((error.bytes_value(1) or b"").decode(errors="replace"))
        return DaemonConnection(answer, reader, writer)

    def close(self) -> None:
        for server in self._servers:
            server.close()


def _parsed(raw: bytes | memoryview) -> Fields:
    return protobuf.parse(memoryview(raw), protobuf.MAX_FIELDS)


def _timeout() -> bytes:
    return protobuf.varint_field(3, 10)


def _balanced() -> bytes:
    return protobuf.varint_field(3, 0)


async def _read_message(reader: asyncio.StreamReader) -> Fields:
    length = bytearray()
    while (result := varint.decode(length)) is None:
        length += await reader.readexactly(1)
    return _parsed(await reader.readexactly(result[0]))


@contextlib.asynccontextmanager
async def go_peer(folder: Path) -> AsyncIterator[GoPeer]:
    """Start the daemon with nothing but TCP, noise, yamux and gossipsub; unsigned messages are let in."""
    folder.mkdir()
    (folder / "key").write_bytes(protobuf.varint_field(1, 2) + protobuf.bytes_field(2, b"\x99" * 32))
    switches = [f"-{name}=false" for name in (*_OFF, *_UNSIGNED)]
    process = await asyncio.create_subprocess_exec(
        *("setpriv", "--pdeathsig", "KILL", str(_daemon()), f"-listen=/unix{folder / 'control'}"),
        *("-hostAddrs=/ip4/127.0.0.1/tcp/0", f"-id={folder / 'key'}", "-pubsub", "-gossipsubHeartbeatInterval=500ms"),
        *switches,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    peer = GoPeer(folder)
    try:
        async with asyncio.timeout(20):
            await peer.identify()
        yield peer
    finally:
        peer.close()
        process.kill()
        await process.wait()
        for left in ("control", "served0", "served1"):
            (folder / left).unlink(missing_ok=True)
