"""An AttributesHandler with a derived block on its way."""

from typing import Any

import msgspec

from rollup_node.stages.engine.attributes.attributes_handler import AttributesHandler
from rollup_node.stages.engine.attributes.attributes_job import AttributesStep
from rollup_node.stages.engine.calls.engine_api import ForkchoiceAnswer, ForkchoiceUpdate, PayloadAnswer
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.heads.engine_controller import EngineController
from rollup_node.stages.engine.heads.verification import Verification
from rollup_node.stages.messages.engine import AttributesReady, AttributesResult
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture

BUILD = ForkchoiceAnswer("VALID", b"payload1")
VALID = ForkchoiceAnswer("VALID")
TAKEN = PayloadAnswer("VALID")


def handler_of(rollup: RollupConfig, heads: Heads, config: SystemConfig) -> AttributesHandler:
    """Return a handler whose engine has accepted these heads; `config` is that of the safe block."""
    controller = EngineController()
    handler = AttributesHandler(rollup, controller, Verification(rollup.l2_chain_id, False))
    controller.start(heads)
    handler.start(1, config)
    call = controller.forkchoice_due()
    assert call == ForkchoiceUpdate(heads.forkchoice())
    assert handler.answer(call, VALID) is None and controller.forkchoice_due() is None
    return handler


def handler_with(config: RollupConfig, genesis: L2BlockRef, job: AttributesReady) -> AttributesHandler:
    """Return a handler whose engine has accepted genesis and has no other block, with these attributes as its job."""
    handler = handler_of(config, Heads(genesis, genesis, genesis, genesis), config.genesis.system_config)
    assert handler.offer(msgspec.structs.replace(job, reset=1, sequence=1)) is None
    return handler


def started(chain: ChainFixture, unsafe: L2BlockRef, safe: L2BlockRef) -> AttributesHandler:
    return handler_of(chain.rollup, Heads(unsafe, safe, safe, chain.genesis), chain.known[safe.hash].config)


def derived(
    chain: ChainFixture,
    parent: L2BlockRef,
    sequence: int = 1,
    concluding: bool = True,
    origin: int = 102,
    epoch: int = 100,
) -> AttributesReady:
    attributes = chain.attributes(parent, epoch, [chain.user])
    return AttributesReady(1, sequence, parent, attributes, chain.l1_ref(origin), concluding)


def at_step(chain: ChainFixture, step: AttributesStep, **kind: Any) -> AttributesHandler:
    """Return a handler with a derived block on its way, just before the call of `step`."""
    handler = started(chain, chain.genesis, chain.genesis)
    message = derived(chain, chain.genesis, **kind)
    assert handler.offer(message) is None
    if step is AttributesStep.START:
        return handler
    step_through(handler, BUILD)
    if step is AttributesStep.SEAL:
        return handler
    step_through(handler, chain.seal(message.parent, message.attributes))
    if step is AttributesStep.INSERT:
        return handler
    step_through(handler, TAKEN)
    return handler


def step_through(handler: AttributesHandler, answer: Any) -> AttributesResult | None:
    call = handler.next()
    assert call is not None
    return handler.answer(call, answer)


def asked(handler: AttributesHandler) -> PayloadAttributes:
    """Return the attributes of the build that is due."""
    call = handler.next()
    assert isinstance(call, ForkchoiceUpdate) and call.attributes is not None
    return call.attributes


def finish(handler: AttributesHandler, sealed: ExecutionPayload) -> AttributesResult:
    """Return the result of a build that is due, for which the engine seals this block."""
    for answer in (BUILD, sealed, TAKEN):
        assert step_through(handler, answer) is None
    result = step_through(handler, VALID)
    assert result is not None
    return result
