"""Real blobs with their commitments and proofs."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from rollup_node.stages.blobs import kzg


class RealBlob(NamedTuple):
    """A blob of OP Sepolia's batcher."""

    hash: bytes
    blob: bytes
    commitment: bytes


@pytest.fixture(scope="session")
def real_blobs(shared_data: Path, kzg_setup: None) -> tuple[RealBlob, ...]:
    """The six blobs of the recorded L1 blocks."""
    folder = shared_data / "op_sepolia_replay"
    listed = json.loads((folder / "expected.json").read_text())["blobs"]
    return tuple(
        RealBlob(bytes.fromhex(name), (folder / f"blob_{name}.bin").read_bytes(), bytes.fromhex(entry["commitment"]))
        for name, entry in sorted(listed.items())
    )


@pytest.fixture(scope="session")
def sidecars_json(shared_data: Path) -> bytes:
    """A Beacon API's answer with five sidecars whose proofs are right."""
    return (shared_data / "blobs" / "goerli_sidecars_7422094.json").read_bytes()


@pytest.fixture(scope="session")
def kzg_setup() -> None:
    """Loads the KZG set-up outside of any test's time."""
    kzg.load_setup()
