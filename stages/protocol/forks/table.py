"""THE FORK TABLE: what each fork changes, by clock. Nothing outside this package names a fork in a condition."""

from collections.abc import Mapping
from typing import Any

import msgspec

from rollup_node.stages.protocol.forks.rules import Activation, L1InfoFormat


class Fork(msgspec.Struct, frozen=True):
    """One fork: its changes to the rules of each clock, and what happens in its activation block.

    `l1_info` is kept apart: the activation block itself still uses the older layout (attributes-rules 2.2)."""

    name: str
    l1: Mapping[str, Any] = {}
    epoch: Mapping[str, Any] = {}
    l2: Mapping[str, Any] = {}
    l1_info: L1InfoFormat | None = None
    activation: Activation | None = None


def _activation(fork: str, **values: Any) -> Activation:
    return Activation(fork=fork, **values)


FORKS: tuple[Fork, ...] = (
    Fork("bedrock"),
    Fork("regolith", l2={"system_deposits": False}),
    Fork(
        "canyon",
        l1={"read_any_ready_channel": True},
        l2={"withdrawals": True, "attributes_version": 2, "block_topic_version": 2},
    ),
    Fork("delta", l1={"span_batches": True}, epoch={"span_batches": True}),
    Fork(
        "ecotone",
        l1={"blobs_as_data": True, "packed_fee_scalars": True},
        l2={
            "beacon_root": True,
            "attributes_version": 3,
            "new_payload_version": 3,
            "get_payload_version": 3,
            "block_topic_version": 3,
        },
        l1_info=L1InfoFormat.ECOTONE,
        activation=_activation("ecotone", bundle="ecotone", sequencer_leaves_empty=True),
    ),
    Fork(
        "fjord",
        l1={
            "max_channel_bank_size": 1_000_000_000,
            "max_rlp_bytes_per_channel": 100_000_000,
            "brotli": True,
        },
        epoch={"max_sequencer_drift": 1800},
        activation=_activation("fjord", bundle="fjord", sequencer_leaves_empty=True),
    ),
    Fork("granite", l1={"channel_timeout": 50}),
    Fork(
        "holocene",
        l1={
            "contiguous_frames": True,
            "channel_stage": "assembler",
            "batch_stage": "stage",
            "strict_batch_times": True,
            "replace_invalid_payloads": True,
        },
        l2={"eip1559_params": True},
    ),
    Fork(
        "isthmus",
        l2={
            "operator_fee": True,
            "withdrawals_root": True,
            "set_code_transactions": True,
            "new_payload_version": 4,
            "get_payload_version": 4,
            "block_topic_version": 4,
        },
        l1_info=L1InfoFormat.ISTHMUS,
        activation=_activation("isthmus", bundle="isthmus", sequencer_leaves_empty=True),
    ),
    Fork(
        "jovian",
        l2={"min_base_fee": True, "da_footprint": True},
        l1_info=L1InfoFormat.JOVIAN,
        activation=_activation("jovian", bundle="jovian", sequencer_leaves_empty=True, user_transactions_refused=True),
    ),
    Fork(
        "karst",
        l2={"get_payload_version": 5},
        activation=_activation(
            "karst",
            bundle="karst",
            extra_gas=True,
            extra_gas_may_be_kept=True,
            sequencer_leaves_empty=True,
            user_transactions_refused=True,
        ),
    ),
    Fork(
        "lagoon",
        l2={"post_exec_transactions": True},
        activation=_activation(
            "lagoon",
            bundle="lagoon",
            extra_gas=True,
            sequencer_leaves_empty=True,
            user_transactions_refused=True,
        ),
    ),
)

FORK_NAMES: tuple[str, ...] = tuple(fork.name for fork in FORKS)
OPTIONAL_FORK = "pectrablobschedule"
