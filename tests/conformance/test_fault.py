"""Derivation faults that other nodes had (F21 to F39): a test of each where single cases do not cover it, otherwise the
list of cases that do."""

from functools import cache
from random import Random

import msgspec
import pytest

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import decode_batch
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.channels import BatchTypeUnknown, SpanBatchMalformed, SpanTransactionInvalid
from rollup_node.stages.derivation.reasons.l1 import ConfigUpdateMalformed
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.attributes import UndecodableDepositsError
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC, is_deposit
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.l1_chains import L1_CHAINS, BlobFork, blob_base_fee, l1_blob_base_fee
from rollup_node.stages.protocol.l1_info import l1_info_of_block
from rollup_node.stages.protocol.types import L1Header, Log
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from rollup_node.tools.batcher.channels import Compression, channel_body
from tests.conformance.kit.cases import case, ids_under_test, table
from tests.conformance.kit.chain import (
    FIRST_L1,
    GENESIS,
    GENESIS_TIME,
    L1_CHAIN,
    L2_BLOCK_TIME,
    L2_CHAIN_ID,
    STRANGER,
    batcher_update,
    config_log,
    forks_until,
)
from tests.conformance.kit.channel_reading import ReadResult, read_channel
from tests.conformance.kit.planning import USER, Planned, channel, child, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain
from tests.conformance.kit.span_fields import Tx, post_exec, span_fields
from tests.conformance.kit.span_model import MalformedModelSpan, SpanModel, UnrestorableTransaction
from tests.conformance.kit.span_model import read as read_model

pytestmark = pytest.mark.fault("F21..F39")

FIRST = plan(GENESIS, 1)[0].singular
LEGACY, DYNAMIC = Tx(), Tx(2, (b"\x05", b"\x01", b"\x09", b"\xda\x7a", []))
ERAS = ("delta", "holocene")


@cache
def collected_ids() -> frozenset[str]:
    """Return the ids of all tests."""
    return frozenset(key for key, _ in ids_under_test())


@table(
    fault_f27=("zip_limit_exact", "zip_limit_minus1", "zip_limit_in_header", "zip_limit_fjord", "zip_bomb"),
    fault_f28=("single_trailing", "span_trailing"),
    fault_f29=(
        *("frame_zero_len", "frame_len_claim_4g", "bank_dup_frame", "bank_beyond_end", "bank_dup_close"),
        *("fq_gap", "fq_dup", "fq_after_last", "fq_unclosed_then_first", "asm_gap_cross_tx", "asm_other_id"),
        *("asm_overhead_counts", "asm_oversize", "asm_exact_size", "bank_prune_exact", "bank_prune_plus1"),
    ),
    fault_f30=(
        *("bank_timeout_equal", "bank_timeout_plus1", "bank_timeout_granite_switch"),
        *("asm_timeout_equal", "asm_timeout_plus1", "asm_timeout_then_first"),
    ),
    fault_f31=(
        *("full_overlap_same", "full_overlap_tx_bytes", "full_overlap_holocene_tag", "stage_span_extract_old_epoch"),
        *("queue_undecided_blocks", "stage_span_undecided_lost"),
    ),
    fault_f33=("stage_invalid_payload", "stage_invalid_deposits_only"),
    fault_f34=("reset_batcher_in_window",),
    fault_f38=(
        *("spantx_postexec_empty", "spantx_postexec_creation", "spantx_postexec_parity", "spantx_postexec_r"),
        *("spantx_postexec_s", "spantx_postexec_nonce", "spantx_postexec_gas", "stage_postexec_columns"),
        "differs_d29",
    ),
)
def covered_by_cases(*ids: str) -> None:
    assert set(ids) - collected_ids() == set()


# --- bytes of batches ----------------------------------------------------------------------------------------------


def read_batches(*batches: bytes, fork: str) -> ReadResult:
    """Read a channel with these batches."""
    return read_channel(channel_body(batches, Compression.ZLIB), forks_until(fork))


@case("fault_f21")
def every_unknown_batch_type() -> None:
    for kind in range(2, 256):
        batches = read_batches(FIRST, bytes((kind,)) + FIRST[1:], FIRST, fork=ERAS[kind & 1])
        assert len(batches.batches) == 1
        assert batches.reason == BatchTypeUnknown(kind=kind)


@case("fault_f22")
def span_cut_off_at_every_byte() -> None:
    encoded = span_fields([[LEGACY], [], [DYNAMIC, LEGACY]], [1, 0, 1]).encode()
    for size in range(1, len(encoded)):
        batches = read_batches(FIRST, encoded[:size], FIRST, fork=ERAS[size & 1])
        assert (len(batches.batches), batches.reason_type) == (1, SpanBatchMalformed)
        assert isinstance(batches.reason, SpanBatchMalformed) and batches.reason.offset <= size
    assert len(read_batches(FIRST, encoded, FIRST, fork="delta").batches) == 3
    damaged_spans_against_the_model()


def damaged_spans_against_the_model() -> None:
    """Wrong, missing and additional bytes: accepted, refused or malformed exactly as by the reference decoder."""
    generator = Random(3)
    for turn in range(1500):
        data = bytearray(SPANS[turn % len(SPANS)])
        for _ in range(1 + turn % 3):
            place = generator.randrange(1, len(data))
            match generator.randrange(4):
                case 0:
                    data[place] = generator.randrange(256)
                case 1:
                    data[place] = generator.choice(b"\x00\x01\x7f\x80\x81\xa0\xb7\xb8\xbf\xc0\xc1\xf7\xf8\xff")
                case 2:
                    del data[place : place + generator.randrange(1, 4)]
                case _:
                    data[place:place] = generator.randbytes(generator.randrange(1, 4))
        assert decoded(bytes(data)) == modelled(bytes(data)), data.hex()


ACCESS, AUTHORIZATION = (
    [b"\x77" * 20, [b"\x88" * 32]],
    [b"\x0a", b"\x77" * 20, b"", b"\x01", b"\x11" * 32, b"\x22" * 32],
)
SET_CODE = Tx(4, (b"\x05", b"\x01", b"\x09", b"", [ACCESS], [AUTHORIZATION]))
SPANS = [
    span_fields(
        [[LEGACY, DYNAMIC, Tx(1, (b"\x05", b"\x09", b"x" * 70, [ACCESS] * 5))], [], [SET_CODE]], [1, 0, 1]
    ).encode(),
    span_fields([[LEGACY], [post_exec(), Tx(to=None, protected=1, nonce=300, gas=2**40)]], [0, 1]).encode(),
    span_fields([[]] * 9).encode(),
    span_fields([[SET_CODE]]).encode(),
]


def decoded(encoded: bytes) -> SpanModel | str:
    """Return the node's result for a span batch."""
    batch = decode_batch(encoded, SpanRules(L2_CHAIN_ID, GENESIS_TIME, L2_BLOCK_TIME))
    if not isinstance(batch, SpanBatch):
        return "malformed" if isinstance(batch, Reason) else "not restored"
    blocks = [
        ((block.timestamp - GENESIS_TIME) % 2**64, block.epoch_number, tuple(block.transactions))
        for block in batch.blocks()
    ]
    return SpanModel(blocks, batch.parent_check, batch.origin_check)


def modelled(encoded: bytes) -> SpanModel | str:
    """Return the reference decoder's result."""
    try:
        return read_model(encoded[1:], L2_BLOCK_TIME)
    except MalformedModelSpan:
        return "malformed"
    except UnrestorableTransaction:
        return "not restored"


@case("fault_f23")
def transaction_types_that_do_not_belong() -> None:
    """In a span the batch goes alone; in a singular batch a deposit and an early type drop it, others are for the
    engine to decide. In Holocene its channel goes with it."""
    for raw, why, effect in (
        (b"\x00\xc3\x80\x80\x80", None, None),
        (b"\x03\xc3\x80\x80\x80", None, None),
        (b"\x7e\xc3\x80\x80\x80", reasons.TransactionIsDeposit, DropEffect.DROPPED),
        (b"\x7d\xc3\x80\x80\x80", reasons.PostExecNotAllowed, DropEffect.DROPPED),
    ):
        for fork in ("granite", "holocene"):
            bad = span_fields([[Tx(kind=raw[0], raw=raw)]], origin=FIRST_L1).encode()
            chain = RollupChain(forks_until(fork))
            chain.mine(*channel("A", bad, child(GENESIS, (raw,)).singular), *channel("B", FIRST))
            assert [item.users for item in chain.run()] == [(raw,) if why is None else (USER,)]
            late = DropEffect.DROPPED if fork == "granite" else DropEffect.PAST
            flushed = DropEffect.FLUSHED if fork == "holocene" else effect
            second = (late, reasons.TimestampPast) if why is None else (flushed, why)
            assert chain.take_drops() == [(DropEffect.DROPPED, SpanTransactionInvalid), second]


@case("fault_f24")
def numbers_of_every_field() -> None:
    """Longer forms are read, more than 64 bits are not."""
    good = span_fields([[LEGACY]])
    for name in ("rel_timestamp", "l1_origin_num", "block_count", "tx_counts", "nonces", "gas_limits"):
        encoded: bytes = getattr(good, name)
        longer = encoded[:-1] + bytes((encoded[-1] | 0x80,)) + b"\x80" * (9 - len(encoded)) + b"\0"
        for fork in ERAS:
            assert len(longer) == 10
            (result,) = read_batches(good.but(**{name: longer}).encode(), fork=fork).batches
            (expected,) = read_batches(good.encode(), fork=fork).batches
            assert isinstance(result, SpanBatch) and isinstance(expected, SpanBatch)
            assert list(result.blocks()) == list(expected.blocks())
            for beyond in (b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\0"):
                assert read_batches(good.but(**{name: beyond}).encode(), fork=fork).reason_type is SpanBatchMalformed


# --- damaged streams -----------------------------------------------------------------------------------------------


def noisy(count: int) -> list[bytes]:
    """Batches that hardly compress, of 40 to 900 bytes."""
    parent, result = GENESIS, []
    for place in range(count):
        noise = b"".join(bytes.fromhex(parent.hash.hex())[:: 1 + turn % 3] for turn in range(1 + place * 7 % 30))
        block = child(parent, (b"\x02" + noise,))
        result.append(block.singular)
        parent = block.ref
    return result


@table(fault_f25=Compression.BROTLI, fault_f26=Compression.ZLIB)
def damaged_stream(compression: Compression) -> None:
    """Cut off anywhere, what was complete survives and no more; a longer piece never gives less.

    Bytes behind the end do not matter for so small a channel."""
    batches = noisy(8)
    body = channel_body(batches, compression)
    forks = forks_until("fjord")
    whole = read_channel(body, forks).batches
    assert len(whole) == len(batches)
    counts = []
    for size in range(len(body)):
        result = read_channel(body[:size], forks).batches
        assert result == whole[: len(result)]
        counts.append(len(result))
    assert counts == sorted(counts) and 0 < counts[len(body) // 2] < len(batches)
    assert read_channel(body + b"junk", forks).batches == whole
    if compression is Compression.BROTLI:
        assert read_channel(b"\x01\x11" + body[2:], forks).batches == [], "a large window"
    else:
        flipped_bits(body, whole, counts)


def flipped_bits(body: bytes, whole: list[SingularBatch | SpanBatch], counts: list[int]) -> None:
    """A flipped bit or a wrong checksum does not affect the batches that were complete before it."""
    for place in range(10, len(body), 7):
        flipped = body[:place] + bytes((body[place] ^ 0x10,)) + body[place + 1 :]
        batches = read_channel(flipped, forks_until("fjord")).batches
        assert batches[: counts[place]] == whole[: counts[place]]
        assert place < len(body) - 4 or batches == whole


# --- forks, payloads, configs --------------------------------------------------------------------------------------


@case("fault_f32")
def spans_over_forks() -> None:
    """Blocks of both sides in one span: the activation block is derived by the new rules.

    A span that is past does not take its channel with it in Holocene."""
    blocks = plan(GENESIS, 2)
    activation = child(blocks[-1].ref, ())
    rest = plan(activation.ref, 2)
    chain = RollupChain(forks_until("isthmus", jovian=6))
    chain.mine(*channel("A", span([*blocks, activation, *rest]), span(blocks), plan(rest[-1].ref, 1)[0].singular))
    result = chain.run()
    assert refs(result[:5]) == refs([*blocks, activation, *rest])
    assert [item.output.attributes.min_base_fee for item in result[:4] if item.output] == [None, None, 0, 0]
    assert len(result[2].transactions) == 1 + len(load_bundle("jovian").transactions)
    assert (len(result), chain.take_drops()) == (6, [(DropEffect.PAST, reasons.SpanPast)])
    filled = RollupChain(forks_until("isthmus", jovian=6))
    filled.mine(*channel("A", span(plan(GENESIS, 4))))
    assert refs(filled.run()) == refs(blocks)
    assert filled.take_drops() == [(DropEffect.FLUSHED, reasons.ActivationBlockNotEmpty)]


def deposit_log(opaque: bytes, index: int) -> Log:
    """Return a log of the portal."""
    data = (32).to_bytes(32, "big") + len(opaque).to_bytes(32, "big") + opaque
    topics = (DEPOSIT_TOPIC, b"\x22".rjust(32, b"\0"), b"\x33".rjust(32, b"\0"), bytes(32))
    return Log(b"\xde" * 20, topics, data.ljust(-(-len(data) // 32) * 32, b"\0"), index)


@case("fault_f35")
def updates_and_deposits() -> None:
    """Of two updates in a block the later wins; an unknown and a malformed one are skipped.

    A malformed deposit is not skipped: the portal cannot have sent it, and op-node stops there."""
    gas = [config_log(2, b"".join(word.to_bytes(32, "big") for word in (32, 32, limit)), 1) for limit in (7, 8)]
    updates = [*gas, config_log(8, bytes(96), 2), config_log(2, bytes(95), 3), batcher_update(STRANGER, 4)]
    opaque = bytes(64) + (50_000).to_bytes(8, "big") + b"\0" + b"\xaa"
    good, bad = deposit_log(opaque, 5), deposit_log(opaque[:72], 6)
    chain = RollupChain(forks_until("holocene"))
    chain.mine(updates=updates, deposits=[good])
    chain.mine(*channel("A", span(plan(GENESIS, 6))), sender=STRANGER)
    result = chain.run()
    assert len(result) == 6
    assert [len([tx for tx in item.transactions if is_deposit(tx)]) for item in result] == [1] * 5 + [2]
    assert (result[-1].config.gas_limit, result[-1].config.batcher) == (8, STRANGER)
    assert chain.take_drops() == [(DropEffect.IGNORED, ConfigUpdateMalformed)] * 2
    chain = RollupChain(forks_until("holocene"))
    chain.mine(deposits=[good, bad])
    chain.mine(*channel("A", span(plan(GENESIS, 6))))
    with pytest.raises(UndecodableDepositsError) as caught:
        chain.run()
    (failure,) = caught.value.failures
    assert failure.log_index == 6 and "unexpected opaqueData length" in failure.text
    assert len(chain.l2) == 6, "up to the block that must have them"


@case("fault_f36")
def a_batcher_that_was_away_for_long() -> None:
    """Four sequencing windows without data: every block is derived empty, with its epoch, whatever the sequencer has
    built; its batches come too late."""
    for fork in ("granite", "holocene"):
        built = plan(GENESIS, 40)
        chain = RollupChain(forks_until(fork), seq_window_size=5, max_sequencer_drift=24)
        chain.mine_until(FIRST_L1 + 20)
        chain.mine(*channel("A", *[block.singular for block in built]))
        result = chain.run()
        assert all(item.users == () for item in result)
        assert refs(result) == refs(plan(GENESIS, len(result), ()))
        assert result[-1].ref.l1_origin.number == FIRST_L1 + 21 - 5
        late = DropEffect.DROPPED if fork == "granite" else DropEffect.PAST
        assert chain.take_drops() == [(late, reasons.TimestampPast)] * len(built)
        assert all(item.ref.timestamp <= GENESIS_TIME + 12 * 20 for item in result)


def activation_of(before: str, fork: str, transactions: tuple[bytes, ...]) -> tuple[RollupChain, list[Planned]]:
    """Return a chain in which the fourth block is the first of a fork, the others full."""
    blocks = plan(GENESIS, 3)
    blocks.append(child(blocks[-1].ref, transactions))
    chain = RollupChain(forks_until(before, **{fork: 8}))
    chain.mine(*channel("A", span(blocks)))
    return chain, blocks


@case("fault_f37")
def upgrade_transactions_in_the_activation_block() -> None:
    """L1 info, then the upgrade; user transactions after it only where derivation allows them."""
    for before, fork, filled in (
        ("delta", "ecotone", True),
        ("ecotone", "fjord", True),
        ("holocene", "isthmus", True),
        ("isthmus", "jovian", False),
        ("jovian", "karst", False),
        ("karst", "lagoon", False),
    ):
        upgrade = load_bundle(fork).transactions
        chain, blocks = activation_of(before, fork, ())
        result = chain.run()
        assert refs(result) == refs(blocks)
        assert result[3].transactions[1:] == upgrade
        assert result[3].output is not None and result[3].output.attributes.no_tx_pool
        assert [len(item.transactions) for item in result[:3]] == [2] * 3
        chain, blocks = activation_of(before, fork, (USER,))
        result = chain.run()
        assert refs(result) == refs(blocks[: 4 if filled else 3])
        if filled:
            assert result[3].transactions[1:] == (*upgrade, USER)
        else:
            assert chain.take_drops() == [(DropEffect.FLUSHED, reasons.ActivationBlockNotEmpty)]


@case("fault_f39")
def blob_base_fee_by_schedule() -> None:
    """At every step of Sepolia's schedule, one second before it, and with the late correction of Pectra; as it stands
    in a derived block."""
    sepolia, excess = L1_CHAINS[11_155_111], 40_000_000

    def fee(time: int, correction: int | None = None) -> int:
        header = L1Header(bytes(32), 7, bytes(32), time, bytes(32), 7, excess, None)
        return l1_blob_base_fee(sepolia, header, correction)

    times = [fork.time for fork in sepolia.blob_forks]
    assert [fee(time) for time in times] == [159_773, 2_944, 2_944, 120, 30]
    assert [fee(time - 1) for time in times[1:]] == [159_773, 2_944, 2_944, 120]
    correction = 1_742_486_400
    assert times[1] < correction < times[2]
    assert [fee(time, correction) for time in (times[1], correction - 1, correction)] == [159_773, 159_773, 2_944]
    chain = RollupChain(forks_until("ecotone"))
    bpo = msgspec.structs.replace(
        L1_CHAIN, blob_forks=(*L1_CHAIN.blob_forks, BlobFork("bpo1", GENESIS_TIME + 12, 8_346_193))
    )
    chain.deriver = type(chain.deriver)(chain.config, bpo)
    for number in (0, 1):
        if number:
            chain.mine(*channel("A", span(plan(GENESIS, 6))))
        block = chain.l1.blocks[number]
        header = msgspec.structs.replace(block.header, excess_blob_gas=excess)
        chain.l1.blocks[number] = msgspec.structs.replace(block, header=header)
    chain.reset(FIRST_L1)
    infos = [l1_info_of_block(item.transactions, L1InfoFormat.ECOTONE) for item in chain.run()]
    assert [info.blob_base_fee for info in infos] == [159_773] * 5 + [blob_base_fee(excess, 8_346_193)]
