"""A whole p2p process against go-libp2p: dialling both ways, the sync protocol, and gossip as far as the daemon allows:
its messages always have an author, and it ends a stream as soon as either end has closed its direction.

The daemon (p2pd) is driven over its control socket. Each scenario runs in a process with a network namespace that has
only a loopback interface, so that no packet can leave the machine."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import shake_128
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, decode_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import peer_id_text
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.encoding import protobuf, snappy, varint
from rollup_node.stages.p2p.encoding.protobuf import Fields
from rollup_node.stages.p2p.host.identify import IdentifyMessage
from rollup_node.stages.p2p.host.io.services import measure_latency
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.p2p.blocks import CHAIN_ID, signed
from tests.support.p2p.nodes import KEY, P2pNode, chain_of_now, now_block, timed_chain
from tests.support.processes.leftovers import Leftovers

DAEMON = "ROLLUP_NODE_P2PD"
"""The environment variable with the path of the daemon, which is otherwise searched on PATH."""
SCENE_SECONDS = 50
_ALONE = ("unshare", "--map-root-user", "--net")
_INSIDE = "from tests.interop.test_go_libp2p import namespace_main; namespace_main()"
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
    """Run a scenario, a function of this module, in a process with its own network namespace."""
    command = (*_ALONE, sys.executable, "-c", _INSIDE, scene.__name__, str(folder))
    environment = {**environment, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SCENE_SECONDS + 5
    )
    assert done.returncode == 0, f"{scene.__name__}:\n{done.stdout}\n{done.stderr}"


def namespace_main() -> None:
    """The main function of that process."""
    name, folder = sys.argv[1:]
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))

    async def bounded() -> None:
        async with asyncio.timeout(SCENE_SECONDS):
            await globals()[name](Path(folder))

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


TOPIC = block_message.block_topic(CHAIN_ID, 4)
REJECTED = 'op_node_default_p2p_gossip_events_total{type="REJECT_MESSAGE"}'


async def wait_until_known(theirs: GoPeer, node: P2pNode, topic: str | None = None) -> None:
    """Wait until they are connected to our node, or know that it has joined a topic."""
    async with asyncio.timeout(10):
        while node.stage.host.peer_id not in await (theirs.peers() if topic is None else theirs.topic_peers(topic)):
            await asyncio.sleep(0.05)


async def they_dial(theirs: GoPeer, node: P2pNode) -> None:
    await theirs.connect(node.stage.host.peer_id, node.stage.host.addresses[0])


async def dialling(folder: Path) -> None:
    async with P2pNode(1, chain_of_now(), folder).running() as node, go_peer(folder / "go") as theirs:

        def identify() -> IdentifyMessage | None:
            connection = node.stage.host.connection(theirs.peer)
            return None if connection is None else connection.identify

        assert await node.call("connectPeer", theirs.address) is None
        for direction in (2, 1):
            await wait_until_known(theirs, node)
            message = await node.until(identify)
            assert {"/ipfs/id/1.0.0", "/meshsub/1.1.0"} <= set(message.protocols)
            await measure_latency(node.stage.host, theirs.peer)
            connected = node.stage.host.connection(theirs.peer)
            assert connected is not None and connected.latency is not None and 0 < connected.latency < 5
            assert (await node.call("peers", True))["peers"][theirs.peer_text]["direction"] == direction
            assert await node.call("disconnectPeer", theirs.peer_text) is None
            await node.until(lambda: not node.stage.host.peers())
            await they_dial(theirs, node)


async def sync_protocol(folder: Path) -> None:
    rollup = chain_of_now()
    blocks = timed_chain(rollup, 2)
    blocks[1] = msgspec.structs.replace(blocks[1], transactions=(b"\x02" + shake_128(b"large").digest(1_500_000),))
    responses = {block.block_number: payload_by_number.encode_block(rollup, block) for block in blocks}

    def respond(request: bytes) -> bytes:
        return responses[struct.unpack("<Q", request)[0]]

    async with P2pNode(1, rollup, folder).running() as node, go_peer(folder / "go") as theirs:
        node.own_chain = {block.block_number: block for block in blocks}
        await theirs.serve(payload_by_number.protocols(CHAIN_ID)[0], payload_by_number.REQUEST_SIZE, respond)
        await they_dial(theirs, node)
        for protocol in payload_by_number.protocols(CHAIN_ID):
            for number, expected in {**responses, 9: b"\x01", 1 << 40: b"\x02"}.items():
                assert await theirs.request(node.stage.host.peer_id, protocol, struct.pack("<Q", number)) == expected
        for number, expected in responses.items():
            _, stream = await node.stage.host.open_stream(theirs.peer, payload_by_number.protocols(CHAIN_ID))
            await stream.write(payload_by_number.encode_request(number))
            assert await stream.read_exactly(len(expected)) == expected
            stream.reset()


async def gossip(folder: Path) -> None:
    def message(payload: ExecutionPayload) -> bytes:
        return snappy.compress(signed(payload))

    rollup = chain_of_now()
    async with P2pNode(1, rollup, folder, sequencer_key=KEY).running() as node, go_peer(folder / "go") as theirs:
        collecting = asyncio.get_running_loop().create_task(theirs.collect(TOPIC))
        assert await node.call("connectPeer", theirs.address) is None
        await wait_until_known(theirs, node, TOPIC)
        await node.until(lambda: theirs.peer in node.stage.gossip.router.meshes.members[TOPIC])
        ours = now_block(1, transactions=(b"\x02" + shake_128(b"large").digest(500_000),))
        assert await node.publish(ours) is None
        await node.until(lambda: theirs.received)
        assert theirs.received == [message(ours)]
        await theirs.publish(TOPIC, message(now_block(2)))
        await node.until(lambda: node.metric_sum(REJECTED) == 1)
        assert node.received_blocks == [] and node.stage.host.peers() == [theirs.peer]
        collecting.cancel()


@pytest.mark.parametrize("scene", [dialling, sync_protocol, gossip])
def test_go_libp2p(scene: Scene, leftovers: Leftovers) -> None:
    need_daemon()
    run_in_namespace(scene, leftovers.folder, leftovers.environment())
