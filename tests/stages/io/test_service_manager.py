"""Datagrams to a service manager [LIF36]."""

import socket
from pathlib import Path

import pytest

from rollup_node.stages.io.service_manager import tell_service_manager


@pytest.mark.parametrize("is_file", [True, False])
def test_lines_are_one_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_file: bool) -> None:
    name = f"{'' if is_file else '@'}{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name if is_file else f"\0{name[1:]}")
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        tell_service_manager("READY=1", "STATUS=all is well")
        assert receiver.recv(1000) == b"READY=1\nSTATUS=all is well"


@pytest.mark.parametrize("name", ["", "vsock:2:1234", "/nowhere/notify", "@nobody"])
def test_without_one_nothing_happens(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    tell_service_manager("READY=1")


def test_one_that_takes_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        for _ in range(2000):
            tell_service_manager("WATCHDOG=1")
        assert receiver.recv(100) == b"WATCHDOG=1"
