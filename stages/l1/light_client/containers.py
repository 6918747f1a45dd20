"""Light client objects in one form for all forks, that of Gloas, to which older ones are upgraded [LCP4]."""

from collections.abc import Iterator
from functools import cached_property

import msgspec

from rollup_node.stages.l1.light_client.network import BeaconNetwork
from rollup_node.stages.l1.light_client.ssz import (
    ZERO_ROOT,
    Root,
    byte_list_root,
    bytes_root,
    hash_pair,
    is_empty_branch,
    is_valid_branch,
    merkle_root,
    uint64_root,
)
from rollup_node.stages.protocol.types import Hash

Branch = tuple[Root, ...]

BLOCK_HASH_FIELD = 12
"""Place of the block hash in an execution payload header."""


class BeaconBlockHeader(msgspec.Struct, frozen=True):
    """The header of a beacon block; its root is the block's."""

    slot: int
    proposer_index: int
    parent_root: Root
    state_root: Root
    body_root: Root

    @property
    def root(self) -> Root:
        """The block root."""
        numbers = (uint64_root(self.slot), uint64_root(self.proposer_index))
        return merkle_root([*numbers, self.parent_root, self.state_root, self.body_root])


class ExecutionPayloadHeader(msgspec.Struct, frozen=True):
    """The header of an execution payload before Gloas; Capella's has no blob gas (None)."""

    parent_hash: Hash
    fee_recipient: bytes
    state_root: Hash
    receipts_root: Hash
    logs_bloom: bytes
    prev_randao: bytes
    block_number: int
    gas_limit: int
    gas_used: int
    timestamp: int
    extra_data: bytes
    base_fee_per_gas: int
    block_hash: Hash
    transactions_root: Root
    withdrawals_root: Root
    blob_gas_used: int | None = None
    excess_blob_gas: int | None = None

    @property
    def root(self) -> Root:
        """The root, which is that of the payload."""
        return merkle_root([*self._leaves()])

    @property
    def block_hash_branch(self) -> Branch:
        """The branch of the block hash up to the root of this header."""
        nodes, index, zero, branch = [*self._leaves()], BLOCK_HASH_FIELD, ZERO_ROOT, []
        while len(nodes) > 1:
            nodes += [zero] * (len(nodes) % 2)
            branch.append(nodes[index ^ 1])
            nodes = [hash_pair(nodes[i], nodes[i + 1]) for i in range(0, len(nodes), 2)]
            index, zero = index // 2, hash_pair(zero, zero)
        return tuple(branch)

    def _leaves(self) -> Iterator[Root]:
        """Yield the roots of its fields."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int):
                yield uint64_root(value)
            elif value is not None:
                yield byte_list_root(value) if name == "extra_data" else bytes_root(value)


class LightClientHeader(msgspec.Struct, frozen=True):
    """A beacon header with the execution block hash that its body has; zeros and no branch before Capella.

    From Gloas on it is the hash of the block that the beacon block builds on [LCP4]."""

    beacon: BeaconBlockHeader
    execution_block_hash: Hash = ZERO_ROOT
    execution_branch: Branch = ()

    def is_valid(self, network: BeaconNetwork) -> bool:
        """Whether the branch proves the hash."""
        index = network.fork_at(self.beacon.slot).indices.block_hash
        if index == 0:
            return self.execution_block_hash == ZERO_ROOT and is_empty_branch(self.execution_branch)
        return is_valid_branch(self.execution_block_hash, self.execution_branch, index, self.beacon.body_root)


class SyncCommittee(msgspec.Struct, frozen=True, dict=True):
    """Compressed public keys of 48 bytes, which may repeat, and their sum."""

    pubkeys: tuple[bytes, ...]
    aggregate_pubkey: bytes

    @cached_property
    def root(self) -> Root:
        """The root in a beacon state."""
        return hash_pair(merkle_root([bytes_root(key) for key in self.pubkeys]), bytes_root(self.aggregate_pubkey))


class SyncAggregate(msgspec.Struct, frozen=True):
    """The participation of each member, and the sum of their signatures (96 bytes)."""

    bits: tuple[bool, ...]
    signature: bytes

    @property
    def participants(self) -> int:
        """How many members have signed."""
        return sum(self.bits)

    @property
    def has_supermajority(self) -> bool:
        """Whether at least two thirds of the members have signed."""
        return self.participants * 3 >= len(self.bits) * 2


class LightClientBootstrap(msgspec.Struct, frozen=True):
    """A header, and the sync committee of its period."""

    header: LightClientHeader
    current_sync_committee: SyncCommittee
    current_sync_committee_branch: Branch


class LightClientUpdate(msgspec.Struct, frozen=True):
    """A header that a sync committee has signed, with what its state proves: None for what the object does not have.

    Finality updates have no committee, and optimistic updates no finalized header either. A `finality_branch` without
    a finalized header proves that nothing is finalized but genesis."""

    attested_header: LightClientHeader
    sync_aggregate: SyncAggregate
    signature_slot: int
    finalized_header: LightClientHeader | None = None
    finality_branch: Branch = ()
    next_sync_committee: SyncCommittee | None = None
    next_sync_committee_branch: Branch = ()

    @property
    def has_finality(self) -> bool:
        """Whether it proves a finalized header."""
        return not is_empty_branch(self.finality_branch)

    @property
    def has_committee(self) -> bool:
        """Whether it proves the next sync committee."""
        return not is_empty_branch(self.next_sync_committee_branch)

    @property
    def finalized_slot(self) -> int:
        """Slot of the finalized header, 0 for none."""
        return 0 if self.finalized_header is None else self.finalized_header.beacon.slot


def upgraded(beacon: BeaconBlockHeader, execution: ExecutionPayloadHeader, branch: Branch) -> LightClientHeader:
    """Return a header before Gloas, with the branch of its payload (index EXECUTION_PAYLOAD), in the form of Gloas."""
    return LightClientHeader(beacon, execution.block_hash, execution.block_hash_branch + branch)
