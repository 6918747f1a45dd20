"""Attributes that were derived ahead [ENG40]: the update to a block starts the next one."""

from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from rollup_node.stages.derivation.pipeline.batch_attributes import block_of
from rollup_node.stages.engine.attributes import attributes_handler as module
from rollup_node.stages.engine.attributes.attributes_handler import AttributesHandler
from rollup_node.stages.engine.attributes.attributes_job import AttributesStep
from rollup_node.stages.engine.calls.actions import AttributesProcessed
from rollup_node.stages.engine.calls.engine_api import (
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetPayload,
)
from rollup_node.stages.engine.calls.heads import Forkchoice, L2BlockInfo, UnreadableBlockError, l2_block_info
from rollup_node.stages.messages.engine import AttributesOutcome, AttributesReady
from rollup_node.stages.protocol.attributes import is_deposits_only
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from tests.support.chains.chain_fixture import ALL_FORKS, GENESIS_TIME, ChainFixture, chain_with
from tests.support.engine.attributes_jobs import TAKEN, VALID, asked, at_step, step_through
from tests.support.engine.core_harness import started as started_core
from tests.support.engine.model_engine import ModelEngine


def ahead_of(chain: ChainFixture, handler: AttributesHandler, users: Sequence[bytes] = ()) -> AttributesReady:
    """Attributes derived ahead of the present job, which wait behind it."""
    job = handler.job
    assert job is not None
    before = AttributesReady(0, 0, job.derived.parent, job.attributes, job.derived.derived_from, True)
    built = block_of(chain.rollup, before)
    assert built is not None
    parent, config = built
    made = chain.attributes(parent, parent.l1_origin.number, users, config)
    message = AttributesReady(1, job.derived.sequence + 1, parent, made, before.derived_from, True, config)
    handler.add(message)
    return message


def test_the_update_to_a_block_starts_the_next_one(chain: ChainFixture) -> None:
    """[ENG40]"""
    handler = at_step(chain, AttributesStep.CHOOSE)
    following = ahead_of(chain, handler)
    handler.join()
    assert asked(handler) == following.attributes
    first = step_through(handler, ForkchoiceAnswer("VALID", b"payload2"))
    assert first is not None and first.outcome is AttributesOutcome.ACCEPTED
    assert handler.controller.forkchoice_due() is None and not handler.run.ahead
    assert handler.next() == GetPayload(b"payload2", following.attributes.timestamp)
    payload = chain.seal(first.safe_head, following.attributes)
    step_through(handler, payload)
    step_through(handler, TAKEN)
    second = step_through(handler, VALID)
    assert second is not None and second.safe_head == chain.ref(payload)
    assert handler.controller.heads is not None and handler.controller.heads.safe == second.safe_head


@pytest.mark.parametrize(
    "answer",
    [ErrorAnswer(-38003, "invalid attributes"), ErrorAnswer(-32000, "busy"), ForkchoiceAnswer("INVALID"), VALID, None],
    ids=["invalid attributes", "error", "invalid head", "no build", "nonsense"],
)
def test_after_any_other_answer_the_calls_are_made_apart(chain: ChainFixture, answer: Any) -> None:
    handler = at_step(chain, AttributesStep.CHOOSE)
    following = ahead_of(chain, handler)
    handler.join()
    assert step_through(handler, answer) is None
    handler.join()
    call = handler.next()
    assert isinstance(call, ForkchoiceUpdate) and call.attributes is None, "the same answer would come again"
    first = step_through(handler, VALID)
    assert first is not None and first.outcome is AttributesOutcome.ACCEPTED
    handler.begin_ahead()
    assert asked(handler) == following.attributes


def test_what_the_next_answer_needs_is_computed_ahead(chain: ChainFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """[ENG44] Once each; with it the same calls are made as without."""
    checked: list[Any] = []
    read: list[Any] = []

    def check(_: object, attributes: PayloadAttributes, senders: bool) -> None:
        checked.append(attributes.transactions)

    def block_info(payload: ExecutionPayload, rollup: RollupConfig) -> L2BlockInfo:
        read.append(payload)
        return l2_block_info(payload, rollup)

    monkeypatch.setattr(module, "unexecutable", check)
    monkeypatch.setattr(module, "l2_block_info", block_info)
    handler = at_step(chain, AttributesStep.INSERT)
    following = ahead_of(chain, handler)
    checked.clear()
    read.clear()
    for _ in range(2):
        assert handler.prepare() is following.attributes
    assert checked == [following.attributes.transactions] and len(read) == 1
    step_through(handler, TAKEN)
    handler.join()
    assert asked(handler) is following.attributes
    assert len(checked) == len(read) == 1


def test_what_cannot_be_sent_is_not_prepared(chain: ChainFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """[ENG44] A block that cannot be read is an error when the engine has taken it, and not before."""
    assert at_step(chain, AttributesStep.INSERT).prepare() is None
    handler = at_step(chain, AttributesStep.INSERT)
    ahead_of(chain, handler, (b"\x02\xc0",))

    def unreadable(*_: object) -> NoReturn:
        raise UnreadableBlockError("no L1 info")

    monkeypatch.setattr(module, "l2_block_info", unreadable)
    assert handler.prepare() is None
    with pytest.raises(UnreadableBlockError):
        step_through(handler, TAKEN)


@pytest.mark.parametrize(("activation", "users"), [(GENESIS_TIME + 4, ()), (0, (b"\x02\xc0",))])
def test_a_block_that_is_looked_at_first_is_not_started_with_the_update(
    activation: int, users: Sequence[bytes]
) -> None:
    """One with upgrade transactions [UPG24], and one that no engine can execute [ATT48]."""
    chain = chain_with({**dict.fromkeys(ALL_FORKS, 0), "jovian": activation})
    handler = at_step(chain, AttributesStep.CHOOSE)
    ahead_of(chain, handler, users)
    handler.join()
    call = handler.next()
    assert isinstance(call, ForkchoiceUpdate) and call.attributes is None


class RefusingEngine(ModelEngine):
    """Finds the attributes of one time invalid, unless they have deposits alone."""

    refused = 0

    def update_forkchoice(
        self, state: Forkchoice, attributes: PayloadAttributes | None
    ) -> ForkchoiceAnswer | ErrorAnswer:
        if attributes is None or attributes.timestamp != self.refused or is_deposits_only(attributes):
            return super().update_forkchoice(state, attributes)
        super().update_forkchoice(state, None)
        return ErrorAnswer(-38003, "invalid attributes")


@pytest.mark.parametrize("bad", [1, 3])
def test_invalid_attributes_in_a_run_are_replaced_once(chain: ChainFixture, bad: int) -> None:
    """The engine chooses the block before and refuses the attributes, however often they are sent."""
    engine = RefusingEngine(chain)
    harness = started_core(chain, engine)
    assert harness.start is not None
    engine.refused = harness.start.safe_head.timestamp + chain.rollup.block_time * (bad + 1)
    harness.derive(chain.user, concluding=True)
    for _ in range(6):
        harness.derive_ahead(1, chain.user, concluding=True)
    harness.run_until_idle()
    outcomes = [action.result.outcome for action in harness.done(AttributesProcessed)]
    assert outcomes == [AttributesOutcome.ACCEPTED] * bad + [AttributesOutcome.REPLACED_BY_DEPOSITS]
    assert harness.waiting is None and not harness.ahead, "derivation knows of it"
    heads = harness.core.heads
    assert heads is not None and heads.safe.number == harness.start.safe_head.number + bad + 1
    harness.derive_block(chain.user)
    assert harness.heads.safe.number == heads.safe.number + 1
