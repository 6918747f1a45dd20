"""The rows of recorded OP Sepolia blocks, as the pipeline reports them, and those of values without meaning."""

from collections import Counter
from pathlib import Path
from typing import Any

from rollup_node.stages.derivation.pipeline.block_frames import blob_refs, data_items
from rollup_node.stages.derivation.pipeline.channel_bank import PartialChannel
from rollup_node.stages.derivation.pipeline.ingestion import DataSource
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.types import UNKNOWN_HASH, BlockId, L1BlockRef, L2BlockRef
from rollup_node.tools.history.manifest import L1Range
from rollup_node.tools.history.recorder import HistoryEvents, known_hash, state_of
from rollup_node.tools.history.tables import COLUMNS, Table
from tests.support.chains.op_sepolia import LAST_DERIVED_L1, SepoliaRecording
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

BLOCK = L1BlockRef(b"\x01" * 32, 5, b"\x02" * 32, 60)
SAFE = L2BlockRef(b"\x03" * 32, 9, b"\x04" * 32, 70, BlockId(4, b"\x05" * 32), 1)


def test_frames_are_those_of_their_transactions_and_blobs(shared_data: Path) -> None:
    """A refused blob gives no row, and those behind it keep their places."""
    recording = SepoliaRecording(shared_data / "op_sepolia_replay")
    block = recording.l1_blocks[LAST_DERIVED_L1]
    batcher, rows = recording.config.genesis.system_config.batcher, list[tuple[Table, dict[str, Any]]]()
    wanted = L1Range(LAST_DERIVED_L1, LAST_DERIVED_L1)
    events = HistoryEvents(recording.config, wanted, lambda table, time, row: rows.append((table, row)))
    rules = recording.config.schedule().l1(block.header.timestamp)
    blobs = blob_refs(data_items(block, batcher, rules))
    first, *others = recording.contents(blobs)
    source = DataSource(events)
    source.open(block, batcher, rules)
    assert source.add_blobs(block.header.hash, (BlobContent(first.hash, None, "refused"), *others))
    assert all(set(row) <= set(COLUMNS[table]) for table, row in rows)
    assert Counter(table for table, _ in rows)[Table.L1_INPUTS] == len(block.inbox)
    frames = [row for table, row in rows if table is Table.FRAMES]
    assert [frame["blob"] for frame in frames] == [f"0x{blob.hash.hex()}" for blob in blobs[1:]]
    assert [frame["item"] for frame in frames] == list(range(1, len(blobs)))
    assert {frame["transaction"] for frame in frames} == {f"0x{block.inbox[0].hash.hex()}"}


def test_states_name_what_is_open_and_what_is_unknown() -> None:
    channels = (PartialChannel(b"\x06" * 16, 4, {0: b"ab", 2: b"c"}),)
    config = PLAIN_ROLLUP.genesis.system_config
    state = state_of(BLOCK, b"\x0a" * 20, SAFE, config, channels)
    assert (state.l1.number, state.safe.number, state.origin.number) == (5, 9, 4)
    assert state.channels[0].frames == (0, 2) and state.channels[0].opened == 4
    moved = (PartialChannel(b"\x06" * 16, 4, {0: b"a", 2: b"bc"}),)
    assert state_of(BLOCK, b"\x0a" * 20, SAFE, config, moved).digest != state.digest
    assert state_of(BLOCK, b"\x0b" * 20, SAFE, config, channels).digest != state.digest
    assert known_hash(UNKNOWN_HASH) is None and known_hash(b"\x01") == "0x01"
