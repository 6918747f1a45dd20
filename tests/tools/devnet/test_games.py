"""The local L1's dispute game factory in the embedded EVM: what a proposer writes, a watcher reads."""

import pytest

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.call_frame import BlockContext, CallFrame, CallMessage, TransactionEnvironment
from rollup_node.tools.devnet.evm.interpreter import execute
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.games import (
    ANCHOR,
    ANCHOR_UPDATED,
    FACTORY,
    anchor_code,
    create_call,
    factory_code,
    selector,
    set_anchor_call,
)
from rollup_node.tools.watch import l1_reader

CLAIM, SENDER = b"\x11" * 32, b"\xbb" * 20
NUMBER, TIME = 7, 1_700_000_000


@pytest.fixture
def state() -> State:
    result = State(StateDatabase())
    for address, code in ((FACTORY, factory_code()), (ANCHOR, anchor_code())):
        result.set_nonce(address, 1)
        result.set_code(address, code)
    return result


def _call(state: State, to: bytes, data: bytes) -> CallFrame:
    state.begin_transaction()
    block = BlockContext(
        NUMBER, TIME, SENDER, 30_000_000, 5, b"\x03" * 32, 10, lambda number: bytes([number]) * 32, 3, 84
    )
    message = CallMessage(SENDER, to, to, state.code(to), 0, data, 5_000_000)
    return execute(TransactionEnvironment(state, forks.OSAKA, block, SENDER, 9, ()), message)


def _words(frame: CallFrame) -> list[int]:
    assert frame.succeeded, frame.error
    return [int.from_bytes(frame.output[at : at + 32], "big") for at in range(0, len(frame.output), 32)]


def _view(state: State, to: bytes, signature: str, *values: int) -> list[int]:
    data = selector(signature).to_bytes(4, "big") + b"".join(value.to_bytes(32, "big") for value in values)
    return _words(_call(state, to, data))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (create_call(1, CLAIM, 5)[:-32], "the extra data are cut off"),
        (keccak256(b"other()")[:4], "an unknown method"),
        (l1_reader.GAME_AT_INDEX + bytes(32), "no game of this index"),
        (create_call(1, CLAIM, 5)[:68] + bytes(64), "another offset"),
    ],
)
def test_other_calls_are_reverted(data: bytes, what: str, state: State) -> None:
    assert not _call(state, FACTORY, data).succeeded, what


def test_a_proposer_finds_a_version_and_no_bond(state: State) -> None:
    assert _view(state, FACTORY, "initBonds(uint32)", 1) == [0]
    offset, size, text = _view(state, FACTORY, "version()")
    assert (offset, text.to_bytes(32, "big")[:size]) == (32, b"1.4.0")


def test_the_anchor_is_what_was_set(state: State) -> None:
    assert _view(state, ANCHOR, "getAnchorRoot()") == [0, 0]
    assert _call(state, ANCHOR, set_anchor_call(CLAIM, 9)).succeeded
    assert _view(state, ANCHOR, "getAnchorRoot()") == [int.from_bytes(CLAIM, "big"), 9]
    _call(state, ANCHOR, set_anchor_call(CLAIM, 10))
    assert ANCHOR_UPDATED == l1_reader.ANCHOR_UPDATED
