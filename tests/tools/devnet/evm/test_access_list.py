"""Block access lists (EIP-7928): that of an empty block, and what changes it."""

from rollup_node.tools.devnet.evm.access_list import EMPTY_ACCESS_LIST_HASH, RecordingState
from rollup_node.tools.devnet.evm.state import StateDatabase


def test_what_a_block_accesses_changes_the_hash() -> None:
    assert EMPTY_ACCESS_LIST_HASH.hex() == "1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"
    state, address = RecordingState(StateDatabase()), b"\xaa" * 20
    hashes = [state.access_list_hash()]
    for index, change in enumerate((lambda: state.balance(address), lambda: state.set_storage(address, 1, 2))):
        state.begin_transaction()
        change()
        state.note_access(index)
        hashes.append(state.access_list_hash())
    assert hashes[0] == EMPTY_ACCESS_LIST_HASH and len(set(hashes)) == 3
