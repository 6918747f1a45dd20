"""The peers of `p2p.static`."""

from collections.abc import Sequence

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, MultiaddrError, parse_multiaddr
from rollup_node.stages.p2p.identity.peer_id import PeerId


class StaticPeerError(Exception):
    """An entry of `p2p.static` is invalid."""


def parse_static_peers(texts: Sequence[str], own: PeerId) -> dict[PeerId, list[Multiaddr]]:
    """Return the addresses of each static peer, without our own [NET9]. Raises StaticPeerError for an invalid entry."""
    found: dict[PeerId, list[Multiaddr]] = {}
    for text in filter(None, map(str.strip, texts)):
        try:
            address = parse_multiaddr(text)
        except MultiaddrError as error:
            raise StaticPeerError(f"{error} (p2p.static)") from None
        if address.peer_id is None or address.tcp is None:
            raise StaticPeerError(
                f"{text} lacks address, TCP port or peer id, as in /ip4/192.0.2.1/tcp/9222/p2p/16Uiu2HA... (p2p.static)"
            )
        if address.peer_id != own:
            found.setdefault(address.peer_id, []).append(address.without_peer_id)
    return found
