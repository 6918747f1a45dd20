"""What the engine core makes of the answers that op-geth and op-reth were seen to give, case by case [ENG12 to ENG32,
ATT34, ATT46 to ATT48]."""

from typing import NamedTuple

import msgspec
import pytest

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.actions import AttributesProcessed
from rollup_node.stages.engine.calls.calls import CoreAnswer, PendingCall
from rollup_node.stages.messages.engine import AttributesOutcome, AttributesResult
from rollup_node.stages.protocol.errors import ForkMismatchError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.answer_table import (
    BUILT,
    ENGINES,
    LEFT_OUT,
    BuildAnswer,
    OtherCase,
    TransactionCase,
    other_cases,
    transaction_cases,
)
from tests.support.engine.core_harness import CoreHarness, started

TRANSACTIONS, ATTRIBUTES, CALLS = transaction_cases(), other_cases("attributes"), other_cases("call")


class Played(NamedTuple):
    """A derived block with a transaction of the table: what became of it, how often a build with the transaction was
    asked for, and the failures on the way."""

    result: AttributesResult
    builds: int
    failures: list[str]


def play(chain: ChainFixture, case: TransactionCase, engine: BuildAnswer) -> Played:
    """Has an engine that answers so build a derived block of the case."""
    harness, raw, builds = started(chain), case.raw, 0
    harness.derive(*case.before, raw)
    for _ in range(60):
        for pending in harness.step():
            if isinstance(pending.call, api.ForkchoiceUpdate) and _holds(pending.call.attributes, raw):
                builds += 1
            harness.answer(pending, _answer(harness, pending, raw, engine))
        if result := harness.done(AttributesProcessed):
            return Played(result[0].result, builds, harness.failures)
        harness.wait(0.5)
    raise AssertionError(f"the block is never done: {harness.failures}")


def _holds(attributes: PayloadAttributes | None, raw: bytes) -> bool:
    return attributes is not None and raw in attributes.transactions


def _answer(harness: CoreHarness, pending: PendingCall, raw: bytes, engine: BuildAnswer) -> CoreAnswer:
    call = pending.call
    if isinstance(call, api.ForkchoiceUpdate) and _holds(call.attributes, raw) and engine.kind == "start":
        return engine.error
    if isinstance(call, api.GetPayload):
        parent, attributes = harness.engine.builds[call.payload_id]
        if _holds(attributes, raw) and engine.kind == "seal":
            return engine.error
        if _holds(attributes, raw) and engine.kind == LEFT_OUT:
            kept = tuple(transaction for transaction in attributes.transactions if transaction != raw)
            return harness.chain.seal(parent, msgspec.structs.replace(attributes, transactions=kept))
    return harness.good_answer(pending)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", TRANSACTIONS, ids=lambda case: case.name)
def test_a_derived_transaction(case: TransactionCase, engine: str, chain: ChainFixture) -> None:
    answer = case.answers[engine]
    result = play(chain, case, answer)
    processed, reason = result.result, str(result.result.reason)
    assert processed.built is not None and processed.safe_head.number == 1
    if case.node == "builds":
        assert answer.kind == BUILT and processed.outcome is AttributesOutcome.ACCEPTED and result.builds == 1
        assert case.raw in processed.built.transactions
        return
    assert processed.outcome is AttributesOutcome.REPLACED_BY_DEPOSITS
    assert len(processed.built.transactions) == 1, "the L1 attributes deposit"
    lost = [text for text in result.failures if "does not return it" in text]
    assert result.failures == lost
    if case.node == "before":
        assert (result.builds, lost) == (0, [])
        assert reason.startswith("TRANSACTION-INVALID: no engine can execute transaction 1 (0x")
    elif answer.kind == LEFT_OUT:
        assert (result.builds, lost) == (1, [])
        assert reason.startswith("TRANSACTION-LEFT-OUT: the engine left out transaction 1 (0x")
    elif answer.kind == "start" and answer.error is not None:
        assert (result.builds, lost) == (1, [])
        assert reason == f"the engine did not start a block: {answer.error.message} ({answer.error.code})"
    else:
        assert case.node == "after" and answer.error is not None
        assert result.builds == len(lost) == (2 if case.before else 1)
        text = f"does not return it: {answer.error.message} ({answer.error.code})"
        assert "the engine began to build block 1 on " in lost[0] and lost[0].endswith(text)
        proof = "transaction 2 has a gas limit of 29990000, and those before it leave 29979000"
        expected = proof if case.before else "no engine can execute transaction 1 (0x"
        assert reason.startswith(f"TRANSACTION-INVALID: {expected}")


@pytest.mark.parametrize("case", [case for case in TRANSACTIONS if case.node != "builds"], ids=lambda case: case.name)
def test_before_holocene_the_batch_is_dropped(case: TransactionCase, chain_before_holocene: ChainFixture) -> None:
    """[ATT40] With op-reth; the pending safe head is the safe head then."""
    processed = play(chain_before_holocene, case, case.answers["op-reth"]).result
    assert processed.outcome is AttributesOutcome.REFUSED and processed.built is None
    assert processed.safe_head == chain_before_holocene.genesis
    assert str(processed.reason).startswith("TRANSACTION-")


MEMBERS = {
    "eip1559Params": "holocene",
    "minBaseFee": "jovian",
    "parentBeaconBlockRoot": "ecotone",
    "withdrawals": "canyon",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", ATTRIBUTES, ids=lambda case: case.name)
def test_members_of_attributes(case: OtherCase, engine: str, chain: ChainFixture) -> None:
    """A node without the fork that adds a member leaves it out."""
    answer = case.answers[engine]
    assert isinstance(answer, api.ErrorAnswer) and isinstance(case.node, dict)
    rollup, fork = chain.rollup, MEMBERS.get(str(case.item.get("without")))
    attributes = chain.attributes(chain.genesis, 100)
    if fork is not None:
        times = list(rollup.fork_times.items())
        rollup = msgspec.structs.replace(rollup, fork_times=dict(times[: list(rollup.fork_times).index(fork)]))
    node = case.node[engine.removesuffix("-older")]
    if node == "mismatch":
        with pytest.raises(ForkMismatchError, match=f"--override.{fork}"):
            api.raise_for_fork_mismatch(rollup, attributes, 1, answer)
        return
    api.raise_for_fork_mismatch(rollup, attributes, 1, answer)
    expected = {"invalid": api.CallStatus.INVALID, "retries": api.CallStatus.RETRY}[node]
    assert api.build_start_result(answer).status is expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", [case for case in CALLS if "forkchoice" in case.item["call"]], ids=lambda x: x.name)
def test_forkchoice_updates(case: OtherCase, engine: str) -> None:
    answer = case.answers[engine]
    result = api.forkchoice_result(api.ForkchoiceAnswer(answer) if isinstance(answer, str) else answer)
    assert result.status is {"resets": api.CallStatus.RESET, "done": api.CallStatus.DONE}[str(case.node)]
    assert isinstance(answer, str) or f"{answer.message} ({answer.code})" in result.text


def test_every_case_is_played() -> None:
    kinds = {next(iter(case.item["call"])) for case in CALLS}
    assert kinds == {"forkchoice", "payload", "versions"}, "the others are those of a lost build and of test_client"
    assert {case.node for case in TRANSACTIONS} == {"builds", "before", "answer", "after"}
