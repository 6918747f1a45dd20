"""The two kinds of routers that forward ports, as `port_mapper` uses them."""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import aiohttp

from rollup_node.stages.p2p.addresses.ip import IpAddress, parse_ip
from rollup_node.stages.p2p.nat import nat_pmp, upnp
from rollup_node.stages.p2p.nat.nat_pmp import NatPmpError, NatPmpResultError, TransportProtocol
from rollup_node.stages.p2p.nat.upnp import SoapCall, SoapFault, UpnpError, UpnpService

LEASE_SECONDS = 1200
"""Seconds for which ports are asked for."""
_PMP_TRIES = (0.25, 0.5, 1.0)
_SEARCH_SECONDS = 2.5
_GATHER_SECONDS = 0.3
_HTTP_SECONDS = 3.0
_MAX_ANSWERS = 8


class NatError(Exception):
    """No router does what was asked; the text says why."""


class GatewayAddress(NamedTuple):
    """Where to ask: host and port."""

    host: str
    port: int


class LocalPort(NamedTuple):
    """A port of ours to be forwarded."""

    transport: TransportProtocol
    port: int


class ExternalMapping(NamedTuple):
    """Our outer address, the outer port of each port wanted, and for how many seconds."""

    ip: IpAddress
    ports: dict[LocalPort, int]
    lifetime: float


class NatGateway(Protocol):
    """A router found. All raise NatError."""

    async def map_ports(self, wanted: Sequence[LocalPort]) -> ExternalMapping:
        """Forwards the ports, or renews that."""

    async def unmap_ports(self, wanted: Sequence[LocalPort]) -> None:
        """Forwards them no longer."""


# --- NAT-PMP -------------------------------------------------------------------------------------------------------


class NatPmpGateway:
    """A router that speaks NAT-PMP."""

    def __init__(self, target: GatewayAddress) -> None:
        self._address = target
        self._external_ports: dict[LocalPort, int] = {}

    async def map_ports(self, wanted: Sequence[LocalPort]) -> ExternalMapping:
        """Forwards the ports, or renews that."""
        ip = nat_pmp.parse_external_address(
            await self._ask(nat_pmp.external_address_request(), nat_pmp.parse_external_address)
        )
        lifetimes = []
        for one in wanted:
            request = nat_pmp.mapping_request(
                one.transport, one.port, self._external_ports.get(one, one.port), LEASE_SECONDS
            )
            found = await self._mapping(request, one)
            self._external_ports[one] = found.external_port
            lifetimes.append(found.lifetime)
        return ExternalMapping(ip, dict(self._external_ports), float(min(lifetimes, default=LEASE_SECONDS)))

    async def unmap_ports(self, wanted: Sequence[LocalPort]) -> None:
        """Forwards them no longer."""
        for one in wanted:
            await self._mapping(nat_pmp.mapping_request(one.transport, one.port, 0, 0), one)

    async def _mapping(self, request: bytes, one: LocalPort) -> nat_pmp.NatPmpMapping:
        def read(answer: bytes) -> nat_pmp.NatPmpMapping:
            return nat_pmp.parse_mapping(answer, one.transport, one.port)

        return read(await self._ask(request, read))

    async def _ask(self, request: bytes, read: Callable[[bytes], object]) -> bytes:
        """The first answer that can be read; NatError if there is none in time, or a refusal."""

        def is_answer(answer: bytes) -> bool:
            try:
                read(answer)
            except NatPmpResultError as refusal:
                raise NatError(f"NAT-PMP at {self._address.host}: {refusal}") from None
            except NatPmpError:
                return False
            return True

        for seconds in _PMP_TRIES:
            answers = await _exchange(self._address, request, seconds, is_answer)
            if answers:
                return answers[0][0]
        raise NatError(f"no answer by NAT-PMP from {self._address.host}")


async def find_nat_pmp(target: GatewayAddress) -> NatGateway:
    """The router at this address, not yet asked."""
    return NatPmpGateway(target)


# --- UPnP ----------------------------------------------------------------------------------------------------------


class UpnpGateway:
    """A router that speaks UPnP; `client` is our address on its network."""

    def __init__(self, control: UpnpService, client: IpAddress) -> None:
        self._service = control
        self._local_ip = client
        self._is_permanent = False

    async def map_ports(self, wanted: Sequence[LocalPort]) -> ExternalMapping:
        """Forwards the ports, or renews that."""
        try:
            ip = upnp.parse_external_ip(await self._post(upnp.external_ip_call(self._service)))
            for one in wanted:
                await self._add_mapping(one)
        except UpnpError as error:
            raise NatError(f"UPnP at {self._service.control_url}: {error}") from None
        return ExternalMapping(ip, {one: one.port for one in wanted}, float(LEASE_SECONDS))

    async def unmap_ports(self, wanted: Sequence[LocalPort]) -> None:
        """Forwards them no longer."""
        for one in wanted:
            with suppress(UpnpError):
                upnp.parse_response(await self._post(upnp.delete_mapping_call(self._service, one.transport, one.port)))

    async def _add_mapping(self, one: LocalPort) -> None:
        lifetime = 0 if self._is_permanent else LEASE_SECONDS
        call = upnp.add_mapping_call(
            self._service, one.transport, internal=(self._local_ip, one.port), external=one.port, lifetime=lifetime
        )
        try:
            upnp.parse_response(await self._post(call))
        except SoapFault as refusal:
            if refusal.code != upnp.ONLY_PERMANENT_LEASES or self._is_permanent:
                raise
            self._is_permanent = True
            await self._add_mapping(one)

    async def _post(self, call: SoapCall) -> bytes:
        return await _http("POST", call.url, call.headers, call.body)


async def find_upnp(target: GatewayAddress) -> NatGateway:
    """The first router that answers a search and forwards ports."""
    problems = []
    for device in upnp.DEVICES:
        request = upnp.search_request(device, target.host, target.port)
        for answer, sender in await _exchange(target, request, _SEARCH_SECONDS, lambda answer: True):
            try:
                url = upnp.parse_search_response(answer, sender)
                if not sender.is_private:
                    raise UpnpError(f"{sender} is not on a local network")
                control = upnp.parse_description(await _http("GET", url, {}, None), url)
                return UpnpGateway(control, _address_towards(sender))
            except (UpnpError, NatError) as error:
                problems.append(str(error))
    raise NatError("UPnP: " + ("; ".join(problems[:3]) or "no router has answered"))


async def _http(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """The body of an answer, of 200 or of 500 (in which UPnP says its errors)."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_HTTP_SECONDS)) as session,
            session.request(method, url, headers=headers, data=body, allow_redirects=False) as response,
        ):
            if response.status not in (200, 500):
                raise NatError(f"{url} answers HTTP {response.status}")
            found = bytearray()
            async for chunk in response.content.iter_chunked(4096):
                found += chunk
                if len(found) > upnp.MAX_RESPONSE_BYTES:
                    raise NatError(f"{url} answers with more than {upnp.MAX_RESPONSE_BYTES} bytes")
            return bytes(found)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise NatError(f"{url}: {error or type(error).__name__}") from None


# --- datagrams -----------------------------------------------------------------------------------------------------


class _Asking(asyncio.DatagramProtocol):
    def __init__(self, is_answer: Callable[[bytes], bool]) -> None:
        self.answers: list[tuple[bytes, IpAddress]] = []
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_answer = is_answer

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        try:
            if len(self.answers) < _MAX_ANSWERS and self._is_answer(data):
                self.answers.append((data, parse_ip(addr[0])))
                self._finish(None)
        except NatError as error:
            self._finish(error)

    def error_received(self, exc: Exception) -> None:
        self._finish(NatError(str(exc)))

    def _finish(self, error: Exception | None) -> None:
        if not self.answered.done():
            if error is None:
                self.answered.set_result(None)
            else:
                self.answered.set_exception(error)


async def _exchange(
    target: GatewayAddress, request: bytes, seconds: float, is_answer: Callable[[bytes], bool]
) -> list[tuple[bytes, IpAddress]]:
    """Sends a datagram and gives the first answer, of a multicast group those of the next moments as well; a single
    router answers from its own address."""
    is_group = parse_ip(target.host).is_multicast
    loop = asyncio.get_running_loop()
    try:
        transport, asking = await loop.create_datagram_endpoint(
            lambda: _Asking(is_answer),
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
                await asking.answered
                await asyncio.sleep(_GATHER_SECONDS if is_group else 0)
        return asking.answers
    finally:
        asking.answered.cancel()
        transport.abort()


def _address_towards(ip: IpAddress) -> IpAddress:
    """Our own address on the way to another; nothing is sent."""
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((str(ip), 9))
        return parse_ip(probe.getsockname()[0])
