"""The server of a recording: eth_* methods, Beacon API routes, and the command line."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.tools.batcher.kzg_proofs import verify_proof
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, application
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.recorded.server import RecordedBeacon, RecordedL1, main
from tests.support.chains.recordings import BLOB, FIRST, slot_of
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program


def _get(recording: Recording, *paths: str, blobs_endpoint: bool = True) -> list[tuple[int, Any]]:
    """Status and JSON of GET requests to the Beacon API."""

    async def run() -> list[tuple[int, Any]]:
        app = application(JsonRpc({}))
        RecordedBeacon(recording, blobs_endpoint).add_routes(app)
        listener = Listener(app, 0)
        await listener.start()
        try:
            async with aiohttp.ClientSession(listener.url) as session:
                return [await _json(session, path) for path in paths]
        finally:
            await listener.stop()

    return asyncio.run(run())


async def _json(session: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    async with session.get(path) as response:
        return response.status, await response.json() if "json" in response.content_type else None


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


def test_sidecars_with_computed_proofs(recording: Recording) -> None:
    path = f"/eth/v1/beacon/blob_sidecars/{slot_of(FIRST + 1)}"
    everything, first, second, absent = _get(
        recording, path, f"{path}?indices=0", f"{path}?indices=1", "/eth/v1/beacon/blob_sidecars/x"
    )
    assert everything == first
    sidecar = first[1]["data"][0]
    parts = [from_hex(sidecar[name]) for name in ("blob", "kzg_commitment", "kzg_proof")]
    assert parts[0] == BLOB
    assert verify_proof(*parts)
    assert (second[0], absent[0]) == (500, 404)


def test_the_program_prints_its_url(recording_folder: Path, leftovers: Leftovers) -> None:
    with Program(leftovers, "rollup_node.tools.recorded", str(recording_folder)) as program:
        line = program.wait_for_line("serving L1")
        assert line.startswith(f"serving L1 {FIRST} to {FIRST + 2} at http://127.0.0.1:")


def test_a_folder_without_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "l1_blocks.jsonl.gz is missing" in capsys.readouterr().err
