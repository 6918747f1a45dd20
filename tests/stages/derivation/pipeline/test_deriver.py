"""The deriver as a whole: its inputs and outputs, real OP Sepolia blocks, and that no L1 data halts it."""

import zlib

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline import outputs
from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.reasons.batches import ParentHashMismatch
from rollup_node.stages.derivation.reasons.l1 import BlobsNotFound, ResetBaseMismatch
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher import channels
from rollup_node.tools.batcher.channels import Compression, batcher_data, channel_body
from tests.conformance.kit.chain import (
    BATCHER,
    FIRST_L1,
    GENESIS,
    L1_CHAIN,
    STRANGER,
    SYSTEM_CONFIG,
    blobs,
    calldata,
    config_log,
    forks_until,
)
from tests.conformance.kit.notation import channel_id
from tests.conformance.kit.planning import USER, channel, child, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain
from tests.support.chains.op_sepolia import FIRST_L1 as FIRST_RECORDED_L1
from tests.support.chains.op_sepolia import FIRST_L2, LAST_DERIVED_L1, LAST_DERIVED_L2, RecordedL2, SepoliaRecording

GRANITE = forks_until("granite")


# --- inputs --------------------------------------------------------------------------------------------------------


def test_nothing_is_derived_before_a_start() -> None:
    deriver = Deriver(RollupChain(GRANITE).config, L1_CHAIN)
    deriver.blobs_not_found(bytes(32))
    assert deriver.step(GENESIS, SYSTEM_CONFIG) == outputs.AwaitSafeHead()
    assert deriver.origin is None


def test_the_base_must_be_that_of_the_start() -> None:
    chain = RollupChain(GRANITE)
    header = msgspec.structs.replace(chain.l1.blocks[0].header, hash=bytes(32))
    base = chain.l1.blocks[0]
    chain.l1.blocks[0] = msgspec.structs.replace(base, header=header)
    assert chain.run() == []
    assert chain.reset_reason == ResetBaseMismatch(FIRST_L1, bytes(32), base.header.hash)
    assert chain.take_drops() == [(DropEffect.RESET, ResetBaseMismatch)]


def test_what_is_not_needed_is_refused() -> None:
    """A block is accepted once [T6]."""
    chain = RollupChain(GRANITE)
    chain.mine()
    base, following = chain.l1.blocks
    deriver = chain.deriver
    assert not deriver.add_l1_block(base)
    assert deriver.step(GENESIS, SYSTEM_CONFIG) == outputs.NeedL1Block(FIRST_L1)
    assert not deriver.add_l1_block(following)
    assert not deriver.add_blobs(bytes(32), ())
    assert not deriver.add_frames(BlockFrames(bytes(32), BATCHER, ()))
    assert not deriver.add_decoded(bytes(32), tasks.DecodedChannel((), None))
    assert not deriver.add_l2_blocks(1, 2, ())
    assert deriver.add_l1_block(base)
    assert not deriver.add_l1_block(base)


def test_blobs_that_are_not_found_need_a_reset() -> None:
    chain = RollupChain(GRANITE)
    chain.mine(inbox=[blobs([b"\1" * 32])])
    chain.run()
    assert isinstance(chain.last_output, outputs.NeedBlobs)
    chain.deriver.blobs_not_found(bytes(32))
    chain.run()
    assert isinstance(chain.last_output, outputs.NeedBlobs), "another block's"
    chain.deriver.blobs_not_found(chain.l1.last.header.hash)
    chain.run()
    assert chain.reset_reason == BlobsNotFound(FIRST_L1 + 1)


# --- outputs -------------------------------------------------------------------------------------------------------


def test_attributes_come_once_and_wait_for_the_safe_head() -> None:
    """[AQ5]"""
    first, second = plan(GENESIS, 2)
    stale = child(child(GENESIS, ()).ref)
    chain = RollupChain(GRANITE)
    chain.mine(*channel("A", first.singular, stale.singular, second.singular))
    chain.run(until=lambda output: isinstance(output, AttributesReady))
    assert [chain.deriver.step(GENESIS, SYSTEM_CONFIG) for _ in range(3)] == [outputs.AwaitSafeHead()] * 3
    chain.extend([first])
    assert refs(chain.run()) == [second.ref]
    assert chain.take_drops() == [(DropEffect.DROPPED, ParentHashMismatch)]


# --- real blocks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [FIRST_L2, FIRST_L2 + 3])
def test_recorded_op_sepolia_blocks(recording: SepoliaRecording, first: int) -> None:
    """From the fourth block on, the same span overlaps the safe chain."""
    deriver = Deriver(recording.config, L1_CHAINS[11155111])
    safe, config = recording.l2_blocks[first].ref, recording.config_of(first)
    base = BlockId(FIRST_RECORDED_L1, recording.l1_blocks[FIRST_RECORDED_L1].header.hash)
    deriver.reset(base, recording.config.genesis.system_config)
    derived: list[AttributesReady] = []
    requested: list[outputs.NeedL2Blocks] = []
    while len(derived) < LAST_DERIVED_L2 - first:
        match output := deriver.step(safe, config):
            case outputs.NeedL1Block():
                assert deriver.add_l1_block(recording.l1_blocks[output.number])
            case outputs.NeedBlobs():
                assert deriver.add_blobs(output.block.hash, recording.contents(output.blobs))
            case outputs.NeedDecoded():
                assert deriver.add_decoded(output.key, tasks.run(output.task))
            case outputs.NeedL2Blocks():
                requested.append(output)
                blocks = [recording.l2_blocks[item].content for item in range(output.first, output.last + 1)]
                assert deriver.add_l2_blocks(output.first, output.last, blocks)
            case AttributesReady():
                derived.append(output)
                block = recording.l2_blocks.get(safe.number + 1)
                if block is not None:
                    _compare(output, block)
                    safe, config = block.ref, recording.config_of(block.ref.number)
            case _:
                assert isinstance(output, Dropped)
                assert output.reason.kind.rule in ("BS2", "PX5")
    assert [output.concluding for output in derived] == [False] * (len(derived) - 1) + [True]
    assert requested == ([] if first == FIRST_L2 else [outputs.NeedL2Blocks(FIRST_L2, FIRST_L2 + 3)])
    last = recording.spans[-1]
    assert (last["first_l2"] + last["blocks"] - 1, derived[-1].parent.number) == (LAST_DERIVED_L2, LAST_DERIVED_L2 - 1)


def _compare(output: AttributesReady, block: RecordedL2) -> None:
    attributes, payload = output.attributes, block.payload
    assert attributes.transactions == payload.transactions
    assert (attributes.timestamp, attributes.prev_randao) == (payload.timestamp, payload.prev_randao)
    assert (attributes.fee_recipient, attributes.gas_limit) == (payload.fee_recipient, payload.gas_limit)
    assert attributes.parent_beacon_root == payload.parent_beacon_root
    assert output.derived_from.number == LAST_DERIVED_L1


# --- any L1 data ---------------------------------------------------------------------------------------------------

_FORKS = st.sampled_from(FORK_NAMES[1:])
_BLOCKS = plan(GENESIS, 12)


def _item(*frames: Frame) -> bytes:
    return batcher_data([channels.Frame(*frame) for frame in frames])


def _noise() -> st.SearchStrategy[bytes]:
    """Data items from garbage to almost valid."""
    frame = st.builds(
        Frame,
        st.sampled_from([channel_id("A"), channel_id("B")]),
        st.integers(0, 3),
        st.one_of(st.binary(max_size=40), st.just(zlib.compress(b"\x83abc"))),
        st.booleans(),
    )
    blocks = st.builds(lambda first, count: _BLOCKS[first : first + count], st.integers(0, 8), st.integers(1, 4))
    other = st.builds(
        lambda block, epoch: child(block.ref, (USER,), FIRST_L1 + epoch), st.sampled_from(_BLOCKS), st.integers(0, 3)
    )
    batch = st.one_of(st.builds(lambda block: block.singular, other), st.builds(span, blocks), st.binary(max_size=80))
    body = st.builds(lambda batches: channel_body(batches, Compression.ZLIB), st.lists(batch, max_size=3))
    whole = st.builds(lambda data, last: _item(Frame(channel_id("A"), 0, data, last)), body, st.booleans())
    return st.one_of(st.binary(max_size=60), st.builds(_item, frame), st.builds(_item, frame, frame), whole)


_ITEMS = st.lists(st.tuples(_noise(), st.sampled_from([BATCHER, BATCHER, STRANGER]), st.booleans()), max_size=3)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_l1_data_halts_derivation(drawn: st.DataObject) -> None:
    later = drawn.draw(st.dictionaries(st.sampled_from(["granite", "holocene"]), st.sampled_from([12, 24]), max_size=2))
    forks = forks_until(drawn.draw(_FORKS), **later)
    chain = RollupChain(forks, seq_window_size=drawn.draw(st.sampled_from([2, 4])))
    chain.extend(_BLOCKS[: drawn.draw(st.integers(0, 6))])
    for _ in range(5):
        inbox = []
        for data, sender, in_blob in drawn.draw(_ITEMS):
            key = b"\1" + zlib.crc32(data).to_bytes(31, "big")
            chain.blobs[key] = data
            inbox.append(blobs([key], sender=sender) if in_blob else calldata(data, sender))
        kind, contents = drawn.draw(st.integers(0, 9)), drawn.draw(st.lists(st.binary(max_size=100), max_size=2))
        chain.mine(inbox=inbox, updates=[config_log(kind, data, index) for index, data in enumerate(contents)])
    chain.mine_until(FIRST_L1 + 8)
    chain.run()
    assert isinstance(chain.last_output, outputs.NeedL1Block | outputs.NeedReset | outputs.NeedL2Blocks)
    assert all(str(dropped) for dropped in chain.dropped)


@pytest.mark.parametrize("forks", ["granite", "holocene", "jovian"])
@pytest.mark.parametrize("odd", [0, 1], ids=["at a block's time", "between two blocks"])
def test_the_last_block_before_a_foreign_fork_is_derived_and_the_next_one_is_not(forks: str, odd: int) -> None:
    """In the middle of a span, with the rest of it derived ahead [LFT2, LFT3]."""
    blocks = plan(GENESIS, 6)

    def derived(fork: ForeignFork | None) -> RollupChain:
        chain = RollupChain(forks_until(forks), foreign_fork=fork)
        for _ in range(4):
            chain.mine()
        chain.mine(*channel("A", span(blocks)))
        chain.mine()
        chain.run()
        return chain

    endless = derived(None)
    ended = derived(ForeignFork("Somefork", blocks[3].ref.timestamp - odd))
    assert refs(endless.l2[1:]) == refs(blocks)
    assert ended.l2 == endless.l2[:4]
    assert ended.last_output == outputs.AwaitSafeHead() and not ended.dropped
    assert ended.deriver.ahead() is None
