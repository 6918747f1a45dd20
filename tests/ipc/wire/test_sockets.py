"""Socket paths, and sends that never wait."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from rollup_node.ipc.wire import sockets
from rollup_node.ipc.wire.sockets import BATCH, MAX_PATH_BYTES, ChannelSocket, socket_path

Context = zmq.Context[zmq.Socket[bytes]]


class SocketFactory:
    """Opens sockets at one path; ROUTER sockets bind it. `readable` counts the calls of `on_readable`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.context: Context = zmq.Context()
        self.readable = 0
        self._opened: list[ChannelSocket] = []

    def open(
        self, kind: int, *, routing_id: bytes = b"", queue: int = 256, only_connected: bool = False
    ) -> ChannelSocket:
        socket = ChannelSocket(
            self.context,
            kind,
            self.path,
            bind=kind == zmq.ROUTER,
            routing_id=routing_id,
            queue=queue,
            only_connected=only_connected,
        )
        socket.on_readable = self._on_readable
        self._opened.append(socket)
        return socket

    def close(self) -> None:
        for socket in self._opened:
            socket.close()
        self.context.destroy(linger=0)

    def _on_readable(self) -> None:
        self.readable += 1


@pytest.fixture
def factory(tmp_path: Path) -> Iterator[SocketFactory]:
    factory = SocketFactory(tmp_path / "s")
    yield factory
    factory.close()


def receive(socket: ChannelSocket, count: int) -> list[list[bytes]]:
    """Return the next messages, within 30 s."""
    received: list[list[bytes]] = []
    deadline = time.monotonic() + 30
    while len(received) < count:
        assert time.monotonic() < deadline, f"{len(received)} of {count} messages"
        socket.receive(received.append)
        time.sleep(0.001)
    return received


def test_the_longest_path_that_the_system_binds(factory: SocketFactory, tmp_path: Path) -> None:
    room = MAX_PATH_BYTES - len(str(tmp_path)) - len("/.sock")
    factory.path = socket_path(tmp_path, "c" * room)
    socket = factory.open(zmq.ROUTER)
    assert factory.path.exists()
    socket.close()
    with pytest.raises(ValueError, match=r"has 108 bytes, the system allows 107: .* 1 bytes shorter"):
        socket_path(tmp_path, "c" * (room + 1))


def test_a_send_after_the_close_fails(factory: SocketFactory) -> None:
    """While a process stops, requests may still be answered."""
    socket = factory.open(zmq.DEALER)
    socket.close()
    assert not socket.send([b"late"])


def test_a_send_to_an_unknown_process_fails(factory: SocketFactory) -> None:
    assert not factory.open(zmq.ROUTER).send([b"unknown", b"x"])


def test_a_send_into_a_full_queue_fails_without_waiting(factory: SocketFactory) -> None:
    socket = factory.open(zmq.DEALER, queue=3)
    assert [socket.send([b"x"]) for _ in range(5)] == [True] * 3 + [False] * 2


def test_only_connected_queues_nothing_before_the_connection(factory: SocketFactory) -> None:
    assert not factory.open(zmq.DEALER, only_connected=True).send([b"x"])


def test_a_bind_takes_over_a_stale_path(factory: SocketFactory) -> None:
    factory.path.touch()
    server = factory.open(zmq.ROUTER)
    factory.open(zmq.DEALER, routing_id=b"me").send([b"hello"])
    assert receive(server, 1) == [[b"me", b"hello"]]


def test_receive_handles_at_most_a_batch_and_returns_whether_there_may_be_more(factory: SocketFactory) -> None:
    server = factory.open(zmq.ROUTER, queue=1000)
    client = factory.open(zmq.DEALER, routing_id=b"me", queue=1000)
    count = 3 * BATCH + 10
    for number in range(count):
        assert client.send([str(number).encode()])
    received: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(received) < count:
        assert time.monotonic() < deadline
        before = len(received)
        more = server.receive(lambda frames: received.append(frames[1]))
        assert more == (len(received) - before == BATCH)
    assert received == [str(number).encode() for number in range(count)]


def test_a_send_reports_messages_that_the_descriptor_will_not_signal(factory: SocketFactory) -> None:
    server = factory.open(zmq.ROUTER)
    client = factory.open(zmq.DEALER, routing_id=b"me")
    client.send([b"hello"])
    receive(server, 1)
    assert factory.readable == 0
    assert server.send([b"me", b"response"])
    deadline = time.monotonic() + 30
    while not factory.readable:
        assert time.monotonic() < deadline
        client.send([b"again"])
    assert receive(client, 1) == [[b"response"]]


def test_an_oversized_message_is_never_received(factory: SocketFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "MAX_MESSAGE_BYTES", 1000)
    server = factory.open(zmq.ROUTER)
    factory.open(zmq.DEALER, routing_id=b"big").send([bytes(1001)])
    honest = factory.open(zmq.DEALER, routing_id=b"me")
    honest.send([bytes(999)])
    assert receive(server, 1) == [[b"me", bytes(999)]]
    honest.send([b"last"])
    assert receive(server, 1) == [[b"me", b"last"]]


def test_a_removed_file_is_bound_again_and_connections_stay(factory: SocketFactory) -> None:
    server, before = factory.open(zmq.ROUTER), factory.open(zmq.DEALER, routing_id=b"before")
    assert not server.bind_again() and not before.bind_again()
    before.send([b"1"])
    assert receive(server, 1) == [[b"before", b"1"]]
    factory.path.unlink()
    assert server.bind_again() and not server.bind_again()
    after = factory.open(zmq.DEALER, routing_id=b"after")
    for client in (before, after):
        client.send([b"2"])
    assert sorted(receive(server, 2)) == [[b"after", b"2"], [b"before", b"2"]]
    factory.path.unlink()
    factory.path.touch()
    assert server.bind_again(), "another file has taken its place"
