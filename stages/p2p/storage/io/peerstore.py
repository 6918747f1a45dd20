"""The peerstore: addresses, identify records, metadata, scores, bans and blocks of peers [PST1, PST2].

Times are Unix seconds; records expire by themselves [PST4]. All calls are short and synchronous."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from rollup_node.stages.io.files.sqlite_file import FileKind
from rollup_node.stages.p2p.addresses.ip import IpAddress, IpAddressError, Subnet, parse_ip, parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, decode_supported
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, PeerId
from rollup_node.stages.p2p.config import MEMORY
from rollup_node.stages.p2p.gating.connections import ConnectionGater
from rollup_node.stages.p2p.storage.io.database import SqliteFile
from rollup_node.stages.p2p.storage.peer_record import IdentifyRecord, PeerMetadata, PeerScores
from rollup_node.stages.protocol.errors import DECODE_ERRORS

PeerRecord = IdentifyRecord | PeerMetadata | PeerScores
T = TypeVar("T", bound=PeerRecord)

_KINDS: dict[type, str] = {IdentifyRecord: "description", PeerMetadata: "metadata", PeerScores: "scores"}

STATIC_TTL = 7 * 86400.0
DISCOVERED_TTL = 86400.0
IDENTIFIED_TTL = 3600.0
RECORD_TTL = 7 * 86400.0
MAX_ADDRESSES = 16
MAX_PEERS = 10_000
GC_CHANGES = 4000
"""Changes after which garbage is collected, so that strangers cannot fill the disk."""

_SCHEMA = """
create table if not exists addresses
  (peer blob, address blob, expiry real, primary key (peer, address)) without rowid;
create table if not exists records
  (peer blob, kind text, value blob, expiry real, primary key (peer, kind)) without rowid;
create table if not exists bans (subject text primary key, peer blob, expiry real) without rowid;
create table if not exists blocks (subject text primary key, peer blob) without rowid;
create table if not exists own (secret blob);
"""
_KIND = FileKind("peer store", "p2p.peerstore.path", 0x52504E31, _SCHEMA)
_INSERT_ADDRESS = (
    "insert into addresses values (?, ?, ?) on conflict do update set expiry = max(expiry, excluded.expiry)"
)
_DELETE_EXCESS_ADDRESSES = """delete from addresses where peer = ?1 and address not in
  (select address from addresses where peer = ?1 order by expiry desc limit ?2)"""
_SELECT_ADDRESSES = "select address from addresses where peer = ? and expiry > ? order by expiry desc, address"
_SELECT_PEERS = """select peer from addresses where expiry > ?1 union select peer from records where expiry > ?1
  order by peer"""
_SELECT_BANS = "select peer, expiry from bans where typeof(peer) = 'blob' and typeof(expiry) = 'real'"
_SELECT_BLOCKS = """select subject, peer from blocks
  where typeof(subject) = 'text' and typeof(peer) in ('blob', 'null')"""
_SET_RECORD = "insert or replace into records values (?, ?, ?, ?)"
_SELECT_OLDEST_PEERS = """select peer from (select peer, max(expiry) as last from
  (select peer, expiry from addresses union all select peer, expiry from records) group by peer)
  order by last limit max(0, (select count(*) from
  (select peer from addresses union select peer from records)) - ?)"""


class PeerStore(SqliteFile):
    """The peerstore in the file `path`, or in memory. Raises StoreError when the file cannot be used."""

    def __init__(self, path: str = MEMORY, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._changes = 0
        super().__init__(path, _KIND)

    def add_addresses(self, peer: PeerId, addresses: Iterable[Multiaddr], ttl: float) -> None:
        """Store addresses of a peer for `ttl` seconds; a longer expiry of a known address stays."""
        expiry = self._clock() + ttl
        rows = [(peer, address.without_peer_id.encode(), expiry) for address in addresses]
        self.write_all([*((_INSERT_ADDRESS, row) for row in rows), (_DELETE_EXCESS_ADDRESSES, (peer, MAX_ADDRESSES))])
        self._count_change()

    def addresses(self, peer: PeerId) -> list[Multiaddr]:
        """Return the peer's addresses, the one with the latest expiry first."""
        return decode_supported(raw for (raw,) in self.read(_SELECT_ADDRESSES, (peer, self._clock())))

    def peers_with_addresses(self) -> list[PeerId]:
        query = "select distinct peer from addresses where expiry > ? order by peer"
        return [peer for (peer,) in self.read(query, (self._clock(),))]

    def peers(self) -> list[PeerId]:
        return [peer for (peer,) in self.read(_SELECT_PEERS, (self._clock(),))]

    def remove(self, peer: PeerId) -> None:
        """Remove everything about a peer but its bans and blocks [RPC82]."""
        self.write_all(_removals([peer]))

    def collect_garbage(self) -> None:
        """Remove expired records, and the oldest peers beyond MAX_PEERS."""
        now, self._changes = self._clock(), 0
        self.write("delete from addresses where expiry <= ?", (now,))
        self.write("delete from records where expiry <= ?", (now,))
        self.write_all(_removals(peer for (peer,) in self.read(_SELECT_OLDEST_PEERS, (MAX_PEERS,))))

    def set_record(self, peer: PeerId, record: PeerRecord, ttl: float = RECORD_TTL) -> None:
        """Store a record, of which a peer has one of each type, for `ttl` seconds."""
        self.write(_SET_RECORD, (peer, _KINDS[type(record)], msgspec.msgpack.encode(record), self._clock() + ttl))
        self._count_change()

    def record(self, peer: PeerId, kind: type[T]) -> T | None:
        """Return the record of this type stored last; None when there is none."""
        query = "select value from records where peer = ? and kind = ? and expiry > ?"
        rows = self.read(query, (peer, _KINDS[kind], self._clock()))
        try:
            return msgspec.msgpack.decode(rows[0][0], type=kind) if rows else None
        except DECODE_ERRORS:
            return None

    def save_identity(self, identity: NetworkIdentity) -> None:
        """Store a copy of our own network key [PST1]."""
        self.write_all([("delete from own", ()), ("insert into own values (?)", (identity.secret,))])

    def save_gater(self, gater: ConnectionGater) -> None:
        """Replace the stored bans and blocks."""
        bans = [(peer.hex(), peer, until) for peer, until in gater.peer_bans.items()]
        blocks = [(peer.hex(), peer) for peer in gater.blocked_peers]
        networks: list[IpAddress | Subnet] = [*gater.blocked_ips, *gater.blocked_subnets]
        self.write_all(
            [
                ("delete from bans", ()),
                ("delete from blocks", ()),
                *(("insert into bans values (?, ?, ?)", row) for row in bans),
                *(("insert into blocks values (?, ?)", row) for row in blocks),
                *(("insert into blocks values (?, null)", (str(network),)) for network in networks),
            ]
        )

    def load_gater(self, allowed_networks: Sequence[Subnet] = ()) -> ConnectionGater:
        """Return the connection gater with all stored bans and blocks, without rows that damage made unreadable."""
        gater = ConnectionGater(tuple(allowed_networks), peer_bans=dict(self.read(_SELECT_BANS)))
        for subject, peer in self.read(_SELECT_BLOCKS):
            with suppress(IpAddressError):
                if peer is not None:
                    gater.blocked_peers.add(peer)
                elif "/" in subject:
                    gater.blocked_subnets.add(parse_subnet(subject))
                else:
                    gater.blocked_ips.add(parse_ip(subject))
        return gater

    def _count_change(self) -> None:
        self._changes += 1
        if self._changes >= GC_CHANGES:
            self.collect_garbage()


def _removals(peers: Iterable[PeerId]) -> list[tuple[str, tuple[PeerId]]]:
    return [
        (f"delete from {table} where peer = ?", (peer,)) for peer in list(peers) for table in ("addresses", "records")
    ]
