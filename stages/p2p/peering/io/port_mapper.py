"""Maps ports on the gateway and learns our external address, by NAT-PMP or else UPnP (`p2p.nat`).

Mappings are renewed while the node runs. Only gateways on local networks, within `p2p.netrestrict`, are asked."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp

from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.addresses.ip import IpAddress, Subnet, is_within, parse_ip
from rollup_node.stages.p2p.discv5.enr import Endpoint
from rollup_node.stages.p2p.peering import nat_pmp, upnp
from rollup_node.stages.p2p.peering.nat_pmp import NatPmpError, NatPmpResultError, TransportProtocol
from rollup_node.stages.p2p.peering.upnp import SoapFault, UpnpError, UpnpService

T = TypeVar("T")

LEASE_SECONDS = 1200
"""Lifetime of the mappings that are requested."""
_PMP_TRIES = (0.25, 0.5, 1.0)
_SEARCH_SECONDS = 2.5
_GATHER_SECONDS = 0.3
_HTTP_SECONDS = 3.0
_MAX_RESPONSES = 8
_MAX_DATAGRAM_BYTES = 1 << 16


class NatError(Exception):
    """No gateway maps the ports; the text has the reason."""


class LocalPort(NamedTuple):
    transport: TransportProtocol
    port: int


class ExternalMapping(NamedTuple):
    """Our external address, the external port of each local port, and the lifetime in seconds."""

    ip: IpAddress
    ports: dict[LocalPort, int]
    lifetime: float


class NatPmpGateway:
    """A NAT-PMP gateway. Its methods raise NatError."""

    def __init__(self, address: Endpoint) -> None:
        self._address = address
        self._external_ports: dict[LocalPort, int] = {}

    async def map_ports(self, ports: Sequence[LocalPort]) -> ExternalMapping:
        """Map the ports, or renew their mappings."""
        ip = await self._ask(nat_pmp.EXTERNAL_ADDRESS_REQUEST, nat_pmp.parse_external_address)
        lifetime = LEASE_SECONDS
        for port in ports:
            mapping = await self._map(port, self._external_ports.get(port, port.port), LEASE_SECONDS)
            self._external_ports[port] = mapping.external_port
            lifetime = min(lifetime, mapping.lifetime)
        return ExternalMapping(ip, dict(self._external_ports), float(lifetime))

    async def unmap_ports(self, ports: Sequence[LocalPort]) -> None:
        """Delete the mappings."""
        for port in ports:
            await self._map(port, 0, 0)

    async def _map(self, port: LocalPort, external: int, lifetime: int) -> nat_pmp.NatPmpMapping:
        request = nat_pmp.mapping_request(port.transport, port.port, external, lifetime)
        return await self._ask(request, lambda response: nat_pmp.parse_mapping(response, *port))

    async def _ask(self, request: bytes, parse: Callable[[bytes], T]) -> T:
        """Return the first valid response. Raises NatError when there is none in time, or it is an error."""

        def read(response: bytes, sender: IpAddress) -> T | None:
            try:
                return parse(response)
            except NatPmpResultError as fault:
                raise NatError(f"NAT-PMP at {self._address.ip}: {fault}") from None
            except NatPmpError:
                return None

        for seconds in _PMP_TRIES:
            for result in await _exchange(self._address, request, seconds, read):
                return result
        raise NatError(f"no response by NAT-PMP from {self._address.ip}")


class UpnpGateway:
    """The first UPnP gateway that responds to a search at this address. Its methods raise NatError."""

    def __init__(self, address: Endpoint) -> None:
        self._address = address
        self._service: UpnpService | None = None
        self._is_permanent = False

    async def map_ports(self, ports: Sequence[LocalPort]) -> ExternalMapping:
        """Map the ports, or renew their mappings."""
        service = self._service = self._service or await self._find()
        try:
            ip = upnp.parse_external_ip(await _call(service, "GetExternalIPAddress", {}))
            for port in ports:
                await self._add_mapping(service, port)
        except UpnpError as error:
            raise NatError(f"UPnP at {service.control_url}: {error}") from None
        return ExternalMapping(ip, {port: port.port for port in ports}, float(LEASE_SECONDS))

    async def unmap_ports(self, ports: Sequence[LocalPort]) -> None:
        """Delete the mappings."""
        for port in ports:
            if self._service is not None:
                await _call(self._service, "DeletePortMapping", upnp.mapping_key(*port))

    async def _add_mapping(self, service: UpnpService, port: LocalPort) -> None:
        lifetime = 0 if self._is_permanent else LEASE_SECONDS
        local_ip = _address_towards(service.control_url)
        try:
            upnp.parse_response(await _call(service, "AddPortMapping", upnp.mapping_values(*port, local_ip, lifetime)))
        except SoapFault as fault:
            if fault.code != upnp.ONLY_PERMANENT_LEASES or self._is_permanent:
                raise
            self._is_permanent = True
            await self._add_mapping(service, port)

    async def _find(self) -> UpnpService:
        """Return the service of the first gateway that maps ports. Raises NatError when there is none."""
        errors = []
        for device in upnp.DEVICES:
            request = upnp.search_request(device, self._address)
            responses = await _exchange(self._address, request, _SEARCH_SECONDS, lambda *response: response)
            for response, sender in responses:
                try:
                    url = upnp.parse_search_response(response, sender)
                    if not sender.is_private:
                        raise UpnpError(f"{sender} is not on a local network")
                    return upnp.parse_description(await _http("GET", url, {}, None), url)
                except (UpnpError, NatError) as error:
                    errors.append(str(error))
        raise NatError("UPnP: " + ("; ".join(errors[:3]) or "no gateway has responded"))


async def _call(service: UpnpService, action: str, values: Mapping[str, str]) -> bytes:
    return await _http("POST", service.control_url, *upnp.soap_request(service, action, values))


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


async def _exchange(
    target: Endpoint, request: bytes, seconds: float, read: Callable[[bytes, IpAddress], T | None]
) -> list[T]:
    """Send a datagram; return what is read of the first response, and from a group also of those soon after it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    address = (str(target.ip), target.port)
    results: list[T] = []
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.setblocking(False)
            if not target.ip.is_multicast:
                udp.connect(address)
            await loop.sock_sendto(udp, request, address)
            while len(results) < (_MAX_RESPONSES if target.ip.is_multicast else 1):
                async with asyncio.timeout_at(deadline):
                    response, sender = await loop.sock_recvfrom(udp, _MAX_DATAGRAM_BYTES)
                result = read(response, parse_ip(sender[0]))
                if result is not None:
                    results.append(result)
                    deadline = min(deadline, loop.time() + _GATHER_SECONDS)
    except TimeoutError:
        pass
    except OSError as error:
        raise NatError(f"{target.ip}: {error.strerror}") from None
    return results


def _address_towards(url: str) -> IpAddress:
    """Our own address on the route to the host of a URL; nothing is sent."""
    ip = parse_ip(urlsplit(url).hostname or "")
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((str(ip), 9))
        return parse_ip(probe.getsockname()[0])


RETRY_SECONDS = 60.0
_CLOSE_SECONDS = 1.0
_SHORTEST_RENEWAL = 30.0
_ROUTES = "/proc/net/route"

log = Logger("p2p")


_GATEWAY_KINDS: tuple[type[NatPmpGateway] | type[UpnpGateway], ...] = (NatPmpGateway, UpnpGateway)


class GatewayAddresses(NamedTuple):
    """Where gateways are searched; None disables the protocol."""

    nat_pmp: Endpoint | None
    ssdp: Endpoint | None


def default_gateways() -> GatewayAddresses:
    """Return the gateway of the default route, and UPnP's multicast group."""
    gateway = default_gateway()
    return GatewayAddresses(Endpoint(gateway, nat_pmp.PORT) if gateway else None, upnp.SSDP_GROUP)


def default_gateway(path: str = _ROUTES) -> IpAddress | None:
    """Return the IPv4 gateway of the default route, from the kernel's routing table; None if there is none."""
    with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[1] == "00000000" and int(words[3], 16) & 2:
                return ipaddress.IPv4Address(int(words[2], 16).to_bytes(4, "little"))
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
        self._gateway: NatPmpGateway | UpnpGateway | None = None

    async def step(self) -> float:
        """Search for a gateway, or renews the mappings; returns the seconds until the next call."""
        try:
            mapping = await self._map_ports()
            if not mapping.ip.is_global:
                raise NatError(f"the gateway's external address {mapping.ip} is not public")
        except NatError as error:
            self._gateway = None
            self.problem = str(error)
            self._condition.report(Code.P2P_NAT, "no gateway maps our ports (p2p.nat)", error=self.problem)
            return RETRY_SECONDS
        self.problem = None
        self._set_mapping(mapping)
        return max(mapping.lifetime / 2, _SHORTEST_RENEWAL)

    async def close(self) -> None:
        """Delete the mappings, within a second."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            with suppress(NatError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await gateway.unmap_ports(self._ports)

    async def _map_ports(self) -> ExternalMapping:
        """Renew the mappings, or make them on the first gateway that allows it."""
        if self._gateway is not None:
            return await self._gateway.map_ports(self._ports)
        errors = []
        for address, kind in zip(self._gateways or default_gateways(), _GATEWAY_KINDS, strict=True):
            if address is None:
                continue
            try:
                self._check(address.ip)
                gateway = kind(address)
                mapping = await gateway.map_ports(self._ports)
            except NatError as error:
                errors.append(str(error))
            else:
                self._gateway = gateway
                return mapping
        raise NatError("; ".join(errors) or "there is no gateway to ask")

    def _check(self, ip: IpAddress) -> None:
        if not (ip.is_private or ip == upnp.SSDP_GROUP.ip):
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
