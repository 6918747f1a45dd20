"""A peer without a protocol stack: plain TCP, or hand-written yamux frames after a valid handshake."""

import asyncio
import contextlib
import os
import struct
from collections.abc import AsyncIterator, Callable, Iterable

from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.encoding.multistream import HEADER, encode_line
from rollup_node.stages.p2p.transport.noise import NoiseKeys, SecureSession
from rollup_node.stages.p2p.transport.upgrader import Upgrader

DATA, WINDOW_UPDATE, PING, GO_AWAY = range(4)
SYN, ACK, FIN, RST = 1, 2, 4, 8


def frame(kind: int, flags: int, stream: int, length: int, body: bytes = b"") -> bytes:
    """Return a yamux frame, valid or not."""
    return struct.pack(">BBHII", 0, kind, flags, stream, length) + body


def proposal(stream: int, protocol: str) -> bytes:
    """Return the frames that open a stream and propose a protocol."""
    lines = encode_line(HEADER) + encode_line(protocol)
    return frame(WINDOW_UPDATE, SYN, stream, 0) + frame(DATA, 0, stream, len(lines), lines)


class RawPeer:
    """An upgraded connection without streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sealed: SecureSession) -> None:
        self._reader, self._writer, self._sealed = reader, writer, sealed

    @property
    def is_closing(self) -> bool:
        """Whether the connection is gone."""
        return self._writer.transport.is_closing()

    async def send(self, plain: bytes) -> None:
        """Send encrypted bytes; the other end may be gone already."""
        with contextlib.suppress(ConnectionError):
            self._writer.writelines(self._sealed.encrypt(plain))
            await self._writer.drain()

    async def ping(self) -> None:
        """Wait until the other end has read what was sent before. Raises ConnectionError."""
        await self.send(frame(PING, SYN, 0, 7))
        result = b""
        while frame(PING, ACK, 0, 7) not in result:
            data = await self._reader.read(1 << 16)
            if not data:
                raise ConnectionError("the connection ended before the reply to a ping")
            result += b"".join(self._sealed.receive_data(data))

    async def send_each(self, plains: Iterable[bytes]) -> None:
        """Send each in its own noise message."""
        await self.send_raw(b"".join(piece for plain in plains for piece in self._sealed.encrypt(plain)))

    async def send_raw(self, raw: bytes) -> None:
        """Send bytes outside of noise."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(raw)
            await self._writer.drain()

    async def read_until(self, condition: Callable[[bytes], object]) -> bytes:
        """Return the decrypted bytes up to those with which the condition holds. Raises TimeoutError."""
        until = b""
        async with asyncio.timeout(30.0):
            while not condition(until):
                data = await self._reader.read(1 << 16)
                assert data, f"the connection ended after {until[-200:]!r}"
                until += b"".join(self._sealed.receive_data(data))
        return until

    async def read_for(self, seconds: float) -> bytes:
        """Return the decrypted bytes that arrive within a time."""
        result = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while data := await self._reader.read(1 << 16):
                    result += b"".join(self._sealed.receive_data(data))
        return result

    async def is_disconnected(self, seconds: float = 5.0) -> bool:
        """Whether the other end closes the connection in time."""
        try:
            async with asyncio.timeout(seconds):
                while await self._reader.read(1 << 16):
                    pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True


@contextlib.asynccontextmanager
async def tcp_connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield a TCP connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def raw_peer(port: int, number: int = 99, identity: NetworkIdentity | None = None) -> AsyncIterator[RawPeer]:
    """Yield an upgraded connection of a peer: that with this number unless an identity is given."""
    keys = NoiseKeys(os.urandom(32), os.urandom(32))
    upgrade = Upgrader(identity or NetworkIdentity(bytes([number]) * 32), keys, initiator=True)
    async with tcp_connection(port) as (reader, writer):
        result = None
        while result is None:
            writer.write(upgrade.data_to_send())
            data = await reader.read(1 << 16)
            if not data:
                raise ConnectionError("refused")
            result = upgrade.receive_data(data)
        writer.write(upgrade.data_to_send())
        yield RawPeer(reader, writer, result.session)
