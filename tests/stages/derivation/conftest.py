"""Recorded data for the tests of derivation."""

from pathlib import Path

import pytest

from tests.support.chains.op_sepolia import SepoliaRecording


@pytest.fixture(scope="session")
def recording(shared_data: Path) -> SepoliaRecording:
    return SepoliaRecording(shared_data / "op_sepolia_replay")
