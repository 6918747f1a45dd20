"""The fork table applied to activation times."""

import itertools

import pytest

from rollup_node.stages.protocol.forks.rules import (
    EpochRules,
    L1InfoFormat,
    L1Rules,
    L2Rules,
)
from rollup_node.stages.protocol.forks.schedule import ForkSchedule, fork_order_error
from rollup_node.stages.protocol.forks.table import FORK_NAMES


def schedule(times: dict[str, int], block_time: int = 2) -> ForkSchedule:
    return ForkSchedule(times, block_time, 300, 600)


def test_without_forks_only_the_given_values_count() -> None:
    plain = ForkSchedule({}, 2, 123, 456)
    assert plain.l1(2**63) == L1Rules(channel_timeout=123)
    assert plain.epoch(2**63) == EpochRules(max_sequencer_drift=456)
    assert plain.l2(2**63) == L2Rules()
    assert plain.activating(5) == ()
    assert plain.l1_info_format(5) is L1InfoFormat.BEDROCK


def test_all_rules_of_the_newest_fork() -> None:
    full = schedule({name: 0 for name in FORK_NAMES})
    assert full.l1(9) == L1Rules(
        blobs_as_data=True,
        channel_timeout=50,
        max_channel_bank_size=1_000_000_000,
        max_rlp_bytes_per_channel=100_000_000,
        brotli=True,
        read_any_ready_channel=True,
        span_batches=True,
        contiguous_frames=True,
        batch_stage=True,
        strict_batch_times=True,
        replace_invalid_payloads=True,
        packed_fee_scalars=True,
    )
    assert full.epoch(9) == EpochRules(max_sequencer_drift=1800, span_batches=True)
    rules = full.l2(9)
    assert all(value for value in (rules.withdrawals, rules.beacon_root, rules.withdrawals_root, rules.min_base_fee))
    assert (rules.attributes_version, rules.new_payload_version, rules.get_payload_version) == (3, 4, 5)


@pytest.mark.parametrize(
    ("fork", "attributes", "new_payload", "get_payload", "topic"),
    [
        ("bedrock", 1, 2, 2, 1),
        ("regolith", 1, 2, 2, 1),
        ("canyon", 2, 2, 2, 2),
        ("delta", 2, 2, 2, 2),
        ("ecotone", 3, 3, 3, 3),
        ("granite", 3, 3, 3, 3),
        ("holocene", 3, 3, 3, 3),
        ("isthmus", 3, 4, 4, 4),
        ("jovian", 3, 4, 4, 4),
        ("karst", 3, 4, 5, 4),
        ("lagoon", 3, 4, 5, 4),
    ],
)
def test_engine_and_gossip_versions(fork: str, attributes: int, new_payload: int, get_payload: int, topic: int) -> None:
    rules = schedule({name: 0 for name in FORK_NAMES[: FORK_NAMES.index(fork) + 1]}).l2(9)
    assert (rules.attributes_version, rules.new_payload_version) == (attributes, new_payload)
    assert (rules.get_payload_version, rules.block_topic_version) == (get_payload, topic)


def test_only_the_first_fork_crossed_switches_stages() -> None:
    """[PS3, PS4]"""
    both = schedule({"granite": 10, "holocene": 10, "isthmus": 20})
    assert not both.switches_stages(9, 10), "granite is crossed first"
    assert not both.switches_stages(10, 20)
    assert not both.switches_stages(0, 5)
    alone = schedule({"granite": 5, "holocene": 10, "isthmus": 20})
    assert [alone.switches_stages(old, new) for old, new in ((5, 9), (9, 10), (9, 30), (10, 30))] == [
        False,
        True,
        True,
        False,
    ]


def test_genesis_and_early_times_activate_nothing() -> None:
    assert schedule({"ecotone": 0}).activating(0) == schedule({"ecotone": 10}).activating(12) == ()
    assert schedule({"ecotone": 1}).activating(1) == (), "no block before it"
    assert [fork.name for fork in schedule({"ecotone": 1}).activating(2)] == ["ecotone"]


def test_the_forks_that_are_active_at_a_time() -> None:
    schedule = ForkSchedule({"regolith": 0, "canyon": 10, "ecotone": 10, "delta": 12}, 2, 300, 600)
    names = [[fork.name for fork in schedule.active(time)] for time in (9, 10, 12)]
    assert names == [["regolith"], ["regolith", "canyon", "ecotone"], ["regolith", "canyon", "delta", "ecotone"]]


GENESIS = 1_000
ALL_AT_GENESIS = {name: 0 for name in FORK_NAMES[1:]}


def test_all_forks_at_genesis_or_none() -> None:
    assert fork_order_error(ALL_AT_GENESIS, GENESIS) is None
    assert fork_order_error({}, GENESIS) is None


@pytest.mark.parametrize(("prior", "fork"), list(itertools.pairwise(FORK_NAMES[1:])))
def test_a_missing_or_later_prior_fork_is_named(prior: str, fork: str) -> None:
    times = {name: 7 for name in FORK_NAMES[1 : FORK_NAMES.index(prior)]} | {fork: 7}
    assert fork_order_error(times, GENESIS) == f"fork {fork} set (to 7), but prior fork {prior} missing"
    expected = f"fork {fork} set to 7, but prior fork {prior} has higher offset 8"
    assert fork_order_error(times | {prior: 8}, GENESIS) == expected
