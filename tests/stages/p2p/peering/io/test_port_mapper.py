"""The port mapper, and requests by NAT-PMP and UPnP, with gateways on the loopback interface."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest
from aiohttp import web

from rollup_node.stages.p2p.addresses.ip import parse_subnet
from rollup_node.stages.p2p.discv5.enr import Endpoint
from rollup_node.stages.p2p.peering.io import port_mapper
from rollup_node.stages.p2p.peering.io.port_mapper import (
    LEASE_SECONDS,
    RETRY_SECONDS,
    ExternalMapping,
    GatewayAddresses,
    LocalPort,
    NatError,
    PortMapper,
    UpnpGateway,
    default_gateway,
    default_gateways,
)
from rollup_node.stages.p2p.peering.nat_pmp import TransportProtocol
from tests.support.servers.http_listener import listening

EXTERNAL_IP = ipaddress.ip_address("8.8.4.4")
UDP_PORT, TCP_PORT = LocalPort(TransportProtocol.UDP, 9222), LocalPort(TransportProtocol.TCP, 9222)
PORTS = (UDP_PORT, TCP_PORT)

Responder = Callable[[bytes], bytes | None]


class DatagramServer(asyncio.DatagramProtocol):
    """A UDP server that responds to each request with what a function returns."""

    def __init__(self, respond: Responder) -> None:
        self.requests: list[bytes] = []
        self._respond = respond
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.requests.append(data)
        response = self._respond(data)
        if response is not None and self._transport is not None:
            self._transport.sendto(response, addr)


@contextlib.asynccontextmanager
async def serve_datagrams(respond: Responder) -> AsyncIterator[tuple[Endpoint, DatagramServer]]:
    """Yield a datagram server, and where it listens."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: DatagramServer(respond), local_addr=("127.0.0.1", 0)
    )
    try:
        yield Endpoint(ipaddress.ip_address("127.0.0.1"), transport.get_extra_info("sockname")[1]), server
    finally:
        transport.abort()
        await asyncio.sleep(0)


def nat_pmp_responder(*, result: int = 0, external_ip: str = str(EXTERNAL_IP), lifetime: int = 600) -> Responder:
    """Responses of a NAT-PMP gateway that maps each port to the one above it."""

    def respond(request: bytes) -> bytes:
        head = bytes((0, 0x80 + request[1], 0, result)) + bytes(4)
        if request[1] == 0:
            return head + ipaddress.ip_address(external_ip).packed
        port = int.from_bytes(request[4:6], "big")
        return head + request[4:6] + (port + 1).to_bytes(2, "big") + lifetime.to_bytes(4, "big")

    return respond


class UpnpGatewayServer:
    """The HTTP server of a UPnP gateway. With `only_permanent_leases` it rejects mappings with a lease duration."""

    def __init__(self, *, only_permanent_leases: bool = False) -> None:
        self.calls: list[tuple[str, str]] = []
        self.url = ""
        self._only_permanent_leases = only_permanent_leases

    async def description(self, request: web.Request) -> web.Response:
        """Return the device description."""
        service = "<serviceType>urn:schemas-upnp-org:service:WANIPConnection:1</serviceType>"
        xml = f"<root><device><service>{service}<controlURL>/ctl</controlURL></service></device></root>"
        return web.Response(text=xml, content_type="text/xml")

    async def control(self, request: web.Request) -> web.Response:
        """Return the response to a SOAP call."""
        action = request.headers["SOAPAction"].strip('"').partition("#")[2]
        body = await request.text()
        self.calls.append((action, body))
        if action == "AddPortMapping" and self._only_permanent_leases and ">1200<" in body:
            error = "<errorCode>725</errorCode><errorDescription>OnlyPermanentLeasesSupported</errorDescription>"
            return web.Response(status=500, text=f"<Envelope><Fault>{error}</Fault></Envelope>")
        return web.Response(text=f"<Envelope><NewExternalIPAddress>{EXTERNAL_IP}</NewExternalIPAddress></Envelope>")

    def search_response(self, request: bytes) -> bytes | None:
        """Return the response to an SSDP search for gateways."""
        if b"InternetGatewayDevice:1" not in request:
            return None
        return f"HTTP/1.1 200 OK\r\nLOCATION: {self.url}\r\n\r\n".encode()


@contextlib.asynccontextmanager
async def serve_upnp(gateway: UpnpGatewayServer) -> AsyncIterator[Endpoint]:
    """Run the gateway; yields where it responds to searches."""
    app = web.Application()
    app.add_routes([web.get("/desc.xml", gateway.description), web.post("/ctl", gateway.control)])
    async with listening(app) as (url,), serve_datagrams(gateway.search_response) as (address, _):
        gateway.url = f"{url}/desc.xml"
        yield address


@pytest.mark.parametrize("only_permanent_leases", [False, True])
async def test_a_upnp_gateway_maps_and_unmaps_ports(only_permanent_leases: bool) -> None:
    server = UpnpGatewayServer(only_permanent_leases=only_permanent_leases)
    async with serve_upnp(server) as address:
        gateway = UpnpGateway(address)
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
            await UpnpGateway(address).map_ports(PORTS)


LOOPBACK = (parse_subnet("127.0.0.0/8"),)


def mapper_of(nat_pmp: Endpoint | None, ssdp: Endpoint | None = None) -> tuple[PortMapper, list[ExternalMapping]]:
    """Return a port mapper, and the mappings it has reported."""
    mappings: list[ExternalMapping] = []
    addresses = GatewayAddresses(nat_pmp, ssdp)
    return PortMapper(PORTS, mappings.append, gateways=addresses, allowed_networks=LOOPBACK), mappings


async def test_ports_are_mapped_by_nat_pmp_and_unmapped() -> None:
    async with serve_datagrams(nat_pmp_responder()) as (address, server):
        mapper, mappings = mapper_of(address)
        assert await mapper.step() == 300.0
        assert server.requests[-1][6:8] == (9222).to_bytes(2, "big"), "the external port suggested at first"
        assert mappings == [ExternalMapping(EXTERNAL_IP, {UDP_PORT: 9223, TCP_PORT: 9223}, 600.0)]
        assert await mapper.step() == 300.0
        assert len(mappings) == 1 and mapper.problem is None
        assert server.requests[-1][6:8] == (9223).to_bytes(2, "big"), "and at renewal"
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


@pytest.mark.parametrize("ip", ["8.8.8.8", "192.168.1.1", "239.255.255.250"])
async def test_nothing_is_sent_beyond_the_allowed_networks(ip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("something was sent")

    monkeypatch.setattr(port_mapper, "_exchange", fail)
    address = Endpoint(ipaddress.ip_address(ip), 1900)
    mapper, mappings = mapper_of(address, address)
    assert await mapper.step() == RETRY_SECONDS
    assert not mappings and mapper.problem is not None


def test_the_gateway_of_the_default_route(tmp_path: Path) -> None:
    head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
    table = tmp_path / "route"
    table.write_text(
        head + "eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\neth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t0\n"
    )
    assert str(default_gateway(str(table))) == "192.168.1.1"
    table.write_text(head)
    assert default_gateway(str(table)) is None
    assert default_gateway(str(tmp_path / "absent")) is None
    table.write_text(head + "eth0\tgarbage\n")
    assert default_gateway(str(table)) is None


def test_the_default_gateways_are_local() -> None:
    addresses = default_gateways()
    assert str(addresses.ssdp) == "239.255.255.250:1900"
    assert addresses.nat_pmp is None or addresses.nat_pmp.port == 5351
