"""The block above a gap that the engine is given to fetch the rest, answer by answer [UNS6]."""

import msgspec
import pytest

from rollup_node.stages.engine.api.engine_api import (
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetBlockRef,
    NewPayload,
    PayloadAnswer,
)
from rollup_node.stages.engine.api.heads import Forkchoice, Heads
from rollup_node.stages.engine.machines.gap_fetch import GapFetch
from rollup_node.stages.engine.machines.unsafe_queue import DroppedUnsafeBlock
from rollup_node.stages.protocol.errors import TemporaryError
from tests.support.chains.chain_fixture import chain_with

CHAIN = chain_with()
REFS = CHAIN.build(12)
HEADS = Heads(REFS[3], REFS[2], REFS[2], REFS[1])
ABOVE = CHAIN.payloads[REFS[9].hash]
UPDATE = ForkchoiceUpdate(Forkchoice(REFS[9].hash, REFS[2].hash, REFS[1].hash))


def inserted(status: str = "SYNCING") -> GapFetch:
    """An attempt whose block the engine has."""
    fetch = GapFetch(CHAIN.rollup)
    assert fetch.next(HEADS) is None
    assert fetch.begin(ABOVE) is None
    call = fetch.next(HEADS)
    assert call == NewPayload(ABOVE)
    assert fetch.answer(call, PayloadAnswer(status), HEADS) is None
    assert fetch.next(HEADS) == UPDATE
    return fetch


@pytest.mark.fault("F41")
@pytest.mark.parametrize("status", ["VALID", "SYNCING", "ACCEPTED"])
def test_an_engine_that_has_the_chain(status: str) -> None:
    """Whatever it said of the block before."""
    fetch = inserted(status)
    assert fetch.answer(UPDATE, ForkchoiceAnswer("VALID"), HEADS) is None
    call = fetch.next(HEADS)
    assert (call, fetch.taken) == (GetBlockRef(2), UPDATE.forkchoice)
    assert fetch.answer(GetBlockRef(2), REFS[2], HEADS) == REFS[9]
    assert fetch.target is None and fetch.next(HEADS) is None


def test_an_engine_that_fetches_is_asked_again_until_there_is_no_gap() -> None:
    fetch = inserted()
    assert fetch.answer(UPDATE, ForkchoiceAnswer("SYNCING"), HEADS) is None
    assert (fetch.target, fetch.next(HEADS)) == (REFS[9], None)
    assert fetch.begin(ABOVE) is None and fetch.target == REFS[9]
    assert fetch.next(HEADS) == NewPayload(ABOVE)
    assert fetch.next(msgspec.structs.replace(HEADS, unsafe=REFS[8])) is None, "the block is the next one"
    fetch.end()
    assert fetch.target is None and fetch.next(HEADS) is None


@pytest.mark.parametrize(
    "answer",
    [
        ForkchoiceAnswer("INVALID", None, "bad"),
        ForkchoiceAnswer("ODD"),
        ErrorAnswer(-38002, "invalid forkchoice state"),
    ],
    ids=str,
)
def test_a_refused_chain_drops_the_block(answer: object) -> None:
    fetch = inserted()
    found = fetch.answer(UPDATE, answer, HEADS)
    assert isinstance(found, DroppedUnsafeBlock) and (found.number, found.hash) == (9, REFS[9].hash)
    assert fetch.target is None and fetch.next(HEADS) is None


def test_a_chain_without_our_pending_safe_head_is_left() -> None:
    """No update names that head: before Holocene a batch makes blocks safe together."""
    fetch = inserted()
    assert fetch.answer(UPDATE, ForkchoiceAnswer("VALID"), HEADS) is None
    with pytest.raises(TemporaryError, match="the engine does not show block 2 below it"):
        fetch.answer(GetBlockRef(2), None, HEADS)
    found = fetch.answer(GetBlockRef(2), msgspec.structs.replace(REFS[2], hash=REFS[7].hash), HEADS)
    assert isinstance(found, DroppedUnsafeBlock) and "instead of our safe head 2:" in found.reason
    assert fetch.taken is None and fetch.next(HEADS) is None


@pytest.mark.parametrize("status", ["INVALID", "INVALID_BLOCK_HASH"])
def test_an_invalid_block_is_dropped(status: str) -> None:
    fetch = GapFetch(CHAIN.rollup)
    fetch.begin(ABOVE)
    found = fetch.answer(NewPayload(ABOVE), PayloadAnswer(status, "bad state root"), HEADS)
    assert isinstance(found, DroppedUnsafeBlock) and "bad state root" in found.reason


@pytest.mark.parametrize("answer", [ErrorAnswer(-32000, "busy"), PayloadAnswer("ODD"), None], ids=str)
def test_other_answers_end_the_attempt(answer: object) -> None:
    fetch = GapFetch(CHAIN.rollup)
    fetch.begin(ABOVE)
    with pytest.raises(TemporaryError, match="unsafe block 9"):
        fetch.answer(NewPayload(ABOVE), answer, HEADS)
    assert fetch.next(HEADS) is None
    with pytest.raises(TemporaryError, match="unsafe block 9"):
        inserted().answer(UPDATE, ErrorAnswer(-32000, "busy"), HEADS)


def test_a_block_of_no_rollup_is_dropped() -> None:
    bad = msgspec.structs.replace(ABOVE, transactions=ABOVE.transactions[1:])
    fetch = GapFetch(CHAIN.rollup)
    found = fetch.begin(bad)
    assert isinstance(found, DroppedUnsafeBlock) and found.hash == ABOVE.block_hash and fetch.next(HEADS) is None
    assert fetch.answer(NewPayload(bad), PayloadAnswer("VALID"), HEADS) is None
