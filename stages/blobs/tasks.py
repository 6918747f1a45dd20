"""The compute-heavy part of blobs: which of the offered blobs are the wanted ones, and what they decode to."""

from collections.abc import Iterator, Sequence

import msgspec

from rollup_node.stages.blobs import kzg
from rollup_node.stages.blobs.beacon_api import Candidate
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.blob_codec import BlobDataError, decode_blob
from rollup_node.stages.protocol.types import Hash


class VerifyBlobs(msgspec.Struct, frozen=True, array_like=True, tag="VerifyBlobs"):
    """The versioned hashes that are wanted and the blobs that were offered, of any number of L1 blocks."""

    wanted: tuple[Hash, ...]
    candidates: tuple[Candidate, ...]


class BlobsVerified(msgspec.Struct, frozen=True, array_like=True, tag="BlobsVerified"):
    """The contents of the wanted blobs that are authentic; `problems` says what was offered besides."""

    contents: tuple[BlobContent, ...]
    problems: tuple[str, ...]


Task = VerifyBlobs
Result = BlobsVerified


def prepare() -> None:
    """Loads the KZG set-up, so that the first task need not."""
    kzg.load_setup()


def run(task: Task) -> Result:
    """Authenticates and decodes; never raises for bad data."""
    authentic: dict[Hash, bytes] = {}
    problems: list[str] = []
    wanted = set(task.wanted)
    for claimed, unclaimed in _checks(task.candidates, wanted):
        authentic.update(claimed)
        for blob in unclaimed:
            if authentic.keys() >= wanted:
                break
            if not kzg.is_canonical(blob):
                problems.append("a blob has an element that is no field element, or a wrong size")
                continue
            blob_hash = kzg.versioned_hash(kzg.commitment_of(blob))
            if blob_hash in wanted:
                authentic[blob_hash] = blob
            else:
                problems.append(f"a blob has the hash 0x{blob_hash.hex()}, which was not asked for")
    contents = tuple(_decoded(blob_hash, blob) for blob_hash, blob in authentic.items())
    return BlobsVerified(contents, tuple(problems))


def _checks(candidates: Sequence[Candidate], wanted: set[Hash]) -> Iterator[tuple[dict[Hash, bytes], list[bytes]]]:
    """For each way of checking: what it shows to be authentic, and what is left to be computed."""
    proven, committed, rest = _by_evidence(candidates, wanted)
    yield _by_proofs(proven)
    yield _by_commitments(committed)
    yield {}, [item.blob for item in rest]


def _by_evidence(
    candidates: Sequence[Candidate], wanted: set[Hash]
) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
    """Candidates with commitment and proof, with a commitment only, and with nothing of use. A commitment that is
    not that of a wanted blob is of no use."""
    groups: tuple[list[Candidate], list[Candidate], list[Candidate]] = ([], [], [])
    for item in candidates:
        useful = item.commitment is not None and kzg.versioned_hash(item.commitment) in wanted
        groups[2 if not useful else 1 if item.proof is None else 0].append(item)
    return groups


def _by_proofs(items: Sequence[Candidate]) -> tuple[dict[Hash, bytes], list[bytes]]:
    """All proofs at once, then each by itself, to name the bad one."""
    if _proofs_hold(items):
        return {_claim(item): item.blob for item in items}, []
    good = {_claim(item): item.blob for item in items if _proofs_hold([item])}
    return good, [item.blob for item in items if good.get(_claim(item)) != item.blob]


def _by_commitments(items: Sequence[Candidate]) -> tuple[dict[Hash, bytes], list[bytes]]:
    """All commitments by one linear combination; where that fails each is computed."""
    if len(items) > 1 and kzg.commitments_hold([i.blob for i in items], [i.commitment or b"" for i in items]):
        return {_claim(item): item.blob for item in items}, []
    return {}, [item.blob for item in items]


def _proofs_hold(items: Sequence[Candidate]) -> bool:
    return kzg.proofs_hold(
        [i.blob for i in items], [i.commitment or b"" for i in items], [i.proof or b"" for i in items]
    )


def _claim(item: Candidate) -> Hash:
    return kzg.versioned_hash(item.commitment or b"")


def _decoded(blob_hash: Hash, blob: bytes) -> BlobContent:
    try:
        return BlobContent(blob_hash, decode_blob(blob), None)
    except BlobDataError as error:
        return BlobContent(blob_hash, None, error.rule)
