"""Fixtures for all tests: the shared real data, where it is at hand."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real chain data beside the checkout, or a skip with the reason."""
    places = [Path(os.environ["ROLLUP_NODE_SHARED_DATA"])] if "ROLLUP_NODE_SHARED_DATA" in os.environ else []
    places += [ROOT.parent / "shared" / "data"]
    for place in places:
        if (place / "README.md").is_file():
            return place
    pytest.skip("the shared data is not beside this checkout (set ROLLUP_NODE_SHARED_DATA to its folder)")
