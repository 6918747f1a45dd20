"""Blobs with their commitments and proofs."""

import json
from pathlib import Path

import pytest

from rollup_node.stages.blobs import kzg
from tests.support.servers import small_blobs as values
from tests.support.servers.fake_beacon import KnownBlob


@pytest.fixture(scope="session")
def recorded_blobs(shared_data: Path) -> tuple[KnownBlob, ...]:
    """Return the six blobs of the recorded L1 blocks, without proofs."""
    folder = shared_data / "op_sepolia_replay"
    listed = json.loads((folder / "expected.json").read_text())["blobs"]
    return tuple(
        KnownBlob(bytes.fromhex(name), (folder / f"blob_{name}.bin").read_bytes(), bytes.fromhex(entry["commitment"]))
        for name, entry in sorted(listed.items())
    )


@pytest.fixture(scope="session")
def small_blobs() -> tuple[KnownBlob, ...]:
    """Six blobs with few elements."""
    return values.small_blobs()


@pytest.fixture(scope="session")
def sidecars_json(shared_data: Path) -> bytes:
    """Return a Beacon API's response with five sidecars whose proofs hold."""
    return (shared_data / "blobs" / "goerli_sidecars_7422094.json").read_bytes()


@pytest.fixture(params=(False, True), ids=("py_arkworks", "ckzg"))
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commitments are computed as by a process that has just started, and as later; those of few elements, too."""
    monkeypatch.setattr(kzg, "setup_pays", lambda: request.param)
    if request.param:
        monkeypatch.setattr(kzg, "_FEW_ELEMENTS", 0)
