"""Differences of specs, op-node and kona before attributes; the node follows op-node [D1 to D30]."""

import pytest

from rollup_node.stages.blobs.tasks import decode_blob
from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.codec.frames import parse_frames, prune_frames
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline.batch_checks import BatchValidity
from rollup_node.stages.derivation.pipeline.channel_bank import ChannelBank
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, PipelineEvents
from rollup_node.stages.derivation.reasons import channels as channel_reasons
from rollup_node.stages.derivation.reasons.batches import (
    OverlapTransactionsMismatch,
    ParentHashMismatch,
    SpanOriginUnknown,
    SpanParentUnavailable,
)
from rollup_node.stages.derivation.reasons.l1 import ConfigUpdateMalformed, FrameEndMarkInvalid
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.deposits import DepositTransaction, encode_deposit
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.transactions import inbox_transaction
from rollup_node.stages.protocol.types import InboxTransaction, L1BlockRef
from rollup_node.tools.batcher.channels import Compression, channel_body, encode_blob
from tests.conformance.kit.base_search import OneBlockPerEpoch, early_forks
from tests.conformance.kit.batch_checks import ACCEPTED, BatchCheckHarness
from tests.conformance.kit.cases import case
from tests.conformance.kit.chain import (
    BATCHER,
    FIRST_L1,
    GENESIS,
    GENESIS_TIME,
    INBOX,
    L1_CHAIN,
    L1_CHAIN_ID,
    STRANGER,
    batcher_update,
    blobs,
    config_log,
    forks_until,
    l1_hash,
    rollup,
)
from tests.conformance.kit.channel_reading import read_channel
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.notation import frames as frames_of
from tests.conformance.kit.notation import names
from tests.conformance.kit.planning import OTHER_USER, USER, channel, child, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain
from tests.conformance.kit.span_fields import SpanFields, Tx, post_exec, span_fields

FIRST = plan(GENESIS, 1)[0].singular
"""A batch before and behind others."""
EMPTY_SPAN = span_fields([[]])


def kinds(*batches: bytes, fork: str = "holocene") -> tuple[str, type[Reason] | None]:
    """Return the batches read from a channel, in letters (a: singular, b: span), and the reasons of drops."""
    channel = read_channel(channel_body(batches, Compression.ZLIB), forks_until(fork))
    return "".join("b" if isinstance(batch, SpanBatch) else "a" for batch in channel.batches), channel.reason_type


# --- blobs, frames, channels ---------------------------------------------------------------------------------------


@case("differs_d01")
def top_bits_of_the_first_blob_element() -> None:
    blob = bytearray(encode_blob(b"data"))
    blob[0] |= 0x40
    assert decode_blob(bytes(blob)) == b"data"


@case("differs_d02")
def end_mark_of_two() -> None:
    encoded = b"\0" + b"A" * 16 + b"\0\0" + b"\0\0\0\1" + b"x" + b"\2"
    assert parse_frames(encoded) == FrameEndMarkInvalid(frame=0, offset=1, mark=2)


@case("differs_d03")
def restart_of_a_channel_in_one_item() -> None:
    kept, _ = prune_frames(frames_of("A0 A1 A0' A1'!"))
    assert names(kept) == "A0 A1"


@case("differs_d04")
def pruning_with_an_id_used_twice() -> None:
    kept, _ = prune_frames(frames_of("A0! B0! A0' C0"))
    assert names(kept) == "A0! B0! C0"


@case("differs_d05")
def frame_order_over_transactions() -> None:
    harness = IngestionHarness(forks_until("holocene"))
    assert harness.read("A0", "A2!", "A1") == []
    assert harness.take_reasons() == [channel_reasons.FrameNotNext]
    assert harness.read("A2!") == ["A0 A1 A2"]


@case("differs_d06")
def size_of_a_channel_after_a_close_that_prunes() -> None:
    """After A1 closes, 210 bytes count, though frame 0 and its 1200 stay; so that 2400 more do not overflow."""
    rules = L1Rules(max_channel_bank_size=2610, read_any_ready_channel=True)
    origin = L1BlockRef(l1_hash(FIRST_L1), FIRST_L1, bytes(32), GENESIS_TIME)
    events = PipelineEvents()
    bank = ChannelBank(events)
    for frame in frames_of("A0:1000 A2:1000 A1!:10 B0:2200"):
        bank.ingest_frame(frame, origin, rules)
    assert [type(drop.reason) for drop in events.drops] == [channel_reasons.FrameSuperseded]
    assert len(bank) == 2
    bank.ingest_frame(frames_of("B1:0")[0], origin, rules)
    assert type(events.drops[-1].reason) is channel_reasons.ChannelEvicted


@case("differs_d07")
def when_brotli_is_allowed() -> None:
    """Decided by the L1 block at which the channel is read; the time of its batch is before Fjord in both cases."""
    forks = forks_until("ecotone", fjord=24)
    body = channel_body([FIRST], Compression.BROTLI)
    assert len(read_channel(body, forks, seconds=24).batches) == 1
    assert read_channel(body, forks, seconds=12).reason_type is channel_reasons.BrotliNotAllowed


@case("differs_d08")
def damage_in_the_compressed_stream() -> None:
    """Batches decompressed before the damage count, for both compressions."""
    noise = b"".join(l1_hash(number, "noise") for number in range(400))
    long = child(GENESIS, (b"\x02" + noise,)).singular
    for compression in (Compression.ZLIB, Compression.BROTLI):
        body = channel_body([FIRST, long], compression)
        channel = read_channel(body[:-200], forks_until("fjord"))
        assert (len(channel.batches), channel.reason_type) == (1, channel_reasons.StreamDamaged)


@case("differs_d09")
def more_output_than_allowed() -> None:
    long = child(GENESIS, (b"\x02" + bytes(9_000_000),)).singular
    body = channel_body([FIRST, long, long], Compression.ZLIB)
    channel = read_channel(body, forks_until("ecotone"))
    assert (len(channel.batches), channel.reason_type) == (2, channel_reasons.StreamLimitExceeded)


# --- batches as bytes ----------------------------------------------------------------------------------------------


@case("differs_d10")
def unknown_batch_type() -> None:
    assert kinds(FIRST, b"\x02" + FIRST[1:], FIRST) == ("a", channel_reasons.BatchTypeUnknown)


@case("differs_d11")
def transactions_that_cannot_be_restored() -> None:
    bad = span_fields([[Tx(raw=b"\x03\xc3\x80\x80\x80", kind=3)]]).encode()
    assert kinds(bad, FIRST) == ("a", channel_reasons.SpanTransactionInvalid)


@case("differs_d12")
def numbers_not_in_their_shortest_form() -> None:
    assert kinds(EMPTY_SPAN.but(rel_timestamp=b"\x82\x80\x00").encode(), FIRST) == ("ba", None)


@case("differs_d13")
def short_bit_list() -> None:
    longer: SpanFields = span_fields([[]] * 9)
    assert kinds(longer.cut_in("origin_bits", 1), FIRST) == ("", channel_reasons.SpanBatchMalformed)


@case("differs_d14")
def type_byte_zero() -> None:
    bad = span_fields([[Tx(0, raw=b"\x00\xc3\x80\x80\x80")]]).encode()
    assert kinds(bad, FIRST) == ("a", channel_reasons.SpanTransactionInvalid)


@case("differs_d15")
def unknown_transaction_types_in_singular_batches() -> None:
    """Whether they are valid is for the engine to decide."""
    for raw in (b"\x03\xc0", b"\x05\xc0", b"\x10\xc0", b"\x7f\xc0", b"\x00", b"\xff"):
        checks = BatchCheckHarness(forks_until("isthmus"))
        assert checks.singular(checks.next((raw,))) == ACCEPTED


# --- transactions to the inbox -------------------------------------------------------------------------------------


@case("differs_d16")
def blob_transaction_before_ecotone() -> None:
    block = plan(GENESIS, 1)[0]
    for fork, needs_blobs in (("delta", False), ("ecotone", True)):
        chain = RollupChain(forks_until(fork))
        chain.mine(inbox=[blobs([b"\1" * 32], data=channel("A", block.singular)[0])])
        assert refs(chain.run()) == ([] if needs_blobs else [block.ref])
        assert isinstance(chain.last_output, NeedBlobs) is needs_blobs


@case("differs_d17")
def deposit_from_the_batcher() -> None:
    (data,) = channel("A", FIRST)
    deposit = encode_deposit(DepositTransaction(bytes(32), BATCHER, INBOX, 0, 0, 100_000, False, data))
    result = inbox_transaction(deposit, INBOX, L1_CHAIN_ID)
    assert result == InboxTransaction(0x7E, BATCHER, data, ())
    chain = RollupChain(forks_until("granite"))
    chain.mine(inbox=[result])
    assert len(chain.run()) == 1


# --- checks --------------------------------------------------------------------------------------------------------


@case("differs_d18")
def span_without_a_block_before_it() -> None:
    checks = BatchCheckHarness(forks_until("granite"), safe=1)
    batch = span_fields([[]] * 8, relative_time=0, origin=FIRST_L1, origin_check=l1_hash(FIRST_L1)[:20]).encode()
    assert checks.span(batch) == (BatchValidity.UNDECIDED, SpanParentUnavailable)


@case("differs_d19")
def span_whose_last_epoch_is_gone() -> None:
    chain = [child(GENESIS, (USER,), FIRST_L1)]
    for epoch in (1, 2):
        chain.append(child(chain[-1].ref, (USER,), FIRST_L1 + epoch))
    checks = BatchCheckHarness(forks_until("granite"), safe=chain, first=2, last=3)
    block = child(checks.safe, (USER,), FIRST_L1 + 1)
    assert checks.span(span([block])) == (BatchValidity.UNDECIDED, SpanOriginUnknown)


@case("differs_d20")
def delta_and_an_overlapping_span() -> None:
    """The span starts with epoch 0, before Delta; the safe head is of epoch 1, at Delta."""
    checks = BatchCheckHarness(forks_until("canyon", delta=12), safe=6, first=1, last=2)
    assert checks.safe.l1_origin.number == FIRST_L1 + 1
    blocks = plan(checks.block(3), 4)
    assert blocks[0].ref.l1_origin.number == FIRST_L1
    assert checks.span(span(blocks)) == ACCEPTED


@case("differs_d21")
def undecided_span_in_holocene() -> None:
    """It is not checked again when its epochs are known."""
    chain = RollupChain(forks_until("holocene"))
    chain.mine(*channel("A", span(plan(GENESIS, 20))))
    assert chain.run() == []
    assert chain.take_drops() == [(DropEffect.UNDECIDED, SpanOriginUnknown)]
    chain.mine_until(FIRST_L1 + 5)
    assert chain.run() == []


@pytest.mark.option("rollup.span-overlap-check", by="overlap_check")
@case("differs_d22")
def overlap_with_other_content_in_holocene() -> None:
    """Compared, as in later op-nodes (N1); when the option is off, as at the tag, the overlap is not checked."""
    config = rollup(forks_until("holocene"))
    assert DerivationConfig(config, L1_CHAIN).span_overlap_check
    assert Deriver(config, L1_CHAIN).span_overlap_check
    blocks = plan(GENESIS, 3)
    other = child(blocks[1].ref, (OTHER_USER,))
    new = child(other.ref)
    for overlap_check, count, drops in ((True, 3, [(DropEffect.FLUSHED, OverlapTransactionsMismatch)]), (False, 4, [])):
        chain = RollupChain(forks_until("holocene"), overlap_check=overlap_check)
        chain.mine(*channel("A", span(blocks)), *channel("B", span([other, new])))
        assert len(chain.run()) == count
        assert chain.take_drops() == drops


@case("differs_d23")
def parent_hash_of_singular_batches_in_holocene() -> None:
    checks = BatchCheckHarness(forks_until("holocene"), safe=1)
    stale = child(child(GENESIS, (OTHER_USER,)).ref)
    assert checks.singular(stale) == (BatchValidity.DROP, ParentHashMismatch)


@case("differs_d24")
def empty_block_at_the_end_of_an_epoch() -> None:
    """The window of the first epoch is missed.

    The next epoch's block is still in time, and comes one L1 block later than the specs would force an empty one."""
    for fork in ("granite", "holocene"):
        chain = RollupChain(forks_until(fork), seq_window_size=5)
        chain.mine_until(FIRST_L1 + 5)
        empty = chain.run()
        assert refs(empty) == refs(plan(GENESIS, 5, ()))
        block = child(empty[-1].ref)
        chain.mine(*channel("A", block.singular))
        assert chain.run()[0].ref == block.ref


# --- resets, configs, switches -------------------------------------------------------------------------------------


@case("differs_d25")
def system_config_of_a_reset() -> None:
    """The system config is that of the block at which the search ends, not the safe head's.

    Its gas limit is the L1 origin number here."""
    result = OneBlockPerEpoch(early_forks(granite=0), 1000).base()
    assert (result.base.number, result.config.gas_limit) == (950, 950)


@case("differs_d26")
def malformed_config_log() -> None:
    chain = RollupChain(forks_until("granite"))
    chain.mine(updates=[config_log(0, b"\1"), batcher_update(STRANGER, 1), config_log(9, bytes(96), 2)])
    (data,) = channel("A", FIRST)
    chain.mine(data, sender=STRANGER)
    assert len(chain.run()) == 1
    assert chain.take_drops() == [(DropEffect.IGNORED, ConfigUpdateMalformed)] * 2
    assert chain.deriver.origin_config is not None and chain.deriver.origin_config.batcher == STRANGER


@case("differs_d27")
def two_forks_in_one_l1_step() -> None:
    """With Granite, Holocene leaves the stages as they are: frames out of order still make a channel."""
    block = plan(GENESIS, 1)[0]
    first, second = channel("A", block.singular, pieces=2)
    for granite, derived in ((24, 1), (23, 1), (12, 0)):
        chain = RollupChain(forks_until("fjord", granite=granite, holocene=24))
        chain.mine_until(FIRST_L1 + 2)
        chain.mine(second, first)
        assert len(chain.run()) == derived


@case("differs_d28")
def what_the_new_stages_know_at_the_fork() -> None:
    """A batch in the very block of the fork is checked at it, and the epochs before it are known."""
    blocks = plan(GENESIS, 14)
    chain = RollupChain(forks_until("granite", holocene=24))
    chain.mine()
    chain.mine(*channel("A", span(blocks)))
    result = chain.run()
    assert refs(result) == refs(blocks[:12])
    assert {item.inclusion for item in result} == {FIRST_L1 + 2}
    chain.mine()
    assert refs(chain.run()) == refs(blocks[12:])
    assert chain.dropped == []


# --- span transactions ---------------------------------------------------------------------------------------------


@case("differs_d29")
def slots_of_post_exec_transactions() -> None:
    """The empty columns are accepted; by the tag filled ones would be as well."""
    batches = [span_fields([[tx]]).encode() for tx in (post_exec(nonce=9, gas=8, parity=1), post_exec())]
    channel = read_channel(channel_body(batches, Compression.ZLIB), forks_until("lagoon"))
    (batch,) = channel.batches
    assert (batch.transactions, channel.reason_type) == ((post_exec().data,), channel_reasons.SpanTransactionInvalid)


@case("differs_d30")
def fees_of_more_than_128_bits() -> None:
    fee = b"\x01" + bytes(16)
    txs = [Tx(0, (b"\x05", fee, b"")), Tx(2, (b"\x05", fee, fee, b"", []))]
    channel = read_channel(channel_body([span_fields([txs]).encode()], Compression.ZLIB), forks_until("delta"))
    (batch,) = channel.batches
    assert batch.transactions == (txs[0].full(27), txs[1].full())
