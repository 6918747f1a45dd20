"""What the options say about peers."""

import socket

import pytest

from rollup_node.node.checks.finding import FindingLevel
from rollup_node.node.setup.networks import find_network
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.tools.preflight.peers import check_peers
from tests.support.servers.loopback import free_port, own_address

ROLLUP = find_network("op-sepolia").config
PEER = "16Uiu2HAmJhfG1LTk9eYYpXqLxNuZBXKDaQEzQHtrMF8pkkNUpmTF"


async def codes(**options: object) -> list[Code | None]:
    config = P2pConfig(ROLLUP, **options)  # type: ignore[arg-type]
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
    config = P2pConfig(ROLLUP, static=(f"/ip4/192.0.2.1/tcp/9222/p2p/{PEER}", name), netrestrict=("127.0.0.0/8",))
    result = await check_peers(config, 20.0)
    assert [item.level for item in result[1:]] == [FindingLevel.NOT_CHECKED] * (len(result) - 1) and len(result) >= 2
    with socket.create_server((own_address(), 0)) as peer:
        assert await codes(static=(static(peer.getsockname()[1]),), netrestrict=("127.0.0.0/8",)) == []
