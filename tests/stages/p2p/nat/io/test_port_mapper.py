"""Asking routers, which are servers of the test on the loopback interface."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rollup_node.stages.p2p.nat.io import gateways
from rollup_node.stages.p2p.nat.io import port_mapper as port_mapper
from rollup_node.stages.p2p.nat.io.gateways import LEASE_SECONDS, ExternalMapping, GatewayAddress, LocalPort
from rollup_node.stages.p2p.nat.io.port_mapper import RETRY_SECONDS, GatewayAddresses, PortMapper, default_gateway
from rollup_node.stages.p2p.nat.nat_pmp import TransportProtocol

OUTER = ipaddress.ip_address("8.8.4.4")
UDP, TCP = LocalPort(TransportProtocol.UDP, 9222), LocalPort(TransportProtocol.TCP, 9222)
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


class Datagrams(asyncio.DatagramProtocol):
    """A server that answers each datagram by a function."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self.asked: list[bytes] = []
        self._answer = answer
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.asked.append(data)
        answer = self._answer(data)
        if answer is not None and self._transport is not None:
            self._transport.sendto(answer, addr)


@contextlib.asynccontextmanager
async def answering(answer: Callable[[bytes], bytes | None]) -> AsyncIterator[tuple[GatewayAddress, Datagrams]]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: Datagrams(answer), local_addr=("127.0.0.1", 0))
    try:
        yield GatewayAddress("127.0.0.1", transport.get_extra_info("sockname")[1]), server
    finally:
        transport.abort()
        await asyncio.sleep(0)


def pmp_router(*, result: int = 0, outer: str = "8.8.4.4", lifetime: int = 600) -> Callable[[bytes], bytes]:
    """A router that gives each port the one above it."""

    def answer(request: bytes) -> bytes:
        head = bytes((0, 0x80 + request[1], 0, result)) + bytes(4)
        if request[1] == 0:
            return head + ipaddress.ip_address(outer).packed
        port = int.from_bytes(request[4:6], "big")
        return head + request[4:6] + (port + 1).to_bytes(2, "big") + lifetime.to_bytes(4, "big")

    return answer


def keeper(pmp: GatewayAddress | None, ssdp: GatewayAddress | None = None) -> tuple[PortMapper, list[ExternalMapping]]:
    heard: list[ExternalMapping] = []
    return PortMapper((UDP, TCP), heard.append, gateways=GatewayAddresses(pmp, ssdp), allowed_networks=LOOPBACK), heard


def test_ports_are_mapped_by_nat_pmp_and_unmapped() -> None:
    async def check() -> None:
        async with answering(pmp_router()) as (target, server):
            nat, heard = keeper(target)
            assert await nat.step() == 300.0
            assert heard == [ExternalMapping(OUTER, {UDP: 9223, TCP: 9223}, 600.0)]
            assert await nat.step() == 300.0
            assert len(heard) == 1 and nat.problem is None
            assert server.asked[-1][6:8] == (9223).to_bytes(2, "big")
            await nat.close()
            assert [request[4:] for request in server.asked[-2:]] == [bytes.fromhex("2406000000000000")] * 2

    asyncio.run(check())


@pytest.mark.parametrize(
    ("router", "problem"),
    [
        (pmp_router(result=2), "not authorized"),
        (pmp_router(outer="10.0.0.7"), "is not public"),
        (lambda request: b"garbage", "no response by NAT-PMP"),
        (lambda request: None, "no response by NAT-PMP"),
    ],
)
def test_errors_of_nat_pmp_gateways_are_reported(
    router: Callable[[bytes], bytes | None], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways, "_PMP_TRIES", (0.05, 0.05))

    async def check() -> None:
        async with answering(router) as (target, _):
            nat, heard = keeper(target)
            assert await nat.step() == RETRY_SECONDS
            assert not heard and nat.problem is not None and problem in nat.problem
            await nat.close()

    asyncio.run(check())


class UpnpRouter:
    """A router's HTTP server. `permanent`: it refuses to forward ports for a time."""

    def __init__(self, *, permanent: bool = False) -> None:
        self.permanent = permanent
        self.calls: list[tuple[str, str]] = []
        self.url = ""

    async def describe(self, request: web.Request) -> web.Response:
        service = "<serviceType>urn:schemas-upnp-org:service:WANIPConnection:1</serviceType>"
        xml = f"<root><device><service>{service}<controlURL>/ctl</controlURL></service></device></root>"
        return web.Response(text=xml, content_type="text/xml")

    async def control(self, request: web.Request) -> web.Response:
        action = request.headers["SOAPAction"].strip('"').partition("#")[2]
        body = await request.text()
        self.calls.append((action, body))
        if action == "AddPortMapping" and self.permanent and ">1200<" in body:
            error = "<errorCode>725</errorCode><errorDescription>OnlyPermanentLeasesSupported</errorDescription>"
            return web.Response(status=500, text=f"<Envelope><Fault>{error}</Fault></Envelope>")
        return web.Response(text="<Envelope><NewExternalIPAddress>8.8.4.4</NewExternalIPAddress></Envelope>")

    def search_answer(self, request: bytes) -> bytes | None:
        return (
            f"HTTP/1.1 200 OK\r\nLOCATION: {self.url}\r\n\r\n".encode()
            if b"InternetGatewayDevice:1" in request
            else None
        )


@contextlib.asynccontextmanager
async def serving(router: UpnpRouter) -> AsyncIterator[GatewayAddress]:
    app = web.Application()
    app.add_routes([web.get("/desc.xml", router.describe), web.post("/ctl", router.control)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    router.url = f"http://127.0.0.1:{port}/desc.xml"
    try:
        async with answering(router.search_answer) as (target, _):
            yield target
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("permanent", [False, True])
def test_ports_are_mapped_by_upnp_and_unmapped(permanent: bool) -> None:
    async def check() -> None:
        router = UpnpRouter(permanent=permanent)
        async with serving(router) as target:
            nat, heard = keeper(None, target)
            assert await nat.step() == LEASE_SECONDS / 2
            assert heard == [ExternalMapping(OUTER, {UDP: 9222, TCP: 9222}, float(LEASE_SECONDS))]
            added = [body for action, body in router.calls if action == "AddPortMapping"]
            assert all("<NewInternalClient>127.0.0.1<" in body for body in added)
            assert ("<NewLeaseDuration>0<" in added[-1]) == permanent
            await nat.close()
            assert [action for action, _ in router.calls[-2:]] == ["DeletePortMapping"] * 2

    asyncio.run(check())


def test_upnp_is_tried_when_nat_pmp_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "_PMP_TRIES", (0.05,))

    async def check() -> None:
        router = UpnpRouter()
        async with serving(router) as ssdp, answering(lambda request: None) as (pmp, _):
            nat, heard = keeper(pmp, ssdp)
            await nat.step()
            assert [outer.ip for outer in heard] == [OUTER]
            await nat.close()

    asyncio.run(check())


@pytest.mark.parametrize("url", ["http://127.0.0.2:1/x", "http://127.0.0.1:1/x"])
def test_an_unavailable_description_is_reported(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "_SEARCH_SECONDS", 0.1)

    async def check() -> None:
        router = UpnpRouter()
        router.url = url
        async with answering(router.search_answer) as (target, _):
            nat, heard = keeper(None, target)
            assert await nat.step() == RETRY_SECONDS
            assert not heard and nat.problem is not None and nat.problem.startswith("UPnP: ")

    asyncio.run(check())


@pytest.mark.parametrize(
    "target",
    [GatewayAddress("8.8.8.8", 5351), GatewayAddress("192.168.1.1", 5351), GatewayAddress("239.255.255.250", 1900)],
)
def test_nothing_is_sent_beyond_the_allowed_networks(target: GatewayAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("something was sent")

    monkeypatch.setattr(gateways, "_exchange", refuse)

    async def check() -> None:
        nat, heard = keeper(target, target)
        assert await nat.step() == RETRY_SECONDS
        assert not heard and nat.problem is not None

    asyncio.run(check())


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
    targets = port_mapper.default_gateways()
    assert targets.ssdp == GatewayAddress("239.255.255.250", 1900)
    assert targets.nat_pmp is None or targets.nat_pmp.port == 5351
