"""Receipts that derivation does not read, and kona-client does [WIT5]."""

from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_values
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.recorded.server import RecordedL1
from rollup_node.tools.witness import receipts
from rollup_node.tools.witness.packs import L1Pack, PackFolder, RangeResult, l1_name, range_name, receipts_name
from rollup_node.tools.witness.preimages import WitnessError
from rollup_node.tools.witness.receipts import complete_receipts
from tests.support.chains.recorded_witness import CHAIN, FIRST, HEAD, LAST
from tests.support.servers.http_listener import json_rpc_app, listening


@pytest.fixture
def without_receipts(packs: PackFolder, tmp_path: Path) -> PackFolder:
    for path in packs.path.iterdir():
        if not path.name.startswith(("receipts-", "blob-")):
            (tmp_path / path.name).hardlink_to(path)
    return PackFolder(tmp_path)


def _config(url: str) -> L1Config:
    return L1Config(rollups=(CHAIN.config,), endpoints=(url,), rpc_kind="standard")


async def test_what_is_missing_is_fetched_and_verified(without_receipts: PackFolder, recording: Recording) -> None:
    methods = RecordedL1(recording).methods()
    result = without_receipts.get(range_name(FIRST, LAST), RangeResult, "it")
    async with listening(json_rpc_app(methods)) as (url,):
        await complete_receipts(without_receipts, result, _config(url))
    for number in range(result.base.number + 1, result.head.number + 1):
        block = recording.block(number)
        nodes = without_receipts.get(receipts_name(block.hash), tuple[bytes, ...], "it")
        by_hash = {keccak256(node): node for node in nodes}
        root = without_receipts.get(l1_name(block.hash), L1Pack, "it").verified.receipts_root
        assert tuple(ordered_values(root, by_hash.__getitem__)) == block.receipts
    assert not without_receipts.has(receipts_name(recording.block(result.base.number).hash)), "nobody reads the base's"


@pytest.mark.parametrize("answer", ["none", "error", "wrong"])
async def test_what_no_endpoint_has_ends_the_run_in_a_line(
    answer: str, without_receipts: PackFolder, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "PAUSES", (0.0,))
    methods = RecordedL1(recording).methods()

    def fails(*params: Any) -> Any:
        if answer == "error":
            raise JsonRpcError(-32000, "it is pruned")
        return None if answer == "none" else recording.block(HEAD - 1).receipts_json()[1:]

    result = without_receipts.get(range_name(FIRST, LAST), RangeResult, "it")
    async with listening(json_rpc_app({**methods, "eth_getBlockReceipts": fails})) as (url,):
        with pytest.raises(WitnessError, match=r"^the receipts of L1 block \d+ cannot be read: "):
            await complete_receipts(without_receipts, result, _config(url))
