"""Recorded data for the tests of derivation."""

from pathlib import Path

import pytest

from tests.support.op_sepolia import Recording


@pytest.fixture(scope="session")
def recording(shared_data: Path) -> Recording:
    return Recording(shared_data / "op_sepolia_replay")
