"""Maps ports on the gateway and learns our external address, by NAT-PMP or else UPnP (`p2p.nat`).

Mappings are renewed while the node runs. Only gateways on local networks, within `p2p.netrestrict`, are asked."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import aiohttp

from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.addresses.ip import IpAddress, Subnet, is_within, parse_ip
from rollup_node.stages.p2p.nat import nat_pmp, upnp
from rollup_node.stages.p2p.nat.nat_pmp import NatPmpError, NatPmpResultError, TransportProtocol
from rollup_node.stages.p2p.nat.upnp import SoapCall, SoapFault, UpnpError, UpnpService

LEASE_SECONDS = 1200
"""Lifetime of the mappings that are requested."""
_PMP_TRIES = (0.25, 0.5, 1.0)
_SEARCH_SECONDS = 2.5
_GATHER_SECONDS = 0.3
_HTTP_SECONDS = 3.0
_MAX_RESPONSES = 8


class NatError(Exception):
    """No gateway maps the ports; the text has the reason."""


class GatewayAddress(NamedTuple):
    """Where a gateway is asked: host and port."""

    host: str
    port: int


class LocalPort(NamedTuple):
    transport: TransportProtocol
    port: int


class ExternalMapping(NamedTuple):
    """Our external address, the external port of each local port, and the lifetime in seconds."""

    ip: IpAddress
    ports: dict[LocalPort, int]
    lifetime: float


class NatGateway(Protocol):
    """A gateway. All methods raise NatError."""

    async def map_ports(self, ports: Sequence[LocalPort]) -> ExternalMapping:
        """Map the ports, or renews their mappings."""

    async def unmap_ports(self, ports: Sequence[LocalPort]) -> None:
        """Delete the mappings."""


class NatPmpGateway:
    """A NAT-PMP gateway."""

    def __init__(self, address: GatewayAddress) -> None:
        self._address = address
        self._external_ports: dict[LocalPort, int] = {}

    async def map_ports(self, ports: Sequence[LocalPort]) -> ExternalMapping:
        """Map the ports, or renews their mappings."""
        ip = nat_pmp.parse_external_address(
            await self._ask(nat_pmp.external_address_request(), nat_pmp.parse_external_address)
        )
        lifetimes = []
        for port in ports:
            request = nat_pmp.mapping_request(
                port.transport, port.port, self._external_ports.get(port, port.port), LEASE_SECONDS
            )
            result = await self._mapping(request, port)
            self._external_ports[port] = result.external_port
            lifetimes.append(result.lifetime)
        return ExternalMapping(ip, dict(self._external_ports), float(min(lifetimes, default=LEASE_SECONDS)))

    async def unmap_ports(self, ports: Sequence[LocalPort]) -> None:
        for port in ports:
            await self._mapping(nat_pmp.mapping_request(port.transport, port.port, 0, 0), port)

    async def _mapping(self, request: bytes, port: LocalPort) -> nat_pmp.NatPmpMapping:
        def read(response: bytes) -> nat_pmp.NatPmpMapping:
            return nat_pmp.parse_mapping(response, port.transport, port.port)

        return read(await self._ask(request, read))

    async def _ask(self, request: bytes, read: Callable[[bytes], object]) -> bytes:
        """Return the first valid response. Raises NatError when there is none in time, or it is an error."""

        def is_valid(response: bytes) -> bool:
            try:
                read(response)
            except NatPmpResultError as fault:
                raise NatError(f"NAT-PMP at {self._address.host}: {fault}") from None
            except NatPmpError:
                return False
            return True

        for seconds in _PMP_TRIES:
            responses = await _exchange(self._address, request, seconds, is_valid)
            if responses:
                return responses[0][0]
        raise NatError(f"no response by NAT-PMP from {self._address.host}")


async def find_nat_pmp(target: GatewayAddress) -> NatGateway:
    """Return the gateway at this address; nothing is sent yet."""
    return NatPmpGateway(target)


class UpnpGateway:
    """A UPnP gateway; `local_ip` is our address on its network."""

    def __init__(self, service: UpnpService, local_ip: IpAddress) -> None:
        self._service, self._local_ip = service, local_ip
        self._is_permanent = False

    async def map_ports(self, ports: Sequence[LocalPort]) -> ExternalMapping:
        """Map the ports, or renews their mappings."""
        try:
            ip = upnp.parse_external_ip(await self._post(upnp.external_ip_call(self._service)))
            for port in ports:
                await self._add_mapping(port)
        except UpnpError as error:
            raise NatError(f"UPnP at {self._service.control_url}: {error}") from None
        return ExternalMapping(ip, {port: port.port for port in ports}, float(LEASE_SECONDS))

    async def unmap_ports(self, ports: Sequence[LocalPort]) -> None:
        for port in ports:
            with suppress(UpnpError):
                upnp.parse_response(
                    await self._post(upnp.delete_mapping_call(self._service, port.transport, port.port))
                )

    async def _add_mapping(self, port: LocalPort) -> None:
        lifetime = 0 if self._is_permanent else LEASE_SECONDS
        call = upnp.add_mapping_call(
            self._service, port.transport, internal=(self._local_ip, port.port), external=port.port, lifetime=lifetime
        )
        try:
            upnp.parse_response(await self._post(call))
        except SoapFault as fault:
            if fault.code != upnp.ONLY_PERMANENT_LEASES or self._is_permanent:
                raise
            self._is_permanent = True
            await self._add_mapping(port)

    async def _post(self, call: SoapCall) -> bytes:
        return await _http("POST", call.url, call.headers, call.body)


async def find_upnp(target: GatewayAddress) -> NatGateway:
    """Return the first gateway that responds to a search and maps ports. Raises NatError when there is none."""
    errors = []
    for device in upnp.DEVICES:
        request = upnp.search_request(device, target.host, target.port)
        for response, sender in await _exchange(target, request, _SEARCH_SECONDS, lambda response: True):
            try:
                url = upnp.parse_search_response(response, sender)
                if not sender.is_private:
                    raise UpnpError(f"{sender} is not on a local network")
                service = upnp.parse_description(await _http("GET", url, {}, None), url)
                return UpnpGateway(service, _address_towards(sender))
            except (UpnpError, NatError) as error:
                errors.append(str(error))
    raise NatError("UPnP: " + ("; ".join(errors[:3]) or "no gateway has responded"))


async def _http(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """Return the body of a response with status 200 or 500 (which UPnP uses for faults). Raises NatError."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_HTTP_SECONDS)) as session,
            session.request(method, url, headers=headers, data=body, allow_redirects=False) as response,
        ):
            if response.status not in (200, 500):
                raise NatError(f"{url} responds with HTTP {response.status}")
            result = bytearray()
            async for chunk in response.content.iter_chunked(4096):
                result += chunk
                if len(result) > upnp.MAX_RESPONSE_BYTES:
                    raise NatError(f"{url} responds with more than {upnp.MAX_RESPONSE_BYTES} bytes")
            return bytes(result)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise NatError(f"{url}: {error or type(error).__name__}") from None


class _ResponseCollector(asyncio.DatagramProtocol):
    def __init__(self, is_valid: Callable[[bytes], bool]) -> None:
        self.responses: list[tuple[bytes, IpAddress]] = []
        self.received: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_valid = is_valid

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        try:
            if len(self.responses) < _MAX_RESPONSES and self._is_valid(data):
                self.responses.append((data, parse_ip(addr[0])))
                self._finish(None)
        except NatError as error:
            self._finish(error)

    def error_received(self, exc: Exception) -> None:
        self._finish(NatError(str(exc)))

    def _finish(self, error: Exception | None) -> None:
        if not self.received.done():
            if error is None:
                self.received.set_result(None)
            else:
                self.received.set_exception(error)


async def _exchange(
    target: GatewayAddress, request: bytes, seconds: float, is_valid: Callable[[bytes], bool]
) -> list[tuple[bytes, IpAddress]]:
    """Send a datagram and return the first response, and from a multicast group those of the next moments as well."""
    is_group = parse_ip(target.host).is_multicast
    loop = asyncio.get_running_loop()
    try:
        transport, collector = await loop.create_datagram_endpoint(
            lambda: _ResponseCollector(is_valid),
            local_addr=("0.0.0.0", 0) if is_group else None,
            remote_addr=None if is_group else target,
            family=socket.AF_INET,
        )
    except OSError as error:
        raise NatError(f"{target.host}: {error.strerror}") from None
    try:
        transport.sendto(request, target if is_group else None)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await collector.received
                await asyncio.sleep(_GATHER_SECONDS if is_group else 0)
        return collector.responses
    finally:
        collector.received.cancel()
        transport.abort()


def _address_towards(ip: IpAddress) -> IpAddress:
    """Our own address on the route to another; nothing is sent."""
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((str(ip), 9))
        return parse_ip(probe.getsockname()[0])


RETRY_SECONDS = 60.0
_CLOSE_SECONDS = 1.0
_SHORTEST_RENEWAL = 30.0
_ROUTES = "/proc/net/route"

log = get_logger("p2p")


class GatewayAddresses(NamedTuple):
    """Where gateways are searched; None disables the protocol."""

    nat_pmp: GatewayAddress | None
    ssdp: GatewayAddress | None


def default_gateways() -> GatewayAddresses:
    """Return the gateway of the default route, and UPnP's multicast group."""
    gateway = default_gateway()
    return GatewayAddresses(
        GatewayAddress(gateway, nat_pmp.PORT) if gateway else None,
        GatewayAddress(upnp.SSDP_GROUP, upnp.SSDP_PORT),
    )


def default_gateway(path: str = _ROUTES) -> str | None:
    """Return the IPv4 gateway of the default route, from the kernel's routing table; None if there is none."""
    with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[1] == "00000000" and int(words[3], 16) & 2:
                return str(ipaddress.IPv4Address(int(words[2], 16).to_bytes(4, "little")))
    return None


class PortMapper:
    """Keeps ports mapped: call `step` after the delay it returns.

    `on_mapping` is called when the external address or a port changes; `problem` is the present error, for /readyz."""

    def __init__(
        self,
        ports: Sequence[LocalPort],
        on_mapping: Callable[[ExternalMapping], None],
        *,
        gateways: GatewayAddresses | None = None,
        allowed_networks: Sequence[Subnet] = (),
    ) -> None:
        self.problem: str | None = None
        self.mapping: ExternalMapping | None = None
        self._condition = LastingCondition(log)
        self._ports = tuple(ports)
        self._on_mapping, self._gateways = on_mapping, gateways
        self._allowed_networks = tuple(allowed_networks)
        self._gateway: NatGateway | None = None

    async def step(self) -> float:
        """Search for a gateway, or renews the mappings; returns the seconds until the next call."""
        try:
            gateway, mapping = await self._map_ports()
            if not mapping.ip.is_global:
                raise NatError(f"the gateway's external address {mapping.ip} is not public")
        except NatError as error:
            self._gateway = None
            self.problem = str(error)
            self._condition.report(Code.P2P_NAT, "no gateway maps our ports (p2p.nat)", error=self.problem)
            return RETRY_SECONDS
        self._gateway, self.problem = gateway, None
        self._set_mapping(mapping)
        return max(mapping.lifetime / 2, _SHORTEST_RENEWAL)

    async def close(self) -> None:
        """Delete the mappings, within a second."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            with suppress(NatError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await gateway.unmap_ports(self._ports)

    async def _map_ports(self) -> tuple[NatGateway, ExternalMapping]:
        """Renew the mappings, or make them on the first gateway that allows it."""
        if self._gateway is not None:
            return self._gateway, await self._gateway.map_ports(self._ports)
        addresses = self._gateways or default_gateways()
        errors = []
        for address, find in ((addresses.nat_pmp, find_nat_pmp), (addresses.ssdp, find_upnp)):
            if address is None:
                continue
            try:
                self._check(address)
                gateway = await find(address)
                return gateway, await gateway.map_ports(self._ports)
            except NatError as error:
                errors.append(str(error))
        raise NatError("; ".join(errors) or "there is no gateway to ask")

    def _check(self, address: GatewayAddress) -> None:
        ip = parse_ip(address.host)
        is_group = address.host == upnp.SSDP_GROUP
        if not (ip.is_private or is_group):
            raise NatError(f"{ip} is not on a local network")
        if self._allowed_networks and not is_within(ip, self._allowed_networks):
            raise NatError(f"{ip} is outside p2p.netrestrict")

    def _set_mapping(self, mapping: ExternalMapping) -> None:
        known, self.mapping = self.mapping, mapping
        self._condition.end("a gateway maps our ports")
        if known is None or (known.ip, known.ports) != (mapping.ip, mapping.ports):
            ports = ", ".join(f"{local.transport.name} {port}" for local, port in mapping.ports.items())
            log.info("ports mapped on the gateway", address=str(mapping.ip), ports=ports)
            self._on_mapping(mapping)
