"""Recorded L1 blocks in the forms in which endpoints return them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.tools.recorded.recording import Recording

OP_SEPOLIA = L1Filter(
    chain_id=11_155_111,
    inbox=bytes.fromhex("ff00000000000000000000000000000011155420"),
    deposit_contract=bytes.fromhex("16fc5058f25648194471939df75cf27a2fdc48bc"),
    system_config=bytes.fromhex("034edd2a225f7f429a63e0f1d2084b9e0a93b538"),
)


@pytest.fixture(scope="session")
def l1_filter() -> L1Filter:
    """OP Sepolia's filter."""
    return OP_SEPOLIA


@pytest.fixture(scope="session")
def recording(shared_data: Path) -> Recording:
    """81 L1 Sepolia headers, 58 of them with transactions, 57 with receipts."""
    return Recording.load(shared_data / "op_sepolia_replay")


def _copied(value: Any) -> Any:
    """Return a copy of a JSON value."""
    return orjson.loads(orjson.dumps(value))


@pytest.fixture
def block_json(recording: Recording) -> Callable[[int], Any]:
    """Return a block by number as eth_getBlockByNumber returns it; a copy that a test may change."""
    return lambda number: _copied(recording.block(number).block(True))


@pytest.fixture
def receipts_json(recording: Recording) -> Callable[[int], Any]:
    """Return a block's receipts by its number as eth_getBlockReceipts returns them; a copy that a test may change."""
    return lambda number: _copied(recording.block(number).receipts_json())


@pytest.fixture(scope="session")
def response_body() -> Callable[[Any], bytes]:
    """Return a JSON-RPC response with a result."""
    return lambda result: orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": result})
