"""Builds a course: L1 blocks with batches in blobs, the L2 blocks that derive from them, as bodies of responses."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import orjson

from rollup_node.stages.blobs.kzg import versioned_hash
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.engine_json import encode_attributes, envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_CODE_HASH
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.system_config import packed_scalar
from rollup_node.stages.protocol.types import Address, BlockId
from rollup_node.tools.batcher.batches import BatchBlock
from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.bench.race.course_files import (
    VERSION,
    CourseFacts,
    CourseSize,
    CourseWriter,
    further_folders,
    read_facts,
)
from rollup_node.tools.bench.race.executed import FIRST_FORK_AFTER, FreshEngine, Transfers, genesis_file
from rollup_node.tools.bench.race.garbage import Garbage
from rollup_node.tools.bench.race.http_server import deflated
from rollup_node.tools.bench.race.l1_blocks import (
    ACCOUNTS,
    BATCHER,
    OTHER_BATCHER,
    Included,
    MadeL1Block,
    blob_transactions,
    blobs_of_channel,
    deposit,
    gas_limit_change,
    make_l1_block,
    next_time,
    other_blobs,
    span_batches,
)
from rollup_node.tools.bench.race.l2_blocks import L2Chain, MadeL2Block, Seal, Transactions, block_json
from rollup_node.tools.bench.race.plain_client import EngineError, PlainClient
from rollup_node.tools.bench.signed_blocks import genesis_payload
from rollup_node.tools.bench.synthetic_chain import (
    BEACON_GENESIS_TIME,
    BLOCK_TIME,
    GENESIS_SLOT,
    GENESIS_TIME,
    L1_BLOCK_TIME,
    L1_GENESIS,
)
from rollup_node.tools.devnet.l1.beacon import Blob

L2_CHAIN_ID = 901
GAS_LIMIT, CHANGED_GAS_LIMIT = 60_000_000, 45_000_000
SIGNER_SLOT = bytes.fromhex("65a7ed542fb37fe237fdfbdd70b31598523fe5b32879e307bae27a0bd9581c08")
"""Of the unsafe block signer in the SystemConfig contract, which op-node reads at its start."""

LATER_FORKS = ("granite", "holocene", "isthmus", "jovian")
BLOCKS_WITH_DEPOSITS = 4
"""One L1 block in so many has deposits, of those that are L1 origins."""


def prepare(folder: Path, size: CourseSize, engine: FreshEngine | None = None) -> CourseFacts:
    """Return the course of that size in a folder, which is built unless it is there.

    Raises EngineError where a course that is executed has no engine, or that executes no block."""
    try:
        facts = read_facts(folder)
        if facts.size == size and facts.version == VERSION:
            return facts
    except (OSError, msgspec.DecodeError):
        pass
    (folder / "facts.json").unlink(missing_ok=True)
    with ExitStack() as stack:
        folders = [folder, *further_folders(folder, size)]
        writers = [stack.enter_context(CourseWriter(path)) for path in folders]
        if not size.executed:
            return _Builder(size, writers).build()
        if engine is None:
            raise EngineError("this course is executed by an engine while it is made: give --engine")
        start = BlockId(0, bytes(32))
        genesis = genesis_file(course_config(BlockId(L1_GENESIS, bytes(32)), start, size))
        (folder / "genesis.json").write_bytes(orjson.dumps(genesis))
        with engine.running(folder), closing(PlainClient(engine.url)) as client:
            return _Builder(size, writers, client).build()


class _Builder:
    """Builds L1 and the chains on it; the first chain has all of L1 in its files."""

    def __init__(self, size: CourseSize, writers: Sequence[CourseWriter], engine: PlainClient | None = None) -> None:
        self._size, self._writer = size, writers[0]
        root, self._proof = _signer_state(synthetic_chain.config().l1_system_config)
        self._state_root = root
        self._origin = make_l1_block(None, L1_GENESIS, GENESIS_TIME, root, size.transactions, ())
        genesis = engine.genesis() if engine else genesis_payload(GENESIS_TIME)
        starts = BlockId(L1_GENESIS, self._origin.header.hash), BlockId(0, genesis.block_hash)
        executed = (engine.seal, Transfers(L2_CHAIN_ID)) if engine else ()
        self._chains = [
            _ChainBuilder(size, writer, course_config(*starts, size, index), genesis, executed)
            for index, writer in enumerate(writers)
        ]
        self._l1_hashes = [to_hex(self._origin.header.hash)]
        self._blobs: dict[int, list[str]] = {}
        self._nonce = 0
        # A node that keeps a safe head database notes L1's own genesis block at the start.
        self._add_l1(make_l1_block(None, 0, 0, root, 0, ()))
        self._add_l1(self._origin)

    def build(self) -> CourseFacts:
        """Write all bodies; returns the facts of the first chain, which are written as well."""
        self._extend_l2()
        for index in range(1, self._size.l1_blocks + 1):
            number = L1_GENESIS + index
            special = [
                *(event for chain in self._chains for event in chain.events(index)),
                *self._add_garbage(number),
                *self._batches(number),
                *self._add_garbage(-number),
            ]
            parent = self._origin.header
            time, size = next_time(parent), self._size.transactions
            self._origin = make_l1_block(parent, number, time, self._state_root, size, special)
            self._l1_hashes.append(to_hex(self._origin.header.hash))
            self._add_l1(self._origin)
            self._extend_l2()
        for chain in reversed(self._chains):
            if not chain.is_complete:
                raise ValueError(f"{self._size.l1_blocks} L1 blocks do not hold {self._size.l2_blocks} L2 blocks")
            facts = CourseFacts(
                size=self._size,
                l1_genesis=L1_GENESIS,
                l1_hashes=self._l1_hashes,
                l2_hashes=chain.hashes,
                beacon_genesis_time=BEACON_GENESIS_TIME,
                slot_seconds=L1_BLOCK_TIME,
                blobs=self._blobs,
                signer_proof=self._proof,
            )
            chain.writer.finish(facts, chain.config)
        return facts

    def _extend_l2(self) -> None:
        for chain in self._chains:
            chain.extend(self._origin)

    def _batches(self, number: int) -> list[Included]:
        """Return the transactions of the batchers in an L1 block, behind those of another chain's."""
        proofs = self._size.sidecars > 0
        channels = [(chain.config.batch_inbox, chain.channel(proofs)) for chain in self._chains]
        blobs = [blob for _, some in channels for blob in some]
        if not blobs:
            return []
        others = other_blobs(self._size.blobs, proofs)[: max(0, self._size.blobs - len(blobs))]
        self._add_blobs(GENESIS_SLOT + number - L1_GENESIS, [*others, *blobs])
        transactions = blob_transactions(OTHER_BATCHER, ACCOUNTS[0], number, others)
        for inbox, some in channels:
            sent = blob_transactions(BATCHER, inbox, self._nonce, some)
            self._nonce += len(sent)
            transactions += sent
        return transactions

    def _add_garbage(self, seed: int) -> list[Included]:
        """Return the garbage before or behind the batches of an L1 block, of each chain."""
        transactions: list[Included] = []
        for chain in self._chains:
            some = chain.garbage_of(seed, self._nonce)
            self._nonce += len(some)
            transactions += some
        return transactions

    def _add_l1(self, block: MadeL1Block) -> None:
        number = block.header.number
        for kind, body in (("full", block.full), ("hashes", block.hashes), ("receipts", block.receipts)):
            self._writer.add(f"l1/{number}/{kind}", body)
            self._writer.add(f"l1/{number}/{kind}/deflated", deflated(body))

    def _add_blobs(self, slot: int, blobs: Sequence[Blob]) -> None:
        hashes = [to_hex(versioned_hash(blob.commitment)) for blob in blobs]
        self._blobs[slot] = hashes
        for index, (name, blob) in enumerate(zip(hashes, blobs, strict=True)):
            if f"blob/{name}" in self._writer:
                continue
            content, commitment = to_hex(blob.content), to_hex(blob.commitment)
            sidecar = {"index": str(index), "blob": content, "kzg_commitment": commitment}
            self._writer.add(f"blob/{name}", orjson.dumps(content))
            if blob.proof:
                self._writer.add(f"sidecar/{name}", orjson.dumps({**sidecar, "kzg_proof": to_hex(blob.proof)}))
        commitments = [to_hex(blob.commitment) for blob in blobs]
        body = orjson.dumps({"data": {"message": {"body": {"blob_kzg_commitments": commitments}}}})
        self._writer.add(f"blinded/{slot}", body)


class _ChainBuilder:
    """Builds one chain of the course: its L2 blocks, and what goes to L1 for it."""

    def __init__(
        self,
        size: CourseSize,
        writer: CourseWriter,
        config: RollupConfig,
        genesis: ExecutionPayload,
        executed: tuple[Seal, Transactions] | tuple[()],
    ) -> None:
        self._size, self.writer, self.config = size, writer, config
        self._l2 = L2Chain(config, genesis, *executed)
        self.hashes = [to_hex(genesis.block_hash)]
        self._pending: list[BatchBlock] = []
        self._batched_origin = L1_GENESIS
        self._garbage = Garbage(config.batch_inbox, bool(size.other_parents))
        self._add_block(0, genesis)

    @property
    def is_complete(self) -> bool:
        """Whether all blocks are there and in batches."""
        return not self._pending and self._l2.head.number == self._size.l2_blocks

    def events(self, index: int) -> Iterator[Included]:
        """Return the calls of the chain's contracts in an L1 block."""
        group, rest = divmod(index, BLOCKS_WITH_DEPOSITS)
        groups = (self._size.l2_blocks * BLOCK_TIME // L1_BLOCK_TIME + 1) // BLOCKS_WITH_DEPOSITS
        if rest == BLOCKS_WITH_DEPOSITS - 1 and group < groups:
            for number in range(self._size.deposits * group // groups, self._size.deposits * (group + 1) // groups):
                yield deposit(self.config, number)
        if index == self._size.l1_blocks // 2:
            yield gas_limit_change(self.config, CHANGED_GAS_LIMIT)

    def channel(self, proofs: bool) -> list[Blob]:
        """Return the blobs of a channel when there are enough blocks, or no more to come; else none."""
        is_last = self._l2.head.number == self._size.l2_blocks
        if not self._pending or not (is_last or len(self._pending) >= self._size.blocks_per_channel):
            return []
        blocks, self._pending = self._pending, []
        spans = span_batches(blocks, GENESIS_TIME, self._batched_origin, self._size.blocks_per_span)
        self._garbage.spans = spans
        self._batched_origin = blocks[-1].epoch.number
        return blobs_of_channel(blocks[0].timestamp.to_bytes(16, "big"), spans, proofs)

    def garbage_of(self, seed: int, nonce: int) -> list[Included]:
        """Return the garbage before or behind the batches of an L1 block."""
        self._garbage.pending = self._pending[0] if self._pending else None
        return list(self._garbage.transactions(seed, self._size.garbage, nonce))

    def extend(self, origin: MadeL1Block) -> None:
        """Add the L2 blocks whose L1 origin is the newest L1 block."""
        while self._l2.head.number < self._size.l2_blocks and self._l2.next_time < next_time(origin.header):
            # The sequencer puts no transactions into a fork's first block.
            is_first = self._l2.next_time in self.config.fork_times.values()
            self._add_l2(self._l2.extend(origin, 0 if is_first else self._size.l2_transactions))

    def _add_l2(self, block: MadeL2Block) -> None:
        self._pending.append(block.batch)
        number = block.ref.number
        self.hashes.append(to_hex(block.ref.hash))
        self.writer.add(f"l2/{number}/attributes", encode_attributes(block.attributes))
        envelope = {**envelope_to_json(block.payload), "blockValue": "0x0", "executionRequests": []}
        envelope |= {"blobsBundle": {"commitments": [], "proofs": [], "blobs": []}, "shouldOverrideBuilder": False}
        self.writer.add(f"l2/{number}/envelope", orjson.dumps(envelope))
        self._add_block(number, block.payload)

    def _add_block(self, number: int, payload: ExecutionPayload) -> None:
        self.writer.add(f"l2/{number}/block", block_json(payload))


def course_config(l1: BlockId, l2: BlockId, size: CourseSize, index: int = 0) -> RollupConfig:
    """Return the rollup config of a course's chain with these genesis blocks.

    Further chains have ids, inboxes and contracts of their own."""
    base = synthetic_chain.config(FIRST_FORK_AFTER if size.executed else None)
    later = size.fork_blocks * BLOCK_TIME
    names = [name for name in LATER_FORKS if name in base.fork_times]
    forks = {name: GENESIS_TIME + later * at for at, name in enumerate(names, 1)} if later else {}
    system = SystemConfig(BATCHER.address, bytes(32), packed_scalar(5000, 800_000), GAS_LIMIT)
    return msgspec.structs.replace(
        base,
        genesis=Genesis(l1, l2, GENESIS_TIME, system),
        l2_chain_id=L2_CHAIN_ID + index,
        batch_inbox=_address_of(synthetic_chain.INBOX, index),
        deposit_contract=_address_of(base.deposit_contract, index),
        l1_system_config=_address_of(base.l1_system_config, index),
        fork_times=base.fork_times | forks,
    )


def _address_of(address: Address, index: int) -> Address:
    return address[:-1] + bytes([address[-1] ^ index])


def _signer_state(system_config: bytes) -> tuple[bytes, str]:
    """Return the root of a state that holds the SystemConfig alone, and the proof of its signer's slot."""
    value = rlp.encode(BATCHER.address)
    storage = rlp.encode([b"\x20" + keccak256(SIGNER_SLOT), value])
    account = rlp.encode([b"\x01", b"", keccak256(storage), EMPTY_CODE_HASH])
    state = rlp.encode([b"\x20" + keccak256(system_config), account])
    proof = {
        "address": to_hex(system_config),
        "accountProof": [to_hex(state)],
        "balance": "0x0",
        "codeHash": to_hex(EMPTY_CODE_HASH),
        "nonce": "0x1",
        "storageHash": to_hex(keccak256(storage)),
        "storageProof": [
            {
                "key": to_hex(SIGNER_SLOT),
                "value": hex(int.from_bytes(BATCHER.address, "big")),
                "proof": [to_hex(storage)],
            }
        ],
    }
    return keccak256(state), orjson.dumps(proof).decode()
