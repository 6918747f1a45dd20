"""The file of signed blocks: a block is on the disk before its signature is requested [SGN9]."""

import asyncio
from collections import deque
from threading import Lock

from rollup_node.stages.io.sqlite_file import StoreError
from rollup_node.stages.p2p.config import MEMORY
from rollup_node.stages.p2p.signer.signed_blocks import (
    MAX_HEIGHTS,
    BlockFate,
    BlockRecord,
    L1Hash,
    SignedBlocks,
    SigningRequest,
)
from rollup_node.stages.p2p.storage.io.database import SqliteFile
from rollup_node.stages.protocol.types import BlockId, Hash

MAX_UNWRITTEN = 2 * MAX_HEIGHTS

_APPLICATION = 0x52504E33
_SCHEMA = """
create table if not exists blocks
  (genesis blob, number integer, hash blob, parent_hash blob, origin_number integer, origin_hash blob, fate integer,
   primary key (genesis, number, hash, fate)) without rowid;
"""
_SELECT = """select number, hash, parent_hash, origin_number, origin_hash, fate from blocks where genesis = ?
  and typeof(number) = 'integer' and typeof(hash) = 'blob' and typeof(parent_hash) = 'blob'
  and typeof(origin_number) in ('integer', 'null') and typeof(origin_hash) in ('blob', 'null') and fate in (0, 1, 2)
  order by number"""
_INSERT = "insert or ignore into blocks values (?, ?, ?, ?, ?, ?, ?)"
_DELETE_LOWER = "delete from blocks where genesis = ? and number < ?"


class SignedBlocksFile:
    """The signed blocks of the chain with this L2 genesis, in the file `path` or in memory; the file may hold those of
    other chains. Raises StoreError when the file cannot be used [SGN11]."""

    def __init__(self, genesis: Hash, path: str = MEMORY) -> None:
        self._genesis = genesis
        self._database = SqliteFile(
            path,
            what="file of signed blocks",
            option="p2p.peerstore.path",
            application=_APPLICATION,
            schema=_SCHEMA,
            durable=True,
        )
        rows = self._database.read(_SELECT, (genesis,))
        if self._database.problem is not None:
            self._database.close()
            raise StoreError(self._database.problem)
        self._blocks = SignedBlocks(
            BlockRecord(number, block_hash, parent, None if origin is None else BlockId(at, origin), BlockFate(fate))
            for number, block_hash, parent, at, origin, fate in rows
        )
        self._unwritten: deque[BlockRecord] = deque(maxlen=MAX_UNWRITTEN)
        self._lock = Lock()

    @property
    def problem(self) -> str | None:
        """The present error of the file, for /readyz; None when there is none."""
        return self._database.problem

    def close(self) -> None:
        """Writes what is not written yet, and closes the file."""
        self._write(tuple(self._unwritten))
        self._database.close()

    def decide(self, request: SigningRequest, l1_hash: L1Hash) -> str | None:
        """Decides about a block and remembers that; returns why it must not be signed, None if it may be once `write`
        has returned."""
        refusal, new = self._blocks.decide(request, l1_hash)
        self._unwritten.extend(new)
        return refusal

    async def write(self) -> None:
        """Writes what is not on the disk yet, and waits for the disk without blocking the process. When that fails it
        is written the next time; it stops no signature, as what is in memory still counts."""
        records = tuple(self._unwritten)
        if await asyncio.to_thread(self._write, records):
            written = set(records)
            self._unwritten = deque((each for each in self._unwritten if each not in written), maxlen=MAX_UNWRITTEN)

    def _write(self, records: tuple[BlockRecord, ...]) -> bool:
        """Writes records; whether they are on the disk."""
        with self._lock:
            rows = [(_INSERT, self._row(record)) for record in records]
            if rows:
                self._database.write_all([*rows, (_DELETE_LOWER, (self._genesis, self._blocks.lowest))])
            return self._database.problem is None

    def _row(self, block: BlockRecord) -> tuple[object, ...]:
        origin = (None, None) if block.origin is None else (block.origin.number, block.origin.hash)
        return (self._genesis, block.number, block.hash, block.parent_hash, *origin, int(block.fate))
