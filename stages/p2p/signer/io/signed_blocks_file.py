"""The file of signed blocks: a block is on disk, with its payload, before its signature is requested [SGN9, SGN12]."""

import asyncio
from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

from rollup_node.stages.io.files.sqlite_file import FileKind, StoreError
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.block_message import SszError
from rollup_node.stages.p2p.config import MEMORY
from rollup_node.stages.p2p.signer.signed_blocks import (
    MAX_HEIGHTS,
    BlockFate,
    BlockRecord,
    KeptPayload,
    KeptPayloads,
    L1Hash,
    SignedBlocks,
    SigningRequest,
)
from rollup_node.stages.p2p.storage.io.database import SqliteFile
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash

MAX_UNWRITTEN = 2 * MAX_HEIGHTS

_SCHEMA = """
create table if not exists blocks
  (genesis blob, number integer, hash blob, parent_hash blob, origin_number integer, origin_hash blob, fate integer,
   primary key (genesis, number, hash, fate)) without rowid;
create table if not exists payloads
  (genesis blob, position integer, number integer, hash blob, version integer, signed_part blob,
   primary key (genesis, position));
"""
_KIND = FileKind("file of signed blocks", "p2p.peerstore.path", 0x52504E33, _SCHEMA, "full")
_SELECT = """select number, hash, parent_hash, origin_number, origin_hash, fate from blocks where genesis = ?
  and typeof(number) = 'integer' and typeof(hash) = 'blob' and typeof(parent_hash) = 'blob'
  and typeof(origin_number) in ('integer', 'null') and typeof(origin_hash) in ('blob', 'null') and fate in (0, 1, 2)
  order by number"""
_INSERT = "insert or ignore into blocks values (?, ?, ?, ?, ?, ?, ?)"
_DELETE_LOWER = "delete from blocks where genesis = ? and number < ?"
_SELECT_KEPT = """select position, number, hash, length(signed_part) from payloads where genesis = ?
  and typeof(position) = 'integer' and typeof(number) = 'integer' and typeof(hash) = 'blob'
  and typeof(signed_part) = 'blob' and version in (1, 2, 3, 4)"""
_SELECT_PAYLOAD = "select version, signed_part from payloads where genesis = ? and position = ?"
_INSERT_PAYLOAD = "insert or replace into payloads values (?, ?, ?, ?, ?, ?)"
_DELETE_EARLIER = "delete from payloads where genesis = ? and hash = ? and position < ?"
_DELETE_PAYLOADS = "delete from payloads where genesis = ? and position < ?"


class EncodedPayload(NamedTuple):
    """The part of a gossip message that is signed, in that version of the encoding."""

    version: int
    signed_part: bytes


class SignedBlocksFile:
    """The signed blocks of the chain with this L2 genesis, in a file or in memory. Raises StoreError [SGN11]."""

    def __init__(self, genesis: Hash, path: str = MEMORY) -> None:
        self._genesis = genesis
        self._database = SqliteFile(path, _KIND)
        rows = self._database.read(_SELECT, (genesis,))
        kept = self._database.read(_SELECT_KEPT, (genesis,)) if self._database.problem is None else ()
        if self._database.problem is not None:
            self._database.close()
            raise StoreError(self._database.problem)
        self._blocks = SignedBlocks(
            BlockRecord(number, block_hash, parent, None if origin is None else BlockId(at, origin), BlockFate(fate))
            for number, block_hash, parent, at, origin, fate in rows
        )
        self._kept = KeptPayloads(KeptPayload(*row) for row in kept)
        self._unwritten: deque[BlockRecord] = deque(maxlen=MAX_UNWRITTEN)
        self._unwritten_payloads: dict[KeptPayload, EncodedPayload] = {}
        self._lock = Lock()

    @property
    def problem(self) -> str | None:
        """The present error of the file, for /readyz; None when there is none."""
        return self._database.problem

    def close(self) -> None:
        """Write what is not written yet, and close the file."""
        self._write(tuple(self._unwritten), dict(self._unwritten_payloads))
        self._database.close()

    def decide(self, request: SigningRequest, l1_hash: L1Hash) -> str | None:
        """Decide about a block; return why it must not be signed, None if it may be after `write`."""
        refusal, new = self._blocks.decide(request, l1_hash)
        self._unwritten.extend(new)
        return refusal

    def keep(self, number: int, block_hash: Hash, payload: EncodedPayload) -> None:
        """Keep the payload of a block about which was decided, on the disk once `write` has returned [SGN12]."""
        added = self._kept.add(number, block_hash, len(payload.signed_part))
        if added is not None:
            self._unwritten_payloads[added] = payload
            for item in [item for item in self._unwritten_payloads if item.position < self._kept.lowest]:
                del self._unwritten_payloads[item]

    async def write(self) -> None:
        """Write what is not on the disk yet, in a thread; a failure stops no signature, as memory still counts."""
        records, payloads = tuple(self._unwritten), dict(self._unwritten_payloads)
        if await asyncio.to_thread(self._write, records, payloads):
            written = set(records)
            self._unwritten = deque((item for item in self._unwritten if item not in written), maxlen=MAX_UNWRITTEN)
            for payload in payloads:
                self._unwritten_payloads.pop(payload, None)

    def _write(self, records: Sequence[BlockRecord], payloads: dict[KeptPayload, EncodedPayload]) -> bool:
        """Write records and payloads; whether they are on the disk."""
        genesis = self._genesis
        with self._lock:
            rows: list[tuple[str, Sequence[Any]]] = [(_INSERT, self._row(record)) for record in records]
            if rows:
                rows.append((_DELETE_LOWER, (genesis, self._blocks.lowest)))
            for kept, payload in payloads.items():
                rows.append((_INSERT_PAYLOAD, (genesis, kept.position, kept.number, kept.hash, *payload)))
                rows.append((_DELETE_EARLIER, (genesis, kept.hash, kept.position)))
            if payloads:
                rows.append((_DELETE_PAYLOADS, (genesis, self._kept.lowest)))
            if rows:
                self._database.write_all(rows)
            return self._database.problem is None

    def _row(self, block: BlockRecord) -> tuple[object, ...]:
        origin = (None, None) if block.origin is None else (block.origin.number, block.origin.hash)
        return (self._genesis, block.number, block.hash, block.parent_hash, *origin, int(block.fate))

    @property
    def last(self) -> BlockRecord | None:
        """The last block that may be signed, if its payload is kept."""
        result = (self._blocks.find(item.number, item.hash) for item in self._kept.newest_first())
        return next((item for item in result if item is not None and item.fate is BlockFate.SIGNED), None)

    def find(self, number: int, block_hash: Hash) -> BlockRecord | None:
        """Return what is known of a block, its parent above all."""
        return self._blocks.find(number, block_hash)

    def payload(self, block_hash: Hash) -> ExecutionPayload | None:
        """Return the payload of a block; None if it is not kept, or cannot be read."""
        kept = self._kept.find(block_hash)
        if kept is None:
            return None
        encoded = self._unwritten_payloads.get(kept)
        if encoded is None:
            with self._lock:
                rows = self._database.read(_SELECT_PAYLOAD, (self._genesis, kept.position))
            if not rows:
                return None
            encoded = EncodedPayload(*rows[0])
        try:
            return block_message.decode_signed_part(encoded.signed_part, encoded.version).payload
        except SszError:
            return None
