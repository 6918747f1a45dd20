"""Attacks on a p2p process, each by many peers from a process of its own: `python -m tests.support.p2p.attackers`, or
with the words ATTACK ADDRESS DISCOVERY_PORT that one attack alone."""

import asyncio
import contextlib
import itertools
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from rollup_node.stages.p2p.addresses.multiaddr import parse_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, PeerId
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.encoding import protobuf, snappy, varint
from rollup_node.stages.p2p.encoding.multistream import HEADER, encode_line
from rollup_node.stages.p2p.gossipsub.params import MAX_RPC_BYTES, MESHSUB_12
from rollup_node.stages.p2p.gossipsub.rpc import PubsubMessage, Rpc, Subscription, encode_frame
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import DialError, StreamError
from rollup_node.stages.p2p.host.io.services import PING_PROTOCOL
from rollup_node.stages.p2p.host.io.streams import Stream, StreamHandler
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.tools.bench.signed_blocks import CHAIN_ID, TOPIC
from tests.support.p2p.blocks import block
from tests.support.p2p.hosts import RecordingHost
from tests.support.p2p.nodes import chain_since
from tests.support.p2p.raw import DATA, PING, RST, SYN, WINDOW_UPDATE, frame, proposal, raw_peer, tcp_connection
from tests.support.processes import forked_attacks

PEERS = 60
SYNC_PROTOCOL = payload_by_number.protocols(CHAIN_ID)[0]
STREAMS, FULL = 128, 15
"""Streams of a peer, and those whose windows together are a little less than what is held of a connection unread."""

TRICKLED = 8
"""Pieces after which the messages of all peers together are more than is held."""
RESPONSE_HEAD, IDENTIFIER, CHUNK = 5, 10, 1 << 16
"""Bytes of a response before its snappy stream, of the identifier at the start of that, and of its chunks."""

_RETRY_SECONDS, _REPLACE_SECONDS = 0.2, 1.0
"""The pause before the next attempt of a peer, until the attack is under way and from then on."""

_IDENTITIES = itertools.count(1)


class Target(forked_attacks.Effects):
    """The process under attack."""

    def __init__(self, address: str, discovery_port: int) -> None:
        super().__init__()
        parsed = parse_multiaddr(address)
        assert parsed.peer_id is not None and parsed.tcp is not None
        self.address, self.peer, self.port = parsed, parsed.peer_id, parsed.tcp.port
        self.discovery_port = discovery_port


Attack = Callable[[Target], Coroutine[Any, Any, None]]


def new_identity() -> NetworkIdentity:
    """Return an identity that no peer had before."""
    return NetworkIdentity(b"\x7f" + os.getpid().to_bytes(8, "big") + next(_IDENTITIES).to_bytes(23, "big"))


async def forever(target: Target, attempt: Callable[[], Awaitable[None]]) -> None:
    """Repeats what the other end interrupts."""
    while True:
        with contextlib.suppress(StreamError, DialError, ConnectionError, TimeoutError):
            await attempt()
        await asyncio.sleep(_REPLACE_SECONDS if target.is_under_way else _RETRY_SECONDS)


async def by_many(
    target: Target, attempt: Callable[[], Awaitable[None]], peers: int = PEERS, effects: int | None = None
) -> None:
    """Make an attempt by many peers at once, over and over.

    The attack is under way after so many effects, as many as there are peers unless given."""
    target.expect(peers if effects is None else effects)
    await asyncio.gather(*(forever(target, attempt) for _ in range(peers)))


@contextlib.asynccontextmanager
async def connected_host(
    target: Target, serve: StreamHandler | None = None, reads_gossip: bool = True
) -> AsyncIterator[Host]:
    """Yield a new peer that is connected, by this project's own host; with `reads_gossip` it reads what gossip sends
    it, and `serve` answers requests for blocks."""
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
    """Return a gossip stream with a subscription."""
    _, stream = await host.open_stream(peer, (MESHSUB_12,))
    await stream.write(encode_frame(Rpc(subscriptions=(Subscription(TOPIC, True),))))
    return stream


# --- messages -------------------------------------------------------------------------------------


async def send_and_wait(target: Target, message: bytes, peers: int, effects: int | None = None) -> None:
    """Each peer sends this on a gossip stream and nothing more, until it is dropped."""

    async def attempt() -> None:
        async with connected_host(target) as host:
            stream = await open_gossip(host, target.peer)
            try:
                await stream.write(message)
            finally:
                target.effect()
            await stream.read()

    await by_many(target, attempt, peers, effects=effects)


async def stalled_messages(target: Target) -> None:
    """Each peer sends all but the last byte of the largest message."""
    await send_and_wait(target, varint.encode(MAX_RPC_BYTES) + bytes(MAX_RPC_BYTES - 1), 24, effects=12)


async def trickled_messages(target: Target) -> None:
    """As many bytes in all, but each peer sends a message of half a megabyte and a new one as soon as it is dropped."""

    async def attempt() -> None:
        async with connected_host(target) as host:
            while True:
                stream = await open_gossip(host, target.peer)
                await stream.write(varint.encode(MAX_RPC_BYTES) + bytes(1 << 19))
                for number in range(60):
                    if number == TRICKLED:
                        target.effect()
                    await stream.write(bytes(1 << 16))
                    await asyncio.sleep(0.1)
                stream.reset()

    await by_many(target, attempt)


async def completed_messages(target: Target) -> None:
    """Each peer completes a message of the largest size, an unknown field, and sends nothing more."""
    field = protobuf.bytes_field(15, bytes(MAX_RPC_BYTES - 8))
    await send_and_wait(target, varint.encode(len(field)) + field, 24, effects=12)


async def bombs(target: Target) -> None:
    """Messages of the largest size, each of many blocks that decompress to twenty times their size."""
    messages = []
    for number in range(21):
        data = snappy.compress(number.to_bytes(2, "big") + bytes(snappy.MAX_BYTES - 64) + os.urandom(8))
        messages.append(PubsubMessage(TOPIC, data))
    bomb = encode_frame(Rpc(messages=messages))
    assert len(bomb) < MAX_RPC_BYTES + 8
    await send_and_wait(target, bomb, 20)


def huge_blocks_of_numbers() -> Callable[[int], tuple[bytes, bytes]]:
    """Make a response with a block of the largest size for each number: its beginning, and the rest, which is the same
    for all and is compressed once."""
    rollup, number, block_hash = chain_since(int(time.time()) - 600), 0x0123456789ABCDEF, os.urandom(32)
    transactions = tuple(os.urandom(1 << 16) for _ in range(159))
    payload = block(4, number, timestamp=int(time.time()), transactions=transactions)
    payload = msgspec.structs.replace(payload, block_hash=block_hash)
    raw = block_message.encode_signed_part(payload, block_message.version_at(rollup, payload.timestamp))
    head = payload_by_number.encode_block(rollup, payload)[:RESPONSE_HEAD]
    rest = snappy.compress_framed(raw[CHUNK:])[IDENTIFIER:]

    def response(wanted: int) -> tuple[bytes, bytes]:
        # The hash, which no other block has, is not checked before the block's child is known.
        first = raw[:CHUNK].replace(block_hash, os.urandom(32))
        first = first.replace(number.to_bytes(8, "little"), wanted.to_bytes(8, "little"))
        return head + snappy.compress_framed(first), rest

    return response


async def huge_blocks(target: Target) -> None:
    """Each peer answers our requests with blocks of the largest size, which are of no chain."""
    response_to = huge_blocks_of_numbers()

    async def respond(stream: Stream) -> None:
        number = payload_by_number.decode_request(await stream.read_exactly(payload_by_number.REQUEST_SIZE))
        for part in response_to(number or 0):
            await stream.write(part)
        target.effect()

    async def attempt() -> None:
        async with connected_host(target, respond) as host:
            await open_gossip(host, target.peer)
            await asyncio.sleep(60)

    await by_many(target, attempt, 18, effects=16)


# --- streams --------------------------------------------------------------------------------------


async def unread_streams(target: Target) -> None:
    """Each peer fills the windows of streams whose requests wait for their turn."""
    size = (1 << 18) - 200
    streams = [
        proposal(number, SYNC_PROTOCOL) + frame(DATA, 0, number, size, bytes(size)) for number in range(1, 4 * FULL, 2)
    ]

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            for stream in streams[:FULL]:
                await peer.send(stream)
            try:
                await peer.ping()
            finally:
                # A peer that lost its connection held more than its share.
                target.effect()
            for stream in streams[FULL:]:
                await peer.send(stream)
            await peer.is_disconnected(60)

    await by_many(target, attempt, effects=PEERS // 2)


async def open_streams(target: Target, opening: Callable[[int], bytes], effects: int | None = None) -> None:
    """Each peer opens as many streams as it may, with these bytes for the stream of a number, and leaves them."""

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            for number in range(1, 2 * STREAMS, 2):
                await peer.send(opening(number))
            target.effect()
            await peer.is_disconnected(60)

    await by_many(target, attempt, effects=effects)


async def idle_streams(target: Target) -> None:
    """Each peer opens as many streams as it may and leaves them idle."""
    await open_streams(target, lambda number: proposal(number, PING_PROTOCOL))


async def reset_streams(target: Target) -> None:
    """Each peer opens gossip streams and resets them at once, and never accepts one."""
    burst = b"".join(
        proposal(number, MESHSUB_12) + frame(WINDOW_UPDATE, RST, number, 0) for number in range(1, 2 * 150, 2)
    )

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            reading = asyncio.create_task(peer.is_disconnected(60))
            while not reading.done():
                await peer.send(burst)
                target.effect()
                await asyncio.sleep(1)

    await by_many(target, attempt)


async def unanswered_negotiations(target: Target) -> None:
    """Each peer opens streams and never proposes a protocol, or proposes unknown ones only."""
    unknown = encode_line("/" + "x" * 100)
    lines = encode_line(HEADER) + unknown * 60

    def opening(number: int) -> bytes:
        return frame(WINDOW_UPDATE, SYN, number, 0) + frame(DATA, 0, number, len(lines), lines)

    await open_streams(target, opening, effects=PEERS // 2)


# --- what a peer does not read --------------------------------------------------------------------


async def unread_replies(target: Target) -> None:
    """Each peer sends pings of yamux and does not read the replies."""
    pings = frame(PING, SYN, 0, 7) * 2500

    async def attempt() -> None:
        async with raw_peer(target.port, identity=new_identity()) as peer:
            while not peer.is_closing:
                await peer.send(pings)
                await asyncio.sleep(0.3)
                await peer.send(pings)
                target.effect()

    await by_many(target, attempt)


def _new_ids() -> bytes:
    """Return an announcement of 5,000 messages that nobody has. The ids are written into one encoding of many."""
    size, count = protobuf.bytes_field(2, bytes(64)), 5000
    ids = bytearray(os.urandom(len(size) * count))
    for at in range(len(size) - 64):
        ids[at :: len(size)] = size[at : at + 1] * count
    rpc = protobuf.bytes_field(3, protobuf.bytes_field(1, protobuf.bytes_field(1, TOPIC) + bytes(ids)))
    return varint.encode(len(rpc)) + rpc


async def unread_requests(target: Target) -> None:
    """Each peer announces messages and does not read our requests for them."""

    async def attempt() -> None:
        async with connected_host(target, reads_gossip=False) as host:
            stream = await open_gossip(host, target.peer)
            while True:
                await stream.write(_new_ids())
                target.effect()
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
    """Hundreds of connections stop within the handshake, after a part of the longest message it may have."""
    opening = encode_line(HEADER) + encode_line("/noise") + b"\xff\xff" + bytes(60_000)

    async def attempt() -> None:
        async with tcp_connection(target.port) as (reader, writer):
            writer.write(opening)
            target.effect()
            while await reader.read(1 << 16):
                pass

    await by_many(target, attempt, 300, effects=500)


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

    await by_many(target, attempt, 100, effects=500)


async def malformed_messages(target: Target) -> None:
    """Peers send malformed gossip, requests and blocks, over and over."""
    bad_block = PubsubMessage(TOPIC, snappy.compress(os.urandom(500)))

    async def attempt() -> None:
        async with connected_host(target) as host:
            while True:
                stream = await open_gossip(host, target.peer)
                await stream.write(encode_frame(Rpc(messages=(bad_block,))))
                await stream.write(varint.encode(10) + bytes(10))
                _, request = await host.open_stream(target.peer, (SYNC_PROTOCOL,))
                await request.write(os.urandom(3))
                request.close()
                target.effect()
                await asyncio.sleep(0.05)

    await by_many(target, attempt, 20)


async def datagrams(target: Target) -> None:
    """Datagrams to the discovery port: noise, and messages of unknown nodes from many ports."""
    target.expect(50)
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(50)]
    for item in sockets:
        item.setblocking(False)
    while True:
        for item in sockets:
            with contextlib.suppress(OSError):
                item.sendto(os.urandom(200), ("127.0.0.1", target.discovery_port))
        target.effect()
        await asyncio.sleep(0.005)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        *(stalled_messages, trickled_messages, completed_messages, bombs, huge_blocks),
        *(unread_replies, unread_requests, unread_blocks),
        *(unread_streams, idle_streams, reset_streams, unanswered_negotiations),
        *(half_open_connections, new_identities, garbage, malformed_messages, datagrams),
    )
}


def attack_forever(attack: str, address: str, discovery_port: str) -> None:
    """Attacks until the process is killed."""
    asyncio.run(ATTACKS[attack](Target(address, int(discovery_port))))


if __name__ == "__main__":
    sys.exit(forked_attacks.run(attack_forever))
