"""Maps ports on the gateway and learns our external address, by NAT-PMP or else UPnP (`p2p.nat`).

Mappings are renewed while the node runs. Only gateways on local networks, within `p2p.netrestrict`, are asked."""

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.addresses.ip import Subnet, is_within, parse_ip
from rollup_node.stages.p2p.nat import nat_pmp, upnp
from rollup_node.stages.p2p.peering.io import gateways as nat

RETRY_SECONDS = 60.0
_CLOSE_SECONDS = 1.0
_SHORTEST_RENEWAL = 30.0
_ROUTES = "/proc/net/route"

log = get_logger("p2p")


class GatewayAddresses(NamedTuple):
    """Where gateways are searched; None disables the protocol."""

    nat_pmp: nat.GatewayAddress | None
    ssdp: nat.GatewayAddress | None


def default_gateways() -> GatewayAddresses:
    """Return the gateway of the default route, and UPnP's multicast group."""
    gateway = default_gateway()
    return GatewayAddresses(
        nat.GatewayAddress(gateway, nat_pmp.PORT) if gateway else None,
        nat.GatewayAddress(upnp.SSDP_GROUP, upnp.SSDP_PORT),
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
        ports: Sequence[nat.LocalPort],
        on_mapping: Callable[[nat.ExternalMapping], None],
        *,
        gateways: GatewayAddresses | None = None,
        allowed_networks: Sequence[Subnet] = (),
    ) -> None:
        self.problem: str | None = None
        self.mapping: nat.ExternalMapping | None = None
        self._condition = LastingCondition(log)
        self._ports = tuple(ports)
        self._on_mapping, self._gateways = on_mapping, gateways
        self._allowed_networks = tuple(allowed_networks)
        self._gateway: nat.NatGateway | None = None

    async def step(self) -> float:
        """Search for a gateway, or renews the mappings; returns the seconds until the next call."""
        try:
            gateway, mapping = await self._map_ports()
            if not mapping.ip.is_global:
                raise nat.NatError(f"the gateway's external address {mapping.ip} is not public")
        except nat.NatError as error:
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
            with suppress(nat.NatError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await gateway.unmap_ports(self._ports)

    async def _map_ports(self) -> tuple[nat.NatGateway, nat.ExternalMapping]:
        """Renews the mappings, or makes them on the first gateway that allows it."""
        if self._gateway is not None:
            return self._gateway, await self._gateway.map_ports(self._ports)
        addresses = self._gateways or default_gateways()
        errors = []
        for address, find in ((addresses.nat_pmp, nat.find_nat_pmp), (addresses.ssdp, nat.find_upnp)):
            if address is None:
                continue
            try:
                self._check(address)
                gateway = await find(address)
                return gateway, await gateway.map_ports(self._ports)
            except nat.NatError as error:
                errors.append(str(error))
        raise nat.NatError("; ".join(errors) or "there is no gateway to ask")

    def _check(self, address: nat.GatewayAddress) -> None:
        ip = parse_ip(address.host)
        is_group = address.host == upnp.SSDP_GROUP
        if not (ip.is_private or is_group):
            raise nat.NatError(f"{ip} is not on a local network")
        if self._allowed_networks and not is_within(ip, self._allowed_networks):
            raise nat.NatError(f"{ip} is outside p2p.netrestrict")

    def _set_mapping(self, mapping: nat.ExternalMapping) -> None:
        known, self.mapping = self.mapping, mapping
        self._condition.end("a gateway maps our ports")
        if known is None or (known.ip, known.ports) != (mapping.ip, mapping.ports):
            ports = ", ".join(f"{local.transport.name} {port}" for local, port in mapping.ports.items())
            log.info("ports mapped on the gateway", address=str(mapping.ip), ports=ports)
            self._on_mapping(mapping)
