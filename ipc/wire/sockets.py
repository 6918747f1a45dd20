"""ZeroMQ sockets with their rules: never a blocking call, linger 0, bounded queues and sizes, drained in batches.

A socket's descriptor only says that something has changed since it was last looked at, and a send looks too; so
after each send the socket says whether it has mail, and a drain that stops early is continued, never awaited."""

from collections.abc import Callable, Iterable
from pathlib import Path

import zmq

BATCH = 128
MAX_MESSAGE = 256 << 20
PATH_LIMIT = 107
_RECONNECT_MS = 20
_NOT_SENT = (zmq.EAGAIN, zmq.EHOSTUNREACH)


def socket_path(directory: Path, channel: str) -> Path:
    """Where a channel's socket lies; ValueError when the system cannot bind so long a path."""
    path = directory.absolute() / f"{channel}.sock"
    if (length := len(str(path).encode())) > PATH_LIMIT:
        raise ValueError(
            f"socket path {path} has {length} bytes, the system allows {PATH_LIMIT}: "
            f"use a runtime directory whose path is {length - PATH_LIMIT} bytes shorter"
        )
    return path


def check_paths(directory: Path, channels: Iterable[str]) -> None:
    """Raises ValueError when a channel's socket would not fit under `directory`."""
    socket_path(directory, max(channels, key=len))


class Link:
    """One socket, bound or connected for good. `on_mail` is called when messages wait that nobody is told of."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        kind: int,
        path: Path,
        *,
        bind: bool,
        on_mail: Callable[[], None],
        identity: bytes = b"",
        queue: int = 256,
        only_connected: bool = False,
    ) -> None:
        self._socket = context.socket(kind)
        self._path = path if bind else None
        self._on_mail = on_mail
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.SNDHWM, queue),
            (zmq.RCVHWM, queue),
            (zmq.MAXMSGSIZE, MAX_MESSAGE),
            (zmq.RECONNECT_IVL, _RECONNECT_MS),
            (zmq.IMMEDIATE, int(only_connected)),
        ):
            self._socket.setsockopt(option, value)
        if identity:
            self._socket.setsockopt(zmq.IDENTITY, identity)
        if kind == zmq.ROUTER:
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        if kind == zmq.XPUB:
            self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        if kind == zmq.SUB:
            self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        if bind:
            self._socket.bind(f"ipc://{path}")
        else:
            self._socket.connect(f"ipc://{path}")
        self.fileno = int(self._socket.getsockopt(zmq.FD))

    def send(self, frames: list[bytes]) -> bool:
        """Hands the message over without waiting; False when the other side is gone or its queue is full."""
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in _NOT_SENT:
                raise
            return False
        finally:
            if int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                self._on_mail()
        return True

    def drain(self, handle: Callable[[list[bytes]], None]) -> bool:
        """Handles the messages that are there, at most a batch; True when there may be more."""
        for _ in range(BATCH):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return False
            handle(frames)
        return True

    def close(self) -> None:
        """Closes at once and removes what it bound."""
        self._socket.close(linger=0)
        if self._path is not None:
            self._path.unlink(missing_ok=True)
