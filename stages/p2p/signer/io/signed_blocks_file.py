"""The file of signed blocks: a block is on the disk before its signature is requested [SGN9]."""

from rollup_node.stages.p2p.config import MEMORY
from rollup_node.stages.p2p.signer.signed_blocks import BlockRecord, SignedBlocks
from rollup_node.stages.p2p.storage.io.database import SqliteFile
from rollup_node.stages.protocol.types import BlockId, Hash

_APPLICATION = 0x52504E33
_SCHEMA = """
create table if not exists blocks
  (genesis blob, number integer, hash blob, parent_hash blob, origin_number integer, origin_hash blob, refused integer,
   primary key (genesis, number, hash, refused)) without rowid;
"""
_SELECT = """select number, hash, parent_hash, origin_number, origin_hash, refused from blocks where genesis = ?
  and typeof(number) = 'integer' and typeof(hash) = 'blob' and typeof(parent_hash) = 'blob'
  and typeof(origin_number) in ('integer', 'null') and typeof(origin_hash) in ('blob', 'null') order by number"""
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
        self._blocks = SignedBlocks(
            BlockRecord(number, block_hash, parent, None if origin is None else BlockId(at, origin), bool(refused))
            for number, block_hash, parent, at, origin, refused in self._database.read(_SELECT, (genesis,))
        )

    @property
    def problem(self) -> str | None:
        """The present error of the file, for /readyz; None when there is none."""
        return self._database.problem

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def permit(self, block: BlockRecord) -> BlockRecord | None:
        """Stores a block that is about to be signed, or that it is refused; returns the block because of which it is,
        None when it may be signed. A file that cannot be written stops no signature: what is in memory is checked."""
        found = self._blocks.conflict(block)
        record = block._replace(is_refused=found is not None)
        if self._blocks.add(record):
            origin = (None, None) if block.origin is None else (block.origin.number, block.origin.hash)
            row = (self._genesis, block.number, block.hash, block.parent_hash, *origin, int(record.is_refused))
            self._database.write_all([(_INSERT, row), (_DELETE_LOWER, (self._genesis, self._blocks.lowest))])
        return found
