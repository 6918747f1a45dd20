"""Socket paths, and sends that never wait."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from rollup_node.ipc.wire import sockets
from rollup_node.ipc.wire.sockets import BATCH, PATH_LIMIT, Link, check_paths, socket_path

Context = zmq.Context[zmq.Socket[bytes]]


@pytest.fixture
def context() -> Iterator[Context]:
    made: Context = zmq.Context()
    yield made
    made.destroy(linger=0)


def make(context: Context, kind: int, path: Path, mail: list[int] | None = None, **options: object) -> Link:
    """A link that notes when it has mail."""
    told: list[int] = [] if mail is None else mail
    bind = kind in (zmq.ROUTER, zmq.XPUB)
    return Link(context, kind, path, bind=bind, on_mail=lambda: told.append(1), **options)  # type: ignore[arg-type]


def received(link: Link, count: int) -> list[list[bytes]]:
    """The next messages, waiting at most 5 s."""
    taken: list[list[bytes]] = []
    while len(taken) < count:
        assert link._socket.poll(5000), "nothing came"
        link.drain(taken.append)
    return taken


def test_the_longest_path_that_the_system_binds(context: Context, tmp_path: Path) -> None:
    room = PATH_LIMIT - len(str(tmp_path)) - len("/.sock")
    path = socket_path(tmp_path, "c" * room)
    link = make(context, zmq.ROUTER, path)
    assert path.exists()
    link.close()
    with pytest.raises(ValueError, match=r"has 108 bytes, the system allows 107: .* 1 bytes shorter"):
        socket_path(tmp_path, "c" * (room + 1))
    with pytest.raises(ValueError, match="runtime directory"):
        check_paths(tmp_path, ["a", "c" * (room + 1), "b"])


def test_a_closed_socket_leaves_no_file(context: Context, tmp_path: Path) -> None:
    link = make(context, zmq.ROUTER, tmp_path / "s")
    link.close()
    assert list(tmp_path.iterdir()) == []


def test_a_router_says_when_nobody_is_there(context: Context, tmp_path: Path) -> None:
    link = make(context, zmq.ROUTER, tmp_path / "s")
    assert not link.send([b"nobody", b"x"])
    link.close()


def test_a_full_queue_is_not_waited_for(context: Context, tmp_path: Path) -> None:
    link = make(context, zmq.DEALER, tmp_path / "s", queue=3)
    assert [link.send([b"x"]) for _ in range(5)] == [True] * 3 + [False] * 2
    link.close()


def test_only_connected_queues_nothing_for_later(context: Context, tmp_path: Path) -> None:
    link = make(context, zmq.DEALER, tmp_path / "s", only_connected=True)
    assert not link.send([b"x"])
    link.close()


def test_a_second_bind_takes_over_a_stale_path(context: Context, tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    server = make(context, zmq.ROUTER, tmp_path / "s")
    client = make(context, zmq.DEALER, tmp_path / "s", identity=b"me")
    client.send([b"hello"])
    assert received(server, 1) == [[b"me", b"hello"]]
    server.close()
    client.close()


def test_a_drain_ends_after_a_batch_and_says_so(context: Context, tmp_path: Path) -> None:
    server = make(context, zmq.ROUTER, tmp_path / "s", queue=1000)
    client = make(context, zmq.DEALER, tmp_path / "s", identity=b"me", queue=1000)
    count = 3 * BATCH + 10
    for number in range(count):
        assert client.send([str(number).encode()])
    taken: list[bytes] = []
    while len(taken) < count:
        assert server._socket.poll(5000)
        before = len(taken)
        more = server.drain(lambda frames: taken.append(frames[1]))
        assert more == (len(taken) - before == BATCH)
    assert taken == [str(number).encode() for number in range(count)]
    server.close()
    client.close()


def test_a_send_tells_of_mail_that_its_descriptor_will_not_show(context: Context, tmp_path: Path) -> None:
    mail: list[int] = []
    server = make(context, zmq.ROUTER, tmp_path / "s")
    client = make(context, zmq.DEALER, tmp_path / "s", mail, identity=b"me")
    client.send([b"hello"])
    received(server, 1)
    assert server.send([b"me", b"answer"])
    assert client._socket.poll(5000)
    mail.clear()
    client.send([b"again"])
    assert mail == [1]
    server.close()
    client.close()


def test_an_oversized_message_is_never_received(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MAX_MESSAGE", 1000)
    server = make(context, zmq.ROUTER, tmp_path / "s")
    hostile = make(context, zmq.DEALER, tmp_path / "s", identity=b"big")
    honest = make(context, zmq.DEALER, tmp_path / "s", identity=b"me")
    hostile.send([bytes(1001)])
    honest.send([bytes(999)])
    assert received(server, 1) == [[b"me", bytes(999)]]
    assert not server._socket.poll(100)
    for link in (server, hostile, honest):
        link.close()
