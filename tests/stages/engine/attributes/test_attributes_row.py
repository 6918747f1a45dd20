"""Which life of derivation has which start."""

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.attributes.attributes_row import DerivationSession, SessionStep
from rollup_node.stages.messages.engine import PipelineStart, StartRequest
from tests.support.chains.chain_fixture import ChainFixture

OLD, NEW = ProcessId(2, 1), ProcessId(2, 2)


def start_of(chain: ChainFixture, reset: int = 5) -> PipelineStart:
    config = chain.rollup.genesis.system_config
    return PipelineStart(reset, chain.genesis, config, chain.rollup.genesis.l1, config)


def begun(chain: ChainFixture) -> DerivationSession:
    """Return a session whose start is in force, and which OLD has."""
    session = DerivationSession()
    assert session.see(OLD)
    session.begin(start_of(chain))
    return session


def test_messages_of_an_earlier_life_are_ignored() -> None:
    session = DerivationSession()
    assert session.see(OLD) and session.see(NEW) and not session.see(OLD)
    assert session.peer == NEW
    assert session.request_start(NEW, StartRequest(0, None)) is SessionStep.NONE, "there is no start yet"


def test_a_new_life_gets_a_new_start(chain: ChainFixture) -> None:
    session = begun(chain)
    assert session.see(NEW)
    assert session.request_start(NEW, StartRequest(0, "it was killed")) is SessionStep.RESTART
    assert session.attributes_step(NEW, 5) is SessionStep.NONE, "the start is not its own"
    session.begin(start_of(chain, 6))
    assert session.owner == NEW


def test_attributes_of_an_earlier_start_are_answered_by_the_present_one(chain: ChainFixture) -> None:
    session = begun(chain)
    assert session.attributes_step(OLD, 4) is SessionStep.SEND_START
    assert session.attributes_step(OLD, 6) is SessionStep.NONE
    assert session.attributes_step(OLD, 5) is SessionStep.TAKE
    session.restart_wanted = True
    assert session.attributes_step(OLD, 5) is SessionStep.NONE, "another start follows"
    session.clear()
    assert (session.start, session.owner, session.peer) == (None, None, OLD)
