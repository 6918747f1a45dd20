"""The heads in force and the forkchoice update that is due.

What follows from derived blocks is in the tests of the attributes handler."""

from rollup_node.stages.engine.calls.engine_api import ForkchoiceAnswer
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.engine.heads.engine_controller import EngineController
from tests.support.chains.chain_fixture import ChainFixture

VALID = ForkchoiceAnswer("VALID")


def controller_of(heads: Heads) -> EngineController:
    """Return a controller whose heads the engine has accepted."""
    controller = EngineController()
    controller.start(heads)
    accept(controller)
    return controller


def accept(controller: EngineController) -> Forkchoice:
    """Return the engine accepts the update that is due."""
    call = controller.forkchoice_due()
    assert call is not None
    controller.answer(call, VALID)
    return call.forkchoice


def test_heads_are_announced_once_the_engine_has_accepted_them(chain: ChainFixture) -> None:
    refs = chain.build(3)
    start = Heads(refs[2], refs[1], refs[1], refs[0])
    controller = EngineController()
    assert controller.announced is None
    controller.start(start)
    assert controller.announced == start, "the engine has returned them"
    accept(controller)
    controller.advance(refs[3])
    assert controller.announced == start
    accept(controller)
    assert controller.announced == Heads(refs[3], refs[1], refs[1], refs[0])
    controller.promote(refs[2], concluding=False, derived_from=chain.l1_ref(101))
    assert controller.announced == Heads(refs[3], refs[2], refs[1], refs[0]), "no label of the engine moves"
    controller.promote(refs[2], concluding=True, derived_from=chain.l1_ref(101))
    assert controller.announced == Heads(refs[3], refs[2], refs[1], refs[0])
    due = controller.forkchoice_due()
    assert due is not None
    controller.accept(due.forkchoice)
    controller.advance(refs[3])
    assert controller.announced == Heads(refs[3], refs[2], refs[2], refs[0]), "accepted with the start of a build"
    controller.distrust()
    assert controller.announced == controller.heads
    controller.clear()
    assert controller.announced is None


def test_a_restart_of_derivation_keeps_the_tip_and_what_was_accepted(chain: ChainFixture) -> None:
    refs = chain.build(3)
    controller = controller_of(Heads(refs[3], refs[1], refs[1], refs[0]))
    controller.promote(refs[2], concluding=False, derived_from=chain.l1_ref(101))
    assert controller.heads == Heads(refs[3], refs[2], refs[1], refs[0])
    controller.restart()
    assert controller.heads == Heads(refs[3], refs[1], refs[1], refs[0])
    assert controller.forkchoice_due() is None


def test_without_heads_nothing_moves(chain: ChainFixture) -> None:
    controller = controller_of(Heads(chain.genesis, chain.genesis, chain.genesis, chain.genesis))
    controller.clear()
    ref = chain.build(1)[1]
    controller.advance(ref)
    controller.insert_derived(ref, concluding=True)
    controller.promote(ref, concluding=True, derived_from=chain.l1_ref(101))
    controller.finalize(ref)
    controller.drop_pending()
    controller.restart()
    assert controller.heads is None and controller.forkchoice_due() is None
