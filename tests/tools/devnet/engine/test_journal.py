"""The journal keeps what it was told, and drops a line that was cut off."""

from pathlib import Path
from typing import Any

from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.tools.devnet.engine.backend import payload_of
from rollup_node.tools.devnet.engine.journal import FILE_NAME, Journal


def test_entries_come_back_in_order_and_a_cut_line_is_gone(small_chain: Any, tmp_path: Path) -> None:
    small = small_chain()
    payload = payload_of(small.extend(small.ledger()))
    journal = Journal(tmp_path / "new" / "folder")
    journal.insert(payload)
    journal.follow(payload.block_hash, bytes(32), bytes(32))
    journal.close()
    path = tmp_path / "new" / "folder" / FILE_NAME
    path.write_bytes(path.read_bytes() + b'{"headBlockHash"')
    again = Journal(path.parent)
    block, heads = again.entries()
    assert envelope_from_json(block) == payload
    assert heads["headBlockHash"] == "0x" + payload.block_hash.hex()
    again.follow(bytes(32), bytes(32), bytes(32))
    assert len(list(again.entries())) == 3
    again.close()
