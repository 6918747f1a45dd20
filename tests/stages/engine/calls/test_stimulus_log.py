"""The last stimuli: bounded, short, and without the blocks that they describe."""

import gc
import weakref
from enum import Enum

import msgspec

from rollup_node.stages.engine.calls.engine_api import ForkchoiceAnswer, NewPayload, Unavailable
from rollup_node.stages.engine.calls.stimulus_log import MAX_FRESH, MAX_TEXT, SIZE, StimulusLog, describe
from rollup_node.stages.messages.l1 import L1BlockResponse, L1Heads
from tests.support.chains.chain_fixture import ChainFixture


def test_only_the_last_stimuli_are_kept() -> None:
    log = StimulusLog()
    for number in range(SIZE + 10):
        log.add(1_000.0 + number, f"call {number}", "forkchoice")
    lines = log.lines()
    assert len(log) == len(lines) == SIZE
    assert lines[0] == "1010.000000 call 10 forkchoice" and lines[-1].endswith(f"call {SIZE + 9} forkchoice")


class Colour(Enum):
    """An enum to describe."""

    RED = "red"


def test_values_are_described_in_few_words(chain: ChainFixture) -> None:
    ref = chain.build(1)[1]
    payload = chain.payloads[ref.hash]
    short = ref.hash[:5].hex()
    assert describe(ref) == f"1:0x{short}"
    assert describe(payload) == f"payload(1:0x{short} txs=1)"
    assert describe(NewPayload(payload)) == f"NewPayload(payload=payload(1:0x{short} txs=1))"
    assert describe(chain.attributes(chain.genesis, 100)) == "attributes(time=1002 txs=1)"
    assert describe(L1BlockResponse(chain.l1(100))) == f"L1BlockResponse(block=l1_block({chain.l1_ref(100)}))"
    assert describe(L1Heads(None, None, None)) == "L1Heads(head=None safe=None finalized=None)"
    assert describe(ForkchoiceAnswer("VALID", bytes(8))) == (
        "ForkchoiceAnswer(status=VALID payload_id=0x0000000000 error=None)"
    )
    assert describe((1, 2)) == "[1, 2]" and describe([ref] * 9) == "[9 items]"
    assert describe(Colour.RED) == "red" and describe(None) == "None" and describe(bytes(32)) == "0x0000000000"
    assert len(describe(Unavailable("x" * 1_000))) < MAX_TEXT + 60


class Large(msgspec.Struct, weakref=True):
    """Something that must not be kept."""

    size: int = 1 << 20


def test_values_are_kept_for_few_lines_only() -> None:
    log, references = StimulusLog(), []
    for _ in range(3 * MAX_FRESH):
        value = Large()
        references.append(weakref.ref(value))
        log.add(1.0, "news", value)
    del value
    gc.collect()
    assert sum(reference() is not None for reference in references) < MAX_FRESH and len(log) == 3 * MAX_FRESH
