"""The journal of accepted blocks and forkchoice states."""

from pathlib import Path

from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.tools.devnet.engine.backend import payload_of
from rollup_node.tools.devnet.engine.journal import FILE_NAME, Journal, drop_last_blocks
from tests.support.chains.l2_test_chain import L2TestChain


def test_entries_are_in_order_and_an_incomplete_line_is_dropped(tmp_path: Path) -> None:
    l2 = L2TestChain()
    payload = payload_of(l2.extend(l2.backend()))
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


def test_a_crash_that_loses_the_last_blocks(tmp_path: Path) -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    payloads = [payload_of(l2.extend(backend)) for _ in range(3)]
    journal = Journal(tmp_path)
    for payload in payloads:
        journal.insert(payload)
        journal.follow(payload.block_hash, bytes(32), bytes(32))
    drop_last_blocks(tmp_path, 2)
    assert [envelope_from_json(entry) for entry in list(journal.entries())[::2]] == payloads[:1]
    drop_last_blocks(tmp_path, 1)
    assert len(list(journal.entries())) == 2, "one block stays"
    journal.close()
