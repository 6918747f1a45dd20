"""Playbooks of a node whose execution engine comes back without its latest blocks [SEQ39 to SEQ43]."""

from collections.abc import Callable
from typing import Any

from rollup_node.stages.engine.calls.actions import ShowProblem
from rollup_node.stages.engine.calls.calls import CallPurpose
from rollup_node.stages.engine.calls.engine_api import PayloadAnswer
from rollup_node.stages.engine.core.unsafe_rows import PROBLEM
from rollup_node.stages.engine.heads.lost_blocks import NO_ANSWER, OTHERS_SECONDS, PATIENCE_SECONDS
from rollup_node.stages.messages.control import ControlResponse, StopSequencerRequest
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.core_harness import CoreHarness, started

FOUND = "the execution engine lacks the latest blocks, putting them back"
BACK = "the latest blocks are back in the execution engine"
WITHOUT = "going on without the latest blocks"


def sequencing(blocks: int = 5, chain: ChainFixture | None = None, **config: Any) -> CoreHarness:
    """Return a sequencer that has built so many blocks. The engine never builds the same block again."""
    settings = {"sequencer_enabled": True, "sequencer_l1_confs": 0, "p2p": True, **config}
    harness = started(chain or chain_with(l1_step=4), **settings)
    build(harness, blocks)
    return harness


def build(harness: CoreHarness, count: int) -> None:
    """The sequencer builds so many blocks."""
    wanted = len(harness.published) + count
    for _ in range(400):
        harness.engine.pool = [harness.chain.user] * len(harness.published)
        if len(harness.published) >= wanted and not harness.open and height(harness) >= count:
            return
        answer_or_sleep(harness)
    raise AssertionError(f"no {count} blocks: {harness.core.log.lines()[-20:]}")


def answer_or_sleep(harness: CoreHarness) -> None:
    """Answers an open call as an engine or L1 that works, or lets time pass; then makes the calls that are due."""
    if harness.open:
        harness.answer(harness.open[0])
    else:
        harness.sleep()
        if harness.now.unix > harness.chain.l1(harness.l1_head).header.timestamp:
            harness.move_l1(harness.l1_head + 1)
    harness.step()


def height(harness: CoreHarness) -> int:
    return 0 if harness.core.heads is None else harness.heads.unsafe.number


def lose(harness: CoreHarness, count: int) -> int:
    """Return the engine restarts without its last blocks, and the node notices it; the height where it is."""
    top = height(harness)
    harness.engine.lose(top - count)
    for _ in range(200):
        if harness.core.heads is None:
            break
        answer_or_sleep(harness)
    assert harness.core.heads is None
    return top - count


def until(harness: CoreHarness, condition: Callable[[], bool]) -> None:
    """Everything works until a condition holds, also while calls are open."""
    for _ in range(400):
        if condition():
            return
        answer_or_sleep(harness)
    raise AssertionError(f"{harness.core.log.lines()[-20:]}")


def is_open(harness: CoreHarness, work: CallPurpose) -> bool:
    return any(item.purpose is work for item in harness.open)


def test_the_signed_blocks_are_put_back_before_the_next_one_is_built() -> None:
    harness = sequencing()
    signed = list(harness.keeps.signed)
    top = height(harness)
    lose(harness, 2)
    build(harness, 2)
    assert harness.keeps.refused == [] and len(harness.keeps.signed) == top + 2
    chain = harness.engine.canonical()
    assert [chain[item.block_number] for item in signed] == signed, "no block was built a second time"
    assert [(line["first"], line["last"]) for line in harness.logged(FOUND)] == [(top - 1, top)]
    (ended,) = harness.logged(BACK)
    assert (ended["head"].hash, ended["blocks"]) == (signed[-1].block_hash, 2)
    shown = [str(item.problem) for item in harness.done(ShowProblem) if item.name == PROBLEM]
    waits, at_start, again, *lacks, after = shown
    assert "waits for the p2p process" in waits and waits == again, "from the first moment on"
    assert lacks and all("lacks the latest blocks" in text for text in lacks) and at_start == after == "None"


def test_without_an_answer_other_blocks_are_built_and_not_signed() -> None:
    """[SEQ42, SGN10]"""
    harness = sequencing()
    signed = len(harness.keeps.signed)
    harness.latest = None
    lose(harness, 2)
    before = harness.now.monotonic
    build(harness, 3)
    assert harness.now.monotonic >= before + PATIENCE_SECONDS
    assert harness.logged(WITHOUT)[-1]["reason"] == NO_ANSWER
    assert [item.block_number for item in harness.keeps.refused] == [signed - 1, signed]
    numbers = [item.block_number for item in harness.keeps.signed]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > signed, "one block of each height"


def test_blocks_whose_origin_was_replaced_are_not_put_back() -> None:
    """[SEQ40] The engine loses its blocks while L1 is reorganised below some of them."""
    harness = sequencing(8)
    signed = list(harness.keeps.signed)
    origins = [harness.chain.ref(item).l1_origin.number for item in signed]
    assert origins[-1] > origins[4] > 100
    harness.chain.reorg("b", origins[-1])
    harness.move_l1(harness.l1_head)
    at = lose(harness, 6)
    build(harness, 4)
    kept = [item for item, origin in zip(signed, origins, strict=True) if origin < origins[-1]]
    chain = harness.engine.canonical()
    assert [chain[item.block_number] for item in kept] == kept and len(kept) > at
    assert chain[signed[-1].block_number] != signed[-1]
    reason = harness.logged(WITHOUT)[-1]["reason"]
    assert reason is not None and " was replaced by " in reason
    assert harness.keeps.refused == [], "their replacements may be signed"


def blocks_of_others(harness: CoreHarness, on: int, count: int) -> list[ExecutionPayload]:
    """Blocks of another sequencer on the block of that number, which no engine has."""
    chain = harness.chain
    refs = chain.extend(chain.ref(harness.engine.canonical()[on]), count, [chain.user] * 7)
    harness.engine.lost |= {ref.hash for ref in refs}
    return [chain.payloads[ref.hash] for ref in refs]


def test_blocks_of_another_sequencer_on_another_chain_come_first() -> None:
    """[SEQ41] It has never seen our last blocks; peers fill the gap below its newest one."""
    harness = sequencing(4)
    at = lose(harness, 2)
    others = blocks_of_others(harness, at, 4)
    harness.gossip(others[-1])
    before = harness.now.monotonic
    until(harness, lambda: harness.now.monotonic > before + OTHERS_SECONDS / 2)
    assert height(harness) == at and harness.keeps.refused == []
    for other in reversed(others[:-1]):
        harness.gossip(other)
    until(harness, lambda: others[-1].block_number in harness.engine.canonical())
    assert all(harness.engine.canonical()[other.block_number] == other for other in others)


def test_an_engine_that_refuses_one_of_them() -> None:
    harness = sequencing()
    top, at = height(harness), lose(harness, 2)
    until(harness, lambda: is_open(harness, CallPurpose.UNSAFE_BLOCK))
    harness.answer(harness.call(CallPurpose.UNSAFE_BLOCK), PayloadAnswer("INVALID", "bad state root"))
    build(harness, 1)
    reason = harness.logged(WITHOUT)[-1]["reason"]
    assert reason is not None and reason.startswith(f"the execution engine refuses block {at + 1}: ")
    assert reason.endswith(": bad state root")
    assert [item.block_number for item in harness.keeps.refused] == [top - 1, top]


# --- stopped, started, and no sequencer ----------------------------------------------------------------------------


def test_a_stop_waits_for_the_blocks_and_answers_the_last_one() -> None:
    """[SEQ42]"""
    harness = sequencing()
    last = harness.keeps.signed[-1]
    lose(harness, 2)
    until(harness, lambda: is_open(harness, CallPurpose.LOST_BLOCKS))
    harness.request(StopSequencerRequest(1))
    until(harness, lambda: bool(harness.responses))
    assert harness.responses == [ControlResponse(1, None, last.block_hash)]
    assert height(harness) == last.block_number and not harness.status.sequencer_active


def test_a_verifier_gets_the_blocks_of_its_peers_back() -> None:
    """[SEQ43]"""
    harness = started(chain_with(), p2p=True)
    blocks = [harness.chain.payloads[ref.hash] for ref in harness.chain.build(6)[1:]]
    for block in blocks[:5]:
        harness.gossip(block)
        harness.run_until_idle()
    harness.engine.lose(3)
    harness.gossip(blocks[5])
    until(harness, lambda: height(harness) == 6)
    assert [(line["first"], line["last"]) for line in harness.logged(FOUND)] == [(4, 6)]
