"""The server of a recording: eth_* methods, Beacon API routes, and the command line."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.tools.batcher.kzg_proofs import verify_proof
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, application
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.recorded.server import RecordedBeacon, RecordedL1, main
from tests.support.chains.recordings import BLOB, FIRST, slot_of, write_recording
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program
from tests.support.servers.http_listener import listening


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a small recording."""
    path = tmp_path_factory.mktemp("recording")
    write_recording(path)
    return path


@pytest.fixture(scope="module")
def recording(folder: Path) -> Recording:
    return Recording.load(folder)


def test_the_head_is_the_newest_whole_block(recording: Recording) -> None:
    methods = RecordedL1(recording).methods()
    assert methods["eth_blockNumber"]() == hex(FIRST + 1)
    assert methods["eth_getBlockByNumber"]("latest", False)["number"] == hex(FIRST + 1)
    assert methods["eth_getBlockByNumber"]("finalized", False)["number"] == hex(FIRST)
    block = methods["eth_getBlockByNumber"](hex(FIRST + 1), True)
    assert methods["eth_getBlockByHash"](block["hash"], True) == block
    receipts = methods["eth_getBlockReceipts"](block["hash"])
    assert receipts == methods["eth_getBlockReceipts"](block["number"])
    assert methods["eth_getTransactionReceipt"](block["transactions"][1]["hash"]) == receipts[1]


async def test_sidecars_with_computed_proofs(recording: Recording) -> None:
    app, path = application(JsonRpc({})), f"/eth/v1/beacon/blob_sidecars/{slot_of(FIRST + 1)}"
    RecordedBeacon(recording, True).add_routes(app)
    answers: list[Any] = []
    async with listening(app) as (url,), aiohttp.ClientSession(url) as session:
        for query in ("", "?indices=0"):
            async with session.get(path + query) as response:
                answers.append(await response.json())
        for absent, status in ((f"{path}?indices=1", 500), ("/eth/v1/beacon/blob_sidecars/x", 404)):
            async with session.get(absent) as response:
                assert response.status == status
    everything, first = answers
    assert everything == first
    parts = [from_hex(first["data"][0][name]) for name in ("blob", "kzg_commitment", "kzg_proof")]
    assert parts[0] == BLOB
    assert verify_proof(*parts)


def test_the_program_prints_its_url(folder: Path, leftovers: Leftovers) -> None:
    with Program(leftovers, "rollup_node.tools.recorded", str(folder)) as program:
        line = program.wait_for_line("serving L1")
        assert line.startswith(f"serving L1 {FIRST} to {FIRST + 2} at http://127.0.0.1:")


def test_a_folder_without_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "l1_blocks.jsonl.gz is missing" in capsys.readouterr().err
