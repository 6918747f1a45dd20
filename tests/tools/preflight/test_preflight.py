"""All checks in one run: bounded, and each for itself. What they find is in the tests of `rollup-node check`."""

import asyncio
import os
import shutil
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rollup_node.node.checks.finding import FindingLevel, ok
from rollup_node.node.setup.endpoint_checks import NodeEndpoints
from rollup_node.node.setup.networks import find_network
from rollup_node.node.system.resources import Memory
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.beacon import application
from rollup_node.tools.devnet.l1.light_client_routes import add_routes
from rollup_node.tools.preflight import preflight as module
from rollup_node.tools.preflight.preflight import (
    LITTLE,
    TOO_LITTLE,
    Subject,
    check_files,
    check_memory,
    check_peers,
    check_processes,
    preflight,
)
from tests.support.servers.checked_endpoints import ROLLUP, SECRET
from tests.support.servers.http_listener import listening
from tests.support.servers.loopback import free_port, own_address

SEPOLIA = find_network("op-sepolia").config
PEER = "16Uiu2HAmJhfG1LTk9eYYpXqLxNuZBXKDaQEzQHtrMF8pkkNUpmTF"


async def codes(**options: object) -> list[Code | None]:
    config = P2pConfig(SEPOLIA, **options)  # type: ignore[arg-type]
    return [item.code for item in await check_peers(config, 20.0) if item.level is not FindingLevel.OK]


def static(port: int) -> str:
    return f"/ip4/{own_address()}/tcp/{port}/p2p/{PEER}"


@pytest.mark.sign("PEERS-NONE", check=True)
async def test_without_peers() -> None:
    (result,) = await check_peers(None, 20.0)
    assert result.level is FindingLevel.OK
    assert await codes() == [Code.PEERS_NONE]
    assert await codes(bootnodes=("enode://a",)) == []
    assert await codes(bootnodes=("enode://a",), no_discovery=True) == [Code.PEERS_NONE]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"advertise_ip": "10.1.2.3"}, [Code.PEERS_ADDRESS]),
        ({"advertise_ip": "10.1.2.3", "nat": True}, []),
        ({"advertise_ip": "10.1.2.3", "netrestrict": ("10.0.0.0/8",)}, []),
        ({"advertise_ip": "9.9.9.9"}, []),
        ({"advertise_ip": "host.example"}, []),
    ],
)
async def test_the_advertised_address(options: dict[str, object], expected: list[Code]) -> None:
    assert await codes(bootnodes=("enode://a",), **options) == expected


async def test_static_peers_are_dialled() -> None:
    with socket.create_server((own_address(), 0)) as peer:
        assert await codes(static=(static(peer.getsockname()[1]),)) == []
    assert await codes(static=(static(free_port()),)) == [Code.PEER_UNREACHABLE]
    assert await codes(static=("nonsense",)) == [Code.PEER_UNREACHABLE]


async def test_peers_outside_of_the_allowed_networks_are_not_dialled() -> None:
    name = f"/dns4/peer.example/tcp/9222/p2p/{PEER}"
    config = P2pConfig(SEPOLIA, static=(f"/ip4/192.0.2.1/tcp/9222/p2p/{PEER}", name), netrestrict=("127.0.0.0/8",))
    result = await check_peers(config, 20.0)
    assert [item.level for item in result[1:]] == [FindingLevel.NOT_CHECKED] * (len(result) - 1) and len(result) >= 2
    with socket.create_server((own_address(), 0)) as peer:
        assert await codes(static=(static(peer.getsockname()[1]),), netrestrict=("127.0.0.0/8",)) == []


def subject(l1: str, jwt: bytes = SECRET, needs_safe_blobs: bool = True) -> Subject:
    endpoints = NodeEndpoints(ROLLUP, (l1,), "http://127.0.0.1:1", jwt, "jwt.txt")
    return Subject(endpoints, None, None, [], {}, needs_safe_blobs)


async def test_an_endpoint_that_never_answers_holds_up_no_other_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.3)
    accepted: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0) as server:
        result = await preflight(subject(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        for writer in accepted:
            writer.close()
    late = {item.check: item for item in result if item.code is Code.NO_RESULT}
    assert any(check.startswith("L1 ") for check in late)
    assert all(item.level is FindingLevel.ERROR and item.text == "no result within 0.3 s" for item in late.values())
    assert any(item.code is Code.ENGINE_UNREACHABLE for item in result)


async def test_a_bug_in_a_check_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(module, "check_files", fail)
    result = await preflight(subject("http://127.0.0.1:1"))
    (failed,) = [item for item in result if item.code is Code.NO_RESULT]
    assert (failed.check, failed.text) == ("files", "the check failed: ZeroDivisionError: by zero")
    assert {Code.L1_UNREACHABLE, Code.ENGINE_UNREACHABLE} <= {item.code for item in result}


async def test_an_engine_that_syncs_by_itself_needs_no_old_blobs() -> None:
    result = await preflight(subject("http://127.0.0.1:1", b"", needs_safe_blobs=False))
    texts = {item.check: item.text for item in result if item.level is FindingLevel.NOT_CHECKED}
    assert "syncs by itself" in texts["blobs of the safe head"]
    assert texts["engine 127.0.0.1:1"] == "there is no JWT secret to ask it with"


async def test_the_checkpoint() -> None:
    """Whether a beacon node proves it, with its age; without one, how to get it."""
    chain = L1Backend(l1_genesis(int(time.time()) - 7200), 12)
    for slot in (1, 2):
        chain.mine(chain.genesis_time + 12 * slot)
    without = subject("http://127.0.0.1:1")
    (finding,) = [item for item in await preflight(without) if item.check.startswith("checkpoint")]
    assert finding.level is FindingLevel.OK and "rollup-node checkpoint prints one" in finding.text
    app = application(chain)
    add_routes(app, chain)
    for root, level, text in (
        (chain.headers.root(chain.chain.genesis), FindingLevel.OK, "proves the root of slot 0, 2 hours old"),
        (b"\x11" * 32, FindingLevel.ERROR, "does not know a block with root 0x1111"),
    ):
        async with listening(app) as (url,):
            config = CheckpointConfig(root, (url,), chain.network)
            asked = without._replace(endpoints=without.endpoints._replace(checkpoint=config))
            (finding,) = [item for item in await preflight(asked) if item.check.startswith("checkpoint")]
        assert finding.level is level and text in finding.text


def test_files_that_exist_or_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    files = check_files({"a": str(tmp_path / "there"), "b": str(tmp_path / "new" / "deep" / "file")})
    levels = {item.check: item.level for item in files if "disk" not in item.check}
    assert levels == {"--a": FindingLevel.OK, "--b": FindingLevel.OK}
    assert sum("disk" in item.check for item in files) == 1, "a disk is reported once"
    assert [item.name for item in tmp_path.iterdir()] == ["there"], "nothing is made"


def test_a_directory_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the answer of the system is replaced."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    check_file = check_files({"a": str(tmp_path / "file")})[0]
    assert (check_file.code, check_file.text) == (Code.DIRECTORY, f"{tmp_path} cannot be written")


@pytest.mark.parametrize(
    ("free", "level"),
    [(LITTLE, FindingLevel.OK), (LITTLE - 1, FindingLevel.WARNING), (TOO_LITTLE - 1, FindingLevel.ERROR)],
)
def test_room_on_the_disk(free: int, level: FindingLevel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    check_file = check_files({"a": str(tmp_path)})[-1]
    assert check_file.level is level and check_file.code is (None if level is FindingLevel.OK else Code.DISK)


@pytest.mark.sign("MEMORY", check=True)
def test_the_findings() -> None:
    little = check_memory(lambda: Memory(4 * 10**9, 10**8))
    assert (little.level, little.code, little.text) == (FindingLevel.WARNING, Code.MEMORY, "100 MB of 4000 MB are left")
    assert check_memory(lambda: Memory(4 * 10**9, 10**9)).level is FindingLevel.OK
    assert check_memory(lambda: None).level is FindingLevel.NOT_CHECKED
    few = check_processes(7, 35)
    assert (few.level, few.code) == (FindingLevel.ERROR, Code.HOST_LIMIT)
    assert check_processes(7, 36) == ok("processes", "the node needs 36 processes and threads, and the limit leaves 36")
