"""L1 blocks and receipts in an archive, undecoded and unverified, as an endpoint returned them."""

from typing import Any, NamedTuple

from rollup_node.stages.io.files.archive import Archive, block_name, number_name, receipts_name
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.client import header_json_in
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.protocol.answer_limits import ORDINARY_L1_BLOCK, AnswerLimit
from rollup_node.stages.protocol.hex_encoding import HexError, hash_from_hex, to_hex
from rollup_node.stages.protocol.types import Hash, L1Header

log = get_logger("l1")
_HASH_TEXT = 66


class ArchivedBlock(NamedTuple):
    """The response with a full block, and the hash that the archive says it has."""

    hash: Hash
    body: bytes


class BlockArchive:
    """Blocks are kept up to `last`, which L1 has finalized, if their responses keep to ORDINARY_L1_BLOCK."""

    def __init__(self, folder: str, config: L1Config) -> None:
        self._archive, self._chain_id = Archive(folder, log), config.rollups[0].l1_chain_id
        self._last = config.archive_last

    async def block(self, number: int) -> ArchivedBlock | None:
        """Return the canonical block of a number; None if it is not there."""
        name = number_name(self._chain_id, number)
        text = await self._archive.read(name, _HASH_TEXT)
        if text is None:
            return None
        try:
            block_hash = hash_from_hex(text.decode("ascii", "replace"))
        except HexError as error:
            self._archive.damaged(name, str(error))
            return None
        body = await self._archive.read(block_name(self._chain_id, block_hash), ORDINARY_L1_BLOCK.bytes)
        return None if body is None else ArchivedBlock(block_hash, body)

    async def receipts(self, block_hash: Hash, limit: AnswerLimit) -> bytes | None:
        """All receipts of a block; None if they are not there."""
        return await self._archive.read(receipts_name(self._chain_id, block_hash), limit.bytes)

    async def header_json(self, number: int) -> Any:
        """Return the header of a block as JSON-RPC has it; None if it is not there."""
        result = await self.block(number)
        if result is None:
            return None
        try:
            return header_json_in(result.body, ORDINARY_L1_BLOCK)
        except InvalidDataError as error:
            self.damaged(result.hash, str(error))
            return None

    async def keep(self, header: L1Header, body: bytes, receipts: bytes | None) -> None:
        """Keep what an endpoint returned of a block. Its number comes last: who finds that finds all."""
        if header.number > self._last:
            return
        if receipts is not None:
            await self._archive.keep(receipts_name(self._chain_id, header.hash), receipts)
        await self._archive.keep(block_name(self._chain_id, header.hash), body)
        await self._archive.keep(number_name(self._chain_id, header.number), to_hex(header.hash).encode())

    def damaged(self, block_hash: Hash, reason: str) -> None:
        """Warns of a block whose entries are not what its hash commits to."""
        self._archive.damaged(block_name(self._chain_id, block_hash), reason)
