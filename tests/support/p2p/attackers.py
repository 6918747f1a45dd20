"""Attacks on a p2p process, each by many peers from a process of its own: `python -m tests.support.p2p.attackers`.
A line on stdin, `ATTACK ADDRESS DISCOVERY_PORT`, kills the attack before and begins one; an empty line only kills. It
prints UNDER_WAY once the attack has had its effect by each of its peers, STOPPED when it is killed, and FAILED when it
ends by itself. With these words as arguments it runs that one attack."""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from rollup_node.stages.p2p.addresses.multiaddr import parse_multiaddr
from rollup_node.stages.p2p.encoding import protobuf, snappy, varint
from rollup_node.stages.p2p.encoding.multistream import HEADER, encode_line
from rollup_node.stages.p2p.gossipsub.params import MAX_RPC_BYTES, MESHSUB_12
from rollup_node.stages.p2p.gossipsub.rpc import (
    ControlMessage,
    IHave,
    PubsubMessage,
    Rpc,
    Subscription,
    encode_frame,
)
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import DialError, Stream, StreamError, StreamHandler
from rollup_node.stages.p2p.host.ping import PROTOCOL as PING_PROTOCOL
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity, PeerId
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.tools.bench.signed_blocks import CHAIN_ID, TOPIC
from tests.support.p2p.blocks import block
from tests.support.p2p.hosts import RecordingHost
from tests.support.p2p.nodes import chain_since
from tests.support.p2p.raw import (
    DATA,
    PING,
    RST,
    SYN,
    WINDOW_UPDATE,
    frame,
    proposal,
    raw_peer,
    tcp_connection,
)

PEERS = 60
UNDER_WAY, STOPPED, FAILED = "attack is under way", "attack is stopped", "attack has failed"
SYNC_PROTOCOL = payload_by_number.protocols(CHAIN_ID)[0]
STREAMS = 128
_RETRY_SECONDS = 0.2
_IDENTITIES = itertools.count(1)


class Target:
    """The process under attack, and how many peers have had their effect on it."""

    def __init__(self, address: str, discovery_port: int) -> None:
        parsed = parse_multiaddr(address)
        assert parsed.peer_id is not None and parsed.tcp is not None
        self.address, self.peer, self.port = parsed, parsed.peer_id, parsed.tcp.port
        self.discovery_port = discovery_port
        self._wanted, self._effects = 0, 0

    def expect(self, effects: int) -> None:
        """The attack is under way after so many effects."""
        self._wanted = effects

    def effect(self) -> None:
        """Counts one."""
        self._effects += 1
        if self._effects == self._wanted:
            print(UNDER_WAY, flush=True)


Attack = Callable[[Target], Coroutine[Any, Any, None]]


def new_identity() -> NetworkIdentity:
    """An identity that no peer had before."""
    return NetworkIdentity(b"\x7f" + os.getpid().to_bytes(8, "big") + next(_IDENTITIES).to_bytes(23, "big"))


async def forever(attempt: Callable[[], Awaitable[None]]) -> None:
    """Repeats what the other end interrupts."""
    while True:
        with contextlib.suppress(StreamError, DialError, ConnectionError, TimeoutError):
            await attempt()
        await asyncio.sleep(_RETRY_SECONDS)


async def by_many(
    target: Target, attempt: Callable[[], Awaitable[None]], peers: int = PEERS, effects: int | None = None
) -> None:
    """Makes an attempt by many peers at once, over and over; the attack is under way after so many effects, as many as
    there are peers unless given."""
    target.expect(peers if effects is None else effects)
    await asyncio.gather(*(forever(attempt) for _ in range(peers)))


@contextlib.asynccontextmanager
async def connected_host(
    target: Target, serve: StreamHandler | None = None, reads_gossip: bool = True
) -> AsyncIterator[Host]:
    """A new peer that is connected, by this project's own host; with `reads_gossip` it reads what gossip sends it, and
    `serve` answers requests for blocks."""
    host = RecordingHost(1)
    host.identity = new_identity()
    host.set_stream_handler(MESHSUB_12, _read if reads_gossip else _keep)
    if serve is not None:
        host.set_stream_handler(SYNC_PROTOCOL, serve)
    try:
        await host.connect(target.peer, (target.address,))
        yield host
    finally:
        await host.stop()
        host.peerstore.close()


async def _read(stream: Stream) -> None:
    while await stream.read():
        pass


async def _keep(_: Stream) -> None:
    await asyncio.Event().wait()


async def open_gossip(host: Host, peer: PeerId) -> Stream:
    """A gossip stream with a subscription."""
    _, stream = await host.open_stream(peer, (MESHSUB_12,))
    await stream.write(encode_frame(Rpc(subscriptions=(Subscription(TOPIC, True),))))
    return stream


# --- messages -------------------------------------------------------------------------------------


async def stalled_messages(target: Target) -> None:
    """Each peer sends all but the last byte of the largest message."""

    async def attempt() -> None:
        async with connected_host(target) as host:
            stream = await open_gossip(host, target.peer)
            try:
                await stream.write(varint.encode(MAX_RPC_BYTES) + bytes(MAX_RPC_BYTES - 1))
            finally:
                target.effect()
            await stream.read()

    await by_many(target, attempt, effects=PEERS // 2)


async def trickled_messages(target: Target) -> None:
    """As many bytes in all, but each peer sends a message of half a megabyte and a new one as soon as it is dropped."""

    async def attempt() -> None:
        async with connected_host(target) as host:
            while True:
                stream = await open_gossip(host, target.peer)
                await stream.write(varint.encode(MAX_RPC_BYTES) + bytes(1 << 19))
                target.effect()
                for _ in range(60):
                    await stream.write(bytes(1 << 16))
                    await asyncio.sleep(0.1)
                stream.reset()

    await by_many(target, attempt)


async def completed_messages(target: Target) -> None:
    """Each peer completes a message of the largest size, an unknown field, and sends nothing more."""
    body = bytes(MAX_RPC_BYTES - 8)
    message = protobuf.bytes_field(15, body)

    async def attempt() -> None:
        async with connected_host(target) as host:
            stream = await open_gossip(host, target.peer)
            try:
                await stream.write(varint.encode(len(message)) + message)
            finally:
                target.effect()
            await stream.read()

    await by_many(target, attempt, effects=PEERS // 2)


async def bombs(target: Target) -> None:
    """Messages of the largest size, each of many blocks that decompress to twenty times their size."""
    messages = []
    for number in range(21):
        data = snappy.compress(number.to_bytes(2, "big") + bytes(snappy.MAX_BYTES - 64) + os.urandom(8))
        messages.append(PubsubMessage(TOPIC, data))
    bomb = encode_frame(Rpc(messages=messages))
    assert len(bomb) < MAX_RPC_BYTES + 8

    async def attempt() -> None:
        async with connected_host(target) as host:
            stream = await open_gossip(host, target.peer)
            try:
                await stream.write(bomb)
            finally:
                target.effect()
            await stream.read()

    await by_many(target, attempt, 20)


async def huge_blocks(target: Target) -> None:
    """Each peer answers our requests with blocks of the largest size, which are of no chain."""
    rollup = chain_since(int(time.time()) - 600)
    transactions = tuple(os.urandom(1 << 16) for _ in range(159))

    async def respond(stream: Stream) -> None:
        number = payload_by_number.decode_request(await stream.read_exactly(payload_by_number.REQUEST_SIZE))
        # The hash, which no other block has, is not checked before the block's child is known.
        payload = block(4, number or 0, timestamp=int(time.time()))
        payload = msgspec.structs.replace(payload, transactions=transactions, block_hash=os.urandom(32))
        await stream.write(payload_by_number.encode_block(rollup, payload))
        target.effect()

    async def attempt() -> None:
        async with connected_host(target, respond) as host:
            await open_gossip(host, target.peer)
            await asyncio.sleep(60)

    await by_many(target, attempt, effects=12)


# --- streams --------------------------------------------------------------------------------------


async def unread_streams(target: Target) -> None:
    """Each peer fills the windows of streams whose requests wait for their turn."""

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            size = (1 << 18) - 200
            target.effect()
            for number in range(1, 2 * STREAMS, 2):
                await peer.send(proposal(number, SYNC_PROTOCOL) + frame(DATA, 0, number, size, bytes(size)))
            await peer.is_disconnected(60)

    await by_many(target, attempt)


async def idle_streams(target: Target) -> None:
    """Each peer opens as many streams as it may and leaves them idle."""

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            for number in range(1, 2 * STREAMS, 2):
                await peer.send(proposal(number, PING_PROTOCOL))
            target.effect()
            await peer.is_disconnected(60)

    await by_many(target, attempt)


async def reset_streams(target: Target) -> None:
    """Each peer opens gossip streams and resets them at once, and never accepts one."""
    burst = b"".join(
        proposal(number, MESHSUB_12) + frame(WINDOW_UPDATE, RST, number, 0) for number in range(1, 2 * 500, 2)
    )

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            target.effect()
            reading = asyncio.create_task(peer.is_disconnected(60))
            while not reading.done():
                await peer.send(burst)
                await asyncio.sleep(1)

    await by_many(target, attempt)


async def unanswered_negotiations(target: Target) -> None:
    """Each peer opens streams and never proposes a protocol, or proposes unknown ones only."""
    unknown = encode_line("/" + "x" * 1000)
    lines = encode_line(HEADER) + unknown * 60

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            for number in range(1, 2 * STREAMS, 2):
                await peer.send(frame(WINDOW_UPDATE, SYN, number, 0) + frame(DATA, 0, number, len(lines), lines))
            target.effect()
            await peer.is_disconnected(60)

    await by_many(target, attempt, effects=PEERS // 2)


# --- what a peer does not read --------------------------------------------------------------------


async def unread_replies(target: Target) -> None:
    """Each peer sends pings of yamux and does not read the replies."""
    pings = frame(PING, SYN, 0, 7) * 4000

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            target.effect()
            while not peer.is_closing:
                await peer.send(pings)
                await asyncio.sleep(0.5)

    await by_many(target, attempt)


async def unread_requests(target: Target) -> None:
    """Each peer announces messages and does not read our requests for them."""

    async def attempt() -> None:
        async with connected_host(target, reads_gossip=False) as host:
            stream = await open_gossip(host, target.peer)
            target.effect()
            while True:
                ids = [os.urandom(64) for _ in range(5000)]
                await stream.write(encode_frame(Rpc(control=ControlMessage(ihave=(IHave(TOPIC, ids),)))))
                await asyncio.sleep(0.5)

    await by_many(target, attempt)


async def unread_blocks(target: Target) -> None:
    """Each peer requests blocks over and over and does not read the responses."""

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            for number in range(1, 2 * STREAMS, 2):
                request = payload_by_number.encode_request(1 + number % 90)
                await peer.send(proposal(number, SYNC_PROTOCOL) + frame(DATA, 0, number, len(request), request))
            target.effect()
            await asyncio.sleep(20)

    await by_many(target, attempt)


# --- handshakes and identities --------------------------------------------------------------------


async def half_open_connections(target: Target) -> None:
    """A thousand connections stop within the handshake, after a part of the longest message it may have."""
    opening = encode_line(HEADER) + encode_line("/noise") + b"\xff\xff" + bytes(60_000)

    async def attempt() -> None:
        async with tcp_connection(target.port) as (reader, writer):
            writer.write(opening)
            target.effect()
            while await reader.read(1 << 16):
                pass

    await by_many(target, attempt, 300, effects=1000)


def _identify_message(identity: NetworkIdentity) -> bytes:
    protocols = [f"/{number}/" + "x" * 240 for number in range(250)]
    raw = identify.encode(identity.public_key.encode(), (), protocols, None, "x" * 250)
    assert len(raw) < identify.MAX_MESSAGE_BYTES
    return varint.encode(len(raw)) + raw


async def new_identities(target: Target) -> None:
    """Peers with new identities come, describe themselves at length, and leave."""

    async def attempt() -> None:
        identity = new_identity()
        async with raw_peer(target.port, identity=identity) as peer:
            message = _identify_message(identity)
            await peer.send(proposal(1, identify.PUSH_PROTOCOL) + frame(DATA, 4, 1, len(message), message))
            await peer.read_for(0.3)
            target.effect()

    await by_many(target, attempt, 30)


async def garbage(target: Target) -> None:
    """Connections that send bytes of no protocol, as fast as they are taken."""

    async def attempt() -> None:
        async with tcp_connection(target.port) as (reader, writer):
            writer.write(os.urandom(300))
            target.effect()
            await reader.read()

    await by_many(target, attempt, 100, effects=1000)


async def malformed_messages(target: Target) -> None:
    """Peers send malformed gossip, requests and blocks, over and over."""
    bad_block = PubsubMessage(TOPIC, snappy.compress(os.urandom(500)))

    async def attempt() -> None:
        async with connected_host(target) as host:
            for number in itertools.count():
                stream = await open_gossip(host, target.peer)
                await stream.write(encode_frame(Rpc(messages=(bad_block,))))
                await stream.write(varint.encode(10) + bytes(10))
                _, request = await host.open_stream(target.peer, (SYNC_PROTOCOL,))
                await request.write(os.urandom(3))
                request.close()
                target.effect()
                await asyncio.sleep(0.05 + 0.0 * number)

    await by_many(target, attempt, 20)


async def datagrams(target: Target) -> None:
    """Datagrams to the discovery port: noise, and messages of unknown nodes from many ports."""
    target.expect(1)
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(50)]
    for each in sockets:
        each.setblocking(False)
    while True:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.sendto(os.urandom(200), ("127.0.0.1", target.discovery_port))
        target.effect()
        await asyncio.sleep(0.005)


def _by_name(*attacks: Attack) -> dict[str, Attack]:
    return {attack.__name__: attack for attack in attacks}


MESSAGE_ATTACKS = _by_name(
    *(stalled_messages, trickled_messages, completed_messages, bombs, huge_blocks),
    *(unread_replies, unread_requests, unread_blocks),
)
CONNECTION_ATTACKS = _by_name(
    *(unread_streams, idle_streams, reset_streams, unanswered_negotiations),
    *(half_open_connections, new_identities, garbage, malformed_messages, datagrams),
)


def attack_forever(attack: str, address: str, discovery_port: str) -> None:
    """Attacks until the process is killed."""
    asyncio.run((MESSAGE_ATTACKS | CONNECTION_ATTACKS)[attack](Target(address, int(discovery_port))))


def begin(*words: str) -> int:
    """Forks a process that attacks; its id. What is imported is imported once for all attacks."""
    if child := os.fork():
        return child
    try:
        attack_forever(*words)
    except BaseException:
        traceback.print_exc()
    finally:
        print(FAILED, flush=True)
        os._exit(1)


def main() -> int:
    """Runs one attack after the other until the end of stdin."""
    child: int | None = None
    while True:
        line = sys.stdin.readline()
        if child is not None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            print(STOPPED, flush=True)
            child = None
        if not line:
            return 0
        if words := line.split():
            child = begin(*words)


if __name__ == "__main__":
    if sys.argv[1:]:
        attack_forever(*sys.argv[1:])
    sys.exit(main())
