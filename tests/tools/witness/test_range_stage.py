"""The engine stage of a range: where it starts, what it keeps of L2, and what it asks the engine for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND, TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload, output_preimage, payload_block_hash
from rollup_node.stages.protocol.types import UNKNOWN_HASH, BlockId
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.inspect.l2_source import FileSource, SourceError
from rollup_node.tools.inspect.replay_stage import ReplayConfig, ReplayFailed
from rollup_node.tools.inspect.row_formats import RowFormat
from rollup_node.tools.witness.packs import PackFolder, execution_name
from rollup_node.tools.witness.range_stage import EXECUTE, RecordingSource, WitnessRangeConfig, WitnessRangeStage
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.servers.http_listener import json_rpc_app, listening
from tests.tools.conftest import NewBuses

NewStage = Callable[..., WitnessRangeStage]
BASE = BlockId(90, b"\x09" * 32)


@pytest.fixture
def packs(tmp_path: Path) -> PackFolder:
    (tmp_path / "packs").mkdir()
    return PackFolder(tmp_path / "packs")


@pytest.fixture
def new_stage(chain: ChainFixture, new_buses: NewBuses, tmp_path: Path, packs: PackFolder) -> NewStage:
    def make(url: str | None = None, execution: bool = False, last: int = 2) -> WitnessRangeStage:
        replay = ReplayConfig(chain.rollup, 1, last, url, None, None, RowFormat.JSON, 1, 2)
        config = WitnessRangeConfig(replay, str(packs.path), execution)
        stage = WitnessRangeStage(config, new_buses(tmp_path)["engine"], Meter("engine"))
        stage._base = BASE
        return stage

    return make


def _derived(chain: ChainFixture) -> tuple[AttributesReady, ExecutionPayload, ExecutionPayload]:
    """Attributes of block 2, and blocks 1 and 2 of the source."""
    parent = chain.build(1)[1]
    attributes = chain.attributes(parent, 100, [chain.user])
    payload = chain.seal(parent, attributes)
    return AttributesReady(1, 1, parent, attributes, chain.l1_ref(105), True), chain.payloads[parent.hash], payload


async def test_a_block_whose_header_is_not_shown_is_refused(chain: ChainFixture, packs: PackFolder) -> None:
    payload = chain.payloads[chain.build(1)[1].hash]
    wrong = msgspec.structs.replace(payload, gas_used=payload.gas_used + 1)
    with pytest.raises(SourceError, match="L2 block 1 has a header that its payload does not show"):
        await RecordingSource(FileSource({1: wrong}), packs).payload(1)


async def test_a_storage_root_in_the_header_makes_the_output(
    chain: ChainFixture, new_stage: NewStage, packs: PackFolder
) -> None:
    """From Isthmus on [HSH18]."""
    _, safe, _ = _derived(chain)
    changed = msgspec.structs.replace(safe, withdrawals_root=b"\x05" * 32)
    changed = msgspec.structs.replace(changed, block_hash=payload_block_hash(changed))
    stage = new_stage()
    stage._source = RecordingSource(FileSource({1: changed}), packs)
    assert await stage._output(1) == output_preimage(safe.state_root, b"\x05" * 32, changed.block_hash)
    assert await stage._output(7) == b"", "the source lacks it"
    await stage.close()


async def test_a_proof_that_does_not_hold_gives_no_output(chain: ChainFixture, new_stage: NewStage) -> None:
    _, safe, _ = _derived(chain)
    before = msgspec.structs.replace(safe, withdrawals_root=None)
    answers: list[Any] = [{"accountProof": []}, {"accountProof": ["0x80"]}, {"accountProof": ["x"]}]
    app = json_rpc_app({"eth_getProof": lambda *params: answers.pop(0)})
    async with listening(app) as (url,):
        stage = new_stage(url)
        for _ in range(3):
            assert await stage._storage_root(before) is None
        await stage.close()
    assert not answers


async def test_the_execution_of_a_block_is_kept_once(
    chain: ChainFixture, new_stage: NewStage, packs: PackFolder
) -> None:
    derived, _, _ = _derived(chain)
    asked: list[Any] = []

    def execute(parent: str, attributes: Any) -> Any:
        asked.append((parent, attributes["timestamp"], attributes["noTxPool"]))
        return {"state": ["0x01", "0x02"], "codes": ["0x03"], "keys": ["0x04"], "headers": []}

    async with listening(json_rpc_app({EXECUTE: execute})) as (url,):
        stage = new_stage(url, True)
        for _ in range(2):
            await stage._keep_execution(derived)
        await stage._keep_execution(
            msgspec.structs.replace(derived, parent=msgspec.structs.replace(derived.parent, hash=UNKNOWN_HASH))
        )
        await stage.close()
    assert asked == [("0x" + derived.parent.hash.hex(), hex(derived.attributes.timestamp), True)]
    assert packs.get(execution_name(2), tuple[bytes, ...], "it") == (b"\1", b"\2", b"\3", b"\4")


@pytest.mark.parametrize(
    ("failure", "error", "text"),
    [
        (JsonRpcError(METHOD_NOT_FOUND, "no such method"), ReplayFailed, f"source does not serve {EXECUTE}"),
        (JsonRpcError(-32000, "pruned"), ReplayFailed, f"source refuses {EXECUTE}: .*pruned"),
        ({"state": ["0xzz"]}, ReplayFailed, "is malformed"),
        ({"state": 5}, TemporaryError, f"{EXECUTE} of block 2"),
    ],
)
async def test_an_engine_without_executions_ends_the_range(
    failure: Any, error: type[Exception], text: str, chain: ChainFixture, new_stage: NewStage
) -> None:
    derived, _, _ = _derived(chain)

    def execute(*params: Any) -> Any:
        if isinstance(failure, Exception):
            raise failure
        return failure

    async with listening(json_rpc_app({EXECUTE: execute})) as (url,):
        stage = new_stage(url, True)
        with pytest.raises(error, match=text):
            await stage._keep_execution(derived)
        await stage.close()
