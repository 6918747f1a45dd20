"""NAT gateways on the loopback interface: servers of NAT-PMP and of UPnP that map ports."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Callable
from typing import cast

from aiohttp import web

from rollup_node.stages.p2p.nat.nat_pmp import TransportProtocol
from rollup_node.stages.p2p.peering.io.port_mapper import GatewayAddress, LocalPort
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
async def serve_datagrams(respond: Responder) -> AsyncIterator[tuple[GatewayAddress, DatagramServer]]:
    """Yield a datagram server, and where it listens."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: DatagramServer(respond), local_addr=("127.0.0.1", 0)
    )
    try:
        yield GatewayAddress("127.0.0.1", transport.get_extra_info("sockname")[1]), server
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
async def serve_upnp(gateway: UpnpGatewayServer) -> AsyncIterator[GatewayAddress]:
    """Run the gateway; yields where it responds to searches."""
    app = web.Application()
    app.add_routes([web.get("/desc.xml", gateway.description), web.post("/ctl", gateway.control)])
    async with listening(app) as (url,), serve_datagrams(gateway.search_response) as (address, _):
        gateway.url = f"{url}/desc.xml"
        yield address
