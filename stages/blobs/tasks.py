"""Tasks of blobs for compute workers: verify which offered blobs are the wanted ones, and decode those."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import msgspec

from rollup_node.stages.blobs import kzg
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.types import Hash


class VerifyBlobs(msgspec.Struct, frozen=True, array_like=True, tag="VerifyBlobs"):
    """The wanted versioned hashes and the offered blobs, of any number of L1 blocks."""

    wanted: tuple[Hash, ...]
    offered: tuple[OfferedBlob, ...]


class BlobsVerified(msgspec.Struct, frozen=True, array_like=True, tag="BlobsVerified"):
    """The wanted authentic blobs, decoded, each with its SHA-256; `problems` describes the other offered ones."""

    contents: tuple[BlobContent, ...]
    problems: tuple[str, ...]
    digests: tuple[bytes, ...] = ()


Task = VerifyBlobs
Result = BlobsVerified


def run(task: Task, computed: dict[Hash, bytes] | None = None) -> Result:
    """Verify and decode; bad data never raises, and no commitment or proof hides a wanted blob [BCN13, O5].

    Commitments that have to be computed are added to `computed` by their hashes."""
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
            commitment = kzg.blob_to_commitment(blob)
            blob_hash = kzg.versioned_hash(commitment)
            if blob_hash in wanted:
                authentic[blob_hash] = blob
                if computed is not None:
                    computed[blob_hash] = commitment
            else:
                problems.append(f"a blob has the hash 0x{blob_hash.hex()}, which was not requested")
    contents = tuple(blob_content(blob_hash, blob) for blob_hash, blob in authentic.items())
    return BlobsVerified(contents, tuple(problems), tuple(sha256(blob).digest() for blob in authentic.values()))


Verification = tuple[dict[Hash, bytes], list[bytes]]
"""The blobs shown to be authentic by their hashes, and those whose commitments have to be computed."""


def _verifications(offered: Sequence[OfferedBlob], wanted: set[Hash]) -> Iterator[Verification]:
    """Yield the results of each way to verify, the cheapest first; proofs are absent while ckzg's setup is too dear."""
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


def blob_content(blob_hash: Hash, blob: bytes) -> BlobContent:
    """Return the data of an authentic blob, or the rule that refuses it."""
    try:
        return BlobContent(blob_hash, decode_blob(blob), None)
    except BlobDataError as error:
        return BlobContent(blob_hash, None, error.rule)


BLOB_SIZE = kzg.BLOB_SIZE
MAX_DATA = 130_044
VERSION = 0

_ELEMENT = 32
_ROUND = 4 * _ELEMENT
_ROUND_DATA = 127
_FIRST_ROUND_DATA = 123
_TOP_BITS = bytes(byte & 0xC0 for byte in range(256))


class BlobDataError(ValueError):
    """The blob is not encoded by the rules; `rule` is the id of the violated one."""

    def __init__(self, rule: str, problem: str) -> None:
        super().__init__(f"{problem} [{rule}]")
        self.rule = rule


def decode_blob(blob: bytes) -> bytes:
    """Return the data of a blob of 131,072 bytes, at most 130,044 bytes. Raises BlobDataError."""
    if len(blob) != BLOB_SIZE:
        raise BlobDataError("BL", f"a blob of {len(blob)} bytes")
    if blob[1] != VERSION:
        raise BlobDataError("BL1", f"blob encoding version {blob[1]}")
    length = int.from_bytes(blob[2:5], "big")
    if length > MAX_DATA:
        raise BlobDataError("BL2", f"blob claims {length} bytes of data, at most {MAX_DATA} fit")
    # Round 0 is always decoded; it carries four bytes less, which hold version and length [BL4].
    rounds = 1 + max(0, -(-(length - _FIRST_ROUND_DATA) // _ROUND_DATA))
    used = blob[: rounds * _ROUND]
    _check_top_bits(used)
    data = _unpacked(used)
    if any(data[4 + length :]):
        raise BlobDataError("BL6", f"bytes behind the {length} bytes of data")
    if blob.count(0, len(used)) != BLOB_SIZE - len(used):
        raise BlobDataError("BL7", f"bytes in the unused elements behind {length} bytes of data")
    return data[4 : 4 + length]


def _check_top_bits(used: bytes) -> None:
    # Element 0 is exempt [BL3].
    heads = used[_ELEMENT::_ELEMENT].translate(_TOP_BITS)
    if any(heads):
        element = 1 + next(index for index, head in enumerate(heads) if head)
        raise BlobDataError("BL4", f"element {element} is not below 2^254")


def _unpacked(used: bytes) -> bytes:
    """Return the output of whole rounds: the first bytes of four elements hold six bits each, so three bytes [BL5]."""
    # The first bytes of all rounds at once, as four large numbers: 1,024 rounds cost six operations.
    a, b, c, d = (int.from_bytes(used[start::_ROUND], "big") for start in range(0, _ROUND, _ELEMENT))
    rounds = len(used) // _ROUND
    low, middle, nibble = (int.from_bytes(bytes((mask,)) * rounds, "big") for mask in (0x3F, 0x30, 0x0F))
    x = (a & low) | (b & middle) << 2
    y = (b & nibble) | (d & nibble) << 4
    z = (c & low) | (d & middle) << 2
    out = bytearray(used)
    for head, joined in enumerate((x, y, z), start=1):
        out[head * _ELEMENT :: _ROUND] = joined.to_bytes(rounds, "big")
    del out[::_ROUND]
    return bytes(out)
