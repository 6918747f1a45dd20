"""Checks of the options for peers, and whether static peers accept connections."""

import asyncio
import ipaddress
from collections.abc import Sequence
from contextlib import suppress

from rollup_node.node.checks.finding import Finding, not_checked, ok, warning
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.addresses.ip import IpAddressError, is_within, parse_ip, parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import TcpAddress
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.peering.peer_info import StaticPeerError, parse_static_peers

CHECK = "peers"
MAX_DIALLED = 64
NO_PEER_ID = b""


async def check_peers(config: P2pConfig | None, seconds: float) -> list[Finding]:
    """Return what the options say about peers, and a connection to each static peer within that time.

    `config` is None without a peer-to-peer network."""
    if config is None:
        return [ok(CHECK, "there is no peer-to-peer network (--p2p.disable)")]
    static, discovery = [text for text in config.static if text.strip()], not config.no_discovery
    sources = f"{len(config.bootnodes) if discovery else 0} bootnodes, {len(static)} static peers"
    if not static and not (discovery and config.bootnodes):
        result = [warning(CHECK, Code.PEERS_NONE, f"no peer is named: {sources}")]
    else:
        result = [ok(CHECK, sources)]
    result += _advertised(config)
    return result + await _dial(config, static, seconds)


def _advertised(config: P2pConfig) -> list[Finding]:
    advertise_ip = config.advertise_ip
    if not advertise_ip or config.nat or config.netrestrict:
        return []
    with suppress(ValueError):
        if not ipaddress.ip_address(advertise_ip).is_global:
            return [warning(CHECK, Code.PEERS_ADDRESS, f"--p2p.advertise.ip {advertise_ip} is not a public address")]
    return [ok(CHECK, f"{advertise_ip} is advertised")]


async def _dial(config: P2pConfig, static: Sequence[str], seconds: float) -> list[Finding]:
    try:
        # No peer has an empty id, so that none is left out as our own.
        addresses = parse_static_peers(static[:MAX_DIALLED], NO_PEER_ID)
    except StaticPeerError as failure:
        return [warning(CHECK, Code.PEER_UNREACHABLE, str(failure))]
    targets = [address.tcp for item in addresses.values() for address in item if address.tcp is not None]
    return list(await asyncio.gather(*(_dial_one(config, target, seconds) for target in targets)))


def _is_allowed(config: P2pConfig, host: str) -> bool:
    """Whether the node would dial that host; where networks are restricted, the addresses of a name are not known."""
    if not config.netrestrict:
        return True
    try:
        return is_within(parse_ip(host), map(parse_subnet, config.netrestrict))
    except IpAddressError:
        return False


async def _dial_one(config: P2pConfig, target: TcpAddress, seconds: float) -> Finding:
    check = f"peer {target.host}:{target.port}"
    if not _is_allowed(config, target.host):
        return not_checked(check, "it is outside --p2p.netrestrict, or a name")
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(target.host, target.port)
    except (OSError, TimeoutError) as failure:
        reason = getattr(failure, "strerror", None) or f"no answer within {seconds:g} s"
        return warning(check, Code.PEER_UNREACHABLE, f"no connection: {reason}")
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return ok(check, "accepts connections")
