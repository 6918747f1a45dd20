"""A TCP relay in front of an endpoint that a test can make unreachable."""

import selectors
import socket
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"


class TcpRelay:
    """Relays TCP connections to the port of a URL on the loopback interface.

    A cut closes open connections and refuses new ones; its own port stays bound, so that no other program gets it."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._selector = selectors.DefaultSelector()
        self._other_end: dict[socket.socket, socket.socket] = {}
        self._listener: socket.socket | None = None
        self._wake, self._woken = socket.socketpair()
        self._open, self._closing = True, False
        self._done = threading.Event()
        self._reservation = socket.socket()
        self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reservation.bind((LOOPBACK, 0))
        self.name = f"{LOOPBACK}:{self._reservation.getsockname()[1]}"
        self.url = f"http://{self.name}"
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="relay")
        self._thread.start()
        self.restore()

    def cut(self) -> None:
        """Close all connections and refuses new ones."""
        self._set_open(False)

    def restore(self) -> None:
        """Accept connections again."""
        self._set_open(True)

    def redirect(self, target: str) -> None:
        """Close all connections; new ones lead to the port of another URL."""
        self.cut()
        self._target = target
        self.restore()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._set_open(False)
        self._closing = True
        self._wake.send(b".")
        self._thread.join(30)
        for item in (self._reservation, self._wake, self._woken):
            item.close()
        self._selector.close()

    def _set_open(self, wanted: bool) -> None:
        self._open = wanted
        self._done.clear()
        self._wake.send(b".")
        assert self._done.wait(30)

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if ready is self._woken:
                    ready.recv(1)
                    self._listen() if self._open else self._close_all()
                    self._done.set()
                elif ready is self._listener:
                    self._accept()
                elif ready in self._other_end:
                    self._relay(ready)

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(self._reservation.getsockname())
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _close_all(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        for item in list(self._other_end):
            self._close(item)

    def _accept(self) -> None:
        assert self._listener is not None
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection((LOOPBACK, urlsplit(self._target).port or 0), 20)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            self._other_end[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _relay(self, ready: socket.socket) -> None:
        try:
            data = ready.recv(1 << 16)
            if data:
                self._other_end[ready].sendall(data)
                return
        except OSError:
            pass
        self._close(ready)

    def _close(self, one: socket.socket) -> None:
        other = self._other_end.pop(one, None)
        if other is not None:
            self._selector.unregister(one)
            one.close()
            self._close(other)
