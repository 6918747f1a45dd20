"""Which transactions and logs of L1 blocks a rollup has to do with."""

from functools import cache

import msgspec

from rollup_node.stages.protocol.blooms import bloom_mask, may_have
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.types import Address, Log


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """The L1 chain and the rollup's addresses on it."""

    chain_id: int
    inbox: Address
    deposit_contract: Address
    system_config: Address


def filter_of(rollup: RollupConfig) -> Filter:
    """The filter of a rollup."""
    return Filter(rollup.l1_chain_id, rollup.batch_inbox, rollup.deposit_contract, rollup.l1_system_config)


def bloom_excludes_logs(bloom: bytes, rules: Filter) -> bool:
    """Whether a header's bloom proves that its block has neither deposits nor config updates."""
    return not any(may_have(bloom, _mask(address), _mask(topic)) for address, topic in wanted_events(rules))


def wanted_events(rules: Filter) -> tuple[tuple[Address, bytes], ...]:
    """Address and first topic of the logs that matter (attributes-rules 1.3 and 3.2)."""
    return (rules.deposit_contract, DEPOSIT_TOPIC), (rules.system_config, CONFIG_UPDATE_TOPIC)


def split_logs(logs: tuple[Log, ...]) -> tuple[tuple[Log, ...], tuple[Log, ...]]:
    """(deposits, config updates) among wanted logs."""
    deposits = tuple(log for log in logs if log.topics[0] == DEPOSIT_TOPIC)
    return deposits, tuple(log for log in logs if log.topics[0] == CONFIG_UPDATE_TOPIC)


_mask = cache(bloom_mask)
