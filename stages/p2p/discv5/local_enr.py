"""Our own node record: what it advertises, and its versions."""

from dataclasses import dataclass

from rollup_node.stages.p2p.addresses.ip import IpAddress
from rollup_node.stages.p2p.discv5.contact import Endpoint
from rollup_node.stages.p2p.discv5.enr import OPSTACK, Enr, OpStackEntry, sign_enr


@dataclass(frozen=True)
class AdvertisedEndpoint:
    """The contents of our record besides our key. A port of 0 and an `ip` of None are left out."""

    chain_id: int
    ip: IpAddress | None
    udp: int
    tcp: int

    def enr_values(self) -> dict[bytes, bytes]:
        """Return the record's values by key."""
        found = {OPSTACK: OpStackEntry(self.chain_id).encode()}
        if self.ip is None:
            return found
        six = "6" if self.ip.version == 6 else ""
        found[f"ip{six}".encode()] = self.ip.packed
        for name, port in (("udp", self.udp), ("tcp", self.tcp)):
            if port:
                found[f"{name}{six}".encode()] = port.to_bytes(2, "big").lstrip(b"\0")
        return found


class LocalEnr:
    """Our record.

    `seq` is the sequence number of a first version, Unix milliseconds, so that it rises over restarts; an equal
    record from before (`former`) is kept."""

    def __init__(self, secret: bytes, advertised: AdvertisedEndpoint, seq: int, former: Enr | None = None) -> None:
        self._secret = secret
        self.advertised = advertised
        fresh = sign_enr(secret, max(seq, former.seq + 1 if former else 0), advertised.enr_values())
        self.enr = former if former is not None and former.pairs == fresh.pairs else fresh

    def set_endpoint(self, endpoint: Endpoint) -> bool:
        """Set the endpoint where discovery reaches us; returns whether the record has changed."""
        return self.update(
            AdvertisedEndpoint(self.advertised.chain_id, endpoint.ip, endpoint.port, self.advertised.tcp)
        )

    def update(self, advertised: AdvertisedEndpoint) -> bool:
        """Set what is advertised; returns whether the record has changed."""
        if advertised == self.advertised:
            return False
        self.advertised = advertised
        self.enr = sign_enr(self._secret, self.enr.seq + 1, advertised.enr_values())
        return True
