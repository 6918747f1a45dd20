"""The transactions and logs of L1 blocks that concern the rollups of a node."""

from collections.abc import Iterable
from functools import cache

import msgspec

from rollup_node.stages.protocol.commitments import CHALLENGE_TOPIC
from rollup_node.stages.protocol.config import KECCAK_COMMITMENT, RollupConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.stages.protocol.receipts import bloom_mask, may_have
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.types import Address, Log


class L1Filter(msgspec.Struct, frozen=True, array_like=True):
    """The L1 chain and a rollup's addresses on it.

    `challenge_contract` is that of Alt-DA in keccak mode, else None [ADA5, ADA10]. With `inbox_hashes` inbox
    transactions have their hashes."""

    chain_id: int
    inbox: Address
    deposit_contract: Address
    system_config: Address
    challenge_contract: Address | None = None
    inbox_hashes: bool = False


def filter_of_rollup(rollup: RollupConfig, inbox_hashes: bool = False) -> L1Filter:
    alt_da = rollup.alt_da
    contract = alt_da.challenge_contract if alt_da and alt_da.commitment_type == KECCAK_COMMITMENT else None
    return L1Filter(
        rollup.l1_chain_id, rollup.batch_inbox, rollup.deposit_contract, rollup.l1_system_config, contract, inbox_hashes
    )


def bloom_excludes_logs(bloom: bytes, l1_filters: Iterable[L1Filter]) -> bool:
    """Whether a header's logs bloom proves that its block has no logs that are wanted."""
    return not any(may_have(bloom, _mask(address), _mask(topic)) for address, topic in wanted_events(l1_filters))


def bloom_excludes_challenges(bloom: bytes, l1_filters: Iterable[L1Filter]) -> bool:
    """Whether a header's logs bloom proves that no challenge changes in its block."""
    contracts = (l1_filter.challenge_contract for l1_filter in l1_filters)
    return not any(c is not None and may_have(bloom, _mask(c), _mask(CHALLENGE_TOPIC)) for c in contracts)


def wanted_events(l1_filters: Iterable[L1Filter]) -> tuple[tuple[Address, bytes], ...]:
    """Return address and first topic of deposits, config updates and, if any, challenges [DEP14, SYS8, ADA5]."""
    return tuple(event for l1_filter in l1_filters for event in _events(l1_filter) if event is not None)


def split_logs(logs: Iterable[Log], l1_filter: L1Filter) -> tuple[tuple[Log, ...], ...]:
    """(deposits, config updates, challenges) of a rollup among the logs that are wanted for all."""
    return tuple(tuple(log for log in logs if (log.address, log.topics[0]) == event) for event in _events(l1_filter))


def _events(l1_filter: L1Filter) -> tuple[tuple[Address, bytes] | None, ...]:
    contract = l1_filter.challenge_contract
    return (
        (l1_filter.deposit_contract, DEPOSIT_TOPIC),
        (l1_filter.system_config, CONFIG_UPDATE_TOPIC),
        None if contract is None else (contract, CHALLENGE_TOPIC),
    )


_mask = cache(bloom_mask)
