"""A witness proves itself: what is missing or altered is named, and nothing else is believed [WIT7]."""

import json
import random
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.l1.tasks import Verified, VerifyReceipts, run
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import BlobRef, L1Block
from rollup_node.tools.recorded.recording import RecordedBlock, Recording
from rollup_node.tools.witness.assembly import CLAIMED
from rollup_node.tools.witness.manifest import MANIFEST, read_manifest
from rollup_node.tools.witness.preimages import KeyType, PreimageFolder, WitnessError, blob_keys, preimage_key
from rollup_node.tools.witness.reader import WitnessReader, derive_witness
from tests.support.chains.recorded_witness import (
    BASE,
    FILTERS,
    FIRST,
    HEAD,
    LAST,
    OVERLAP,
    receipts_body,
    with_receipts,
)


def test_a_witness_whose_l1_ends_too_early_says_where(witness_folder: Path, recording: Recording) -> None:
    witness = WitnessReader(witness_folder)
    del witness._l1[HEAD]
    with pytest.raises(WitnessError, match=f"nothing is derived after L2 block {FIRST}: the witness has no L1 block"):
        list(derive_witness(witness))


def test_a_block_that_is_not_the_one_in_the_witness_differs(witness_folder: Path) -> None:
    witness = WitnessReader(witness_folder)
    known = witness.l2_block
    witness.l2_block = lambda number, derived=None: known(number, None)  # type: ignore[method-assign]
    done = list(derive_witness(witness))
    assert len(done) == 1 and done[0].differences[0].startswith("transaction_count: ")


def test_a_missing_blob_ends_the_replay_with_its_name(altered: Path, recording: Recording) -> None:
    for versioned in recording.blobs:
        key = preimage_key(KeyType.SHA256, versioned).hex()
        (altered / key[:4] / f"{key[4:]}.txt").unlink(missing_ok=True)
    with pytest.raises(WitnessError, match=r"lacks the commitment of blob \d+ of L1 block \d+"):
        list(derive_witness(WitnessReader(altered)))
    assert read_manifest(altered).last == LAST


@pytest.fixture(scope="module")
def reader(witness_folder: Path) -> WitnessReader:
    return WitnessReader(witness_folder)


def _path(folder: Path, kind: KeyType, digest: bytes) -> Path:
    key = preimage_key(kind, digest).hex()
    return folder / key[:4] / f"{key[4:]}.txt"


def _replace(path: Path, text: str) -> None:
    # The file is a link to that of the witness of all tests.
    path.unlink()
    path.write_text(text)


def _expected(block: RecordedBlock) -> L1Block:
    result = run(VerifyReceipts(with_receipts(block), receipts_body(block), FILTERS))
    assert isinstance(result, Verified)
    return result.blocks[0]


def test_l1_blocks_are_those_that_a_node_derives_from(recording: Recording, reader: WitnessReader) -> None:
    for number in range(BASE + 1, HEAD + 1):
        assert reader.l1_block(number) == _expected(recording.block(number))
    base, known = reader.l1_block(BASE), _expected(recording.block(BASE))
    assert base == msgspec.structs.replace(known, deposits=(), config_updates=()), "they are in the system config"
    assert reader.l1_block(BASE - 1) is None and reader.l1_block(HEAD + 1) is None


def test_l2_blocks_are_proven_by_their_headers(reader: WitnessReader) -> None:
    safe = reader.l2_block(FIRST)
    assert safe is not None and safe.block_number == FIRST and safe.transactions
    after = reader.l2_block(FIRST + 1)
    assert after is not None and after.transactions == () and after.parent_hash == safe.block_hash
    assert reader.l2_block(FIRST + 1, (b"other",)) == after
    assert reader.l2_block(LAST) is None, "the recorded source lacks it"
    overlapped = reader.l2_block(OVERLAP)
    assert overlapped is not None and overlapped.transactions
    with pytest.raises(WitnessError, match=f"the witness lacks the header of L2 block {OVERLAP - 1} "):
        reader.l2_block(OVERLAP - 1)


def test_a_header_node_or_input_that_is_missing_or_altered_is_named(altered: Path, recording: Recording) -> None:
    block = recording.block(HEAD - 3)
    header = _path(altered, KeyType.KECCAK, block.hash)
    kept = header.read_text()
    header.unlink()
    with pytest.raises(WitnessError, match=rf"lacks the header of L1 block {HEAD - 3} \(keccak 0x{block.hash.hex()}"):
        WitnessReader(altered)
    header.write_text(kept[:-2] + "00")
    with pytest.raises(WitnessError, match=f"another value for the header of L1 block {HEAD - 3}"):
        WitnessReader(altered)
    header.write_text(kept)
    root = _path(altered, KeyType.KECCAK, bytes.fromhex(block.header["transactionsRoot"][2:]))
    root.unlink()
    with pytest.raises(WitnessError, match=f"lacks a trie node of the transactions of L1 block {HEAD - 3}"):
        WitnessReader(altered).l1_block(HEAD - 3)


def test_an_element_of_a_blob_that_is_altered_is_shown_by_the_proof(altered: Path, recording: Recording) -> None:
    versioned, commitment = next(
        (item, recording.blobs[item][1]) for item in recording.block(HEAD).blob_hashes() if item in recording.blobs
    )
    _replace(_path(altered, KeyType.BLOB, blob_keys(commitment)[9]), "00" * 32)
    with pytest.raises(WitnessError, match=f"an element of blob 0 of L1 block 7, .*0x{versioned.hex()}"):
        WitnessReader(altered).blobs(7, (BlobRef(0, versioned),))


def test_boot_inputs_are_compared_with_the_manifest(altered: Path) -> None:
    for number in (1, 4, 5, 6):
        path = _path(altered, KeyType.LOCAL, number.to_bytes(32, "big"))
        content = path.read_text()
        _replace(path, "7b7d")
        with pytest.raises(WitnessError, match=f"^boot input {number} .local. is not the one in the manifest"):
            WitnessReader(altered)
        path.unlink()
        with pytest.raises(WitnessError, match=f"lacks boot input {number} "):
            WitnessReader(altered)
        path.write_text(content)


def test_a_manifest_of_other_blocks_is_refused(altered: Path) -> None:
    manifest = json.loads((altered / MANIFEST).read_text())
    manifest["l1_base"]["hash"] = "0x" + "11" * 32
    _replace(altered / MANIFEST, json.dumps(manifest))
    with pytest.raises(WitnessError, match=f"L1 block {HEAD} does not descend from L1 block {BASE} of the manifest"):
        WitnessReader(altered)


def test_every_preimage_that_is_missing_or_altered_is_noticed(altered: Path) -> None:
    """Of many files one at a time, also of those that only kona-client reads."""
    assert len(list(derive_witness(WitnessReader(altered)))) == LAST - FIRST
    files = sorted(path for path in altered.rglob("*.txt") if not path.parent.name.startswith("05"))
    for at, path in enumerate(random.Random(7).sample(files, 6)):
        content = path.read_text()
        path.unlink()
        if at % 3:
            path.write_text(content[:-1] + ("0" if content[-1] != "0" else "1"))
        with pytest.raises(WitnessError, match=path.stem):
            list(derive_witness(WitnessReader(altered)))
        path.unlink(missing_ok=True)
        path.write_text(content)


def test_the_outputs_of_the_boot_inputs_are_there(altered: Path) -> None:
    root = keccak256(b"an output")
    manifest = json.loads((altered / MANIFEST).read_text())
    _replace(altered / MANIFEST, json.dumps({**manifest, "claimed": to_hex(root)}))
    store = PreimageFolder(altered)
    store.put_local(CLAIMED, root)
    with pytest.raises(WitnessError, match="lacks the claimed output"):
        WitnessReader(altered)
    store.put_hashed(b"an output")
    WitnessReader(altered)
