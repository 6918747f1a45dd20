"""`rollup-node health`: finds the nodes of this user, and tells in one line what is wrong."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from rollup_node.node import cli
from rollup_node.tools.commands import health
from tests.support.foreign_user import FOREIGN_USER, needs_root
from tests.support.servers.http_listener import app_for_every_path, listening
from tests.support.servers.loopback import free_port, own_address
from tests.support.servers.threads import in_thread


class Node:
    """A node that answers /healthz with a status."""

    def __init__(self) -> None:
        self.status, self.url = 200, ""

    async def answer(self, request: web.Request) -> web.Response:
        return web.Response(status=self.status if request.path == "/healthz" else 404)


@pytest.fixture
def server() -> Iterator[Node]:
    node = Node()
    with in_thread(listening(app_for_every_path(node.answer))) as (url,):
        node.url = url.rstrip("/")
        yield node


def process(folder: Path, pid: int, title: str, lock: Path | None, url: str = "") -> None:
    """Make a process as the kernel shows it, and what it has in its runtime directory."""
    own = folder / "proc" / str(pid)
    (own / "fd").mkdir(parents=True)
    (own / "cmdline").write_bytes(title.encode() + b"\0")
    (own / "fd" / "0").symlink_to("/dev/null")
    if lock is not None:
        lock.parent.mkdir()
        (own / "fd" / "7").symlink_to(lock)
        if url:
            (lock.parent / "rpc.url").write_text(url)


def test_the_nodes_of_this_machine_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: Node
) -> None:
    """[LIF31]"""
    monkeypatch.setattr(health, "PROC", tmp_path / "proc")
    monkeypatch.setenv("http_proxy", f"http://{own_address()}:{free_port()}")
    assert cli.main(["health"]) == 1
    assert capsys.readouterr().err == (
        "rollup-node: this user runs no node here whose RPC server has started: give its address with --rpc\n"
    )
    url = server.url
    process(tmp_path, 1, "rollup-node: supervisor", tmp_path / "a" / "lock", url)
    process(tmp_path, 2, "rollup-node: supervisor", tmp_path / "b" / "lock")
    process(tmp_path, 3, "rollup-node: rpc", tmp_path / "c" / "lock", "http://127.0.0.1:1")
    process(tmp_path, 4, "sh", None)
    assert cli.main(["health"]) == 0
    assert capsys.readouterr().out == f"{url} is alive\n"


@needs_root
def test_root_leaves_the_processes_of_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They could name any file of this machine."""
    monkeypatch.setattr(health, "PROC", tmp_path / "proc")
    for pid in (1, 2):
        process(tmp_path, pid, "rollup-node: supervisor", tmp_path / str(pid) / "lock", "http://127.0.0.1:1")
    os.chown(tmp_path / "proc" / "2", FOREIGN_USER, FOREIGN_USER)
    assert list(health.own_directories()) == [tmp_path / "1"]


def test_what_is_wrong_is_one_line(capsys: pytest.CaptureFixture[str], server: Node) -> None:
    server.status = 503
    url, closed = server.url, f"http://{own_address()}:{free_port()}"
    for address, text in (
        (url, f"{url}/healthz answers with status 503"),
        (closed, f"{closed} does not answer: [Errno 111] Connection refused"),
    ):
        assert cli.main(["health", "--rpc", address]) == 1
        assert capsys.readouterr().err == f"rollup-node: {text}\n"
