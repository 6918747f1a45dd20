"""THE FORK TABLE: what each fork changes, by clock. Nothing outside this package compares a fork's name.

A change is a function of the rules so far, so that mypy checks the names and types of what it replaces."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from rollup_node.stages.protocol.forks.rules import (
    Activation,
    EpochRules,
    L1InfoFormat,
    L1Rules,
    L2Rules,
)


@dataclass(frozen=True, slots=True)
class Fork:
    """One fork: its change to the rules of each clock (None: no change), and what its activation block does.

    `engine`: execution engines know it, by the member `<name>Time` of their chain config; `ethereum` is the fork of
    Ethereum that they activate together with it."""

    name: str
    l1: Callable[[L1Rules], L1Rules] | None = None
    epoch: Callable[[EpochRules], EpochRules] | None = None
    l2: Callable[[L2Rules], L2Rules] | None = None
    l1_info: L1InfoFormat | None = None  # apart from `l2`: the activation block still has the older layout [LIN4]
    activation: Activation | None = None
    engine: bool = True
    ethereum: str | None = None

    @property
    def switches_stages(self) -> bool:
        """Whether derivation replaces its channel and batch stage at this fork [PS3]."""
        return self.l1 is not None and self.l1(L1Rules()).batch_stage


FORKS: tuple[Fork, ...] = (
    Fork("bedrock"),
    Fork("regolith", l2=lambda rules: replace(rules, system_deposits=False)),
    Fork(
        "canyon",
        l1=lambda rules: replace(rules, read_any_ready_channel=True),
        l2=lambda rules: replace(rules, withdrawals=True, attributes_version=2, block_topic_version=2),
        ethereum="shanghai",
    ),
    Fork(
        "delta",
        l1=lambda rules: replace(rules, span_batches=True),
        epoch=lambda rules: replace(rules, span_batches=True),
        engine=False,
    ),
    Fork(
        "ecotone",
        l1=lambda rules: replace(rules, blobs_as_data=True, packed_fee_scalars=True),
        l2=lambda rules: replace(
            rules,
            beacon_root=True,
            attributes_version=3,
            new_payload_version=3,
            get_payload_version=3,
            block_topic_version=3,
        ),
        l1_info=L1InfoFormat.ECOTONE,
        activation=Activation("ecotone", bundle="ecotone", sequencer_no_tx_pool=True),
        ethereum="cancun",
    ),
    Fork(
        "fjord",
        l1=lambda rules: replace(
            rules, max_channel_bank_size=1_000_000_000, max_rlp_bytes_per_channel=100_000_000, brotli=True
        ),
        epoch=lambda rules: replace(rules, max_sequencer_drift=1800),
        activation=Activation("fjord", bundle="fjord", sequencer_no_tx_pool=True),
    ),
    Fork("granite", l1=lambda rules: replace(rules, channel_timeout=50)),
    Fork(
        "holocene",
        l1=lambda rules: replace(
            rules,
            contiguous_frames=True,
            batch_stage=True,
            strict_batch_times=True,
            replace_invalid_payloads=True,
        ),
        l2=lambda rules: replace(rules, eip1559_params=True),
    ),
    Fork(
        "isthmus",
        l2=lambda rules: replace(
            rules,
            withdrawals_root=True,
            set_code_transactions=True,
            new_payload_version=4,
            get_payload_version=4,
            block_topic_version=4,
        ),
        l1_info=L1InfoFormat.ISTHMUS,
        activation=Activation("isthmus", bundle="isthmus", sequencer_no_tx_pool=True),
        ethereum="prague",
    ),
    Fork(
        "jovian",
        l2=lambda rules: replace(rules, min_base_fee=True, da_footprint=True),
        l1_info=L1InfoFormat.JOVIAN,
        activation=Activation("jovian", bundle="jovian", sequencer_no_tx_pool=True, user_transactions_refused=True),
    ),
    Fork(
        "karst",
        l2=lambda rules: replace(rules, get_payload_version=5),
        activation=Activation(
            "karst",
            bundle="karst",
            extra_gas=True,
            extra_gas_may_be_kept=True,
            sequencer_no_tx_pool=True,
            user_transactions_refused=True,
        ),
        ethereum="osaka",
    ),
    Fork(
        "lagoon",
        l2=lambda rules: replace(rules, post_exec_transactions=True),
        activation=Activation(
            "lagoon",
            bundle="lagoon",
            wrapped_if_linked=True,
            extra_gas=True,
            sequencer_no_tx_pool=True,
            user_transactions_refused=True,
        ),
    ),
)
"""In the order of activation [CST9]."""

FORK_NAMES: tuple[str, ...] = tuple(fork.name for fork in FORKS)

TIMED_FORKS = FORK_NAMES[1:]
"""Forks with a time in rollup.json: Bedrock is active from genesis on."""

ENGINE_FORKS: tuple[Fork, ...] = (Fork("azul", l2=lambda rules: replace(rules, get_payload_version=5)),)
"""Forks of networks that left the OP Stack, which change the methods of the engine and no rule of derivation [LFT10].
They are outside the order: no rollup.json and no option sets their times."""

OPTIONAL_FORK = "pectrablobschedule"
"""Outside the order: it acts until its time, on the L1 blob base fee alone [LIN26]."""

OVERRIDABLE = (*TIMED_FORKS[1:], OPTIONAL_FORK)
"""Forks whose time an option can set: op-node has no option for Regolith."""


class AttributesField(NamedTuple):
    """The names that engines have for a field, in lower case, and the rule of a block's time that adds it."""

    names: tuple[str, ...]
    rule: str


FIELDS = (
    AttributesField(("minbasefee", "min base fee", "minimum base fee"), "min_base_fee"),
    AttributesField(("eip1559params", "eip1559 params", "eip-1559 params"), "eip1559_params"),
    AttributesField(("parentbeaconblockroot", "beacon root", "beacon block root"), "beacon_root"),
    AttributesField(("withdrawals",), "withdrawals"),
)
_MISSING = (
    "missing",
    "required",
    "must be set",
    "must not be n",
    "not set",
    "lacks",
    "not provided",
    "is nil",
    "is null",
    "got 0",
    "no parent",
    "no withdrawals",
)
_UNWANTED = (
    "before",
    "prior to",
    "unexpected",
    "not supported",
    "unsupported",
    "not allowed",
    "must be nil",
    "not active",
)


def disputed_fork(text: str, rules: L2Rules) -> str | None:
    """Return the fork that an engine and this node do not have alike, by the engine's refusal of attributes.

    It misses the field of a fork that is not active here, or refuses that of one that is; `rules` are those of the
    attributes. None if the text says nothing of that kind."""
    words = text.lower()
    for field in FIELDS:
        reasons = _UNWANTED if getattr(rules, field.rule) else _MISSING
        if any(name in words for name in field.names) and any(reason in words for reason in reasons):
            return next(fork.name for fork in FORKS if fork.l2 is not None and getattr(fork.l2(L2Rules()), field.rule))
    return None
