"""The nodes that have answered, and our own record, kept over restarts in the file `p2p.discovery.path` [DSC9]."""

import time
from collections.abc import Callable, Iterable

from rollup_node.stages.io.files.sqlite_file import FileKind
from rollup_node.stages.p2p.addresses.peer_id import NodeId
from rollup_node.stages.p2p.config import MEMORY
from rollup_node.stages.p2p.discv5.enr import Enr, EnrError, decode_enr
from rollup_node.stages.p2p.storage.io.database import SqliteFile

NODE_TTL = 5 * 86400.0
MAX_NODES = 1000
MAX_RESTORED = 150

_SCHEMA = """
create table if not exists nodes (node blob primary key, record blob, seen real) without rowid;
create table if not exists own (record blob);
"""
_KIND = FileKind("database of nodes", "p2p.discovery.path", 0x52504E32, _SCHEMA)
_DELETE_OLD_NODES = (
    "delete from nodes where seen < ?1 or node in (select node from nodes order by seen desc limit -1 offset ?2)"
)


class NodeDatabase(SqliteFile):
    """The database in the file `path`, or in memory. Raises StoreError when the file cannot be used."""

    def __init__(self, path: str = MEMORY, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        super().__init__(path, _KIND)

    def update_nodes(self, alive: Iterable[Enr], gone: Iterable[NodeId]) -> None:
        """Store nodes that have answered, and remove those that no longer do."""
        now = self._clock()
        self.write_all(
            [
                *(("delete from nodes where node = ?", (node,)) for node in gone),
                *(
                    ("insert or replace into nodes values (?, ?, ?)", (record.node_id, record.raw, now))
                    for record in alive
                ),
                (_DELETE_OLD_NODES, (now - NODE_TTL, MAX_NODES)),
            ]
        )

    def nodes(self) -> list[Enr]:
        """Return the nodes that answered last."""
        query = "select record from nodes where seen >= ? order by seen desc limit ?"
        rows = self.read(query, (self._clock() - NODE_TTL, MAX_RESTORED))
        return _records(raw for (raw,) in rows)

    def save_local_enr(self, record: Enr) -> None:
        """Store our own record."""
        self.write_all([("delete from own", ()), ("insert into own values (?)", (record.raw,))])

    def local_enr(self, node: NodeId) -> Enr | None:
        """Our own record from before; None when there is none, or it is of another key."""
        result = _records(raw for (raw,) in self.read("select record from own"))
        return result[0] if result and result[0].node_id == node else None


def _records(raws: Iterable[object]) -> list[Enr]:
    records = []
    for raw in raws:
        try:
            records.append(decode_enr(raw if isinstance(raw, bytes) else b""))
        except EnrError:
            continue
    return records
