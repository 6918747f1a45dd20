"""The deriver as a whole: sources, resets and fork switches by their conformance ids, real OP Sepolia blocks, and the
promise that no L1 data halts it."""

import zlib
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.pipeline.outputs import (
    Attributes,
    AwaitSafeHead,
    NeedBlobs,
    NeedDecoded,
    NeedL1Block,
    NeedL2Blocks,
    NeedReset,
)
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.messages.engine import PipelineStart
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.types import BlockId, Log

OTHER = b"B" * 16


def _batcher_update(log: int, batcher: bytes, kind: int = 0) -> Log:
    data = (32).to_bytes(32, "big") + (32).to_bytes(32, "big") + bytes(12) + batcher
    return Log(b"\x5c" * 20, (CONFIG_UPDATE_TOPIC, bytes(32), kind.to_bytes(32, "big")), data, log)


# --- L1 and its transactions ---------------------------------------------------------------------------------------


def test_l1_next_missing(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.run(3)
    system = world.config.genesis.system_config
    assert [world.deriver.step(world.safe, system) for _ in range(3)] == [NeedL1Block(4)] * 3


def test_l1_next_wrong_parent(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.run(3)
    stranger = world.l1(4)
    header = msgspec.structs.replace(stranger.header, parent_hash=bytes(32))
    assert world.deriver.add_l1_block(msgspec.structs.replace(stranger, header=header))
    assert made.told(world.run(9)) == ["reset T3", "reset T3"]
    assert world.deriver.origin.number == 3


def test_the_base_must_be_the_one_of_the_start(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    deriver = world.start()
    assert isinstance(deriver.step(world.safe, world.config.genesis.system_config), NeedL1Block)
    block = world.l1(0)
    header = msgspec.structs.replace(block.header, hash=bytes(32))
    assert deriver.add_l1_block(msgspec.structs.replace(block, header=header))
    assert made.told(world.run(9)) == ["reset RS1", "reset RS1"]


def test_what_was_not_asked_for_is_refused(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    deriver = world.start()
    assert not deriver.add_l1_block(world.l1(0))
    assert isinstance(deriver.step(world.safe, world.config.genesis.system_config), NeedL1Block)
    assert not deriver.add_l1_block(world.l1(1))
    assert not deriver.add_blobs(bytes(32), ())
    assert not deriver.add_decoded(bytes(32), tasks.DecodedChannel((), None))
    assert not deriver.add_l2_blocks(1, 2, ())
    assert deriver.add_l1_block(world.l1(0))
    assert not deriver.add_l1_block(world.l1(0))


def test_l1_batcher_change_same_block(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.logs[1] = (_batcher_update(3, made.STRANGER),)
    world.put_batches(1, world.singular(1, 0, made.USER, made.USER))
    world.put(1, world.inbox[1][0].data, sender=made.STRANGER)
    world.inbox[1][1] = msgspec.structs.replace(
        world.inbox[1][1],
        data=made.item(
            made.Frame(OTHER, 0, made.channel_body([world.singular(1, 0, made.USER)], made.Compression.ZLIB), True)
        ),
    )
    assert made.told(world.run(1)) == ["ignored BF4", "1+1"]


def test_l1_bad_config_log(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.logs[1] = (_batcher_update(3, made.STRANGER, kind=99), _batcher_update(4, made.BATCHER))
    world.put_batches(1, world.singular(1, 0))
    assert made.told(world.run(1)) == ["ignored T5", "1+0"]


def test_l1_blob_notfound(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.put_blobs(1, b"\0data")
    found = world.run(1, stop=lambda output: isinstance(output, NeedBlobs))
    world.deriver.blobs_not_found(bytes(32))
    assert made.told(found) == []
    world.deriver.blobs_not_found(made.l1_hash(1))
    assert made.told(world.run(1)) == ["reset T8", "reset T8"]


@pytest.mark.parametrize("kind", [0, 1, 2, 0x7E], ids=["tx_legacy_ok", "tx_acl_ok", "tx_dynfee_ok", "tx_deposit_type"])
def test_calldata(made: Any, kind: int) -> None:
    world = made.World(made.forks_to("granite"))
    world.put_batches(1, world.singular(1, 0))
    world.inbox[1] = [msgspec.structs.replace(world.inbox[1][0], kind=kind)]
    assert made.told(world.run(1)) == ["1+0"]


def test_tx_other_sender_and_tx_empty_data(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.put(1, b"\0junk", sender=made.STRANGER)
    world.put(1, b"")
    world.put_batches(1, world.singular(1, 0))
    assert made.told(world.run(1)) == ["ignored BF4", "ignored P1", "1+0"]


# --- blobs ---------------------------------------------------------------------------------------------------------


def _pieces(made: Any, world: Any, count: int, *batches: bytes) -> list[bytes]:
    body = made.channel_body(batches, made.Compression.ZLIB)
    step = -(-len(body) // count)
    return [
        made.item(made.Frame(made.CHANNEL, place, body[place * step : (place + 1) * step], place == count - 1))
        for place in range(count)
    ]


def test_src_order_mixed(made: Any) -> None:
    """Calldata, two blobs, calldata: only in this order do the frames follow each other."""
    world = made.World(made.forks_to("holocene"))
    first, second, third, fourth = _pieces(made, world, 4, world.singular(1, 0, made.USER))
    world.put(1, first)
    world.put_blobs(1, second, third)
    world.put(1, fourth)
    assert made.told(world.run(1)) == ["1+1"]


@pytest.mark.parametrize(("ecotone", "blobs"), [(1012, True), (1013, False)], ids=["boundary", "minus1"])
def test_src_ecotone(made: Any, ecotone: int, blobs: bool) -> None:
    """src_pre_ecotone_type3 as well: before it the calldata counts, and no blob is asked for."""
    world = made.World(made.forks_to("delta", ecotone=ecotone))
    world.put_blobs(1, *_pieces(made, world, 1, world.singular(1, 0, made.USER, made.USER)))
    data = _pieces(made, world, 1, world.singular(1, 0, made.USER))[0]
    world.inbox[1] = [msgspec.structs.replace(world.inbox[1][0], data=data)]
    asked: list[Any] = []
    found = world.run(1, stop=lambda output: asked.append(output) if isinstance(output, NeedBlobs) else False)  # type: ignore[func-returns-value]
    assert made.told(found) == ["1+2" if blobs else "1+1"]
    assert bool(asked) == blobs


def test_src_type3_no_hashes(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.put_blobs(1, data=b"\0junk")
    assert made.told(world.run(1)) == []


def test_src_dup_hashes(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    data = _pieces(made, world, 1, world.singular(1, 0, made.USER))
    world.put_blobs(1, *data)
    world.put_blobs(1, *data)
    assert made.told(world.run(1)) == ["1+1", "dropped V3"]


def test_src_bad_blob_between(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    first, second = _pieces(made, world, 2, world.singular(1, 0, made.USER))
    world.put_blobs(1, first, None, second)
    assert made.told(world.run(1)) == ["ignored O7", "1+1"]


def test_frame_bad_blob_item_same_tx(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.put_blobs(1, b"\0bad", *_pieces(made, world, 1, world.singular(1, 0)))
    assert made.told(world.run(1)) == ["ignored P5", "1+0"]


def test_blobs_that_do_not_fit_are_refused(made: Any) -> None:
    """src_blob_extra, src_blob_short, src_blob_foreign, src_blob_reordered: the need goes on."""
    world = made.World(made.forks_to("granite"))
    first, second = _pieces(made, world, 2, world.singular(1, 0))
    world.put_blobs(1, first, second)
    asked: list[NeedBlobs] = []

    def stop(output: Any) -> bool:
        if isinstance(output, NeedBlobs):
            asked.append(output)
        return isinstance(output, NeedBlobs)

    world.run(1, stop)
    contents = [world.blobs[blob.hash] for blob in asked[0].blobs]
    block_hash = asked[0].block.hash
    for wrong in (contents[:1], [*contents, contents[0]], contents[::-1], [contents[0], contents[0]]):
        assert not world.deriver.add_blobs(block_hash, wrong)
    assert not world.deriver.add_blobs(bytes(32), contents)
    assert world.deriver.add_blobs(block_hash, contents)
    assert made.told(world.run(1)) == ["1+0"]


# --- resets and fork switches --------------------------------------------------------------------------------------


def _switching(made: Any, **forks: int) -> Any:
    """Holocene at L1 block 2."""
    return made.World(made.forks_to("granite", holocene=made.l1_time(2), **forks))


def test_reset_holocene_open_channel(made: Any) -> None:
    world = _switching(made)
    first, second = _pieces(made, world, 2, world.singular(1, 0))
    world.put(1, first)
    world.put(2, second)
    assert made.told(world.run(2)) == ["discarded PS3", "ignored CA4"]


def test_reset_holocene_future_batches(made: Any) -> None:
    world = _switching(made)
    world.put_batches(1, world.singular(2, 0, parent=bytes(32)))
    world.put_batches(2, world.singular(1, 0))
    assert made.told(world.run(2)) == ["discarded PS3", "1+0"]


def test_reset_holocene_window_kept(made: Any) -> None:
    world = _switching(made)
    world.put_batches(2, world.span(1, *[0] * 5, 1), channel=OTHER)
    assert made.told(world.run(2)) == [f"{number}+0" for number in range(1, 7)]


def test_reset_two_forks_one_step(made: Any) -> None:
    """PS4: only the first fork acts, so that bank and queue stay until the next reset."""
    world = made.World(made.forks_to("fjord", granite=made.l1_time(2), holocene=made.l1_time(2)))
    first, second = _pieces(made, world, 2, world.singular(1, 0))
    world.put(1, first)
    world.put(2, second)
    assert made.told(world.run(2)) == ["1+0"]
    world.put_batches(3, world.singular(2, 0), world.singular(3, 0, parent=bytes(32)))
    assert made.told(world.run(3)) == ["2+0", "dropped V4"]


def test_reset_reset_pre_holocene(made: Any) -> None:
    world = _switching(made)
    world.run(3)
    world.start()
    first, second = _pieces(made, world, 2, world.singular(1, 0))
    world.put(1, second)
    world.put(1, first)
    assert made.told(world.run(1)) == ["1+0"], "a bank takes frames in any order"


def test_reset_batcher_in_window(made: Any) -> None:
    """RS6: the config of the base holds until the update is read."""
    world = made.World(made.forks_to("granite"))
    world.put_batches(1, world.singular(1, 0))
    world.logs[2] = (_batcher_update(1, made.STRANGER),)
    world.put(2, b"\0old")
    assert made.told(world.run(2)) == ["1+0", "ignored BF4"]


def test_reset_clears(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    first, second = _pieces(made, world, 2, world.singular(1, 0, made.USER))
    world.put_batches(1, world.singular(2, 0, parent=bytes(32)), channel=OTHER)
    world.put(1, first)
    assert made.told(world.run(1)) == []
    world.start(1)
    world.inbox[1] = []
    world.put(2, second)
    assert made.told(world.run(2)) == []
    assert world.deriver.origin.number == 2


def test_attributes_come_once_and_wait_for_the_safe_head(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    world.put_batches(1, world.singular(1, 0), world.singular(2, 0, parent=bytes(32)))
    parent = world.safe
    world.run(1, stop=lambda output: isinstance(output, Attributes))
    assert [world.deriver.step(parent, world.config.genesis.system_config) for _ in range(3)] == [AwaitSafeHead()] * 3
    world._grow(BlockId(0, made.l1_hash(0)), (b"\x7einfo",))
    assert made.told(world.run(1)) == ["dropped V4"]


def test_nothing_before_a_start(made: Any) -> None:
    world = made.World(made.forks_to("granite"))
    deriver = Deriver(world.config, made.L1_CHAIN)
    assert deriver.step(world.safe, world.config.genesis.system_config) == AwaitSafeHead()
    assert deriver.origin is None


# --- real blocks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [16491244, 16491247])
def test_real_op_sepolia_blocks(recording: Any, first: int) -> None:
    """From 16491247 the same span overlaps the safe chain."""
    deriver = Deriver(recording.config, L1_CHAINS[11155111])
    base = BlockId(6582895, recording.l1_blocks[6582895].header.hash)
    safe, config = recording.l2_blocks[first].ref, recording.config_of(first)
    deriver.reset(PipelineStart(1, safe, config, base, recording.config.genesis.system_config))
    derived: list[Attributes] = []
    asked: list[NeedL2Blocks] = []
    while len(derived) < 16491249 - first:
        match output := deriver.step(safe, config):
            case NeedL1Block():
                assert deriver.add_l1_block(recording.l1_blocks[output.number])
            case NeedBlobs():
                assert deriver.add_blobs(output.block.hash, recording.contents(output.blobs))
            case NeedDecoded():
                assert deriver.add_decoded(output.key, tasks.run(output.task))
            case NeedL2Blocks():
                asked.append(output)
                blocks = [recording.l2_blocks[each].content for each in range(output.first, output.last + 1)]
                assert deriver.add_l2_blocks(output.first, output.last, blocks)
            case Attributes():
                derived.append(output)
                block = recording.l2_blocks.get(safe.number + 1)
                if block is not None:
                    _compare(output, block)
                    safe, config = block.ref, recording.config_of(block.ref.number)
            case _:
                assert isinstance(output, Dropped)
                assert output.reason.rule in ("BS2", "PX5")
    assert [output.concluding for output in derived] == [False] * (len(derived) - 1) + [True]
    assert asked == ([] if first == 16491244 else [NeedL2Blocks(16491244, 16491247)])
    last = recording.expected["spans"][-1]
    assert (last["first_l2"] + last["blocks"] - 1, derived[-1].parent.number) == (16491249, 16491248)


def _compare(output: Attributes, block: Any) -> None:
    attributes, header = output.attributes, block.header
    assert attributes.transactions == block.content.transactions
    assert (attributes.timestamp, attributes.prev_randao) == (header.timestamp, header.mix_hash)
    assert (attributes.fee_recipient, attributes.gas_limit) == (header.miner, header.gas_limit)
    assert attributes.parent_beacon_root == header.parent_beacon_root
    assert output.derived_from.number == 6582952


# --- whatever stands in L1 -----------------------------------------------------------------------------------------

_FORKS = st.sampled_from(["regolith", "canyon", "delta", "ecotone", "fjord", "granite", "holocene", "karst", "lagoon"])


def _noise(made: Any, world: Any) -> st.SearchStrategy[bytes]:
    """Data items from garbage to almost right."""
    frame = st.builds(
        made.Frame,
        st.sampled_from([made.CHANNEL, OTHER]),
        st.integers(0, 3),
        st.one_of(st.binary(max_size=40), st.just(zlib.compress(b"\x83abc"))),
        st.booleans(),
    )
    batch = st.one_of(
        st.builds(lambda number, epoch: world.singular(number, epoch), st.integers(1, 9), st.integers(0, 3)),
        st.builds(lambda number, count: world.span(number, *[0] * count), st.integers(1, 9), st.integers(1, 4)),
        st.binary(max_size=80),
    )
    body = st.builds(lambda batches: made.channel_body(batches, made.Compression.ZLIB), st.lists(batch, max_size=3))
    whole = st.builds(lambda data, last: made.item(made.Frame(made.CHANNEL, 0, data, last)), body, st.booleans())
    return st.one_of(st.binary(max_size=60), st.builds(made.item, frame), st.builds(made.item, frame, frame), whole)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_no_l1_data_halts_derivation(made: Any, drawn: st.DataObject) -> None:
    fork = drawn.draw(_FORKS)
    later = drawn.draw(
        st.dictionaries(st.sampled_from(["granite", "holocene"]), st.sampled_from([1012, 1024]), max_size=2)
    )
    world = made.World(made.forks_to(fork, **later), seq_window_size=drawn.draw(st.sampled_from([2, 4])))
    world.extend(drawn.draw(st.integers(0, 6)), 0)
    noise = _noise(made, world)
    for number in range(5):
        for data in drawn.draw(st.lists(noise, max_size=3)):
            sender = drawn.draw(st.sampled_from([made.BATCHER, made.BATCHER, made.STRANGER]))
            if drawn.draw(st.booleans()):
                world.put(number, data, sender=sender)
            else:
                world.put_blobs(number, data, sender=sender)
        if drawn.draw(st.booleans()):
            logs = drawn.draw(st.lists(st.binary(max_size=100), max_size=2))
            topics = (CONFIG_UPDATE_TOPIC, bytes(32), drawn.draw(st.integers(0, 9)).to_bytes(32, "big"))
            world.logs[number] = tuple(Log(b"\x5c" * 20, topics, data, index) for index, data in enumerate(logs))
    for output in world.run(8):
        assert isinstance(output, Attributes | Dropped | NeedReset)
        assert not isinstance(output, Dropped) or str(output)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_the_split_of_frames_over_blocks_does_not_matter(made: Any, drawn: st.DataObject) -> None:
    fork = drawn.draw(st.sampled_from(["granite", "holocene", "jovian"]))
    world = made.World(made.forks_to(fork))
    span = world.span(1, 0, 0, 0)
    expected = made.World(made.forks_to(fork))
    expected.put_batches(1, span)
    whole = made.told(expected.run(5))
    body = made.channel_body([span], made.Compression.ZLIB)
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    edges = [0, *cuts, len(body)]
    number = 1
    for place, (start, stop) in enumerate(pairwise(edges)):
        number = min(5, number + drawn.draw(st.integers(0, 1)))
        world.put(number, made.item(made.Frame(made.CHANNEL, place, body[start:stop], place == len(edges) - 2)))
    assert made.told(world.run(5)) == whole
