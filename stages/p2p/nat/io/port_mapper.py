"""Asks the router to forward our ports and for our outer address, by NAT-PMP, else by UPnP (`p2p.nat`), and renews that
as long as the node runs. Only routers on local networks are asked, within `p2p.netrestrict`."""

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.p2p.addresses.ip import Subnet, is_within, parse_ip
from rollup_node.stages.p2p.nat import nat_pmp, upnp
from rollup_node.stages.p2p.nat.io.gateways import (
    ExternalMapping,
    GatewayAddress,
    LocalPort,
    NatError,
    NatGateway,
    find_nat_pmp,
    find_upnp,
)

RETRY_SECONDS = 60.0
_CLOSE_SECONDS = 1.0
_SHORTEST_RENEWAL = 30.0
_ROUTES = "/proc/net/route"

log = get_logger("p2p")


class GatewayAddresses(NamedTuple):
    """Where routers are looked for; None: not by this protocol."""

    nat_pmp: GatewayAddress | None
    ssdp: GatewayAddress | None


def default_gateways() -> GatewayAddresses:
    """The gateway of the default route, and the multicast group of UPnP."""
    gateway = default_gateway()
    return GatewayAddresses(
        GatewayAddress(gateway, nat_pmp.PORT) if gateway else None,
        GatewayAddress(upnp.SSDP_GROUP, upnp.SSDP_PORT),
    )


def default_gateway(path: str = _ROUTES) -> str | None:
    """The IPv4 gateway of the default route, from the kernel's table; None if there is none."""
    with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[1] == "00000000" and int(words[3], 16) & 2:
                return str(ipaddress.IPv4Address(int(words[2], 16).to_bytes(4, "little")))
    return None


class PortMapper:
    """Keeps ports forwarded. Call `step` again and again; `on_outer` hears of our outer address whenever it or a port
    changes."""

    def __init__(
        self,
        wanted: Sequence[LocalPort],
        on_outer: Callable[[ExternalMapping], None],
        *,
        targets: GatewayAddresses | None = None,
        restricted_to: Sequence[Subnet] = (),
    ) -> None:
        self.problem: str | None = None
        self.mapping: ExternalMapping | None = None
        self._ports = tuple(wanted)
        self._on_mapping = on_outer
        self._gateways = targets
        self._allowed_networks = tuple(restricted_to)
        self._gateway: NatGateway | None = None

    async def step(self) -> float:
        """Looks for a router, or renews; gives the seconds until the next call."""
        try:
            router, outer = await self._map_ports()
            if not outer.ip.is_global:
                raise NatError(f"the router's own outer address {outer.ip} is not a public one")
        except NatError as error:
            self._gateway = None
            self._report_error(str(error))
            return RETRY_SECONDS
        self._gateway, self.problem = router, None
        self._set_mapping(outer)
        return max(outer.lifetime / 2, _SHORTEST_RENEWAL)

    async def close(self) -> None:
        """Gives the ports back, within a second."""
        router, self._gateway = self._gateway, None
        if router is not None:
            with suppress(NatError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await router.unmap_ports(self._ports)

    async def _map_ports(self) -> tuple[NatGateway, ExternalMapping]:
        """Renews, or asks the first router that forwards ports."""
        if self._gateway is not None:
            return self._gateway, await self._gateway.map_ports(self._ports)
        targets = self._gateways or default_gateways()
        problems = []
        for target, find in ((targets.nat_pmp, find_nat_pmp), (targets.ssdp, find_upnp)):
            if target is None:
                continue
            try:
                self._check(target)
                router = await find(target)
                return router, await router.map_ports(self._ports)
            except NatError as error:
                problems.append(str(error))
        raise NatError("; ".join(problems) or "there is no gateway to ask")

    def _check(self, target: GatewayAddress) -> None:
        ip = parse_ip(target.host)
        is_group = target.host == upnp.SSDP_GROUP
        if not (ip.is_private or is_group):
            raise NatError(f"{ip} is not on a local network")
        if self._allowed_networks and not is_within(ip, self._allowed_networks):
            raise NatError(f"{ip} is outside p2p.netrestrict")

    def _set_mapping(self, outer: ExternalMapping) -> None:
        known, self.mapping = self.mapping, outer
        if known is None or (known.ip, known.ports) != (outer.ip, outer.ports):
            ports = ", ".join(f"{wanted.transport.name} {port}" for wanted, port in outer.ports.items())
            log.info("the router forwards our ports", address=str(outer.ip), ports=ports)
            self._on_mapping(outer)

    def _report_error(self, problem: str) -> None:
        if problem != self.problem:
            log.warn("no router forwards our ports (p2p.nat)", problem=problem)
        self.problem = problem
