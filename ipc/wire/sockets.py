"""ZeroMQ sockets with their rules: no blocking call, linger 0, bounded queues and sizes, received in batches."""

from collections.abc import Callable
from pathlib import Path

import zmq

BATCH = 128
MAX_MESSAGE_BYTES = 256 << 20
MAX_PATH_BYTES = 107
_RECONNECT_MS = 20
_NOT_SENT = (zmq.EAGAIN, zmq.EHOSTUNREACH)
# Operators of the enums cost more than a small message.
_NOBLOCK, _EVENTS, _POLLIN = int(zmq.NOBLOCK), int(zmq.EVENTS), int(zmq.POLLIN)


def socket_path(directory: Path, channel: str) -> Path:
    """Return the path of a channel's socket. Raises ValueError when it is too long to bind."""
    path = directory.absolute() / f"{channel}.sock"
    if (length := len(str(path).encode())) > MAX_PATH_BYTES:
        raise ValueError(
            f"socket path {path} has {length} bytes, the system allows {MAX_PATH_BYTES}: "
            f"use a runtime directory whose path is {length - MAX_PATH_BYTES} bytes shorter"
        )
    return path


class ChannelSocket:
    """One socket, bound or connected for its whole life.

    Its owner sets `on_readable`, which is called when a send leaves messages waiting that `fileno` will not signal."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        kind: int,
        path: Path,
        *,
        bind: bool,
        routing_id: bytes = b"",
        queue: int = 256,
        only_connected: bool = False,
    ) -> None:
        self._socket = context.socket(kind)
        self._path = path if bind else None
        self.on_readable: Callable[[], None] = lambda: None
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.SNDHWM, queue),
            (zmq.RCVHWM, queue),
            (zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES),
            (zmq.RECONNECT_IVL, _RECONNECT_MS),
            (zmq.IMMEDIATE, int(only_connected)),
        ):
            self._socket.setsockopt(option, value)
        if routing_id:
            self._socket.setsockopt(zmq.IDENTITY, routing_id)
        if kind == zmq.ROUTER:
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        if kind == zmq.XPUB:
            self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        if kind == zmq.SUB:
            self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._file = 0
        if bind:
            self._bind(path)
        else:
            self._socket.connect(f"ipc://{path}")
        self.fileno = int(self._socket.getsockopt(zmq.FD))

    def send(self, frames: list[bytes]) -> bool:
        """Queue the message without waiting; False when the other side is gone, its queue is full, or it is closed."""
        if self._socket.closed:
            return False
        try:
            self._socket.send_multipart(frames, _NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in _NOT_SENT:
                raise
            return False
        finally:
            # The descriptor is edge-triggered and a send consumes the edge: ask for waiting messages here.
            if int(self._socket.getsockopt(_EVENTS)) & _POLLIN:
                self.on_readable()
        return True

    def receive(self, handle: Callable[[list[bytes]], None]) -> bool:
        """Handle a batch of the waiting messages; True when it must be called again before waiting for `fileno`."""
        for _ in range(BATCH):
            try:
                frames = self._socket.recv_multipart(_NOBLOCK)
            except zmq.Again:
                return False
            handle(frames)
        return True

    def subscribe_again(self) -> None:
        """Have the publisher see a new subscription."""
        self._socket.setsockopt(zmq.UNSUBSCRIBE, b"")
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")

    def bind_again(self) -> bool:
        """Bind again if the file of the socket was removed or replaced; whether it was.

        Connections stay: only those that are made from now on need the file."""
        if self._path is None or _inode(self._path) == self._file:
            return False
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        self._bind(self._path)
        return True

    def _bind(self, path: Path) -> None:
        self._socket.bind(f"ipc://{path}")
        self._file = _inode(path)

    def close(self) -> None:
        """Close at once and remove the path it bound."""
        self._socket.close(linger=0)
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _inode(path: Path) -> int:
    """Return the number of a file, 0 where there is none."""
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return 0
