"""Findings, and what a start makes of them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rollup_node.node.checks.finding import (
    FindingLevel,
    ListenAddress,
    check_port,
    check_ports,
    error,
    not_checked,
    ok,
    require,
    warning,
)
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from tests.support.servers.loopback import free_port, own_address


def test_the_remedy_is_that_of_the_code_unless_there_is_a_better_one() -> None:
    assert warning("disk", Code.DISK, "1 GiB").remedy == Code.DISK.remedy
    assert error("disk", Code.DISK, "1 GiB", "do this").remedy == "do this"
    assert ok("disk", "1 GiB").remedy == ""
    skipped = not_checked("disk", "it is gone")
    assert (skipped.level, skipped.text) == (FindingLevel.NOT_CHECKED, "it is gone")


def test_a_start_logs_warnings_and_ends_at_the_first_error(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [
        ok("a", "fine"),
        warning("b", Code.CLOCK, "clocks differ"),
        error("c", Code.DISK, "no room"),
        error("d", Code.L1_CHAIN, "another"),
    ]
    with pytest.raises(SetupError, match=rf"^no room: {Code.DISK.remedy} \(DISK\)$"):
        require(findings, Logger("start"))
    log = capsys.readouterr().err
    assert "clocks differ" in log and "CLOCK" in log and Code.CLOCK.remedy in log and "fine" not in log


OWN = own_address()


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server((OWN, 0)) as server:
        yield server.getsockname()[1]


def listener(port: int, group: str = "rpc", address: str = OWN, is_udp: bool = False) -> ListenAddress:
    return ListenAddress(f"{group}.addr", f"{group}.port", address, port, is_udp)


def test_a_port_in_use_is_named() -> None:
    with listening() as port:
        result = check_port(listener(port))
    assert (result.level, result.code) == (FindingLevel.ERROR, Code.PORT_TAKEN)
    assert (result.text, result.remedy) == (
        f"port {port} is in use on {OWN}",
        "stop the program that uses it, or give another --rpc.port",
    )
    assert check_port(listener(port)).level is FindingLevel.OK
    assert check_port(listener(0)).level is FindingLevel.OK


def test_a_udp_port_in_use_is_named() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind((OWN, 0))
        port = taken.getsockname()[1]
        result = check_port(listener(port, "p2p", is_udp=True))
    assert result.code is Code.PORT_TAKEN and result.text == f"UDP port {port} is in use on {OWN}"
    assert check_port(listener(port, "p2p", is_udp=True)).level is FindingLevel.OK


def test_an_address_that_is_not_ours_is_named() -> None:
    port = check_port(listener(9999, address="192.0.2.1"))
    assert port.code is Code.PORT_ADDRESS
    assert port.text.startswith("cannot listen on 192.0.2.1 port 9999 (--rpc.addr, --rpc.port): ")


def test_two_servers_need_two_ports() -> None:
    assert not any(check_port.is_error for check_port in check_ports([listener(0), listener(0, "metrics")]))
    port = free_port()
    twice = check_ports([listener(port), listener(port, "metrics")])[1]
    assert twice.code is Code.PORT_TAKEN and twice.text == f"--rpc.port and --metrics.port are both {port}"
    assert not any(
        check_port.is_error for check_port in check_ports([listener(port), listener(port, "p2p", is_udp=True)])
    )
