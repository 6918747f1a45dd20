"""The replay of a witness: the blocks that were recorded, from the store alone."""

import socket
from pathlib import Path
from typing import NoReturn

import pytest

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.witness.manifest import read_manifest
from rollup_node.tools.witness.packs import L2Pack, PackFolder, l2_name
from rollup_node.tools.witness.preimages import KeyType, WitnessError, preimage_key
from rollup_node.tools.witness.reader import WitnessReader
from rollup_node.tools.witness.replay import derive_witness
from tests.support.chains.recorded_witness import FIRST, HEAD, LAST


def test_the_recorded_blocks_follow_from_the_witness_without_a_socket(
    witness_folder: Path, packs: PackFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*values: object, **options: object) -> NoReturn:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr(socket, "create_connection", forbidden)
    monkeypatch.setattr(socket, "getaddrinfo", forbidden)
    done = list(derive_witness(WitnessReader(witness_folder)))
    known = packs.get(l2_name(FIRST + 1), L2Pack, "it")
    assert [item.safe_head.number for item in done] == list(range(FIRST + 1, LAST + 1))
    assert all(item.differences == () for item in done)
    assert done[0].values["hash"] == to_hex(known.hash) and done[-1].values["hash"] is None
    assert done[0].values["transactions"] == [to_hex(raw) for raw in known.transactions]
    assert {item.values["derived_from"] for item in done} == {HEAD}
    assert all(item.values["l1_transactions"] for item in done)


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
