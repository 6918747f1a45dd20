"""Requests to NAT-PMP and UPnP gateways."""

import pytest

from rollup_node.stages.p2p.peering.io import gateways
from rollup_node.stages.p2p.peering.io.gateways import LEASE_SECONDS, ExternalMapping, NatError, find_nat_pmp, find_upnp
from tests.support.p2p.nat_gateways import (
    EXTERNAL_IP,
    PORTS,
    TCP_PORT,
    UDP_PORT,
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
    monkeypatch.setattr(gateways, "_SEARCH_SECONDS", 0.1)
    server = UpnpGatewayServer()
    server.url = url
    async with serve_datagrams(server.search_response) as (address, _):
        with pytest.raises(NatError, match=r"^UPnP: "):
            await find_upnp(address)
