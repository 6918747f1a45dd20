"""The transactions and logs of L1 blocks that concern a rollup."""

from functools import cache

import msgspec

from rollup_node.stages.protocol.blooms import bloom_mask, may_have
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.types import Address, Log


class L1Filter(msgspec.Struct, frozen=True, array_like=True):
    """The L1 chain and the rollup's addresses on it."""

    chain_id: int
    inbox: Address
    deposit_contract: Address
    system_config: Address


def filter_of_rollup(rollup: RollupConfig) -> L1Filter:
    """The filter of a rollup's addresses."""
    return L1Filter(rollup.l1_chain_id, rollup.batch_inbox, rollup.deposit_contract, rollup.l1_system_config)


def bloom_excludes_logs(bloom: bytes, l1_filter: L1Filter) -> bool:
    """Whether a header's logs bloom proves that its block has neither deposits nor config updates."""
    return not any(may_have(bloom, _mask(address), _mask(topic)) for address, topic in wanted_events(l1_filter))


def wanted_events(l1_filter: L1Filter) -> tuple[tuple[Address, bytes], ...]:
    """Address and first topic of deposits and of config updates [DEP14, SYS8]."""
    return (l1_filter.deposit_contract, DEPOSIT_TOPIC), (l1_filter.system_config, CONFIG_UPDATE_TOPIC)


def split_logs(logs: tuple[Log, ...]) -> tuple[tuple[Log, ...], tuple[Log, ...]]:
    """(deposits, config updates) among wanted logs."""
    deposits = tuple(log for log in logs if log.topics[0] == DEPOSIT_TOPIC)
    return deposits, tuple(log for log in logs if log.topics[0] == CONFIG_UPDATE_TOPIC)


_mask = cache(bloom_mask)
