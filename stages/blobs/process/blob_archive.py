"""Blobs in an archive, unverified, with the commitment and the proof that came with them: these make checks cheap."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.kzg import BLOB_SIZE, POINT_SIZE, versioned_hash
from rollup_node.stages.blobs.tasks import BlobsVerified
from rollup_node.stages.io.files.archive import Archive, blob_name
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.protocol.types import BlobRef, Hash

log = get_logger("blobs")

_SIZES = (BLOB_SIZE, BLOB_SIZE + POINT_SIZE, BLOB_SIZE + 2 * POINT_SIZE)


class BlobArchive:
    """An entry is the blob, then its commitment and its KZG proof if they are known."""

    def __init__(self, folder: str) -> None:
        self._archive = Archive(folder, log)

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
        """Warns of blobs that were read and are not authentic."""
        for hash_ in hashes:
            self._archive.damaged(blob_name(hash_), "; ".join(problems[:1]) or "it is another blob")


def _entry(blob_hash: Hash, item: OfferedBlob) -> bytes:
    """Return the evidence may belong to another blob, as endpoints do not say which is whose."""
    if item.commitment is None or versioned_hash(item.commitment) != blob_hash:
        return item.blob
    return item.blob + item.commitment + (item.proof or b"")
