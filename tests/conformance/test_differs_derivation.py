"""Differences of specs, op-node and kona before attributes; the node follows op-node [D1 to D30]."""

from tests.conformance.kit.batch_checks import ACCEPTED, BatchCheckHarness
from tests.conformance.kit.cases import CoveredCases, case
from tests.conformance.kit.chain import FIRST_L1, forks_until
from tests.conformance.kit.planning import plan, span

covered = CoveredCases(
    differs_d01=("blob_fe0_bit6",),
    differs_d02=("frame_last_2",),
    differs_d03=("fq_restart_same_id",),
    differs_d04=("fq_reused_id_far",),
    differs_d05=("asm_gap_cross_tx", "asm_other_id_then_continue"),
    differs_d06=("bank_size_after_close_prune",),
    differs_d07=("zip_brotli_pre_fjord", "zip_brotli_batch_pre_fjord"),
    differs_d08=("zip_deflate_cut", "zip_brotli_cut_10"),
    differs_d09=("zip_limit_minus1",),
    differs_d10=("rlp_type_2",),
    differs_d11=("rlp_bad_span_derive_then_good",),
    differs_d12=("span_varint_nonminimal",),
    differs_d13=("span_origin_bits_short",),
    differs_d14=("span_data_type_00",),
    differs_d15=("check1_tx_type3", "check1_tx_garbage"),
    differs_d16=("src_pre_ecotone_type3", "src_ecotone_boundary"),
    differs_d17=("tx_deposit_type",),
    differs_d18=("prefix_overlap_genesis",),
    differs_d19=("prefix_end_epoch_too_old",),
    differs_d21=("stage_span_undecided_lost",),
    differs_d22=("full_overlap_holocene_tag",),
    differs_d23=("check1_bad_parent",),
    differs_d24=("queue_late_batch_after_advance",),
    differs_d25=("reset_depth_granite",),
    differs_d26=("l1_bad_config_log", "fault_f35"),
    differs_d27=("reset_two_forks_one_step", "reset_holocene_open_channel"),
    differs_d28=("reset_holocene_window_kept", "reset_holocene_future_batches"),
    differs_d29=("spantx_postexec_empty", "spantx_postexec_parity", "spantx_postexec_nonce", "spantx_postexec_gas"),
    differs_d30=("spantx_value_33_bytes",),
)


@case("differs_d20")
def delta_and_an_overlapping_span() -> None:
    """The span starts with epoch 0, before Delta; the safe head is of epoch 1, at Delta."""
    checks = BatchCheckHarness(forks_until("canyon", delta=12), safe=6, first=1, last=2)
    assert checks.safe.l1_origin.number == FIRST_L1 + 1
    blocks = plan(checks.block(3), 4)
    assert blocks[0].ref.l1_origin.number == FIRST_L1
    assert checks.span(span(blocks)) == ACCEPTED
