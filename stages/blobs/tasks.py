"""Tasks of blobs for compute workers: verify which offered blobs are the wanted ones, and decode those."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import msgspec

from rollup_node.stages.blobs import kzg
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.blob_codec import BlobDataError, decode_blob
from rollup_node.stages.protocol.types import Hash


class VerifyBlobs(msgspec.Struct, frozen=True, array_like=True, tag="VerifyBlobs"):
    """The wanted versioned hashes and the offered blobs, of any number of L1 blocks."""

    wanted: tuple[Hash, ...]
    offered: tuple[OfferedBlob, ...]


class BlobsVerified(msgspec.Struct, frozen=True, array_like=True, tag="BlobsVerified"):
    """The wanted blobs that are authentic, decoded, with the SHA-256 of each blob.

    `problems` describes the other offered ones."""

    contents: tuple[BlobContent, ...]
    problems: tuple[str, ...]
    digests: tuple[bytes, ...] = ()


Task = VerifyBlobs
Result = BlobsVerified


def run(task: Task) -> Result:
    """Verify and decodes; never raises for bad data.

    Every wanted blob that is among the offered ones is found, whatever commitments and proofs came with it [BCN13,
    O5]."""
    authentic: dict[Hash, bytes] = {}
    problems: list[str] = []
    wanted = set(task.wanted)
    for verified, unverified in _verifications(task.offered, wanted):
        authentic.update(verified)
        for blob in unverified:
            # Computing a commitment takes long: it ends with the last wanted blob.
            if authentic.keys() >= wanted:
                break
            if not kzg.is_canonical(blob):
                problems.append("a blob has an element that is no field element, or a wrong size")
                continue
            blob_hash = kzg.versioned_hash(kzg.blob_to_commitment(blob))
            if blob_hash in wanted:
                authentic[blob_hash] = blob
            else:
                problems.append(f"a blob has the hash 0x{blob_hash.hex()}, which was not requested")
    contents = tuple(_decode(blob_hash, blob) for blob_hash, blob in authentic.items())
    return BlobsVerified(contents, tuple(problems), tuple(sha256(blob).digest() for blob in authentic.values()))


Verification = tuple[dict[Hash, bytes], list[bytes]]
"""The blobs shown to be authentic by their hashes, and those whose commitments have to be computed."""


def _verifications(offered: Sequence[OfferedBlob], wanted: set[Hash]) -> Iterator[Verification]:
    """Yield the results of each way to verify, the cheapest first.

    Proofs count as absent while ckzg's setup is too dear."""
    with_proof, with_commitment, bare = _by_evidence(offered, wanted)
    if not kzg.setup_pays():
        with_proof, with_commitment = [], [*with_proof, *with_commitment]
    yield _verify_proofs(with_proof)
    yield _verify_commitments(with_commitment)
    yield {}, [item.blob for item in bare]


def _by_evidence(
    offered: Sequence[OfferedBlob], wanted: set[Hash]
) -> tuple[list[OfferedBlob], list[OfferedBlob], list[OfferedBlob]]:
    """Return the blobs with a wanted commitment and a proof, with a wanted commitment alone, and all others."""
    groups: tuple[list[OfferedBlob], list[OfferedBlob], list[OfferedBlob]] = ([], [], [])
    for item in offered:
        is_wanted = item.commitment is not None and kzg.versioned_hash(item.commitment) in wanted
        groups[2 if not is_wanted else 1 if item.proof is None else 0].append(item)
    return groups


def _verify_proofs(items: Sequence[OfferedBlob]) -> Verification:
    """Verify all proofs at once; if that fails, each by itself to find the bad ones."""
    if _proofs_hold(items):
        return {_claimed_hash(item): item.blob for item in items}, []
    good = {_claimed_hash(item): item.blob for item in items if _proofs_hold([item])}
    return good, [item.blob for item in items if good.get(_claimed_hash(item)) != item.blob]


def _verify_commitments(items: Sequence[OfferedBlob]) -> Verification:
    """Verify all commitments at once; if that fails, or there is one only, they have to be computed."""
    if len(items) > 1 and kzg.verify_commitments([i.blob for i in items], [i.commitment or b"" for i in items]):
        return {_claimed_hash(item): item.blob for item in items}, []
    return {}, [item.blob for item in items]


def _proofs_hold(items: Sequence[OfferedBlob]) -> bool:
    return kzg.verify_proofs(
        [i.blob for i in items], [i.commitment or b"" for i in items], [i.proof or b"" for i in items]
    )


def _claimed_hash(item: OfferedBlob) -> Hash:
    return kzg.versioned_hash(item.commitment or b"")


def _decode(blob_hash: Hash, blob: bytes) -> BlobContent:
    try:
        return BlobContent(blob_hash, decode_blob(blob), None)
    except BlobDataError as error:
        return BlobContent(blob_hash, None, error.rule)
