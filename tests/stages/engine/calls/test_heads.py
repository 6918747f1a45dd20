"""Which moves of the heads are allowed."""

import msgspec
import pytest

from rollup_node.stages.engine.calls.heads import Forkchoice, Heads, UnreadableBlockError, l2_block_info
from rollup_node.stages.protocol.errors import CriticalError
from tests.support.chains.chain_fixture import ChainFixture


def test_moves(chain: ChainFixture) -> None:
    refs = chain.build(6)
    heads = Heads(refs[4], refs[1], refs[1], refs[0])
    assert heads.forkchoice() == Forkchoice(refs[4].hash, refs[1].hash, refs[0].hash)
    pending = heads.with_derived(refs[2], concluding=False)
    assert (pending.pending_safe, pending.safe, pending.unsafe) == (refs[2], refs[1], refs[4])
    assert pending.without_pending() == heads
    assert heads.with_derived(refs[5], concluding=True) == Heads(refs[5], refs[5], refs[5], refs[0])
    with pytest.raises(CriticalError):
        Heads(refs[4], refs[3], refs[3], refs[3]).with_unsafe(refs[2])


def test_a_block_of_no_rollup(chain: ChainFixture) -> None:
    payload = chain.payloads[chain.build(1)[1].hash]
    for transactions in ((), (b"\x02",), (b"\x7e\xc0",)):
        with pytest.raises(UnreadableBlockError, match="block 1 of the engine cannot be read"):
            l2_block_info(msgspec.structs.replace(payload, transactions=transactions), chain.rollup)
