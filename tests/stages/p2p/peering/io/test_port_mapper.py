"""The port mapper, and requests by NAT-PMP and UPnP, with gateways on the loopback interface."""

from pathlib import Path

import pytest

from rollup_node.stages.p2p.addresses.ip import parse_subnet
from rollup_node.stages.p2p.peering.io import port_mapper
from rollup_node.stages.p2p.peering.io.port_mapper import (
    LEASE_SECONDS,
    RETRY_SECONDS,
    ExternalMapping,
    GatewayAddress,
    GatewayAddresses,
    NatError,
    PortMapper,
    default_gateway,
    default_gateways,
    find_nat_pmp,
    find_upnp,
)
from tests.support.p2p.nat_gateways import (
    EXTERNAL_IP,
    PORTS,
    TCP_PORT,
    UDP_PORT,
    Responder,
    UpnpGatewayServer,
    nat_pmp_responder,
    serve_datagrams,
    serve_upnp,
)


async def test_a_nat_pmp_gateway_maps_and_unmaps_ports() -> None:
    async with serve_datagrams(nat_pmp_responder()) as (address, server):
        gateway = await find_nat_pmp(address)
        assert server.requests == []
        expected = ExternalMapping(EXTERNAL_IP, {UDP_PORT: 9223, TCP_PORT: 9223}, 600.0)
        assert await gateway.map_ports(PORTS) == expected
        assert server.requests[-1][6:8] == (9222).to_bytes(2, "big"), "the external port suggested at first"
        assert await gateway.map_ports(PORTS) == expected
        assert server.requests[-1][6:8] == (9223).to_bytes(2, "big"), "and at renewal"
        await gateway.unmap_ports(PORTS)
        assert [request[4:] for request in server.requests[-2:]] == [bytes.fromhex("2406000000000000")] * 2


@pytest.mark.parametrize("only_permanent_leases", [False, True])
async def test_a_upnp_gateway_maps_and_unmaps_ports(only_permanent_leases: bool) -> None:
    server = UpnpGatewayServer(only_permanent_leases=only_permanent_leases)
    async with serve_upnp(server) as address:
        gateway = await find_upnp(address)
        expected = ExternalMapping(EXTERNAL_IP, {UDP_PORT: 9222, TCP_PORT: 9222}, float(LEASE_SECONDS))
        assert await gateway.map_ports(PORTS) == expected
        added = [body for action, body in server.calls if action == "AddPortMapping"]
        assert all("<NewInternalClient>127.0.0.1<" in body for body in added)
        assert ("<NewLeaseDuration>0<" in added[-1]) == only_permanent_leases
        await gateway.unmap_ports(PORTS)
        assert [action for action, _ in server.calls[-2:]] == ["DeletePortMapping"] * 2


@pytest.mark.parametrize("url", ["http://127.0.0.2:1/x", "http://127.0.0.1:1/x"])
async def test_an_unavailable_description_raises(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_mapper, "_SEARCH_SECONDS", 0.1)
    server = UpnpGatewayServer()
    server.url = url
    async with serve_datagrams(server.search_response) as (address, _):
        with pytest.raises(NatError, match=r"^UPnP: "):
            await find_upnp(address)


LOOPBACK = (parse_subnet("127.0.0.0/8"),)


def mapper_of(
    nat_pmp: GatewayAddress | None, ssdp: GatewayAddress | None = None
) -> tuple[PortMapper, list[ExternalMapping]]:
    """Return a port mapper, and the mappings it has reported."""
    mappings: list[ExternalMapping] = []
    addresses = GatewayAddresses(nat_pmp, ssdp)
    return PortMapper(PORTS, mappings.append, gateways=addresses, allowed_networks=LOOPBACK), mappings


async def test_ports_are_mapped_by_nat_pmp_and_unmapped() -> None:
    async with serve_datagrams(nat_pmp_responder()) as (address, server):
        mapper, mappings = mapper_of(address)
        assert await mapper.step() == 300.0
        assert mappings == [ExternalMapping(EXTERNAL_IP, {UDP_PORT: 9223, TCP_PORT: 9223}, 600.0)]
        assert await mapper.step() == 300.0
        assert len(mappings) == 1 and mapper.problem is None
        assert server.requests[-1][6:8] == (9223).to_bytes(2, "big")
        await mapper.close()
        assert [request[4:] for request in server.requests[-2:]] == [bytes.fromhex("2406000000000000")] * 2


@pytest.mark.parametrize(
    ("respond", "problem"),
    [
        (nat_pmp_responder(result=2), "not authorized"),
        (nat_pmp_responder(external_ip="10.0.0.7"), "is not public"),
        (lambda request: b"garbage", "no response by NAT-PMP"),
    ],
)
async def test_errors_are_reported(respond: Responder, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_mapper, "_PMP_TRIES", (0.05, 0.05))
    async with serve_datagrams(respond) as (address, _):
        mapper, mappings = mapper_of(address)
        assert await mapper.step() == RETRY_SECONDS
        assert not mappings and mapper.problem is not None and problem in mapper.problem
        await mapper.close()


async def test_upnp_is_tried_when_nat_pmp_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_mapper, "_PMP_TRIES", (0.05,))
    async with serve_upnp(UpnpGatewayServer()) as ssdp, serve_datagrams(lambda request: None) as (nat_pmp, _):
        mapper, mappings = mapper_of(nat_pmp, ssdp)
        assert await mapper.step() == LEASE_SECONDS / 2
        assert [mapping.ip for mapping in mappings] == [EXTERNAL_IP]
        await mapper.close()


@pytest.mark.parametrize(
    "address",
    [GatewayAddress("8.8.8.8", 5351), GatewayAddress("192.168.1.1", 5351), GatewayAddress("239.255.255.250", 1900)],
)
async def test_nothing_is_sent_beyond_the_allowed_networks(
    address: GatewayAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("something was sent")

    monkeypatch.setattr(port_mapper, "_exchange", fail)
    mapper, mappings = mapper_of(address, address)
    assert await mapper.step() == RETRY_SECONDS
    assert not mappings and mapper.problem is not None


def test_the_gateway_of_the_default_route(tmp_path: Path) -> None:
    head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
    table = tmp_path / "route"
    table.write_text(
        head + "eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\neth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t0\n"
    )
    assert default_gateway(str(table)) == "192.168.1.1"
    table.write_text(head)
    assert default_gateway(str(table)) is None
    assert default_gateway(str(tmp_path / "absent")) is None
    table.write_text(head + "eth0\tgarbage\n")
    assert default_gateway(str(table)) is None


def test_the_default_gateways_are_local() -> None:
    addresses = default_gateways()
    assert addresses.ssdp == GatewayAddress("239.255.255.250", 1900)
    assert addresses.nat_pmp is None or addresses.nat_pmp.port == 5351
