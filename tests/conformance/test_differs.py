"""Differences of specs, op-node and kona, and the side that the node takes [A1 to A16, D1 to D30].

Before attributes that is op-node's."""

import pytest

from rollup_node.stages.engine.attributes.attributes_handler import AttributesHandler
from rollup_node.stages.engine.calls.engine_api import PayloadAnswer
from rollup_node.stages.protocol.attributes import deposits_only
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.forks.schedule import ForkSchedule, fork_order_error
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from rollup_node.tools.bench.signed_blocks import sealed
from tests.conformance.kit.batch_checks import ACCEPTED, BatchCheckHarness
from tests.conformance.kit.cases import CoveredCases, case
from tests.conformance.kit.chain import (
    FIRST_L1,
    GENESIS,
    SYSTEM_CONFIG,
    abi_words,
    config_log,
    forks_until,
    l1_time,
    rollup,
)
from tests.conformance.kit.planning import USER, channel, plan, span
from tests.conformance.kit.rollup_chain import RollupChain
from tests.support.engine.attributes_jobs import BUILD, asked, handler_with, step_through

KARST_GAS, LAGOON_GAS = 55_370_657, load_bundle("lagoon").gas
KNOWN_ANSWERS = "vectors/test_attributes.py::test_known_answer"
PARAMS = bytes.fromhex("0000006400000002")
PARAMS_EVENT = config_log(4, abi_words(32, 32, int.from_bytes(PARAMS, "big")))


def derived(chain: RollupChain, count: int = 4) -> list[PayloadAttributes]:
    """Attributes of the first blocks, which are empty."""
    chain.mine(*channel("A", span(plan(GENESIS, count, ()))))
    result = [item.output for item in chain.run()]
    assert len(result) == count
    return [item.attributes for item in result if item is not None]


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
    differs_a01=(f"{KNOWN_ANSWERS}[upgrade-table",),
    differs_a04=("fault_f35",),
    differs_a05=("stages/protocol/test_system_config.py::test_topics_are_checked", f"{KNOWN_ANSWERS}[config-"),
    differs_a06=(
        "stages/protocol/test_attributes.py::test_an_unreadable_scalar_is_critical_from_ecotone_on",
        f"{KNOWN_ANSWERS}[scalar-",
    ),
    differs_a07=(f"{KNOWN_ANSWERS}[deposit-",),
    differs_a08=("stages/protocol/test_l1_info.py::test_info_round_trips",),
    differs_a09=tuple(
        f"stages/protocol/test_consolidation.py::{test}"
        for test in ("test_rules_by_fork", "test_mismatches_are_found_in_order", "test_equal_blocks_match")
    ),
    differs_a10=(
        "stages/protocol/test_attributes.py::test_the_first_block_of_an_epoch",
        "stages/protocol/test_engine_json.py::test_the_json_of_full_attributes",
    ),
    differs_a11=(
        "stages/protocol/test_upgrade_transactions.py::test_a_chosen_bundle_takes_the_place_of_the_package",
        *(f"{KNOWN_ANSWERS}[{vector}" for vector in ("upgrade-table", "act-lagoon-", "invalidated-block-deposit")),
    ),
    differs_a13=("stages/protocol/test_l1_chains.py::test_pectra_correction_holds_cancun_until_its_time",),
    differs_a14=(
        "stages/protocol/test_headers.py::test_a_header_ends_at_its_last_field",
        f"{KNOWN_ANSWERS}[header-l1-amsterdam",
    ),
)


@case("differs_d20")
def delta_and_an_overlapping_span() -> None:
    """The span starts with epoch 0, before Delta; the safe head is of epoch 1, at Delta."""
    checks = BatchCheckHarness(forks_until("canyon", delta=12), safe=6, first=1, last=2)
    assert checks.safe.l1_origin.number == FIRST_L1 + 1
    blocks = plan(checks.block(3), 4)
    assert blocks[0].ref.l1_origin.number == FIRST_L1
    assert checks.span(span(blocks)) == ACCEPTED


@case("differs_a02")
def room_for_upgrade_transactions() -> None:
    """As later op-nodes: only in the activation block, for Karst unless the chain keeps it.

    Lagoon's wrappers always have room."""
    base = SYSTEM_CONFIG.gas_limit
    karst, lagoon = forks_until("jovian", karst=4), forks_until("karst", lagoon=4)
    for forks, gas, changes, kept in (
        (karst, KARST_GAS, {}, 0),
        (karst, KARST_GAS, {"keep_karst_upgrade_gas": True}, KARST_GAS),
        (lagoon, LAGOON_GAS, {"keep_karst_upgrade_gas": True}, 0),
        (lagoon, LAGOON_GAS, {"dependency_set_size": 2}, 0),
    ):
        limits = [item.gas_limit for item in derived(RollupChain(forks, **changes))]
        assert limits == [base, base + gas, base + kept, base + kept]


@case("differs_a03")
def parameters_in_the_activation_block_of_holocene() -> None:
    """An event in the L1 origin of that very block counts, and stays in force."""
    holocene = l1_time(FIRST_L1 + 1) - l1_time(FIRST_L1)
    chain = RollupChain(forks_until("granite", holocene=holocene))
    chain.mine(updates=[PARAMS_EVENT])
    result = derived(chain, 8)
    assert [item.eip1559_params for item in result] == [None] * 5 + [PARAMS] * 3
    chain = RollupChain(forks_until("granite", holocene=holocene + 2))
    chain.mine(updates=[PARAMS_EVENT])
    assert [item.eip1559_params for item in derived(chain, 8)][6:] == [bytes(8), bytes.fromhex("000000fa00000006")]


@case("differs_a12")
def forks_stand_alone_and_in_order() -> None:
    """A later fork does not bring an earlier one with it.

    The order is checked to the last fork, as later op-nodes do."""
    schedule = ForkSchedule({"ecotone": 0}, 2, 300, 600)
    assert schedule.l2(10).beacon_root and not schedule.l2(10).withdrawals
    assert not schedule.l1(10).span_batches
    times = {name: 5 for name in forks_until("isthmus") if name != "bedrock"}
    assert fork_order_error(times, 0) is None
    assert fork_order_error({**times, "karst": 9}, 0) is not None
    assert fork_order_error({**times, "jovian": 5}, 0) is not None
    assert fork_order_error({**times, "jovian": 9, "karst": 8}, 0) is not None
    assert fork_order_error({**times, "jovian": 9, "karst": 9}, 0) is not None
    assert fork_order_error({**times, "jovian": 9, "karst": 9}, 9) is None


def with_transactions(*transactions: bytes) -> tuple[PayloadAttributes, AttributesHandler]:
    """Return the attributes of a first block with these transactions, and a handler whose job they are."""
    chain = RollupChain(forks_until("holocene"))
    chain.mine(*channel("A", plan(GENESIS, 1, transactions)[0].singular))
    output = chain.run()[0].output
    assert output is not None
    return output.attributes, handler_with(chain.config, GENESIS, output)


def build(handler: AttributesHandler, attributes: PayloadAttributes) -> None:
    """Let the engine begin and seal a block of these attributes."""
    for answer in (BUILD, sealed(rollup(forks_until("holocene")), GENESIS.id, attributes, ())):
        assert step_through(handler, answer) is None


@case("differs_a15")
def deposits_refused_by_new_payload() -> None:
    """The node follows the specs: op-node would request the same block for ever."""
    attributes, handler = with_transactions()
    build(handler, attributes)
    with pytest.raises(CriticalError, match="only deposit transactions"):
        step_through(handler, PayloadAnswer("INVALID"))


@case("differs_a16")
def transactions_that_the_engine_leaves_out_or_cannot_read() -> None:
    """The node follows the specs: op-node would take the block without them, or request it for ever."""
    for raw in (USER, b"\x02\xc0"):
        attributes, handler = with_transactions(raw)
        assert attributes.transactions[-1] == raw
        deposits = deposits_only(attributes)
        assert handler.check() is None
        if raw == USER:
            build(handler, deposits)
        assert asked(handler) == deposits
