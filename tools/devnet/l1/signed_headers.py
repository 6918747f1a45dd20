"""The beacon chain over the embedded L1 as light clients see it: headers with provable states, signed by committees.

States and block bodies have what light clients prove, at its place, and zeros elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise, takewhile
from typing import NamedTuple

from msgspec.structs import replace
from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from rollup_node.stages.l1.light_client.containers import (
    BeaconBlockHeader,
    Branch,
    ExecutionPayloadHeader,
    LightClientBootstrap,
    LightClientHeader,
    LightClientUpdate,
    SyncAggregate,
    SyncCommittee,
    upgraded,
)
from rollup_node.stages.l1.light_client.network import (
    EXECUTION_PAYLOAD,
    INDICES,
    BeaconFork,
    BeaconNetwork,
    Preset,
)
from rollup_node.stages.l1.light_client.ssz import ZERO_ROOT, Root, compute_signing_root, hash_pair
from rollup_node.stages.l1.light_client.store import DST
from rollup_node.stages.protocol.types import ZERO_HASH, Hash
from rollup_node.tools.devnet.chain.blocks import Block, BlockChain
from rollup_node.tools.devnet.l1.beacon import CONSENSUS_FORKS, Json, bootstrap_json, header_json, update_json

DEVELOPMENT = Preset(sync_committee_size=32, slots_per_epoch=4, epochs_per_period=16)
"""With a new committee every 64 slots."""
BID_BLOCK_HASH = 22_857
"""Generalized index of `signed_execution_payload_bid.message.block_hash` in a block body of Gloas."""


def prove(leaves: Mapping[int, Root]) -> tuple[Root, dict[int, Branch]]:
    """Return the root of a tree with these nodes by generalized index, zeros elsewhere, and the branch of each."""
    nodes = dict(leaves)
    for level in range(max(leaves).bit_length() - 1, 0, -1):
        for index in [index for index in nodes if index.bit_length() - 1 == level]:
            left = index & ~1
            nodes[index // 2] = hash_pair(nodes.get(left, ZERO_ROOT), nodes.get(left + 1, ZERO_ROOT))
    return nodes[1], {leaf: _branch(nodes, leaf) for leaf in leaves}


def _branch(nodes: Mapping[int, Root], index: int) -> Branch:
    result = []
    while index > 1:
        result.append(nodes.get(index ^ 1, ZERO_ROOT))
        index //= 2
    return tuple(result)


class CommitteeKeys:
    """The secret keys of a sync committee of `size` members, made from a seed: for local networks and tests alone."""

    def __init__(self, seed: bytes, size: int) -> None:
        digests = [sha256(seed + index.to_bytes(4, "big")).digest() for index in range(size)]
        self._secrets = [int.from_bytes(digest, "big") >> 2 for digest in digests]
        points = [G1Point() * _scalar(secret) for secret in self._secrets]
        keys = tuple(bytes(point.to_compressed_bytes()) for point in points)
        self.committee = SyncCommittee(keys, bytes(sum(points[1:], points[0]).to_compressed_bytes()))

    def sign(self, signing_root: Root, bits: Sequence[bool] | None = None) -> SyncAggregate:
        """Return the aggregate of the members with a bit, of all without `bits`; their one key is the sum of theirs."""
        chosen = tuple(bits) if bits is not None else (True,) * len(self._secrets)
        secret = sum(item for item, bit in zip(self._secrets, chosen, strict=True) if bit)
        signature = G2Point.hash_to_curve(signing_root, DST) * _scalar(secret)
        return SyncAggregate(chosen, bytes(signature.to_compressed_bytes()))


def _scalar(secret: int) -> Scalar:
    order = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
    return Scalar.from_be_bytes((secret % order).to_bytes(32, "big"))


def beacon_network(config: Mapping[str, object], genesis_time: int, slot_seconds: int, preset: Preset) -> BeaconNetwork:
    """Return the beacon chain of an L1 with this genesis `config`.

    A fork that activates within an epoch is one of the next epoch there."""
    genesis_root = committee_keys(0, preset.sync_committee_size).committee.root
    times = {rules.name: config.get(f"{name}Time") for name, rules in CONSENSUS_FORKS.items()}
    forks = [BeaconFork("genesis", _version(0), 0)]
    for number, name in enumerate(INDICES, start=1):
        time = times.get(name, 0)
        if isinstance(time, int):
            epoch = -(max(0, time - genesis_time) // -(slot_seconds * preset.slots_per_epoch))
            forks.append(BeaconFork(name, _version(number), epoch))
    return BeaconNetwork("devnet", genesis_root, genesis_time, tuple(forks), preset, 1000 * slot_seconds)


def _version(fork: int) -> bytes:
    return bytes((fork, 0, 9, 0))


class BeaconRecord(NamedTuple):
    """The beacon block of an execution block, with the branches of its state by generalized index.

    `as_json` is its header in the form of its fork; `finalized` is the block that is final in its state."""

    light: LightClientHeader
    branches: Mapping[int, Branch]
    as_json: Json
    finalized: Block


class SignedHeaders:
    """The beacon blocks of `chain`, of which the one `finalized_distance` below a block is final in its state.

    Each is signed in the next block, by the first `signers` members of the committee, or by all."""

    def __init__(
        self, network: BeaconNetwork, chain: BlockChain, finalized_distance: int, signers: int | None = None
    ) -> None:
        self.network = network
        self._chain, self._finalized_distance = chain, finalized_distance
        size = network.preset.sync_committee_size
        self._bits = [place < (size if signers is None else signers) for place in range(size)]
        self._records: dict[Hash, BeaconRecord] = {}
        self._by_root: dict[Root, Block] = {}
        self.record(chain.genesis)

    def record(self, block: Block) -> BeaconRecord:
        """Return the beacon block of a block, which is made once."""
        result = self._records.get(block.hash)
        if result is None:
            result = self._records[block.hash] = self._make(block)
            self._by_root[result.light.beacon.root] = block
        return result

    def root(self, block: Block) -> Root:
        """Return the root of the beacon block of a block."""
        return self.record(block).light.beacon.root

    def block(self, root: Root) -> Block | None:
        """Return the execution block of a beacon block by its root, if it is canonical."""
        block = self._by_root.get(root)
        return block if block is not None and self._chain.is_canonical(block) else None

    def bootstrap(self, root: Root) -> Json | None:
        """Return what a light client starts from; None for a block that is unknown or not finalized."""
        block = self.block(root)
        if block is None or block.number > self._chain.finalized.number:
            return None
        record = self.record(block)
        slot = record.light.beacon.slot
        fork = self.network.fork_at(slot)
        committee = self._keys(self.network.period_of(slot)).committee
        branch = record.branches[fork.indices.current_sync_committee]
        return bootstrap_json(LightClientBootstrap(record.light, committee, branch), record.as_json, fork.name)

    def updates(self, start: int, count: int) -> list[Json]:
        """Return the best update of each period of the range that has one, up to the first that has none."""
        updates = takewhile(bool, (self._best_update(period) for period in range(start, start + count)))
        return [update for update in updates if update is not None]

    def newest_update(self, with_finality: bool) -> Json | None:
        """Return the update of the block before the head; None at genesis, and before a block is finalized."""
        head = self._chain.head
        if head.number == self._chain.genesis.number:
            return None
        return self._signed(self._chain.parent(head), head, with_finality, with_committee=False)

    def _best_update(self, period: int) -> Json | None:
        """Return the first update of a period that finalizes a block of the period, or else any block."""
        blocks = [block for block in self._canonical() if self._period(block) == period]
        pairs = [(a, b) for a, b in pairwise(blocks) if self.record(a).finalized.number > self._chain.genesis.number]
        if not pairs:
            return None
        best = max(pairs, key=lambda pair: self._period(self.record(pair[0]).finalized) == period)
        return self._signed(*best, with_finality=True, with_committee=True)

    def _signed(self, attested: Block, signer: Block, with_finality: bool, with_committee: bool) -> Json | None:
        """Return the update of a block that is signed in its child `signer`; None if its finality is unknown."""
        network, record = self.network, self.record(attested)
        final = self.record(record.finalized) if with_finality else None
        if final is not None and record.finalized.number == self._chain.genesis.number:
            return None
        slot, fork = self._slot(signer), network.fork_at(record.light.beacon.slot)
        message = compute_signing_root(record.light.beacon.root, network.signature_domain(slot))
        update = LightClientUpdate(
            attested_header=record.light,
            sync_aggregate=self._keys(network.period_of(slot)).sign(message, self._bits),
            signature_slot=slot,
            finalized_header=final and final.light,
            finality_branch=record.branches[fork.indices.finalized_root],
            next_sync_committee=self._keys(self._period(attested) + 1).committee if with_committee else None,
            next_sync_committee_branch=record.branches[fork.indices.next_sync_committee],
        )
        finalized = None if final is None else final.as_json
        if final is not None and fork.name == "gloas":
            finalized = header_json(final.light)
        return update_json(update, record.as_json, finalized, fork.name)

    def _canonical(self) -> Iterator[Block]:
        for number in range(self._chain.genesis.number, self._chain.head.number + 1):
            block = self._chain.at(number)
            assert block is not None
            yield block

    def _slot(self, block: Block) -> int:
        return self.network.slot_at(block.header.timestamp)

    def _period(self, block: Block) -> int:
        return self.network.period_of(self._slot(block))

    def _keys(self, period: int) -> CommitteeKeys:
        return committee_keys(period, self.network.preset.sync_committee_size)

    def _make(self, block: Block) -> BeaconRecord:
        chain, genesis = self._chain, self._chain.genesis
        fork, period = self.network.fork_at(self._slot(block)), self._period(block)
        finalized = chain.ancestor(block, max(genesis.number, block.number - self._finalized_distance))
        leaves = {
            fork.indices.finalized_root: ZERO_ROOT if finalized.number == genesis.number else self.root(finalized),
            fork.indices.current_sync_committee: self._keys(period).committee.root,
            fork.indices.next_sync_committee: self._keys(period + 1).committee.root,
        }
        state_root, branches = prove(leaves)
        parent_root = ZERO_ROOT if block.number == genesis.number else self.root(chain.parent(block))
        header = BeaconBlockHeader(self._slot(block), 0, parent_root, state_root, ZERO_ROOT)
        if fork.name == "gloas":
            parent_hash = block.header.parent_hash
            body_root, body = prove({fork.indices.block_hash: parent_hash, BID_BLOCK_HASH: block.hash})
            header = replace(header, body_root=body_root)
            light = LightClientHeader(header, parent_hash, body[fork.indices.block_hash])
            return BeaconRecord(light, branches, header_json(light), finalized)
        payload = _payload_header(block)
        body_root, body = prove({EXECUTION_PAYLOAD: payload.root})
        header = replace(header, body_root=body_root)
        light = upgraded(header, payload, body[EXECUTION_PAYLOAD])
        return BeaconRecord(light, branches, header_json(light, payload, body[EXECUTION_PAYLOAD]), finalized)


@lru_cache(maxsize=8)
def committee_keys(period: int, size: int) -> CommitteeKeys:
    """Return the keys of the committee of a period, which anybody can compute. 512 take 90 ms."""
    return CommitteeKeys(b"development period %d" % period, size)


def _payload_header(block: Block) -> ExecutionPayloadHeader:
    """Return the header of an execution payload, with the roots of transactions and withdrawals that its block has."""
    header = block.header
    return ExecutionPayloadHeader(
        parent_hash=header.parent_hash,
        fee_recipient=header.miner,
        state_root=header.state_root,
        receipts_root=header.receipts_root,
        logs_bloom=header.logs_bloom,
        prev_randao=header.mix_hash,
        block_number=header.number,
        gas_limit=header.gas_limit,
        gas_used=header.gas_used,
        timestamp=header.timestamp,
        extra_data=header.extra_data,
        base_fee_per_gas=header.base_fee or 0,
        block_hash=block.hash,
        transactions_root=header.transactions_root,
        withdrawals_root=header.withdrawals_root or ZERO_HASH,
        blob_gas_used=header.blob_gas_used,
        excess_blob_gas=header.excess_blob_gas,
    )
