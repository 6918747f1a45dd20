"""The embedded L1's chain: genesis, a block per slot from the pool, labels, blobs, and reorgs on request."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rollup_node.stages.l1.light_client.network import Preset
from rollup_node.stages.protocol.headers import EMPTY_REQUESTS_HASH, header_hash
from rollup_node.stages.protocol.hex_encoding import from_quantity
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, Hash
from rollup_node.tools.devnet.chain.blocks import Block, BlockChain
from rollup_node.tools.devnet.chain.transaction_pool import TransactionPool
from rollup_node.tools.devnet.engine.genesis import genesis_header
from rollup_node.tools.devnet.evm.access_list import EMPTY_ACCESS_LIST_HASH, RecordingState
from rollup_node.tools.devnet.evm.call_frame import BlockContext
from rollup_node.tools.devnet.evm.forks import l1_rules
from rollup_node.tools.devnet.evm.rules import (
    L1_DENOMINATOR,
    L1_ELASTICITY,
    EvmRules,
    blob_fee,
    next_base_fee,
    next_excess_blob_gas,
)
from rollup_node.tools.devnet.evm.state import State, StateDatabase, load_alloc
from rollup_node.tools.devnet.evm.transition import (
    BEACON_ROOTS,
    BLOCK_HASHES,
    BlockExecution,
    burn_base_fee,
)
from rollup_node.tools.devnet.l1.beacon import BeaconBlock, Blob, beacon_block, consensus_rules, read_pooled
from rollup_node.tools.devnet.l1.signed_headers import DEVELOPMENT, SignedHeaders, beacon_network

SAFE_DISTANCE, FINALIZED_DISTANCE = 2, 4


class L1Backend:
    """An L1 chain with a block at most every `slot_seconds` from the genesis time on; forks from the genesis config.

    The block `finalized_distance` below the head is final. `preset` has the sizes of its beacon chain, whose blocks
    are signed by so many members of a sync committee, or by all. Two L1s with one genesis and another `branch` have
    other blocks. `on_head` are called after each new head."""

    def __init__(
        self,
        genesis: Mapping[str, Any],
        slot_seconds: int,
        finalized_distance: int = FINALIZED_DISTANCE,
        preset: Preset = DEVELOPMENT,
        signers: int | None = None,
        branch: int = 0,
    ) -> None:
        config = genesis["config"]
        self.chain_id: int = config["chainId"]
        self.slot_seconds = slot_seconds
        self.store = StateDatabase()
        self.pool = TransactionPool()
        self._schedule, self._consensus = l1_rules(config), consensus_rules(config)
        self.genesis_time = from_quantity(genesis["timestamp"])
        self.chain = BlockChain(_genesis_block(genesis, self.store, self.evm_rules(self.genesis_time)))
        self.network = beacon_network(config, self.genesis_time, slot_seconds, preset)
        self.headers = SignedHeaders(self.network, self.chain, finalized_distance, signers)
        self._blobs: dict[Hash, Blob] = {}
        self._branch = branch
        self._finalized_distance = finalized_distance
        self._replaced: Block | None = None
        self.on_head: set[Callable[[], None]] = set()

    # --- eth_* backend ---

    def evm_rules(self, timestamp: int) -> EvmRules:
        """Return the EVM rules of a block with this timestamp."""
        return self._schedule.at(timestamp)

    def next_base_fee(self, parent: Block) -> int:
        """Return the base fee of a child of `parent`, in wei."""
        header = parent.header
        return next_base_fee(header.gas_limit, header.gas_used, header.base_fee or 0, L1_ELASTICITY, L1_DENOMINATOR)

    def send(self, raw: bytes) -> Hash:
        """Add a transaction, with its sidecar where it has blobs, to the pool; its hash. Raises InvalidTransaction."""
        transaction, blobs = read_pooled(raw, self.chain_id)
        state = State(self.store, self.chain.head.header.state_root)
        self.pool.add(transaction, state.nonce(transaction.sender))
        self._blobs.update(blobs)
        return transaction.hash

    # --- blocks ---

    def mine(self, timestamp: int) -> Block:
        """Mine a block with the pool's transactions; `timestamp` is the time of a slot after the head's."""
        block = self._build(self.chain.head, timestamp, empty=False)
        self._extend(block)
        return block

    def reorg(self, depth: int) -> Block:
        """Replace the last `depth` blocks by as many empty ones and one more, which has their transactions.

        The new head."""
        head = self.chain.head
        return self._branch_off(self.chain.ancestor(head, max(self.chain.genesis.number, head.number - depth)))

    def switch_back(self) -> Block:
        """Go back to the branch before the last reorg, one block longer than the one that replaced it; the new head.

        Raises ValueError if there was no reorg."""
        if self._replaced is None:
            raise ValueError("there was no reorg")
        return self._branch_off(self._replaced)

    def _branch_off(self, block: Block) -> Block:
        """Replace the canonical blocks above the number of this one, on which as many empty ones follow."""
        head = self.chain.head
        self._branch += 1
        self._replaced = head
        for number in range(block.number + 1, head.number + 1):
            block = self._build(block, self._label(number).header.timestamp, empty=True)
            self.chain.insert(block)
        self._switch(block)
        return self.mine(head.header.timestamp + self.slot_seconds)

    def slot_time(self, now: float) -> int:
        """Return the start of the slot at `now`, in seconds."""
        slots = max(0, int(now - self.genesis_time)) // self.slot_seconds
        return self.genesis_time + slots * self.slot_seconds

    def _extend(self, block: Block) -> None:
        self.chain.insert(block)
        self._switch(block)

    def _switch(self, head: Block) -> None:
        change = self.chain.set_head(head)
        self.pool.reinject(transaction for block in change.removed for transaction in block.transactions)
        self.pool.remove(transaction for block in change.added for transaction in block.transactions)
        lowest = self.chain.genesis.number
        self.chain.safe = self._label(max(lowest, head.number - SAFE_DISTANCE))
        # Finality never goes back, also in a reorg deeper than its distance.
        self.chain.finalized = self._label(
            max(lowest, self.chain.finalized.number, head.number - self._finalized_distance)
        )
        for call in self.on_head:
            call()

    def _label(self, number: int) -> Block:
        result = self.chain.at(number)
        assert result is not None
        return result

    def _build(self, parent: Block, timestamp: int, empty: bool) -> Block:
        rules = self.evm_rules(timestamp)
        assert rules.blobs is not None
        before = parent.header
        excess = next_excess_blob_gas(
            rules.blobs, before.excess_blob_gas or 0, before.blob_gas_used or 0, before.base_fee or 0
        )
        context = BlockContext(
            number=parent.number + 1,
            timestamp=timestamp,
            coinbase=ZERO_ADDRESS,
            gas_limit=before.gas_limit,
            base_fee=self.next_base_fee(parent),
            # The branch number makes the blocks of a reorg differ from those they replace.
            prev_randao=keccak256(parent.hash + self._branch.to_bytes(8, "big")),
            chain_id=self.chain_id,
            block_hash=self.chain.hashes_before(parent),
            blob_base_fee=blob_fee(rules.blobs, excess),
            slot_number=(timestamp - self.genesis_time) // self.slot_seconds,
        )
        state = (RecordingState if rules.block_access_list else State)(self.store, before.state_root)
        execution = BlockExecution(state, rules, context, burn_base_fee)
        beacon_root = self.headers.root(parent)
        execution.system_call(BEACON_ROOTS, beacon_root)
        execution.system_call(BLOCK_HASHES, parent.hash)
        if not empty:
            self.pool.fill(execution)
        return _seal(execution, parent, excess, beacon_root)

    # --- blobs ---

    def blobs_at(self, slot: int) -> Sequence[tuple[Hash, Blob]] | None:
        """Return the blobs of the canonical block of a slot in block order; None for a slot without a block."""
        block = self.block_of_slot(slot)
        return None if block is None else self._blobs_of(block)

    def beacon_block(self, slot: int) -> BeaconBlock | None:
        """Return the canonical beacon block of a slot; None for a slot without one."""
        block = self.block_of_slot(slot)
        if block is None:
            return None
        commitments = [blob.commitment for _, blob in self._blobs_of(block)]
        is_final = block.number <= self.chain.finalized.number
        return beacon_block(self._consensus.at(block.header.timestamp), slot, block, commitments, is_final)

    def _blobs_of(self, block: Block) -> Sequence[tuple[Hash, Blob]]:
        return [
            (blob_hash, self._blobs[blob_hash])
            for entry in block.executed
            for blob_hash in getattr(entry.transaction.body, "blob_hashes", ())
        ]

    def block_of_slot(self, slot: int) -> Block | None:
        """Return the canonical block of a slot; None for a slot without one."""
        timestamp = self.genesis_time + slot * self.slot_seconds
        low, high = self.chain.genesis.number, self.chain.head.number
        while low <= high:
            middle = (low + high) // 2
            block = self._label(middle)
            if block.header.timestamp == timestamp:
                return block
            if block.header.timestamp < timestamp:
                low = middle + 1
            else:
                high = middle - 1
        return None


def _genesis_block(genesis: Mapping[str, Any], store: StateDatabase, rules: EvmRules) -> Block:
    header = replace(
        genesis_header(genesis, load_alloc(store, genesis["alloc"])),
        withdrawals_root=EMPTY_ROOT,
        blob_gas_used=0,
        excess_blob_gas=0,
        parent_beacon_root=ZERO_HASH,
        requests_hash=EMPTY_REQUESTS_HASH,
        block_access_list_hash=EMPTY_ACCESS_LIST_HASH if rules.block_access_list else None,
        slot_number=0 if rules.slot_number else None,
    )
    return Block(header_hash(header), header, ())


def _seal(execution: BlockExecution, parent: Block, excess_blob_gas: int, beacon_root: Hash) -> Block:
    # Before the commit, which reads accounts for reasons of its own.
    access_list_hash = execution.state.access_list_hash() if isinstance(execution.state, RecordingState) else None
    header = replace(
        execution.header(parent.hash),
        withdrawals_root=EMPTY_ROOT,
        blob_gas_used=execution.blob_gas_used,
        excess_blob_gas=excess_blob_gas,
        parent_beacon_root=beacon_root,
        requests_hash=EMPTY_REQUESTS_HASH,
        block_access_list_hash=access_list_hash,
        slot_number=execution.context.slot_number if execution.rules.slot_number else None,
    )
    return Block(header_hash(header), header, tuple(execution.executed))
