"""The sequencer under a conductor, row by row of its table [CND5, CND7, CND9, SEQ21]."""

import pytest

from rollup_node.stages.engine.calls.calls import CommitPayload
from rollup_node.stages.engine.calls.engine_api import NewPayload, Unavailable
from rollup_node.stages.engine.sequencer.sequencer import Sequencer, SequencerPhase
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.stages.engine.sequencer.test_sequencer import START, build, heads, insert, running
from tests.support.chains.chain_fixture import ChainFixture


def fetched(chain: ChainFixture) -> tuple[Sequencer, ExecutionPayload]:
    """Return a sequencer with a block that is to be committed."""
    sequencer = running(chain, conductor_enabled=True)
    build(chain, sequencer, START)
    call = sequencer.next(START + 1.95)
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100))
    assert sequencer.answer(call, payload, START + 1.95) is None
    assert sequencer.phase is SequencerPhase.FETCHED and sequencer.next(START + 100) is None
    return sequencer, payload


def test_a_block_is_inserted_once_it_is_committed(chain: ChainFixture) -> None:
    sequencer, payload = fetched(chain)
    assert sequencer.next_commit(START + 1.95) == CommitPayload(payload)
    assert sequencer.phase is SequencerPhase.COMMITTING
    assert sequencer.next_commit(START + 100) is None and sequencer.next(START + 100) is None
    assert sequencer.committed(payload, START + 2)
    assert sequencer.next(START + 2) == NewPayload(payload)
    assert not sequencer.committed(payload, START + 2)
    sequencer.commit_failed(payload, Unavailable("late"), START + 2)
    assert sequencer.problem is None
    insert(chain, sequencer, payload, START + 2)


def test_another_tip_drops_the_block_that_is_being_committed(chain: ChainFixture) -> None:
    sequencer, payload = fetched(chain)
    sequencer.next_commit(START + 2)
    sequencer.on_heads(heads(chain), START + 2)
    assert sequencer.sealed == payload, "the tip is the same"
    sequencer.on_heads(heads(chain, chain.build(2)[2]), START + 2)
    assert not sequencer.committed(payload, START + 3) and sequencer.phase is SequencerPhase.IDLE


def test_a_stop_waits_for_an_open_commit_alone(chain: ChainFixture) -> None:
    sequencer, _ = fetched(chain)
    assert sequencer.stop() is None and not sequencer.active
    for is_committed in (False, True):
        sequencer, payload = fetched(chain)
        sequencer.next_commit(START + 2)
        assert sequencer.stop() is None and sequencer.active and sequencer.stopping
        if is_committed:
            assert sequencer.committed(payload, START + 2)
        else:
            sequencer.commit_failed(payload, Unavailable("refused"), START + 2)
        assert sequencer.active is sequencer.stopping is is_committed
    sequencer.stop_without_last()
    assert not sequencer.active and sequencer.sealed is None and not sequencer.stopping


@pytest.mark.parametrize("sent", [False, True])
def test_an_override_releases_the_block(chain: ChainFixture, sent: bool) -> None:
    sequencer, payload = fetched(chain)
    if sent:
        sequencer.next_commit(START + 2)
    assert sequencer.override_leader(START + 2) == payload
    assert sequencer.next(START + 2) == NewPayload(payload)
    assert sequencer.override_leader(START + 2) is None, "it is released once"
