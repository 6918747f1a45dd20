"""A witness of recorded OP Sepolia data, which the tests of this folder read or copy."""

import asyncio
import shutil
from pathlib import Path

import pytest

from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.witness.packs import PackFolder
from tests.support.chains.recorded_witness import assembled, record


@pytest.fixture(scope="session")
def packs(recording: Recording, recording_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> PackFolder:
    result = PackFolder(tmp_path_factory.mktemp("witness") / "packs")
    asyncio.run(record(recording, recording_folder / "l2_blocks.json", result))
    return result


@pytest.fixture(scope="session")
def witness_folder(packs: PackFolder) -> Path:
    """Return the folder of the witness, which no test changes."""
    assembled(packs)
    return packs.store.path


@pytest.fixture
def altered(witness_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the witness of links, to remove some from or to put other files in their place."""
    target = tmp_path / "altered"
    shutil.copytree(witness_folder, target, copy_function=lambda source, link: Path(link).hardlink_to(source))
    return target
