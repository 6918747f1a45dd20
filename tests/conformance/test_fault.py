"""Derivation faults that other nodes had (F21 to F39): a test of each where other tests do not cover it."""

import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.channels import SpanBatchMalformed
from rollup_node.stages.derivation.reasons.l1 import ConfigUpdateMalformed
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.attributes import UndecodableDepositsError
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC, is_deposit
from rollup_node.stages.protocol.types import Log
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from tests.conformance.kit.cases import CoveredCases, case
from tests.conformance.kit.chain import (
    FIRST_L1,
    GENESIS,
    GENESIS_TIME,
    STRANGER,
    batcher_update,
    config_log,
    forks_until,
)
from tests.conformance.kit.channel_reading import read_batches
from tests.conformance.kit.planning import USER, Planned, channel, child, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain
from tests.conformance.kit.span_fields import Tx, span_fields

pytestmark = pytest.mark.fault("F21..F39")

FIRST = plan(GENESIS, 1)[0].singular
LEGACY, DYNAMIC = Tx(), Tx(2, (b"\x05", b"\x01", b"\x09", b"\xda\x7a", []))
ERAS = ("delta", "holocene")


covered = CoveredCases(
    fault_f21=("rlp_type_2",),
    fault_f23=(
        *("span_data_type_00", "span_data_type_03", "span_data_type_7e", "check1_tx_deposit", "check1_tx_type3"),
        *("check1_tx_postexec_pre", "stage_postexec_singular"),
    ),
    fault_f25=("zip_brotli_cut_1", "zip_brotli_cut_10", "zip_brotli_junk_small", "zip_brotli_large_window"),
    fault_f26=("zip_deflate_cut", "zip_deflate_flip", "zip_adler_bad_small", "zip_adler_missing", "zip_adler_ok_junk"),
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
    fault_f32=("fault_f37", "stage_postexec_straddle", "prefix_old_holocene", "stage_past_keeps_channel"),
    fault_f33=("stage_invalid_payload", "stage_invalid_deposits_only"),
    fault_f34=("reset_batcher_in_window",),
    fault_f38=(
        *("spantx_postexec_empty", "spantx_postexec_creation", "spantx_postexec_parity", "spantx_postexec_r"),
        *("spantx_postexec_s", "spantx_postexec_nonce", "spantx_postexec_gas", "stage_postexec_columns"),
    ),
    fault_f39=(
        "stages/protocol/test_l1_chains.py::test_mainnet_schedule",
        "stages/protocol/test_l1_chains.py::test_blob_base_fee_of_blocks",
        "stages/protocol/test_attributes.py::test_the_pectra_correction_reaches_the_l1_attributes",
    ),
)


# --- bytes of batches ----------------------------------------------------------------------------------------------


@case("fault_f22")
def span_cut_off_at_every_byte() -> None:
    encoded = span_fields([[LEGACY], [], [DYNAMIC, LEGACY]], [1, 0, 1]).encode()
    for size in range(1, len(encoded)):
        batches = read_batches(FIRST, encoded[:size], FIRST, fork=ERAS[size & 1])
        assert (len(batches.batches), batches.reason_type) == (1, SpanBatchMalformed)
        assert batches.reason is not None and batches.reason.arguments[0] <= size
    assert len(read_batches(FIRST, encoded, FIRST, fork="delta").batches) == 3


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


# --- forks, payloads, configs --------------------------------------------------------------------------------------


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
    good, bad, worse = deposit_log(opaque, 5), deposit_log(opaque[:72], 6), deposit_log(b"", 7)
    chain = RollupChain(forks_until("holocene"))
    chain.mine(updates=updates, deposits=[good])
    chain.mine(*channel("A", span(plan(GENESIS, 6))), sender=STRANGER)
    result = chain.run()
    assert len(result) == 6
    assert [len([tx for tx in item.transactions if is_deposit(tx)]) for item in result] == [1] * 5 + [2]
    assert (result[-1].config.gas_limit, result[-1].config.batcher) == (8, STRANGER)
    assert chain.take_drops() == [(DropEffect.IGNORED, ConfigUpdateMalformed)] * 2
    chain = RollupChain(forks_until("holocene"))
    chain.mine(deposits=[good, bad, worse])
    chain.mine(*channel("A", span(plan(GENESIS, 6))))
    with pytest.raises(UndecodableDepositsError) as caught:
        chain.run()
    assert [failure.log_index for failure in caught.value.failures] == [6, 7]
    assert "unexpected opaqueData length" in str(caught.value)
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
