"""L1 data in folders: which kind a folder is, and what an archive serves."""

from pathlib import Path

import aiohttp
import pytest

import rollup_node
from rollup_node.stages.l1.config import L1Config
from rollup_node.tools.api.folders import FolderKind, kind_of_folder, last_block, served_folder
from rollup_node.tools.history.archive import number_name
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.chains.recordings import FIRST, write_recording

CONFIG = L1Config(("http://127.0.0.1:9",), (PLAIN_ROLLUP,))
CHAIN = PLAIN_ROLLUP.l1_chain_id


def _numbers(folder: Path, *numbers: int) -> None:
    for number in numbers:
        path = folder / number_name(CHAIN, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0x" + "00" * 32)


async def _call(url: str, method: str, *params: object) -> dict[str, object]:
    async with aiohttp.ClientSession() as session:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with session.post(url, json=body) as answer:
            result: dict[str, object] = await answer.json()
            return result


def test_the_kinds_of_folders(tmp_path: Path) -> None:
    recording, archive = tmp_path / "recording", tmp_path / "archive"
    recording.mkdir()
    write_recording(recording)
    _numbers(archive, 7)
    assert kind_of_folder(str(recording)) is FolderKind.RECORDING
    assert kind_of_folder(str(archive)) is FolderKind.ARCHIVE


@pytest.mark.parametrize("name", ["absent", "empty", "file", "nul\0"])
def test_a_folder_without_l1_data_is_an_input_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(rollup_node.InputError, match="archive: the folder"):
        kind_of_folder(str(tmp_path / name))


def test_the_last_block_of_an_archive(tmp_path: Path) -> None:
    _numbers(tmp_path, 999_999, 2_000_001, 2_000_010)
    (tmp_path / number_name(CHAIN, 3_000_000)).parent.mkdir(parents=True)
    assert last_block(tmp_path, CHAIN) == 2_000_010
    with pytest.raises(rollup_node.DataError, match=rf"no block of L1 chain 77, it has those of: {CHAIN}"):
        last_block(tmp_path, 77)


async def test_an_archive_serves_its_last_block_as_the_head(tmp_path: Path) -> None:
    _numbers(tmp_path, 7, 8)
    async with served_folder(str(tmp_path), CONFIG) as served:
        assert served.beacon is None
        assert (await _call(served.l1, "eth_chainId"))["result"] == hex(CHAIN)
        assert (await _call(served.l1, "eth_blockNumber"))["result"] == "0x8"
        for label, full in (("latest", False), ("0x7", True)):
            error = (await _call(served.l1, "eth_getBlockByNumber", label, full))["error"]
            assert "is missing in the archive" in str(error)


async def test_a_recording_serves_l1_and_blobs(tmp_path: Path) -> None:
    write_recording(tmp_path)
    async with served_folder(str(tmp_path), CONFIG) as served:
        assert served.beacon == served.l1
        assert (await _call(served.l1, "eth_blockNumber"))["result"] == hex(FIRST + 1)


@pytest.mark.parametrize("name", ["l1_blocks.jsonl.gz", "expected.json"])
async def test_a_damaged_recording_is_a_data_error(name: str, tmp_path: Path) -> None:
    write_recording(tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(rollup_node.DataError, match=r"the recorded data in .* are damaged"):
        async with served_folder(str(tmp_path), CONFIG):
            raise AssertionError("it is served")
