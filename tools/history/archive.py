"""A folder of data from endpoints, which other processes, later runs and other machines read before they ask anybody.

Nothing in it is trusted: who reads an entry verifies it as if it came from an endpoint."""

import asyncio
import os
import stat
import zlib
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.kzg import BLOB_SIZE, POINT_SIZE, versioned_hash
from rollup_node.stages.blobs.tasks import BlobsVerified
from rollup_node.stages.io.log.lasting_conditions import LastingCondition, RepeatedWarnings
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.l1.process.client import header_json_in
from rollup_node.stages.l1.process.refs_client import linked_refs
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import ORDINARY_L1_BLOCK, AnswerLimit
from rollup_node.stages.protocol.hex_encoding import HexError, hash_from_hex, to_hex
from rollup_node.stages.protocol.types import BlobRef, Hash, L1BlockRef, L1Header

_HASH_TEXT = 66
COMPRESSED = ".gz"
_GZIP = zlib.MAX_WBITS | 16
_LEVEL = 1
_NUMBERS = 1_000
_SIZES = (BLOB_SIZE, BLOB_SIZE + POINT_SIZE, BLOB_SIZE + 2 * POINT_SIZE)


class Archive:
    """The entries below a folder by name, of which `.gz` ones are compressed; failures are warnings with a code."""

    def __init__(self, folder: str, logger: Logger) -> None:
        self._folder, self._logger = Path(folder), logger
        self._damages, self._unwritable = RepeatedWarnings(logger), LastingCondition(logger)
        self._numbers = count()

    async def read(self, name: str, most: int) -> bytes | None:
        """Return an entry of at most `most` bytes; None if there is none."""
        try:
            return await asyncio.to_thread(_read, self._folder / name, most)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, zlib.error) as error:
            self.damaged(name, str(error))
            return None

    async def keep(self, name: str, data: bytes) -> None:
        """Write an entry, in place of one that is there."""
        target = self._folder / name
        temporary = target.with_name(f".{target.name}.{os.uname().nodename}.{os.getpid()}.{next(self._numbers)}")
        try:
            await asyncio.to_thread(_write, temporary, target, data)
        except OSError as error:
            text = "what is fetched cannot be kept in the archive"
            self._unwritable.report(Code.ARCHIVE_UNWRITABLE, text, folder=str(self._folder), error=error.strerror)
        else:
            self._unwritable.end("the archive can be written again", folder=str(self._folder))

    def damaged(self, name: str, reason: str) -> None:
        """Warn of an entry that is not what its name says."""
        code, path = Code.ARCHIVE_DAMAGED, str(self._folder / name)
        text = "an entry of the archive is damaged and ignored"
        self._damages.warn(code.text, text, code=code.text, entry=path, reason=reason, do=code.remedy)


def _read(path: Path, most: int) -> bytes:
    # A named pipe would be waited for.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no file")
        data = file.read(most + 1)
    if path.suffix == COMPRESSED:
        inflater = zlib.decompressobj(_GZIP)
        data = inflater.decompress(data, most + 1)
        if len(data) <= most and not inflater.eof:
            raise ValueError("it is incomplete")
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data


def _write(temporary: Path, target: Path, data: bytes) -> None:
    if target.suffix == COMPRESSED:
        deflater = zlib.compressobj(_LEVEL, wbits=_GZIP)
        data = deflater.compress(data) + deflater.flush()
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.write_bytes(data)
        os.replace(temporary, target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def number_name(chain_id: int, number: int) -> str:
    """Return the entry with the hash of a block, 0x and 64 hex digits."""
    return f"l1-{chain_id}/numbers/{number // _NUMBERS:09d}/{number:012d}"


def block_name(chain_id: int, block_hash: Hash) -> str:
    """Return the entry with the response to eth_getBlockByNumber with full transactions."""
    return f"l1-{chain_id}/blocks/{_spread(block_hash)}.json.gz"


def receipts_name(chain_id: int, block_hash: Hash) -> str:
    """Return the entry with the response to a method for all receipts of a block."""
    return f"l1-{chain_id}/receipts/{_spread(block_hash)}.json.gz"


def blob_name(versioned_hash: Hash) -> str:
    return f"blobs/{_spread(versioned_hash)}"


def _spread(name: Hash) -> str:
    """By the last bytes: the first one of a versioned hash is always the same."""
    text = name.hex()
    return f"{text[-2:]}/{text[-4:-2]}/{text}"


class ArchivedBlock(NamedTuple):
    """The response with a full block, and the hash that the archive says it has."""

    hash: Hash
    body: bytes


class BlockArchive:
    """L1 blocks and receipts, undecoded and unverified, as an endpoint returned them.

    Blocks are kept up to `last`, which L1 has finalized, if their responses keep to ORDINARY_L1_BLOCK."""

    def __init__(self, folder: str, chain_id: int, last: int = -1) -> None:
        self._archive, self._chain_id, self._last = Archive(folder, Logger("l1")), chain_id, last

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

    async def receipts_body(self, block_hash: Hash, transactions: Sequence[Hash], limit: AnswerLimit) -> bytes | None:
        """As of L1Endpoint: all receipts of a block; None if they are not there."""
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

    async def ref(self, number: int, trust: bool) -> L1BlockRef | None:
        """Return the verified reference of a block; None if it is not there, or damaged, of which its fetch warns."""
        try:
            refs = linked_refs([await self.header_json(number)], number, trust)
        except InvalidDataError:
            return None
        return refs[0] if refs else None

    async def keep(self, header: L1Header, body: bytes, receipts: bytes | None) -> None:
        """Keep what an endpoint returned of a block. Its number comes last: who finds that finds all."""
        if header.number > self._last:
            return
        if receipts is not None:
            await self._archive.keep(receipts_name(self._chain_id, header.hash), receipts)
        await self._archive.keep(block_name(self._chain_id, header.hash), body)
        await self._archive.keep(number_name(self._chain_id, header.number), to_hex(header.hash).encode())

    def damaged(self, block_hash: Hash, reason: str) -> None:
        """Warn of a block whose entries are not what its hash commits to."""
        self._archive.damaged(block_name(self._chain_id, block_hash), reason)


class BlobArchive:
    """Unverified blobs in a folder, each with the commitment and KZG proof that came with it: checks are cheap then."""

    def __init__(self, folder: str) -> None:
        self._archive = Archive(folder, Logger("blobs"))

    async def read(self, wanted: Iterable[BlobRef]) -> dict[Hash, OfferedBlob]:
        """Those of the wanted blobs that are there, by the hashes that they are kept under."""
        result: dict[Hash, OfferedBlob] = {}
        for ref in wanted:
            data = await self._archive.read(blob_name(ref.hash), max(_SIZES))
            if data is not None and len(data) not in _SIZES:
                self._archive.damaged(blob_name(ref.hash), f"it has {len(data)} bytes")
            elif data is not None:
                points = data[BLOB_SIZE:]
                commitment, proof = points[:POINT_SIZE] or None, points[POINT_SIZE:] or None
                result[ref.hash] = OfferedBlob(data[:BLOB_SIZE], commitment, proof)
        return result

    async def keep(self, offered: Sequence[OfferedBlob], verified: BlobsVerified) -> None:
        """Keep the offered blobs that are authentic."""
        by_digest = {sha256(item.blob).digest(): item for item in offered}
        for content, digest in zip(verified.contents, verified.digests, strict=True):
            item = by_digest.get(digest)
            if item is not None:
                await self._archive.keep(blob_name(content.hash), _entry(content.hash, item))

    def damaged(self, hashes: Iterable[Hash], problems: Sequence[str]) -> None:
        """Warn of blobs that were read and are not authentic."""
        for hash_ in hashes:
            self._archive.damaged(blob_name(hash_), "; ".join(problems[:1]) or "it is another blob")


def _entry(blob_hash: Hash, item: OfferedBlob) -> bytes:
    """Return the entry of a blob, without evidence that belongs to another one: endpoints do not say which is whose."""
    if item.commitment is None or versioned_hash(item.commitment) != blob_hash:
        return item.blob
    return item.blob + item.commitment + (item.proof or b"")
